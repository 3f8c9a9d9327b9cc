#include "rules/diagnostics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

namespace sluice::rules {
namespace {

bool continues(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

constexpr std::size_t kLongestName = 32;

// Returns the number of insertions, removals, replacements and swaps of neighbours that turn a into
// b. Both have at most kLongestName characters.
std::size_t distance(std::string_view a, std::string_view b) {
  using Row = std::array<std::size_t, kLongestName + 1>;
  Row before{}, last{}, row{};
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

std::string comparable(std::string_view text) {
  std::string out = lower_case(text);
  std::ranges::replace(out, '-', '_');
  return out;
}

}  // namespace

Diagnostics::Diagnostics(std::string_view bytes, std::string_view file)
    : text_(bytes), lines_{0}, file_(file) {
  if (text_.starts_with(base::kByteOrderMark)) text_.remove_prefix(base::kByteOrderMark.size());
  for (std::size_t at = text_.find('\n'); at != text_.npos; at = text_.find('\n', at + 1)) {
    lines_.push_back(at + 1);
  }
}

RuleError Diagnostics::error(std::size_t at, std::string what, std::string expected) const {
  at = std::min(at, text_.size());
  const auto after = std::ranges::upper_bound(lines_, at);
  const std::string_view before = text_.substr(*(after - 1), at - *(after - 1));
  const auto more = std::ranges::count_if(before, continues);
  return {file_, static_cast<int>(after - lines_.begin()),
          static_cast<int>(static_cast<std::ptrdiff_t>(before.size()) - more + 1), std::move(what),
          std::move(expected)};
}

std::string Diagnostics::place(std::size_t at) const {
  const RuleError there = error(at);
  return "line " + std::to_string(there.line) + ", column " + std::to_string(there.column);
}

void Diagnostics::add(std::size_t at, std::string what, std::string expected) {
  if (found_.size() < kMost) {
    found_.push_back(error(at, std::move(what), std::move(expected)));
  } else {
    ++left_out_;
  }
}

void Diagnostics::add_message(std::size_t at, std::string_view message) {
  const std::size_t split = message.find("; ");
  if (split == message.npos) return add(at, std::string(message));
  add(at, std::string(message.substr(0, split)), std::string(message.substr(split + 2)));
}

std::vector<RuleError> Diagnostics::take() {
  const auto key = [](const RuleError& one) {
    return std::tie(one.line, one.column, one.what, one.expected);
  };
  std::ranges::stable_sort(found_,
                           [&](const RuleError& a, const RuleError& b) { return key(a) < key(b); });
  const auto last =
      std::unique(found_.begin(), found_.end(),
                  [&](const RuleError& a, const RuleError& b) { return key(a) == key(b); });
  found_.erase(last, found_.end());
  if (left_out_ > 0)
    found_.back().expected += " (and " + std::to_string(left_out_) + " more errors)";
  return std::exchange(found_, {});
}

std::string full_name(std::string_view rule, std::string_view limit) {
  const std::string of_rule = std::string(rule) + "/";
  return limit.starts_with(of_rule) ? std::string(limit) : of_rule + std::string(limit);
}

std::string did_you_mean(std::string_view mistaken, const std::vector<std::string_view>& names) {
  if (mistaken.empty() || mistaken.size() > kLongestName) return {};
  const std::string typed = comparable(mistaken);
  // The plural of a long name may differ in three letters: trusted_proxy, trusted_proxies.
  std::size_t best = typed.size() <= 4 ? 1 : typed.size() <= 11 ? 2 : 3;
  std::string_view nearest;
  for (const std::string_view name : names) {
    if (name.size() > kLongestName) continue;
    const std::size_t edits = distance(typed, comparable(name));
    if (edits > best || (edits == best && !nearest.empty())) continue;
    best = edits;
    nearest = name;
  }
  return nearest.empty() ? std::string() : "; did you mean '" + std::string(nearest) + "'?";
}

std::string full_width_hint(std::string_view text) {
  std::size_t first = text.size();
  std::string hint;
  for (const std::string wide : {"：", "，", "“", "”", "｛", "［", "　"}) {
    const std::size_t at = text.find(wide);
    if (at >= first) continue;
    first = at;
    hint = "; did you mean '" + half_width(wide) + "' instead of the full-width '" + wide + "'?";
  }
  return hint;
}

bool has_control(std::string_view text) noexcept {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

std::string half_width(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view three = text.substr(i, 3);
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(three[at]); };
    char narrow = 0;
    for (const auto& [wide, ascii] : {std::pair("　", ' '),
                                      {"、", ','},
                                      {"。", '.'},
                                      {"【", '['},
                                      {"】", ']'},
                                      {"“", '"'},
                                      {"”", '"'}}) {
      if (three == wide) narrow = ascii;
    }
    // U+FF01 to U+FF5E are '!' to '~'.
    if (three.size() == 3 && byte(0) == 0xEF && (byte(1) == 0xBC || byte(1) == 0xBD)) {
      const int code = (byte(1) - 0xBC) * 0x40 + byte(2) - 0x80 + 0x20;
      if (code > 0x20 && code < 0x7F) narrow = static_cast<char>(code);
    }
    out += narrow == 0 ? text[i] : narrow;
    if (narrow != 0) i += 2;
  }
  return out;
}

}  // namespace sluice::rules

std::string sluice::RuleError::to_string() const {
  std::string out = file + ":" + std::to_string(line) + ":" + std::to_string(column) +
                    (is_warning ? ": warning: " : ": error: ") + what;
  if (!expected.empty()) out.append("; ").append(expected);
  return out;
}
