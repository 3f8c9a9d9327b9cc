#include "rules/rule_set.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"

namespace sluice::rules {
namespace {

constexpr std::size_t kMostHeaders = 16;
constexpr std::size_t kLongestHeaderName = 64;
constexpr std::size_t kLongestValue = 1024;
// The names that a number replaces, in the order of RejectPart::Kind.
constexpr std::array<std::string_view, 4> kRejectNames{"retry_after", "limit", "remaining",
                                                       "reset_at"};
constexpr std::string_view kNamesToUse = "{retry_after}, {limit}, {remaining} or {reset_at}";

// Fields that belong to the connection or describe the body, and those that Sluice writes.
constexpr std::array<std::string_view, 13> kReserved{
    "connection",        "content-encoding", "content-length",    "content-type", "date",
    "keep-alive",        "proxy-connection", "retry-after",       "te",           "trailer",
    "transfer-encoding", "upgrade",          "proxy-authenticate"};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// Returns whether a header field can carry the text and it has the form TYPE/SUBTYPE.
bool is_media_type(std::string_view text) {
  const std::size_t slash = text.find('/');
  return slash != text.npos && slash > 0 && slash + 1 < text.size() && text.front() != ' ' &&
         text.back() != ' ' && is_printable(text);
}

bool is_json(std::string_view content_type) {
  return lower_case(content_type.substr(0, content_type.find(';'))).find("json") !=
         std::string::npos;
}

std::string_view guess_type(std::string_view body) {
  const std::size_t first = body.find_first_not_of(" \t\r\n");
  const bool json = first != body.npos && (body[first] == '{' || body[first] == '[');
  return json ? "application/json; charset=utf-8" : "text/plain; charset=utf-8";
}

bool is_token(std::string_view name) {
  const auto is_right = [](char c) { return base::is_letter_or("!#$%&'*+-.^_`|~", c); };
  return !name.empty() && name.size() <= kLongestHeaderName && std::ranges::all_of(name, is_right);
}

// Returns what Sluice does with a field of this name, so that a rule cannot set it; empty: nothing.
std::string_view reservation_of(std::string_view name, HeaderFields written) {
  const bool draft = written == HeaderFields::kDraft || written == HeaderFields::kBoth;
  const bool legacy = written == HeaderFields::kLegacy || written == HeaderFields::kBoth;
  if (std::ranges::find(kReserved, name) != kReserved.end()) {
    return name == "content-type" ? "expected 'content_type' of 'reject'"
                                  : "expected another name: the server sets this header itself";
  }
  const bool is_written = (draft && (name == "ratelimit" || name == "ratelimit-policy")) ||
                          (legacy && name.starts_with("x-ratelimit-"));
  return is_written ? "expected another name, or 'headers: none' in the rule" : "";
}

// Finds the names in braces of a text for a rejection, and warns about those that it does not know.
std::vector<RejectPart> read_names(const Node& node, std::string_view where, bool json,
                                   const Diagnostics& diagnostics, const Warn& warn) {
  return parse_reject_text(node.text, json, [&](std::size_t at, std::string_view name) {
    const std::vector<std::string_view> names(kRejectNames.begin(), kRejectNames.end());
    warn(position_in(node, at, diagnostics),
         std::string(where) + " has the unknown name " + in_quotes("{" + std::string(name) + "}") +
             ", which is sent as it is",
         "expected " + std::string(kNamesToUse) + did_you_mean(name, names));
  });
}

bool is_right_name(const Node& name, HeaderFields written, const std::vector<RejectHeader>& headers,
                   Diagnostics& diagnostics) {
  const std::string lowered = lower_case(name.text);
  if (!is_token(name.text)) {
    diagnostics.add(name.at, in_quotes(name.text) + " is not a header name",
                    "expected 1 to " + std::to_string(kLongestHeaderName) +
                        " letters, digits and '-', such as X-Reason");
    return false;
  }
  if (const auto expected = reservation_of(lowered, written); !expected.empty()) {
    diagnostics.add(name.at, "a rule cannot set the header " + in_quotes(name.text),
                    std::string(expected));
    return false;
  }
  const auto is_same = [&](const RejectHeader& other) { return lower_case(other.name) == lowered; };
  if (std::ranges::none_of(headers, is_same)) return true;
  diagnostics.add(name.at, "duplicate header " + in_quotes(name.text),
                  "expected each header once; upper and lower case do not differ");
  return false;
}

bool is_right_value(const Node& name, const Node& value, Diagnostics& diagnostics) {
  const std::string_view text = value.text;
  const bool is_right = value.is_scalar() && text.size() <= kLongestValue && is_printable(text) &&
                        !text.starts_with(' ') && !text.ends_with(' ');
  if (is_right) return true;
  diagnostics.add(value.at, in_quotes(name.text) + " is " + describe(value),
                  "expected text of at most " + std::to_string(kLongestValue) +
                      " printable ASCII characters without blanks at its ends");
  return false;
}

// Reads the headers that are right. `written`: those that Sluice writes.
std::vector<RejectHeader> read_headers(const Node& node, HeaderFields written,
                                       Diagnostics& diagnostics) {
  std::vector<RejectHeader> headers;
  if (node.pairs.size() > kMostHeaders) {
    diagnostics.add(node.at, "'headers' has " + std::to_string(node.pairs.size()) + " headers",
                    "expected at most " + std::to_string(kMostHeaders));
  }
  for (const auto& [name, value] : node.pairs) {
    if (is_right_name(*name, written, headers, diagnostics) &&
        is_right_value(*name, *value, diagnostics)) {
      headers.push_back({name->text, value->text});
    }
  }
  return headers;
}

void read_type(const Fields& fields, Reject& reject, Diagnostics& diagnostics) {
  const Node* given = fields.node("content_type");
  if (given != nullptr && !is_media_type(given->text)) {
    diagnostics.add(given->at, "'content_type' is " + describe(*given),
                    "expected a media type in ASCII, such as text/html; charset=utf-8");
  } else if (given != nullptr && reject.body.empty()) {
    diagnostics.add(given->at, "'content_type' without 'body'", "expected also a 'body'");
  }
  if (reject.body.empty()) return;
  reject.content_type = given != nullptr ? std::string_view(given->text) : guess_type(reject.body);
}

using Kind = RejectPart::Kind;

// Returns the name in braces with which the text begins, or an empty text.
std::string_view name_at_start(std::string_view text) {
  if (text.size() < 3 || text[0] != '{' || !base::is_letter(text[1])) return {};
  const auto is_of_name = [](char c) { return base::is_letter_or("_.-", c); };
  const auto* const end = std::find_if_not(text.begin() + 1, text.end(), is_of_name);
  if (end == text.end() || *end != '}') return {};
  return text.substr(1, static_cast<std::size_t>(end - text.begin()) - 1);
}

std::optional<Kind> kind_of(std::string_view name) {
  const auto* const found = std::ranges::find(kRejectNames, name);
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

void read_reject(const Fields& fields, Rule& rule, Diagnostics& diagnostics, const Warn& warn) {
  Reject& reject = rule.reject;
  const Fields* const given = fields.map("reject");
  const bool has_status = given != nullptr && given->node("status") != nullptr;
  if (rule.action == RuleAction::kDeny && !has_status) reject.status = 403;
  if (given != nullptr) read_type(*given, reject, diagnostics);
  if (const Node* body = given != nullptr ? given->node("body") : nullptr) {
    reject.parts = read_names(*body, "'body'", is_json(reject.content_type), diagnostics, warn);
  }
  if (const Node* headers = given != nullptr ? given->node("headers") : nullptr) {
    reject.headers = read_headers(*headers, rule.headers, diagnostics);
    for (const auto& [name, value] : headers->pairs) {
      const auto header = std::ranges::find(reject.headers, name->text, &RejectHeader::name);
      if (header == reject.headers.end()) continue;
      header->parts = read_names(*value, in_quotes(name->text), false, diagnostics, warn);
    }
  }
  const Fields* const degrade = fields.map("degrade");
  const Node* const sent = degrade != nullptr ? degrade->node("headers") : nullptr;
  if (sent == nullptr) return;
  rule.degrade.headers = read_headers(*sent, rule.headers, diagnostics);  // sent as they are
  for (const auto& [name, value] : sent->pairs) {
    if (value->text.find_first_of("{}") == value->text.npos) continue;
    diagnostics.add(value->at, in_quotes(name->text) + " has braces",
                    "expected text without '{' and '}': only headers of 'reject' have names");
  }
}

std::vector<RejectPart> parse_reject_text(
    std::string_view text, bool is_json,
    const std::function<void(std::size_t at, std::string_view name)>& unknown) {
  std::vector<RejectPart> parts;
  bool is_in_string = false;  // of JSON, at `read`
  bool is_escaped = false;
  std::size_t read = 0;
  const auto read_to = [&](std::size_t end) {
    for (; read < end; ++read) {
      if (text[read] == '"' && !is_escaped) is_in_string = !is_in_string;
      is_escaped = text[read] == '\\' && is_in_string && !is_escaped;
    }
  };
  for (std::size_t at = text.find('{'); at != text.npos; at = text.find('{', at)) {
    const std::string_view rest = text.substr(at);
    if (const std::size_t size = size_in_double_braces(rest); size > 0) {
      parts.push_back({at, size, Kind::kBraces});
      at += size;
      continue;
    }
    const std::string_view name = name_at_start(rest);
    const std::size_t size = name.empty() ? 1 : name.size() + 2;
    if (const auto kind = kind_of(name)) {
      read_to(at);
      parts.push_back({at, size, *kind, is_json && !is_in_string});
    } else if (!name.empty()) {
      unknown(at, name);
    }
    at += size;
  }
  return parts;
}

}  // namespace sluice::rules

namespace sluice {
namespace {

using Kind = RejectPart::Kind;

// A key that is blocked without end has no instant at which it is free again.
bool has(const Decision& decision, Kind kind) {
  if (kind == Kind::kBraces) return true;
  if (kind == Kind::kRetryAfter) return decision.retry_after.has_value();
  const bool has_end = decision.reason != Reason::kBlocked || decision.retry_after;
  return has_numbers(decision) && (has_end || kind != Kind::kResetAt);
}

void append_part(const RejectPart& part, const Decision& decision, Instant now, std::string& out) {
  switch (part.kind) {
    case Kind::kRetryAfter: {
      const auto wait = std::chrono::ceil<std::chrono::seconds>(*decision.retry_after);
      return base::append_number(
          out, static_cast<std::uint64_t>(std::max<std::int64_t>(wait.count(), 0)));
    }
    case Kind::kLimit: return base::append_number(out, decision.capacity);
    case Kind::kRemaining: return base::append_number(out, decision.remaining);
    case Kind::kResetAt:
      if (part.is_json_value) out += '"';
      out += base::to_rfc3339(std::chrono::ceil<std::chrono::seconds>(now + decision.reset_after));
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
