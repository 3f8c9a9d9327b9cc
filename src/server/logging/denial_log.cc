#include "server/logging/denial_log.h"

#include <algorithm>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "limiter/answer.h"
#include "server/logging/log.h"
#include "server/logging/log_line.h"

namespace sluice::server {

NearKeys::Entry* NearKeys::entries() {
  std::call_once(allocated_, [this] { entries_ = std::make_unique<Entry[]>(kMost); });
  return entries_.get();
}

bool NearKeys::add(std::uint64_t hash, Instant now, Duration window) {
  const std::size_t set = hash % kSets;
  const std::span<Entry> places(entries() + set * kSetSize, kSetSize);
  const std::lock_guard lock(locks_[set % kLocks]);
  const auto is_same = [&](const Entry& entry) { return entry.hash == hash && entry.until > now; };
  if (std::any_of(places.begin(), places.end(), is_same)) return false;
  const auto ends_first = [](const Entry& a, const Entry& b) { return a.until < b.until; };
  *std::min_element(places.begin(), places.end(), ends_first) = {hash, now + window};
  return true;
}

namespace {

constexpr std::size_t kLongestKey = 1024;
constexpr std::size_t kLongestText = 256;  // of a remembered attribute

class CoarseClock final : public Clock {
 public:
  Instant now() const noexcept override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return Instant{std::chrono::seconds{now.tv_sec}};
  }
};

std::int64_t milliseconds_up(Duration wait) noexcept {
  return std::chrono::ceil<std::chrono::milliseconds>(wait).count();
}

std::vector<LogField> named(std::string_view rule, std::string_view limit, std::string_view shown) {
  std::vector<LogField> fields;
  if (!rule.empty()) fields.emplace_back("rule", rule);
  if (!limit.empty()) fields.emplace_back("limit", limit);
  if (!shown.empty()) fields.emplace_back("key", shown);
  return fields;
}

}  // namespace

DenialLog::DenialLog(Log& log, const Clock& clock, const Clock& windows)
    : log_(log),
      clock_(clock),
      windows_(windows),
      per_second_(log.options().denials_per_second),
      shadow_per_second_(log.options().denials_per_second),
      near_per_second_(log.options().denials_per_second),
      wanted_(log.options().denials_per_second > 0 && log.options().level <= LogLevel::kInfo) {}

void DenialLog::write(std::string_view rule, std::string_view limit, std::string_view key,
                      const Decision& decision, const TraceSource& trace,
                      const AttributeSource* request) noexcept {
  try {
    if (decision.allowed() || !admits(per_second_)) return;
    write_line("denied", per_second_, rule, limit, key, decision, trace);
    if (request != nullptr) remember(rule, limit, key, *request);
  } catch (...) {  // Without memory, the line is lost.
  }
}

void DenialLog::write_shadow(const LimitAnswer& limit, const TraceSource& trace) noexcept {
  try {
    if (!admits(shadow_per_second_)) return;
    write_line("would_deny", shadow_per_second_, limit.rule->name, limit.limit->name, limit.label,
               limit.decision, trace);
  } catch (...) {  // Without memory, the line is lost.
  }
}

bool DenialLog::report_near(const LimitAnswer& limit) noexcept {
  try {
    // With its tag, the counter's key is the name of the counter in the store.
    const std::uint64_t hash = hash_(limit.counter) ^ (limit.tag.empty() ? 0 : hash_(limit.tag));
    if (!near_.add(hash, windows_.now(), limit.decision.reset_after)) return false;
    if (admits(near_per_second_)) write_near(limit);
    return true;
  } catch (...) {  // Without memory, the report is lost.
    return false;
  }
}

bool DenialLog::admits(LineRate& per_second) noexcept {
  if (!wanted_) return false;
  const auto now = std::chrono::floor<std::chrono::seconds>(clock_.now());
  return per_second.admit(now.time_since_epoch().count());
}

std::string DenialLog::shown_key(std::string_view key) const {
  if (key.empty()) return {};
  if (log_.options().keys == LogKeys::kNone) return {};
  if (log_.options().keys == LogKeys::kPlain) return cut(key, kLongestKey);
  return insight::KeyHash::text(hash_(key));
}

void DenialLog::write_near(const LimitAnswer& limit) {
  const Decision& decision = limit.decision;
  const std::uint64_t suppressed = near_per_second_.take_suppressed();
  const std::string shown = shown_key(limit.label);
  std::vector<LogField> fields = named(limit.rule->name, limit.limit->name, shown);
  fields.emplace_back("capacity", decision.capacity);
  fields.emplace_back("remaining", decision.remaining);
  if (is_ever_full(limit.numbers, decision)) {
    fields.emplace_back("reset_after_ms", milliseconds_up(decision.reset_after));
  }
  if (suppressed > 0) fields.emplace_back("suppressed", suppressed);
  log_.write_all(LogLevel::kInfo, "near", fields);
}

void DenialLog::write_line(std::string_view message, LineRate& per_second, std::string_view rule,
                           std::string_view limit, std::string_view key, const Decision& decision,
                           const TraceSource& trace) {
  const std::uint64_t suppressed = per_second.take_suppressed();
  const std::string shown = shown_key(key);
  std::vector<LogField> fields = named(rule, limit, shown);
  fields.emplace_back("reason", to_string(decision.reason));
  if (decision.retry_after) {
    fields.emplace_back("retry_after_ms", milliseconds_up(*decision.retry_after));
  }
  const auto given = trace ? trace() : std::nullopt;
  if (const auto ids = TraceParent::parse(given.value_or(""))) {
    fields.emplace_back("trace_id", ids->trace_id);
    fields.emplace_back("span_id", ids->span_id);
  }
  if (suppressed > 0) fields.emplace_back("suppressed", suppressed);
  log_.write_all(LogLevel::kInfo, message, fields);
}

void DenialLog::remember(std::string_view rule, std::string_view limit, std::string_view key,
                         const AttributeSource& request) {
  if (log_.options().keys != LogKeys::kPlain) return;
  const auto text = [&](std::string_view name) {
    return std::string(request.find(name).value_or("").substr(0, kLongestText));
  };
  RecentDenial one{std::string(rule), std::string(limit),        std::string(key),
                   text("ip"),        text("header.user-agent"), text("path")};
  const std::lock_guard lock(recent_mutex_);
  if (recent_.size() == kMostRecent) recent_.pop_front();
  recent_.push_back(std::move(one));
}

std::vector<RecentDenial> DenialLog::recent() const {
  const std::lock_guard lock(recent_mutex_);
  return {recent_.begin(), recent_.end()};
}

const Clock& coarse_clock() noexcept {
  static const CoarseClock clock;
  return clock;
}

}  // namespace sluice::server
