#include "server/decide/traffic_recorder.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <new>
#include <span>

#include "insight/key_sketch.h"
#include "rules/rule_set.h"
#include "server/logging/log_line.h"

namespace sluice::server {
namespace {

constexpr auto kShownAlways = std::to_array<std::string_view>({"method", "path", "host"});
// More attributes of rules than this are not recorded, nor is a longer line.
constexpr std::size_t kMostNames = 1000;
constexpr std::size_t kLongestLine = std::size_t{64} << 10;

bool contains(std::span<const std::string> all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

void put_number(std::string& to, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  to.append(digits.data(), end.ptr);
}

std::string_view text_of(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kAllowed: return "allowed";
    case Outcome::kDenied: return "denied";
    case Outcome::kFailed: break;
  }
  return "failed";
}

}  // namespace

TrafficRecorder::TrafficRecorder(TrafficLog& log, const DenialLog& denials, bool hash_all,
                                 const Clock& clock)
    : options_(log.options()),
      lane_(log.make_lane()),
      denials_(denials),
      hash_all_(hash_all),
      clock_(clock) {}

void TrafficRecorder::record(const RuleSet& rules, std::uint64_t version,
                             const AttributeSource& attributes, const RequestCosts& costs,
                             Outcome outcome) noexcept try {
  if (!samples(attributes)) return;
  if (version != version_) use(rules, version);
  line_.clear();
  put_time();
  put_attributes(attributes);
  put_costs(costs);
  line_.append(",\"outcome\":\"").append(text_of(outcome)).append("\"}\n");
  if (line_.size() <= kLongestLine) return lane_.write(line_);
  lane_.drop();
  line_ = std::string();
} catch (const std::bad_alloc&) {
  lane_.drop();
}

// Whether the client is in the sample: the same clients on all servers and after a restart. A
// request without a client is sampled by itself.
bool TrafficRecorder::samples(const AttributeSource& attributes) {
  constexpr std::uint64_t kAll = 100;
  if (options_.share >= kAll) return true;
  const auto client = attributes.find(options_.sample_by).value_or("");
  const std::uint64_t hash = client.empty() ? XXH3_64bits(&random_, sizeof random_)
                                            : XXH3_64bits(client.data(), client.size());
  ++random_;
  return hash % kAll < options_.share;
}

void TrafficRecorder::use(const RuleSet& rules, std::uint64_t version) {
  names_.clear();
  const auto add = [this](std::string_view name) {
    const bool known = std::any_of(names_.begin(), names_.end(),
                                   [&](const Name& one) { return one.name == name; });
    if (known || names_.size() == kMostNames) return;
    const bool shown =
        std::find(kShownAlways.begin(), kShownAlways.end(), name) != kShownAlways.end();
    Name one{std::string(name), "\"", contains(options_.hash, name) || (hash_all_ && !shown)};
    append_json_text(one.json, name);
    one.json += "\":";
    names_.push_back(std::move(one));
  };
  for (const std::string_view name : kShownAlways) add(name);
  add("ip");
  for (const std::string& name : options_.attributes) add(name);
  for (const std::string& name : rules::Access::impl(rules).attributes.names()) add(name);
  version_ = version;
}

void TrafficRecorder::put_time() {
  constexpr std::size_t kDigits = 6;
  const Instant now = clock_.now();
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  if (second != second_) {
    second_text_.clear();
    append_seconds(second_text_, second);
    second_ = second;
  }
  line_.append("{\"time\":\"").append(second_text_).append(".000000Z\"");
  auto rest = (now - second).count();
  char* digit = line_.data() + line_.size() - 2;  // behind the last one
  for (std::size_t i = 0; i < kDigits; ++i, rest /= 10)
    *--digit = static_cast<char>('0' + rest % 10);
}

void TrafficRecorder::put_attributes(const AttributeSource& attributes) {
  line_ += ",\"attributes\":{";
  bool first = true;
  for (const Name& one : names_) {
    const auto value = attributes.find(one.name);
    if (!value) continue;
    if (!first) line_ += ',';
    first = false;
    line_.append(one.json) += '"';
    if (one.hashed && !value->empty()) {
      const auto hex = insight::KeyHash::digits(denials_.key_hash()(*value));
      line_.append(hex.data(), hex.size());
    } else {
      append_json_text(line_, *value);
    }
    line_ += '"';
  }
  line_ += '}';
}

void TrafficRecorder::put_costs(const RequestCosts& costs) {
  if (costs.units != 1) {
    line_ += ",\"cost\":";
    put_number(line_, costs.units);
  }
  if (costs.limits.empty()) return;
  std::string_view before = ",\"costs\":{\"";
  for (const LimitCost& cost : costs.limits) {
    line_ += before;
    append_json_text(line_, cost.limit);
    line_ += "\":";
    put_number(line_, cost.units);
    before = ",\"";
  }
  line_ += '}';
}

}  // namespace sluice::server
