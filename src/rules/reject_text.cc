#include "rules/reject_text.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>

namespace sluice {
namespace rules {
namespace {

using Kind = RejectPart::Kind;

// Follows a JSON text to know what is inside of its strings.
class JsonStrings {
 public:
  void read(std::string_view text) {
    for (const char c : text) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\') {
        is_escaped_ = is_inside_;
      } else if (c == '"') {
        is_inside_ = !is_inside_;
      }
    }
  }
  bool is_inside() const noexcept { return is_inside_; }

 private:
  bool is_inside_ = false;
  bool is_escaped_ = false;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns the name in braces with which the text begins, or an empty text.
std::string_view name_at_start(std::string_view text) {
  if (text.size() < 3 || text[0] != '{' || !is_letter(text[1])) return {};
  const auto is_of_name = [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  const auto* const end = std::find_if_not(text.begin() + 1, text.end(), is_of_name);
  if (end == text.end() || *end != '}') return {};
  return text.substr(1, static_cast<std::size_t>(end - text.begin()) - 1);
}

std::optional<Kind> kind_of(std::string_view name) {
  const auto* const found = std::find(kRejectNames.begin(), kRejectNames.end(), name);
  if (found == kRejectNames.end()) return std::nullopt;
  return static_cast<Kind>(found - kRejectNames.begin());
}

// Returns the size of a known name in double braces with which the text begins, or 0.
std::size_t size_in_double_braces(std::string_view text) {
  const std::string_view name = name_at_start(text.substr(1));
  const std::size_t end = name.size() + 3;
  const bool is_closed = end < text.size() && text[end] == '}';
  return is_closed && kind_of(name) ? end + 1 : 0;
}

}  // namespace

RejectText RejectText::parse(std::string_view text, bool is_json) {
  RejectText found;
  JsonStrings strings;
  std::size_t read = 0;
  for (std::size_t at = text.find('{'); at != text.npos; at = text.find('{', at)) {
    const std::string_view rest = text.substr(at);
    if (const std::size_t size = size_in_double_braces(rest); size > 0) {
      found.parts.push_back({at, size, Kind::kBraces});
      at += size;
      continue;
    }
    const std::string_view name = name_at_start(rest);
    const std::size_t size = name.empty() ? 1 : name.size() + 2;
    if (const auto kind = kind_of(name)) {
      strings.read(text.substr(read, at - read));
      read = at;
      found.parts.push_back({at, size, *kind, is_json && !strings.is_inside()});
    } else if (!name.empty()) {
      found.unknown.push_back({at, name});
    }
    at += size;
  }
  return found;
}

}  // namespace rules

namespace {

using Kind = RejectPart::Kind;

void append_number(std::uint64_t number, std::string& out) {
  char text[20];
  out.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}

void append_instant(Instant instant, std::string& out) {
  const auto second = std::chrono::ceil<std::chrono::seconds>(instant);
  const auto day = std::chrono::floor<std::chrono::days>(second);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(second - day);
  char text[64];
  const int size = std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
      static_cast<int>(time.seconds().count()));
  out.append(text, static_cast<std::size_t>(size));
}

// A key that an override blocks has no numbers, and one that is blocked without end has no instant
// at which it is free again.
bool has(const Decision& decision, Kind kind) {
  if (kind == Kind::kBraces) return true;
  if (kind == Kind::kRetryAfter) return decision.retry_after.has_value();
  if (!has_numbers(decision)) return false;
  if (decision.reason != Reason::kBlocked) return true;
  return kind == Kind::kResetAt ? decision.retry_after.has_value() : decision.capacity > 0;
}

void append_part(const RejectPart& part, const Decision& decision, Instant now, std::string& out) {
  switch (part.kind) {
    case Kind::kRetryAfter: {
      const auto wait = std::chrono::ceil<std::chrono::seconds>(*decision.retry_after);
      return append_number(static_cast<std::uint64_t>(std::max<std::int64_t>(wait.count(), 0)),
                           out);
    }
    case Kind::kLimit: return append_number(decision.capacity, out);
    case Kind::kRemaining: return append_number(decision.remaining, out);
    case Kind::kResetAt:
      if (part.is_json_value) out += '"';
      append_instant(now + decision.reset_after, out);
      if (part.is_json_value) out += '"';
      return;
    case Kind::kBraces: return;
  }
}

}  // namespace

bool append_reject(std::string_view text, std::span<const RejectPart> parts,
                   const Decision& decision, Instant now, std::string& out) {
  bool has_all = true;
  std::size_t done = 0;
  for (const RejectPart& part : parts) {
    out.append(text.substr(done, part.at - done));
    done = part.at + part.size;
    if (part.kind == Kind::kBraces) {
      out.append(text.substr(part.at + 1, part.size - 2));
    } else if (has(decision, part.kind)) {
      append_part(part, decision, now, out);
    } else {
      has_all = false;
      out.append(part.is_json_value ? "null" : "-");
    }
  }
  out.append(text.substr(done));
  return has_all;
}

}  // namespace sluice
