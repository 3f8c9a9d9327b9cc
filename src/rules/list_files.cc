#include "rules/list_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <functional>
#include <limits>
#include <system_error>

#include "base/quoted.h"
#include "limiter/replacement_file.h"
#include "rules/diagnostics.h"

namespace sluice::rules {
namespace {

std::uint64_t hash_of(std::string_view text) noexcept {
  return std::hash<std::string_view>()(text);
}

constexpr std::size_t kMostBytes = std::size_t{512} << 20;
constexpr std::size_t kLongestEntry = 4096;
constexpr std::size_t kMostErrors = 100;
constexpr std::size_t kBlock = std::size_t{1} << 20;

std::string reason_of(int error) { return std::system_category().message(error); }

// Gives each line of a file to a function. The bytes of a line that is too long are cut. Returns
// why the file cannot be read; empty if it was.
std::string read_lines(const std::string& path, const std::function<void(std::string_view)>& take) {
  const detail::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found = {};
  if (file.get() < 0 || ::fstat(file.get(), &found) != 0) return reason_of(errno);
  if (!S_ISREG(found.st_mode)) return "it is no regular file";
  auto bytes = static_cast<std::size_t>(found.st_size);
  std::string text;
  for (std::size_t read = 0; bytes <= kMostBytes; bytes = read) {
    const std::size_t kept = text.size();
    text.resize(kept + kBlock);
    const ssize_t got = ::read(file.get(), text.data() + kept, kBlock);
    if (got < 0) return reason_of(errno);
    text.resize(kept + static_cast<std::size_t>(got));
    read += static_cast<std::size_t>(got);
    if (read > kMostBytes) break;
    std::string_view rest = text;
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      take(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    text.erase(0, text.size() - rest.size());
    text.resize(std::min(text.size(), 2 * kLongestEntry));
    if (got > 0) continue;
    if (!text.empty()) take(text);
    return {};
  }
  return "it has over 512 MiB";
}

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

// Returns the line without blanks at its ends and without its comment. A '#' within a word is a
// part of it.
std::string_view entry_of(std::string_view line) noexcept {
  for (std::size_t at = line.find('#'); at != line.npos; at = line.find('#', at + 1)) {
    if (at > 0 && !is_blank(line[at - 1])) continue;
    line = line.substr(0, at);
    break;
  }
  while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
  while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  return line;
}

}  // namespace

bool TextSet::add(std::string_view text) {
  const std::size_t end = texts_.size() + kLengthBytes + text.size();
  if (text.size() > std::numeric_limits<std::uint16_t>::max()) return false;
  if (end >= std::numeric_limits<std::uint32_t>::max()) return false;
  texts_.push_back(static_cast<char>(text.size() & 0xFF));
  texts_.push_back(static_cast<char>(text.size() >> 8));
  texts_.append(text);
  ++count_;
  return true;
}

void TextSet::build() {
  texts_.shrink_to_fit();
  slots_.assign(std::bit_ceil(count_ + count_ / 2 + 1), 0);
  for (std::size_t offset = 0; offset < texts_.size(); offset += kLengthBytes + at(offset).size()) {
    insert(offset);
  }
}

std::string_view TextSet::at(std::size_t offset) const noexcept {
  const auto low = static_cast<unsigned char>(texts_[offset]);
  const auto high = static_cast<unsigned char>(texts_[offset + 1]);
  return std::string_view(texts_).substr(offset + kLengthBytes, low + std::size_t{high} * 256);
}

void TextSet::insert(std::size_t offset) noexcept {
  const std::string_view text = at(offset);
  if (contains(text)) return;
  const std::uint64_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  while (slots_[slot] != 0) slot = (slot + 1) & mask;
  slots_[slot] = (hash >> 32 << 32) | (offset + 1);
}

bool TextSet::contains(std::string_view text) const noexcept {
  if (slots_.empty()) return false;
  const std::uint64_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (slots_[slot] >> 32 != hash >> 32) continue;
    if (at((slots_[slot] & 0xFFFFFFFF) - 1) == text) return true;
  }
  return false;
}

void ListFiles::add_error(const std::string& path, std::size_t line, std::size_t column,
                          std::string_view message) {
  if (++errors_of_file_ > kMostErrors) return;
  const std::size_t split = message.find("; ");
  errors_.push_back({path, static_cast<int>(line), static_cast<int>(column),
                     std::string(message.substr(0, split)),
                     std::string(split == message.npos ? "" : message.substr(split + 2))});
}

// Returns whether all lines are right.
Expected<bool> ListFiles::read(const std::string& path, const Add& add) {
  if (before_) before_(path);
  errors_of_file_ = 0;
  std::size_t number = 0;
  const std::string problem = read_lines(path, [&](std::string_view line) {
    if (++number == 1 && line.starts_with(base::kByteOrderMark)) {
      line.remove_prefix(base::kByteOrderMark.size());
    }
    const std::string_view entry = entry_of(line);
    if (entry.empty()) return;
    const std::string wrong = entry.size() > kLongestEntry
                                  ? "an entry of over 4096 bytes; expected one entry in each line"
                              : has_control(entry) ? "a control character in " + in_quotes(entry) +
                                                         "; expected one entry in each line"
                                                   : add(entry);
    if (wrong.empty()) return;
    add_error(path, number, static_cast<std::size_t>(entry.data() - line.data()) + 1, wrong);
  });
  if (!problem.empty()) return Unexpected{problem};
  if (errors_of_file_ > kMostErrors) {
    errors_.back().expected +=
        " (and " + std::to_string(errors_of_file_ - kMostErrors) + " more errors in this list)";
  }
  return errors_of_file_ == 0;
}

template <typename Set>
Expected<std::shared_ptr<const Set>> ListFiles::list(const std::string& path, Lists<Set>& known,
                                                     std::string (*add)(Set& set,
                                                                        std::string_view entry)) {
  if (const auto found = known.find(path); found != known.end()) return found->second;
  auto set = std::make_shared<Set>();
  const auto right = read(path, [&](std::string_view entry) { return add(*set, entry); });
  if (!right) return Unexpected{right.error()};
  if (!*right) set = std::make_shared<Set>();
  set->build();
  return known[path] = set;
}

Expected<std::shared_ptr<const NetworkSet>> ListFiles::networks(const std::string& path) {
  return list<NetworkSet>(
      path, networks_, [](NetworkSet& set, std::string_view entry) -> std::string {
        const auto network = parse_network(entry);
        if (!network) return network.error();
        if (!*network) {
          return in_quotes(entry) +
                 " is not an address; expected an address or a network, such as 192.0.2.0/24";
        }
        set.add(**network);
        return {};
      });
}

Expected<std::shared_ptr<const TextSet>> ListFiles::texts(const std::string& path) {
  return list<TextSet>(path, texts_, [](TextSet& set, std::string_view entry) -> std::string {
    if (looks_like_network(entry)) {
      return in_quotes(entry) +
             " is a network, and the attribute is compared as text; expected 'network: { in: FILE "
             "}' below the attribute, or 'ip'";
    }
    return set.add(entry) ? "" : "the list has over 4 GiB; expected a smaller one";
  });
}

}  // namespace sluice::rules
