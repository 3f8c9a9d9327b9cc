#include "server/api/admin/rule_patch_body.h"

#include <algorithm>
#include <boost/json.hpp>
#include <string>
#include <utility>

#include "core/calendar.h"
#include "core/period.h"
#include "core/quoted.h"

namespace sluice::server {
namespace {

using rules::RuleChanges;

struct WrongPatch {
  std::string message;
};

[[noreturn]] void fail_patch(const std::string& member, std::string_view expected) {
  throw WrongPatch{core::in_quotes(member) + " is wrong; expected " + std::string(expected)};
}

std::string read_number(const std::string& member, const boost::json::value& value) {
  if (value.is_int64() && value.as_int64() >= 0) return std::to_string(value.as_int64());
  fail_patch(member, "a whole number from 0 to 4294967295, without quotes");
}

std::string read_period(const std::string& member, const boost::json::value& value) {
  if (!value.is_string()) fail_patch(member, "a period in quotes, such as \"1s\"");
  std::string text(value.as_string());
  const auto& words = core::kCalendarUnits;
  if (std::find(words.begin(), words.end(), text) != words.end()) return text;
  const auto period = core::parse_period(text);
  if (!period) throw WrongPatch{core::in_quotes(member) + ": " + period.error()};
  return text;
}

void read_limit(const std::string& limit, const boost::json::value& value, RuleChanges& changes) {
  const std::string place = "limits." + limit;
  constexpr std::string_view kNumbers = "an object with limit, per, lease or burst";
  if (!value.is_object() || value.as_object().empty()) fail_patch(place, kNumbers);
  for (const auto& [key, of] : value.as_object()) {
    const std::string member = place + "." + std::string(key);
    if (key == "limit" || key == "burst") {
      changes.numbers.push_back({limit, std::string(key), read_number(member, of)});
    } else if (key == "per" || key == "lease") {
      changes.numbers.push_back({limit, std::string(key), read_period(member, of)});
    } else {
      throw WrongPatch{
          "unknown member " + core::in_quotes(member) +
          "; expected limit, per, lease or burst, other keys are changed by PUT /v1/rules"};
    }
  }
}

RuleChanges read_changes(std::string_view text) {
  constexpr std::string_view kExample = R"({"limits":{"LIMIT":{"limit":20,"per":"1s"}}})";
  boost::json::error_code error;
  const boost::json::value value = boost::json::parse(text, error);
  if (error || !value.is_object()) {
    throw WrongPatch{"the body is not a JSON object; expected " + std::string(kExample)};
  }
  RuleChanges changes;
  for (const auto& [name, of] : value.as_object()) {
    if (name == "mode") {
      if (of != boost::json::value("enforce") && of != boost::json::value("shadow")) {
        fail_patch("mode", "\"enforce\" or \"shadow\"");
      }
      changes.mode = std::string(of.as_string());
    } else if (name == "limits") {
      if (!of.is_object()) fail_patch("limits", "an object such as " + std::string(kExample));
      for (const auto& [limit, numbers] : of.as_object()) {
        read_limit(std::string(limit), numbers, changes);
      }
    } else {
      throw WrongPatch{"unknown member " + core::in_quotes(name) + "; expected limits or mode"};
    }
  }
  if (changes.numbers.empty() && !changes.mode) {
    throw WrongPatch{"the body changes nothing; expected " + std::string(kExample)};
  }
  return changes;
}

}  // namespace

Expected<RuleChanges> read_rule_changes(std::string_view json) try {
  return read_changes(json);
} catch (WrongPatch& wrong) {
  return Unexpected{std::move(wrong.message)};
}

}  // namespace sluice::server
