#include "server/api/admin/override_body.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "rules/attributes.h"
#include "rules/override_text.h"

namespace sluice::server {

namespace {

// Removes the string at the front, and returns it with its quotes.
std::string_view take_string(std::string_view& json) {
  std::size_t end = 1;
  while (json[end] != '"') end += json[end] == '\\' ? 2 : 1;
  const std::string_view text = json.substr(0, end + 1);
  json.remove_prefix(end + 1);
  return text;
}

std::string text_of_quoted(std::string_view quoted) {
  if (quoted.find('\\') != quoted.npos) return std::string(boost::json::parse(quoted).as_string());
  return std::string(quoted.substr(1, quoted.size() - 2));
}

bool is_name(std::string_view rest) {
  const std::size_t next = rest.find_first_not_of(" \t\r\n");
  return next != rest.npos && rest[next] == ':';
}

}  // namespace

// Returns the name of a member that an object in this JSON has twice. The text must be valid JSON.
std::optional<std::string> find_repeated_member(std::string_view json) {
  std::vector<std::string> names;  // of the objects around this byte
  std::vector<std::size_t> open;   // for each of these objects, the first of its names
  for (;;) {
    json.remove_prefix(std::min(json.find_first_of("\"{}"), json.size()));
    if (json.empty()) return std::nullopt;
    if (json.front() == '"') {
      const std::string_view text = take_string(json);
      if (!is_name(json)) continue;
      std::string name = text_of_quoted(text);
      const auto first = names.begin() + static_cast<std::ptrdiff_t>(open.back());
      if (std::find(first, names.end(), name) != names.end()) return name;
      names.push_back(std::move(name));
      continue;
    }
    if (json.front() == '{') {
      open.push_back(names.size());
    } else {
      names.resize(open.back());
      open.pop_back();
    }
    json.remove_prefix(1);
  }
}

namespace {

namespace json = boost::json;
using Kind = Override::Kind;

constexpr std::string_view kMembers =
    "expected attributes, one of limit, plan, blocked and unlimited, and per, burst or until";

struct Wrong {
  std::string message;
};

[[noreturn]] void fail(std::string_view member, std::string_view expected) {
  throw Wrong{base::in_quotes(member) + " is wrong; expected " + std::string(expected)};
}

std::uint64_t number_of(std::string_view member, const json::value& value) {
  if (value.is_int64() && value.as_int64() >= 0)
    return static_cast<std::uint64_t>(value.as_int64());
  fail(member, "a whole number from 0 to 4294967295");
}

std::string text_of(std::string_view member, const json::value& value, std::string_view expected) {
  if (!value.is_string() || value.as_string().empty()) fail(member, expected);
  return std::string(value.as_string());
}

void read_attributes(const json::value& value, OverrideBody& body) {
  if (!value.is_object()) fail("attributes", "an object whose members are texts");
  for (const auto& [written, of] : value.as_object()) {
    if (!of.is_string()) fail("attributes", "an object whose members are texts");
    std::string name = rules::normalized(written);
    if (std::find(body.names.begin(), body.names.end(), name) != body.names.end()) {
      throw Wrong{"the attribute " + base::in_quotes(name) + " is given twice; expected it once"};
    }
    body.attributes.set(name, of.as_string());
    body.names.push_back(std::move(name));
  }
}

void set_kind(Kind kind, bool& has_kind, Override& given) {
  if (has_kind) throw Wrong{"the override says more than one thing; " + std::string(kMembers)};
  has_kind = true;
  given.kind = kind;
}

// Returns false if the body has no member of this name.
bool read_member(std::string_view name, const json::value& value, bool& has_kind,
                 OverrideBody& body) {
  Override& given = body.given;
  if (name == "attributes") {
    read_attributes(value, body);
  } else if (name == "limit") {
    set_kind(Kind::kNumbers, has_kind, given);
    given.limit = number_of(name, value);
  } else if (name == "plan") {
    set_kind(Kind::kPlan, has_kind, given);
    given.plan = text_of(name, value, "the name of a plan");
  } else if (name == "blocked" || name == "unlimited") {
    if (value != json::value(true)) fail(name, "true");
    set_kind(name == "blocked" ? Kind::kBlocked : Kind::kUnlimited, has_kind, given);
  } else if (name == "per" || name == "lease") {
    if (given.per || given.calendar) {
      throw Wrong{"'per' and 'lease' mean the same; expected one of them"};
    }
    const auto wrong =
        rules::set_period(text_of(name, value, "a period such as \"1m\" or \"month\""), given);
    if (wrong) throw Wrong{base::in_quotes(name) + ": " + *wrong};
  } else if (name == "burst") {
    given.burst = number_of(name, value);
  } else if (name == "until") {
    constexpr std::string_view kInstant = "an instant such as \"2026-12-01T00:00:00Z\"";
    given.until = base::parse_rfc3339(text_of(name, value, kInstant));
    if (!given.until) fail(name, kInstant);
  } else {
    return false;
  }
  return true;
}

json::value parse(std::string_view text, std::string_view example) {
  json::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) throw Wrong{std::string(example)};
  if (const auto twice = find_repeated_member(text)) {
    throw Wrong{"the member " + base::in_quotes(*twice) + " is given twice; expected it once"};
  }
  return value;
}

// Returns what is wrong with an override; empty if nothing is.
std::string find_problem(const Override& given, bool has_kind) {
  if (!has_kind) return "the override says nothing; " + std::string(kMembers);
  if (given.kind == Kind::kNumbers || (!given.per && !given.calendar && !given.burst)) {
    return {};
  }
  return "'per' and 'burst' are for numbers; expected 'limit' with them";
}

OverrideBody read(std::string_view text, Instant now) {
  const json::value value =
      parse(text, "the body is not a JSON object; expected {\"attributes\":{...},\"limit\":100}");
  OverrideBody body;
  bool has_kind = false;
  for (const auto& [name, of] : value.as_object()) {
    if (read_member(name, of, has_kind, body)) continue;
    throw Wrong{"unknown member " + base::in_quotes(name) + "; " + std::string(kMembers)};
  }
  if (auto problem = find_problem(body.given, has_kind); !problem.empty()) {
    throw Wrong{std::move(problem)};
  }
  if (body.given.until && *body.given.until <= now) fail("until", "an instant in the future");
  return body;
}

std::string* name_in(OverrideLine& line, std::string_view name) {
  if (name == "counter") return &line.counter;
  if (name == "rule") return &line.rule;
  return name == "limit_name" ? &line.limit_name : nullptr;
}

OverrideLine read_line(std::string_view text) {
  constexpr std::string_view kNames = "expected counter, or rule, limit_name and attributes";
  const json::value value =
      parse(text, "the line is not a JSON object; expected {\"counter\":\"...\",\"limit\":100}");
  OverrideLine line;
  bool has_kind = false;
  bool has_attributes = false;
  for (const auto& [name, of] : value.as_object()) {
    has_attributes |= name == "attributes";
    if (std::string* text_member = name_in(line, name)) {
      *text_member = text_of(name, of, "a text");
    } else if (!read_member(name, of, has_kind, line.body)) {
      throw Wrong{"unknown member " + base::in_quotes(name) + "; " + std::string(kNames) +
                  ", and limit, plan, blocked or unlimited, and per, burst or until"};
    }
  }
  const bool has_place = !line.rule.empty() || !line.limit_name.empty() || has_attributes;
  const bool is_whole = !line.rule.empty() && !line.limit_name.empty();
  if (line.counter.empty() ? !is_whole : has_place) {
    throw Wrong{"the line does not name one counter; " + std::string(kNames)};
  }
  line.problem = find_problem(line.body.given, has_kind);
  return line;
}

}  // namespace

Expected<OverrideBody> read_override_body(std::string_view json, Instant now) try {
  return read(json, now);
} catch (Wrong& wrong) {
  return Unexpected{std::move(wrong.message)};
}

Expected<OverrideLine> read_override_line(std::string_view json) try {
  return read_line(json);
} catch (Wrong& wrong) {
  return Unexpected{std::move(wrong.message)};
}

}  // namespace sluice::server
