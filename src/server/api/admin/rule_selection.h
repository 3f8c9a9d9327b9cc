#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/request_target.h"
#include "rules/diagnostics.h"
#include "server/api/admin/pages.h"
#include "server/decide/rule_counters.h"
#include "sluice/attributes.h"

namespace sluice::server::pages {

// Before the name of an attribute in a query that is one of the query's own parameters.
inline constexpr std::string_view kAttributePrefix = "attribute.";
// Returns an attribute in a query: NAME=VALUE, or attribute.NAME=VALUE.
std::optional<std::string_view> find_attribute(std::string_view query, std::string_view name,
                                               Buffers& buffers);

// The subject of a request for counters: ?rule=NAME, the attributes of a request, and perhaps
// limit=NAME. The rule, the counters of its limits, and which of them are wanted.
class Selection {
 public:
  // If there is none, writes the reason into the answer and returns nothing.
  static std::optional<Selection> of(const Call& call);

  const Rule& rule() const { return *rule_; }
  const std::vector<RuleCounter>& counters() const { return counters_; }
  // Whether one limit was named or the rule has only one.
  bool is_one() const { return counters_.size() == 1 || (limit_ && *limit_ != "*"); }
  // All limits: without those that are for all requests, if another one reads the attributes.
  bool is_all() const { return limit_ == "*"; }
  // Whether the request names what it changes, so that it does not change the counter of all
  // requests by accident. If not, writes the reason into the answer. `what`: "reset".
  bool may_change(const Call& call, std::string_view what) const;

 private:
  explicit Selection(RuleSet rules) : rules_(std::move(rules)) {}
  bool find_counters(const Call& call);
  void drop_shared();

  RuleSet rules_;  // keeps the other members valid
  const Rule* rule_ = nullptr;
  std::optional<std::string> limit_;
  std::vector<RuleCounter> counters_;
};

// Returns "a, b, c and 97 more": the first of many names.
template <typename Named>
std::string names_of(const Named& all) {
  constexpr std::size_t kShown = 20;
  std::string names;
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) {
    names.append(i == 0 ? "" : ", ").append(all[i].name);
  }
  if (all.size() > kShown) names += " and " + std::to_string(all.size() - kShown) + " more";
  return names;
}

// Returns "one of: a, b, c", and which of them a mistaken name means: "; did you mean 'b'?".
template <typename Named>
std::string one_of(const Named& all, std::string_view mistaken) {
  std::vector<std::string_view> names;
  for (const auto& one : all) names.push_back(one.name);
  return "one of: " + names_of(all) + rules::did_you_mean(mistaken, names);
}

// Returns the rule of that name. If there is none, answers which there are, and returns null.
const Rule* find_rule(const Call& call, const RuleSet& rules, std::string_view name);
// Answers that a rule has no limit of that name, and which it has.
void answer_no_limit(const Call& call, const Rule& rule, std::string_view name);

std::uint64_t milliseconds(Duration wait) noexcept;  // rounded up
// Answers that the store could not answer for a limit, and whether a change was made. `is_changed`:
// it was, and the store could not say the state. With a rule, a look says what the rule does
// meanwhile.
void answer_failed(const Call& call, const RuleCounter& counter, const Decision& decision,
                   bool is_changed = false, const Rule* rule = nullptr);

// Writes the key of a counter. If it lacks attributes, writes which, and returns false.
bool write_key(JsonWriter& json, const RuleCounter& counter);
// Answers with the limits of the selection and what `write` adds to those whose keys are known.
// `write` returns false after answering itself.
template <typename Write>
void answer_each(const Call& call, const Selection& chosen, const Write& write) {
  JsonWriter json;
  json.begin_object().member("rule", chosen.rule().name).key("limits").begin_array();
  for (const RuleCounter& counter : chosen.counters()) {
    json.begin_object().member("name", counter.limit->name);
    if (write_key(json, counter) && !write(json, counter)) return;
    json.end_object();
  }
  json.end_array();
  if (chosen.rule().mode == RuleMode::kShadow) json.member("mode", "shadow");
  answer(call.response, 200, json.end_object());
}

}  // namespace sluice::server::pages
