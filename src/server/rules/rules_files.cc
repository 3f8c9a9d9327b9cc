#include "server/rules/rules_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "rules/yaml_tree.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;

// The number of attempts to read files that change meanwhile.
constexpr int kReadings = 3;

std::int64_t nanoseconds(const timespec& time) noexcept {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool is_directory(const FileLook& look) noexcept { return look.error == 0 && S_ISDIR(look.mode); }
bool is_regular(const FileLook& look) noexcept { return look.error == 0 && S_ISREG(look.mode); }

// A directory that is empty or cannot be read appears in the picture itself.
void look_into(FileLook directory, Picture& picture) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (fs::directory_iterator entry(directory.path, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const fs::path& path = entry->path();
    const bool hidden = path.filename().native().starts_with('.');
    if (!hidden && (path.extension() == ".yaml" || path.extension() == ".yml")) {
      paths.push_back(path.native());
    }
  }
  std::ranges::sort(paths);
  const std::size_t before = picture.size();
  for (std::string& path : paths) {
    FileLook look = look_at_file(std::move(path));
    if (!is_directory(look)) picture.push_back(std::move(look));
  }
  if (!failed && picture.size() > before) return;
  picture.resize(before);
  directory.error = failed.value();
  picture.push_back(std::move(directory));
}

RuleError unreadable(const FileLook& look, std::string what, std::string expected) {
  return {look.path, 1, 1, std::move(what), std::move(expected)};
}

void read(const FileLook& look, FilesRead& out) {
  if (look.error != 0) {
    out.errors.push_back(
        unreadable(look, "cannot be opened: " + std::system_category().message(look.error),
                   "expected a rules file or a directory of rules files"));
  } else if (is_directory(look)) {
    out.errors.push_back(unreadable(look, "the directory contains no rules files",
                                    "expected files that end in .yaml or .yml"));
  } else if (!is_regular(look)) {
    out.errors.push_back(unreadable(look, "is neither a file nor a directory",
                                    "expected a file that can be read again when it changes"));
  } else if (auto text = rules::read_file(look.path)) {
    out.texts.push_back({look.path, std::move(text.value())});
  } else {
    out.errors.push_back(std::move(text.error().front()));
  }
}

}  // namespace

std::string error_lines(const std::vector<RuleError>& errors) {
  std::string out;
  for (const RuleError& error : errors) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

std::vector<RuleText> views_of(const std::vector<RulesText>& texts) {
  std::vector<RuleText> out;
  out.reserve(texts.size());
  for (const RulesText& text : texts) out.push_back({text.name, text.text});
  return out;
}

FileLook look_at_file(std::string path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) return {.path = std::move(path), .error = errno};
  return {.path = std::move(path),
          .device = found.st_dev,
          .inode = found.st_ino,
          .mode = found.st_mode,
          .size = found.st_size,
          .modified_ns = nanoseconds(found.st_mtim),
          .changed_ns = nanoseconds(found.st_ctim)};
}

Picture look_at(const std::vector<std::string>& paths) {
  Picture picture;
  for (const std::string& path : paths) {
    FileLook look = look_at_file(path);
    if (is_directory(look)) {
      look_into(std::move(look), picture);
    } else {
      picture.push_back(std::move(look));
    }
  }
  return picture;
}

Picture look_again(const Picture& files) {
  Picture picture;
  for (const FileLook& look : files) picture.push_back(look_at_file(look.path));
  return picture;
}

bool has_settled(Picture now, Picture& latest, Picture& known) {
  const bool is_still = now == latest;
  latest = std::move(now);
  if (!is_still || latest == known) return false;
  known = latest;
  return true;
}

FilesRead read_files(const std::vector<std::string>& paths) {
  Picture picture = look_at(paths);
  for (int reading = 1;; ++reading) {
    FilesRead out{.picture = std::move(picture), .texts = {}, .errors = {}};
    for (const FileLook& look : out.picture) read(look, out);
    picture = look_at(paths);
    if (reading == kReadings || picture == out.picture) return out;
  }
}

}  // namespace sluice::server
