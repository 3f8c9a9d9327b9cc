#include "server/api/admin/live_page.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "base/json_writer.h"
#include "metrics/counts.h"
#include "server/api/admin/page_files.h"
#include "server/api/admin/pages.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

using base::JsonWriter;

using metrics::Activity;

constexpr auto kPeriod = std::chrono::seconds(1);
constexpr auto kEarliest = std::chrono::milliseconds(750);  // half a period later would be too late
constexpr std::size_t kMostRules = 100, kMostSources = 20, kMostErrors = 3;

// `asked`: the name of the first count.
JsonWriter& write_counts(JsonWriter& json, const Activity::Counts& of, std::string_view asked) {
  return json.member(asked, of.asked)
      .member("denied", of.denied)
      .member("would_deny", of.would_deny)
      .member("failed", of.failed);
}

void write_totals(JsonWriter& json, const Activity& all) {
  write_counts(json.key("total").begin_object(), all.total(), "requests");
  json.end_object().key("reasons").begin_object();
  for (std::size_t i = 0; i < all.reasons.size(); ++i) {
    if (all.reasons[i] > 0) json.member(to_string(static_cast<Reason>(i)), all.reasons[i]);
  }
  json.end_object();
}

void write_durations(JsonWriter& json, const Activity& all) {
  json.key("latency").begin_array();
  for (std::size_t i = 0; i < metrics::kFrontEnds; ++i) {
    const auto& buckets = all.durations[i].buckets;
    if (std::all_of(buckets.begin(), buckets.end(), [](auto n) { return n == 0; })) continue;
    json.begin_object().member("front_end", metrics::kFrontEndNames[i]);
    json.array("buckets", buckets).end_object();
  }
  json.end_array();
}

// `limits` are the answers of the rule's limits.
void write_rule(JsonWriter& json, const Rule& rule, const Activity::Counts& of,
                const Activity::Counts* limits) {
  json.begin_object();
  pages::write_rule_facts(json, rule);
  write_counts(json, of, "requests");
  json.key("limits").begin_array();
  for (const RuleLimit& limit : rule.limits) {
    json.begin_object();
    pages::write_limit_facts(json, rule, limit);
    const Activity::Counts& counted = *limits++;
    write_counts(json, counted, "asked")
        .member("near", counted.near)
        .member("skipped", counted.skipped)
        .end_object();
  }
  json.end_array().end_object();
}

void write_rules_status(JsonWriter& json, const RulesStatus& status) {
  json.member("version", status.version)
      .member("loaded_at", status.loaded_at)
      .member("rules", std::uint64_t{status.rules})
      .member("limits", std::uint64_t{status.limits})
      .member("files", std::uint64_t{status.sources.size()})
      .member("failures", status.failures)
      .array("sources",
             std::span(status.sources).first(std::min(status.sources.size(), kMostSources)))
      .key("last_errors");
  const auto shown = std::min(status.last_errors.size(), kMostErrors);
  const auto first = status.last_errors.begin();
  pages::write_errors(json, {first, first + static_cast<std::ptrdiff_t>(shown)});
}

// Returns the positions of the rules that an event shows: the busiest since the previous event, in
// the order of the rules.
std::vector<std::size_t> busiest(const Activity& all, std::span<const std::uint64_t> before) {
  std::vector<std::size_t> places(all.rules.size() - 1);
  std::iota(places.begin(), places.end(), 0);
  if (places.size() <= kMostRules) return places;
  const auto key = [&](std::size_t i) {
    const std::uint64_t total = all.rules[i].asked;
    return std::pair(i < before.size() && before[i] <= total ? total - before[i] : total, total);
  };
  const auto end = places.begin() + kMostRules;
  std::partial_sort(places.begin(), end, places.end(), [&](std::size_t a, std::size_t b) {
    return key(a) != key(b) ? key(a) > key(b) : a < b;
  });
  places.erase(end, places.end());
  std::sort(places.begin(), places.end());
  return places;
}

}  // namespace

bool LiveEvents::is_watched() const noexcept {
  return watched_ && clock_.now() - *watched_ < std::chrono::minutes(10);
}

const std::string& LiveEvents::latest() {
  const net::SteadyTime now = clock_.now();
  watched_ = now;
  if (event_.empty() || (viewers_.empty() && now - made_ >= kPeriod)) {
    const RuleSet rules = rules_.current();
    make(now, rules, registry_.activity(rules));
  }
  return event_;
}

void LiveEvents::tick() {
  const net::SteadyTime now = clock_.now();
  if (!viewers_.empty()) watched_ = now;
  const bool samples = !sampled_ || now - *sampled_ >= kEarliest;
  const bool sends = !viewers_.empty() && now - made_ >= kEarliest;
  if (!samples && !sends) return;
  const RuleSet rules = rules_.current();
  const Activity all = registry_.activity(rules);
  if (samples) {
    history_.add(now, SystemClock::instance().now(), rules, all);
    sampled_ = now;
  }
  if (!sends) return;
  make(now, rules, all);
  viewers_.send(event_);
}

void LiveEvents::make(net::SteadyTime now, const RuleSet& rules, const Activity& all) {
  JsonWriter json;
  json.begin_object()
      .member("at", SystemClock::instance().now())
      .member("steady_ms",
              static_cast<std::uint64_t>(
                  std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count()))
      .member("viewers", std::uint64_t{viewers_.size()});
  const ServerStatus status = status_();
  pages::write_server(json, status);
  pages::write_outage(json, status, rules_.status(), rules, kMostRules, &history_);
  write_totals(json, all);
  write_durations(json, all);
  json.key("rules").begin_object();
  write_rules_status(json, rules_.status());
  json.key("busiest").begin_array();
  std::size_t limit = 0, rule = 0;
  for (const std::size_t place : busiest(all, before_)) {
    for (; rule < place; ++rule) limit += rules.rules()[rule].limits.size();
    write_rule(json, rules.rules()[place], all.rules[place], all.limits.data() + limit);
  }
  json.end_array().end_object().end_object();
  before_.clear();
  for (const Activity::Counts& one : all.rules) before_.push_back(one.asked);
  event_ = "data: ";
  event_.append(json.view()).append("\n\n");
  made_ = now;
}

namespace pages {

void show_events(const Call& call) {
  LiveEvents* const events = call.admin.events;
  if (events == nullptr || events->viewers().ended()) {
    return answer(call, 503, "the server is draining");
  }
  http::Broadcast& viewers = events->viewers();
  if (!viewers.has_room()) {
    call.response.add("Retry-After", "10");
    return answer(call, 503,
                  std::to_string(viewers.most()) +
                      " viewers receive events already, which is the maximum; close one");
  }
  call.response.text = events->latest();
  call.response.answer_text(200, "text/event-stream");
  call.response.broadcast = &viewers;
}

}  // namespace pages
namespace {

// The page contains text that clients have chosen. No text can become a script or a style, and no
// other site can be loaded, can embed the page or receives anything.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'";

std::string_view type_of(std::string_view path) noexcept {
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

}  // namespace

bool answer_live_page(std::string_view path, const http::Request& request,
                      http::Response& response) {
  const auto* const file = std::find_if(std::begin(page::kFiles), std::end(page::kFiles),
                                        [&](const page::File& one) { return one.path == path; });
  if (file == std::end(page::kFiles)) return false;
  if (request.method != "GET" && request.method != "HEAD") {
    response.add("Allow", "GET, HEAD");
    answer_problem(response, {405, "expected GET or HEAD"});
    return true;
  }
  response.add("Content-Security-Policy", kContentSecurityPolicy);
  response.add("X-Content-Type-Options", "nosniff");
  response.add("Referrer-Policy", "no-referrer");
  response.add("Cross-Origin-Opener-Policy", "same-origin");
  response.add("Cross-Origin-Resource-Policy", "same-origin");
  response.add("Cache-Control", "no-cache");
  // A browser loads the files on several connections; the page needs only two of them afterwards.
  response.closes = true;
  response.content_type = type_of(path);
  response.body = file->text;
  return true;
}

}  // namespace sluice::server
