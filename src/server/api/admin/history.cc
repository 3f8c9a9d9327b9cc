// The recent past of the live page: GET /v1/history.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/quoted.h"
#include "base/request_target.h"
#include "core/limit.h"
#include "core/period.h"
#include "rules/rule_set.h"
#include "rules/schema.h"
#include "server/api/admin/live_page.h"
#include "server/api/admin/pages.h"

namespace sluice::server {
namespace {

using metrics::Activity;
using std::chrono::milliseconds;

constexpr std::size_t kLittlePoints = 60;  // of a rule, if all rules are asked for

constexpr std::size_t kFailed = 3;  // in History::kCounts

// In the order of History::kCounts.
std::array<std::uint64_t, History::kCounts.size()> numbers_of(const Activity::Counts& of) {
  return {of.asked, of.denied, of.would_deny, of.failed, of.near, of.skipped};
}

}  // namespace

// --- keeping it -------------------------------------------------------------------------------

void History::use(const RuleSet& rules) {
  if (active_ && active_->rules().data() == rules.rules().data()) return;
  active_ = rules;
  const std::uint64_t failed = places_.empty() ? 0 : places_.front()->before[kFailed];
  std::map<Names, Series> kept;
  places_.clear();
  const auto keep = [&](const std::string& rule, const std::string& limit) {
    auto known = series_.extract(Names(rule, limit));
    Series* const series =
        known.empty() ? &kept[{rule, limit}] : &kept.insert(std::move(known)).position->second;
    series->before = {};
    places_.push_back(series);
  };
  keep("", "");
  places_.front()->before[kFailed] = failed;  // which counts on with other rules
  for (const Rule& rule : rules.rules()) {
    keep(rule.name, "");
    for (const RuleLimit& limit : rule.limits) keep(rule.name, limit.name);
  }
  for (const auto& [names, series] : series_) {
    columns_ -= static_cast<std::size_t>(std::count_if(series.columns.begin(), series.columns.end(),
                                                       [](auto& one) { return !!one; }));
  }
  series_ = std::move(kept);
}

// Begins the next point of a ring, in place of the oldest if it is full.
void History::begin_point(Ring& ring) {
  ring.newest = (ring.newest + 1) % ring.size;
  ring.used = std::min(ring.used + 1, ring.size);
  ring.points[ring.newest] = {};
  for (Series* const series : places_) {
    for (const auto& column : series->columns) {
      if (column) (*column)[ring.first + ring.newest] = 0;
    }
  }
}

void History::put(Series& series, const Counts& counts) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    // A count can decrease only if the rules are not the same ones.
    const std::uint64_t growth = counts[i] - std::min(series.before[i], counts[i]);
    if (growth == 0) continue;
    auto& column = series.columns[i];
    if (!column && columns_ == kMostColumns) continue;
    if (!column) {
      column = std::make_unique<Column>();
      ++columns_;
    }
    for (const Ring* ring : {&seconds_, &minutes_}) {
      std::uint32_t& number = (*column)[ring->first + ring->newest];
      number = static_cast<std::uint32_t>(std::min(number + growth, kMost));
    }
  }
  series.before = counts;
}

void History::add(net::SteadyTime now, Instant date, const RuleSet& rules, const Activity& all) {
  const auto before = std::exchange(last_, now);
  if (!before) return;
  use(rules);
  const auto took = std::chrono::round<milliseconds>(now - *before);
  begin_point(seconds_);
  seconds_.points[seconds_.newest] = {date, took};
  const Point& minute = minutes_.points[minutes_.newest];
  if (minutes_.used == 0 || minute.took >= std::chrono::minutes(1)) begin_point(minutes_);
  minutes_.points[minutes_.newest].end = date;
  minutes_.points[minutes_.newest].took += took;
  Activity::Counts total = all.total();
  total.failed = all.failed;
  auto place = places_.begin();
  put(**place++, numbers_of(total));  // first, because it is to have its columns
  const Activity::Counts* limit = all.limits.data();
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    put(**place++, numbers_of(all.rules[i]));
    for (std::size_t j = 0; j < rules.rules()[i].limits.size(); ++j) {
      put(**place++, numbers_of(*limit++));
    }
  }
}

// --- writing it -------------------------------------------------------------------------------

const History::Series* History::find(const std::string& rule, const std::string& limit) const {
  const auto found = series_.find({rule, limit});
  return found == series_.end() ? nullptr : &found->second;
}

std::uint64_t History::failed(Instant from, Instant to) const {
  const Series* const all = find("", "");
  if (all == nullptr || !all->columns[kFailed]) return 0;
  const bool is_older = seconds_.used == kSeconds && seconds_.point(0).end > from;
  const Ring& of = is_older ? minutes_ : seconds_;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < of.used; ++i) {
    const Point& point = of.point(i);
    const bool counts = point.end > from && point.end - point.took < to;
    if (counts) sum += (*all->columns[kFailed])[of.place(i)];
  }
  return sum;
}

// Writes each kind of count with a number other than 0; `group` points become one.
void History::write_series(base::JsonWriter& json, const Series* series, const Ring& ring,
                           std::size_t group) const {
  for (std::size_t i = 0; series != nullptr && i < kCounts.size(); ++i) {
    if (!series->columns[i]) continue;
    const Column& column = *series->columns[i];
    std::vector<std::uint64_t> sums((ring.used + group - 1) / group);
    // From the newest back, so that only the oldest group may be of fewer points.
    for (std::size_t j = 0; j < ring.used; ++j) {
      sums[sums.size() - 1 - (ring.used - 1 - j) / group] += column[ring.place(j)];
    }
    if (std::all_of(sums.begin(), sums.end(), [](auto sum) { return sum == 0; })) continue;
    json.array(kCounts[i], sums);
  }
}

void History::write_sums(base::JsonWriter& json, const Series* series, const Ring& ring) const {
  json.key("sums").begin_object();
  for (std::size_t i = 0; series != nullptr && i < kCounts.size(); ++i) {
    if (!series->columns[i]) continue;
    std::uint64_t sum = 0;
    for (std::size_t j = 0; j < ring.used; ++j) sum += (*series->columns[i])[ring.place(j)];
    if (sum > 0) json.member(kCounts[i], sum);
  }
  json.end_object();
}

void History::write_rules(base::JsonWriter& json, const Ring& ring, const RuleSet& rules) const {
  const std::size_t group =
      std::max<std::size_t>(1, (ring.used + kLittlePoints - 1) / kLittlePoints);
  json.member("group", std::uint64_t{group}).key("rules").begin_array();
  for (const Rule& rule : rules.rules()) {
    const Series* const series = find(rule.name, "");
    json.begin_object();
    pages::write_rule_facts(json, rule);
    json.key("match").begin_array();
    const RuleSet::Impl& compiled = rules.impl();
    const auto index = static_cast<std::size_t>(&rule - rules.rules().data());
    for (const rules::Condition& one : compiled.compiled[index].conditions) {
      json.visible_value(compiled.attributes.names()[one.attribute] +
                         (one.negated ? " not " : " ") + one.written);
    }
    json.end_array();
    write_series(json, series, ring, group);
    write_sums(json, series, ring);
    json.key("limits").begin_array();
    for (const RuleLimit& limit : rule.limits) {
      json.begin_object();
      pages::write_limit_facts(json, rule, limit);
      write_sums(json, find(rule.name, limit.name), ring);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void History::write(base::JsonWriter& json, bool of_day, const RuleSet& rules,
                    const Rule* rule) const {
  const Ring& of = of_day ? minutes_ : seconds_;
  json.key("ends_ms").begin_array();
  for (std::size_t i = 0; i < of.used; ++i) {
    const auto end = std::chrono::floor<milliseconds>(of.point(i).end.time_since_epoch());
    json.value(static_cast<std::uint64_t>(end.count()));
  }
  json.end_array().key("took_ms").begin_array();
  for (std::size_t i = 0; i < of.used; ++i) {
    json.value(static_cast<std::uint64_t>(of.point(i).took.count()));
  }
  json.end_array().key("total").begin_object();
  write_series(json, find(rule != nullptr ? rule->name : "", ""), of, 1);
  json.end_object();
  if (rule == nullptr) return write_rules(json, of, rules);
  json.key("limits").begin_array();
  for (const RuleLimit& limit : rule->limits) {
    json.begin_object().member("name", limit.name);
    write_series(json, find(rule->name, limit.name), of, 1);
    json.end_object();
  }
  json.end_array();
}

namespace pages {

void write_rule_facts(JsonWriter& json, const Rule& rule) {
  json.member("name", rule.name)
      .member("domain", rule.domain)
      .member("shadow", rule.mode == RuleMode::kShadow)
      .member("action", rule.action == RuleAction::kLimit   ? "limit"
                        : rule.action == RuleAction::kAllow ? "allow"
                                                            : "deny")
      .member("on_store_error", rules::schema::word_of(rule.on_store_error));
}

// The numbers are left out if the request's plan decides which they are.
void write_limit_facts(JsonWriter& json, const Rule& rule, const RuleLimit& limit) {
  const Limit& numbers = limit.limit;
  json.member("name", limit.name)
      .member("key", limit.key)
      .member("algorithm", to_string(numbers.algorithm()))
      .member("blocks", limit.block.has_value());
  if (!limit.by_plan.empty()) return json.member("plans", std::uint64_t{rule.plans.size()}), void();
  json.member("limit", std::uint64_t{numbers.limit()}).member("per", core::format_period(numbers));
  const auto burst = core::spec_of(numbers).burst;
  if (burst && numbers.capacity() != numbers.limit()) json.member("burst", std::uint64_t{*burst});
}

void show_history(const Call& call) {
  LiveEvents* const events = call.admin.events;
  if (events == nullptr) return answer(call, 404, "this server keeps no history");
  const std::string range = call.parameter("range").value_or("10m");
  const RuleSet rules = call.admin.rules.current();
  const Rule* rule = nullptr;
  if (const auto name = call.parameter("rule")) {
    rule = rules.find(*name);
    if (rule == nullptr) {
      return answer(call, 404,
                    "there is no rule " + base::in_quotes(*name) +
                        "; expected the name of an active rule, or none for all rules");
    }
  }
  JsonWriter json;
  json.begin_object().member("range", range);
  if (rule != nullptr) json.member("rule", rule->name);
  events->history().write(json, range == "1d", rules, rule);
  answer(call.response, 200, json.end_object());
}

}  // namespace pages
}  // namespace sluice::server
