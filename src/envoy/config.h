#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/limit.h"
#include "sluice/rule_set.h"

namespace sluice::envoy {

// The unit of time of a limit, with the numbers of RateLimitResponse.RateLimit.Unit.
enum class Unit : std::uint8_t {
  kUnknown,
  kSecond,
  kMinute,
  kHour,
  kDay,
  kMonth,  // 30 days
  kYear,   // 365 days
  kWeek,
};

// Parses "second" and so on, in any case.
std::optional<Unit> unit_from(std::string_view name) noexcept;
// Returns the name in lower case; "unknown" for kUnknown.
std::string_view to_string(Unit unit) noexcept;
// Returns zero for kUnknown.
Duration length_of(Unit unit) noexcept;
// Returns the unit of that length, or kUnknown.
Unit unit_of(Duration length) noexcept;
// Returns the unit of a limit: that of its calendar, or as above that of its period.
Unit unit_of(const Limit& limit) noexcept;

// Returns whether the text matches a pattern in which each `*` matches zero or more bytes.
//
// Cost: about linear in both lengths for every pattern; no allocation.
bool matches_wildcard(std::string_view pattern, std::string_view text) noexcept;

// The `rate_limit` of a descriptor.
struct RateLimit {
  std::optional<Limit> limit;  // absent for `unlimited`
  Unit unit = Unit::kUnknown;  // kUnknown if no unit has the length of `period`
  std::string name;            // may be empty
  std::vector<std::string> replaces;
  // The answer if the store cannot decide. Absent: an error of the call (UNAVAILABLE), so that
  // Envoy's own `failure_mode_deny` decides.
  std::optional<FailurePolicy> on_store_error = {};
};

struct Descriptor;

// The descriptors of one level. Look-ups follow Envoy's service: first by key and value, then by
// the first matching wildcard in file order, then by the key alone.
//
// Cost: two hash look-ups, and the wildcards of that key. Borrows the descriptors.
class Level {
 public:
  // Returns false and changes nothing if the level has a descriptor with the same key and value.
  bool add(const Descriptor& descriptor);
  // Returns null if no descriptor matches.
  const Descriptor* find(std::string_view key, std::string_view value) const;
  // Returns the descriptor whose key and value are written in the same way, or null.
  const Descriptor* twin_of(const Descriptor& descriptor) const;
  bool empty() const noexcept { return keys_.empty(); }

 private:
  struct OfKey {
    const Descriptor* bare = nullptr;
    std::vector<const Descriptor*> wildcards;
    std::unordered_map<std::string_view, const Descriptor*> exact;
  };

  std::unordered_map<std::string_view, OfKey> keys_;
};

// One descriptor of a file.
struct Descriptor {
  std::string key;
  std::string value;  // empty: any value
  std::optional<RateLimit> rate_limit;
  bool shadow_mode = false;
  bool quota_mode = false;
  bool detailed_metric = false;
  bool value_to_metric = false;
  bool share_threshold = false;
  boost::json::object metadata;  // in file order; its numbers are doubles

  const Descriptor* parent = nullptr;
  std::vector<std::unique_ptr<Descriptor>> children;
  Level level;  // the children
  // The index of this descriptor among all descriptors with `rate_limit`, over all files.
  std::size_t number = 0;
  std::uint32_t limit_id = 0;  // of the charges: a hash of the name below
  // Its name in logs and metrics, "DOMAIN/KEY_VALUE.KEY", shortened, as a rule with its limit. Two
  // descriptors may have the same name.
  Rule rule;

  bool is_wildcard() const noexcept { return value.find('*') != value.npos; }
};

struct Domain {
  std::string name;
  std::vector<std::unique_ptr<Descriptor>> descriptors;
  Level level;
};

// Envoy's configuration files, validated and compiled (docs/envoy.md). Each has one domain.
//
// Thread-safety: immutable; use it from any thread. Ownership: pointers into it stay valid if it is
// moved.
class Config {
 public:
  // With `merge_domains` a domain has the descriptors of all files that name it, in the order of
  // the files; else only one file may name it. Errors: everything that is wrong with the files,
  // with positions. Does not throw for bad input.
  static Expected<Config, std::vector<RuleError>> parse(std::span<const RuleText> files,
                                                        const RuleTerms& terms = {},
                                                        bool merge_domains = false);

  // Returns null if no file configures the domain.
  const Domain* find(std::string_view domain) const;
  std::span<const std::unique_ptr<Domain>> domains() const noexcept { return domains_; }
  // Returns all descriptors with `rate_limit`, by number: also unlimited ones.
  std::span<const Descriptor* const> limited() const noexcept { return limited_; }

 private:
  friend class Loader;

  std::vector<std::unique_ptr<Domain>> domains_;
  std::unordered_map<std::string_view, Domain*> by_name_;
  std::vector<const Descriptor*> limited_;
};

// One key and value of a descriptor in a request.
struct Entry {
  std::string_view key;
  std::string_view value;
};

// Returns the configured descriptor that matches all entries, or null.
const Descriptor* match(const Domain& domain, std::span<const Entry> entries);

// Appends the counter key of entries that matched `matched` (docs/envoy.md, Metrics and counters).
void append_counter(std::string& out, const Domain& domain, std::span<const Entry> entries,
                    const Descriptor& matched);
// The same for a limit that came with the request.
void append_counter(std::string& out, const Domain& domain, std::span<const Entry> entries,
                    Unit unit);

// Returns the native rules (docs/rules.md) that are closest to one of Envoy's files, and appends
// the differences to `remarks`: "DESCRIPTOR: WHAT".
std::string convert(const Domain& domain, std::vector<std::string>& remarks);

}  // namespace sluice::envoy
