#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include "limiter/replacement_file.h"
#include "rules/override_text.h"
#include "sluice/overrides.h"

namespace sluice {
namespace {

constexpr std::string_view kFirstLine = "sluice overrides 1";

void write_all(detail::ReplacementFile& file, const Overrides& from) {
  constexpr std::size_t kPage = 10'000;
  const auto write = [&file](const std::string& text) {
    file.write(std::as_bytes(std::span(text)));
  };
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
    write(text);
    text.clear();
  }
  write("end " + std::to_string(count) + "\n");
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
  if (const detail::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return Unexpected{"cannot read " + path + ": " + std::strerror(errno)};
  }
  Overrides next(into.most());
  auto read = Reader(path, next).read();
  if (read) into.replace(std::move(next));
  return read;
}

Expected<bool> write_overrides(const std::string& path, const Overrides& from) try {
  detail::ReplacementFile file(path);
  write_all(file, from);
  file.replace();
  return true;
} catch (const std::system_error& error) {
  return Unexpected{error.what()};
}

}  // namespace sluice
