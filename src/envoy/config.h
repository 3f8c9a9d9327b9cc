#pragma once

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

#include "envoy/unit.h"
#include "sluice/expected.h"
#include "sluice/limit.h"
#include "sluice/rules.h"

namespace sluice::envoy {

// What answers for the store: as FailurePolicy, or an error of the call (UNAVAILABLE), so that
// Envoy's own `failure_mode_deny` decides.
enum class OnStoreError : std::uint8_t { kAllow, kDeny, kLocal, kError };

struct Member;

// A value of `metadata`.
struct Value {
  enum class Kind : std::uint8_t { kNull, kFlag, kNumber, kText, kList, kMap };

  Kind kind = Kind::kNull;
  bool flag = false;
  double number = 0;
  std::string text;
  std::vector<Value> items;     // of a list
  std::vector<Member> members;  // of a map, in the order of the file
};

struct Member {
  std::string name;
  Value value;
};

// `rate_limit` of a descriptor.
struct RateLimit {
  std::optional<Limit> limit;  // absent: `unlimited`
  Unit unit = Unit::kUnknown;  // kUnknown where `period` is that of no unit
  std::string name;            // empty: none
  std::vector<std::string> replaces;
  OnStoreError on_store_error = OnStoreError::kError;
};

struct Descriptor;

// Descriptors side by side, found as Envoy's service does: by key and value, else by the first
// wildcard in the order of the file, else by the key alone.
//
// Cost: two hash look-ups, and the wildcards of that key. Borrows the descriptors.
class Level {
 public:
  // False, and nothing is done, where there is one with the same key and value.
  bool add(const Descriptor& descriptor);
  // Null: none.
  const Descriptor* find(std::string_view key, std::string_view value) const;
  // The one with this key and value as they are written, or null.
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
  std::string value;  // empty: any
  std::optional<RateLimit> rate_limit;
  bool shadow_mode = false;
  bool quota_mode = false;
  bool detailed_metric = false;
  bool value_to_metric = false;
  bool share_threshold = false;
  Value metadata;  // a map, or nothing

  const Descriptor* parent = nullptr;
  std::vector<std::unique_ptr<Descriptor>> children;
  Level level;  // of the children
  // The number of a descriptor with a limit among those of all files.
  std::size_t number = 0;
  // How it is called in logs and metrics: "DOMAIN/KEY_VALUE.KEY", cut short, as a rule with one
  // limit. Two descriptors may have the same name.
  Rule rule;

  bool is_wildcard() const noexcept { return value.find('*') != value.npos; }
};

struct Domain {
  std::string name;
  std::string file;
  std::vector<std::unique_ptr<Descriptor>> descriptors;
  Level level;
};

// Envoy's configuration files, one domain each, checked and compiled (docs/envoy.md).
//
// Thread-safety: const, so any thread. Ownership: a cheap handle that shares what was read;
// pointers into it live as long as a copy does.
class Config {
 public:
  Config() : domains_(std::make_shared<const Domains>()) {}

  // Errors: all that is wrong with the files, each at its place. Never throws for bad input.
  static Expected<Config, std::vector<RuleError>> parse(std::span<const RuleText> files,
                                                        const RuleTerms& terms = {});

  // Null: no file has it.
  const Domain* find(std::string_view domain) const;
  std::span<const std::unique_ptr<Domain>> domains() const noexcept { return domains_->all; }
  // All descriptors with a limit, by their numbers.
  std::span<const Descriptor* const> limited() const noexcept { return domains_->limited; }

 private:
  friend class Loader;
  struct Domains {
    std::vector<std::unique_ptr<Domain>> all;
    std::unordered_map<std::string_view, const Domain*> by_name;
    std::vector<const Descriptor*> limited;
  };

  explicit Config(std::shared_ptr<const Domains> domains) : domains_(std::move(domains)) {}

  std::shared_ptr<const Domains> domains_;
};

// One key and value of a request's descriptor.
struct Entry {
  std::string_view key;
  std::string_view value;
};

// The descriptor of the file that the entries lead to, all of them, or null.
const Descriptor* match(const Domain& domain, std::span<const Entry> entries);

// Appends the key of the counter of entries that led to `matched` (docs/envoy.md, Counters).
void append_counter(std::string& out, const Domain& domain, std::span<const Entry> entries,
                    const Descriptor& matched);
// The same for a limit that the request brought along.
void append_counter(std::string& out, const Domain& domain, std::span<const Entry> entries,
                    Unit unit);

}  // namespace sluice::envoy
