#include <optional>
#include <string>
#include <vector>

#include "server/api/admin/pages.h"
#include "server/api/admin/rule_counters.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server::pages {
namespace {

// The attributes in a query: NAME=VALUE, or attribute.NAME=VALUE if the name is one of the query's
// own parameters.
class QueryAttributes final : public AttributeSource {
 public:
  explicit QueryAttributes(std::string_view query) : query_(query) {}

  std::optional<std::string_view> find(std::string_view name) const override {
    const auto value = find_query(query_, "attribute." + std::string(name), buffers_);
    if (value || name == "rule" || name == "limit") return value;
    return find_query(query_, name, buffers_);
  }

 private:
  std::string_view query_;
  mutable Buffers buffers_;
};

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// Returns "a, b, c, ...": the first of many names.
template <typename Named>
std::string names_of(const Named& all) {
  constexpr std::size_t kShown = 20;
  std::string names;
  std::size_t shown = 0;
  for (const auto& one : all) {
    if (shown++ == kShown) return names + ", ...";
    names.append(names.empty() ? "" : ", ").append(one.name);
  }
  return names;
}

// The subject of a request: the rule, the counters of its limits, and which of them are wanted.
class Selection {
 public:
  // If there is none, writes the reason into the answer and returns nothing.
  static std::optional<Selection> of(const Call& call) {
    Buffers buffers;
    Selection chosen{call.parts.rules.current()};
    const auto name = find_query(call.query, "rule", buffers);
    if (!name) {
      answer(call.response, {400,
                             "the rule is missing; expected ?rule=NAME and the attributes of a "
                             "request, such as &ip=192.0.2.1"});
      return std::nullopt;
    }
    chosen.rule_ = chosen.rules_.find(*name);
    if (chosen.rule_ == nullptr) {
      const std::string detail = "there is no rule " + quoted(*name) +
                                 "; expected one of: " + names_of(chosen.rules_.rules());
      answer(call.response, {404, detail});
      return std::nullopt;
    }
    if (const auto limit = find_query(call.query, "limit", buffers)) chosen.limit_ = *limit;
    if (!chosen.find_counters(call)) return std::nullopt;
    return chosen;
  }

  const Rule& rule() const { return *rule_; }
  const std::vector<RuleCounter>& counters() const { return counters_; }
  // Returns whether one limit was named or the rule has only one.
  bool is_one() const { return rule_->limits.size() == 1 || (limit_ && *limit_ != "*"); }
  bool is_all() const { return limit_ == "*"; }

 private:
  explicit Selection(RuleSet rules) : rules_(std::move(rules)) {}

  bool find_counters(const Call& call) {
    for (RuleCounter& counter : counters_of(rules_, *rule_, QueryAttributes(call.query))) {
      if (!limit_ || is_all() || counter.limit->name == *limit_) {
        counters_.push_back(std::move(counter));
      }
    }
    if (!counters_.empty() || !limit_ || is_all()) return true;
    const std::string detail = "rule " + quoted(rule_->name) + " has no limit " + quoted(*limit_) +
                               "; expected one of: " + names_of(rule_->limits);
    answer(call.response, {404, detail});
    return false;
  }

  RuleSet rules_;  // keeps the other members valid
  const Rule* rule_ = nullptr;
  std::optional<std::string> limit_;
  std::vector<RuleCounter> counters_;
};

std::uint64_t milliseconds(Duration wait) noexcept {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(wait).count());
}

std::string missing_in(const RuleCounter& counter) {
  std::string names;
  for (const std::string& one : counter.missing)
    names.append(names.empty() ? "" : ", ").append(one);
  return names;
}

void write_counter(JsonWriter& json, const RuleCounter& counter, const Decision& decision) {
  json.member("key", counter.label).member("counter", counter.key);
  if (!counter.tag.empty()) json.member("tag", counter.tag);
  json.member("algorithm", to_string(counter.limit->limit.algorithm()))
      .member("limit", std::uint64_t{decision.capacity})
      .member("remaining", std::uint64_t{decision.remaining})
      .member("reset_after_ms", milliseconds(decision.reset_after));
}

Decision apply_to_store(const Call& call, Verb verb, const RuleCounter& counter) {
  const Charge charge{counter.key, counter.limit->limit, 0, counter.tag, Keyspace::kRules};
  return call.parts.limiter.store().apply_one(verb, charge, {});
}

void write_missing(JsonWriter& json, const RuleCounter& counter) {
  json.key("missing").begin_array();
  for (const std::string& names : counter.missing) json.value(names);
  json.end_array();
}

// Answers with every counter, after `ask` has read or reset it.
template <typename Ask>
void answer_counters(const Call& call, const Selection& chosen, const Ask& ask) {
  JsonWriter json;
  json.begin_object().member("rule", chosen.rule().name).key("limits").begin_array();
  for (const RuleCounter& counter : chosen.counters()) {
    json.begin_object().member("name", counter.limit->name);
    if (counter.key.empty()) {
      write_missing(json, counter);
    } else {
      const Decision decision = ask(counter);
      if (!decision.allowed()) {
        const std::string detail = "the store could not answer for the limit " +
                                   quoted(counter.limit->name) + ": " +
                                   std::string(to_string(decision.reason));
        return answer(call.response, {503, detail});
      }
      write_counter(json, counter, decision);
    }
    json.end_object();
  }
  answer(call.response, 200, json.end_array().end_object());
}

// Refuses to reset the counter that all requests share unless the request says so.
bool refuses_reset(const Call& call, const Selection& chosen) {
  if (!chosen.is_one() && !chosen.is_all()) {
    const std::string detail =
        "rule " + quoted(chosen.rule().name) +
        " has several limits; expected limit=NAME, one of: " + names_of(chosen.rule().limits) +
        "; or limit=* for all";
    answer(call.response, {400, detail});
    return true;
  }
  for (const RuleCounter& counter : chosen.counters()) {
    if (!counter.key.empty()) return false;
  }
  const RuleCounter& first = chosen.counters().front();
  const std::string detail = "nothing to reset: the key of the limit " + quoted(first.limit->name) +
                             " lacks " + missing_in(first) +
                             "; expected these attributes in the query";
  answer(call.response, {400, detail});
  return true;
}

}  // namespace

void show_keys(const Call& call) {
  const auto chosen = Selection::of(call);
  if (!chosen) return;
  answer_counters(call, *chosen, [&](const RuleCounter& counter) {
    return apply_to_store(call, Verb::kPeek, counter);
  });
}

void reset_keys(const Call& call) {
  const auto chosen = Selection::of(call);
  if (!chosen || refuses_reset(call, *chosen)) return;
  answer_counters(call, *chosen, [&](const RuleCounter& counter) {
    const Decision decision = apply_to_store(call, Verb::kReset, counter);
    if (decision.allowed()) call.done("counter reset: " + counter.key);
    return decision;
  });
}

}  // namespace sluice::server::pages
