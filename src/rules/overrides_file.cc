#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "rules/override_text.h"
#include "sluice/overrides.h"

namespace sluice {
namespace {

constexpr std::string_view kFirstLine = "sluice overrides 1";

std::string why(const std::string& what) { return what + ": " + std::strerror(errno); }

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const noexcept { return fd_ >= 0; }
  bool flush() const noexcept { return ::fsync(fd_) == 0; }
  bool write(std::string_view bytes) const noexcept {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

 private:
  const int fd_;
};

bool write_all(const File& file, const Overrides& from) {
  constexpr std::size_t kPage = 10'000;
  std::string text(kFirstLine);
  text += '\n';
  std::size_t count = 0;
  for (std::optional<std::uint64_t> at = 0; at;) {
    const Overrides::Page page = from.list(*at, kPage);
    for (const auto& [counter, given] : page.entries) {
      rules::append_text(given, text);
      text.append("\t").append(counter).append("\n");
    }
    count += page.entries.size();
    at = page.next;
    if (!file.write(text)) return false;
    text.clear();
  }
  return file.write("end " + std::to_string(count) + "\n") && file.flush();
}

// Reads the lines of a file up to its end.
class Reader {
 public:
  Reader(const std::string& path, Overrides& into) : path_(path), into_(into), file_(path) {}

  Expected<bool> read() {
    if (!next() || line_ != kFirstLine) return wrong("is no file of overrides", kFirstLine);
    std::size_t count = 0;
    for (; next(); ++count) {
      const std::size_t tab = line_.find('\t');
      if (tab == line_.npos) break;
      const auto given = rules::parse_override(std::string_view(line_).substr(0, tab));
      if (!given) return Unexpected{place() + given.error()};
      const auto set = into_.set(std::string_view(line_).substr(tab + 1), *given);
      if (!set) return Unexpected{place() + set.error()};
    }
    const std::string last = "end " + std::to_string(count);
    if (line_ != last || next()) return wrong("the file is damaged", last);
    return true;
  }

 private:
  bool next() {
    ++number_;
    line_.clear();
    return static_cast<bool>(std::getline(file_, line_));
  }
  std::string place() const { return path_ + ":" + std::to_string(number_) + ": "; }
  Unexpected<std::string> wrong(std::string_view what, std::string_view line) const {
    return {place() + std::string(what) + "; expected the line '" + std::string(line) + "'"};
  }

  const std::string& path_;
  Overrides& into_;
  std::ifstream file_;
  std::string line_;
  std::size_t number_ = 0;
};

}  // namespace

Expected<bool> read_overrides(const std::string& path, Overrides& into) {
  if (const File file(path, O_RDONLY); !file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return Unexpected{why("cannot read " + path)};
  }
  Overrides next(into.most());
  auto read = Reader(path, next).read();
  if (read) into.replace(std::move(next));
  return read;
}

Expected<bool> write_overrides(const std::string& path, const Overrides& from) {
  const std::string next = path + ".new";
  if (const File file(next, O_WRONLY | O_CREAT | O_TRUNC);
      !file.is_open() || !write_all(file, from)) {
    return Unexpected{why("cannot write " + next)};
  }
  if (std::rename(next.c_str(), path.c_str()) != 0) return Unexpected{why("cannot write " + path)};
  const auto folder = std::filesystem::path(path).parent_path();
  const File parent(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY);
  if (!parent.is_open() || !parent.flush())
    return Unexpected{why("cannot flush the folder of " + path)};
  return true;
}

}  // namespace sluice
