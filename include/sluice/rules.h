#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/decision.h"
#include "sluice/expected.h"
#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "sluice/store.h"

namespace sluice {

// What a request is to the rules: named values ("method", "path", "header.x-user-id", ...).
// Names of headers are asked for in lower case. In a key an empty value counts as absent.
//
// Thread-safety: find() may be called from several threads at once. Ownership: what find() returns
// stays valid until the source changes or ends. Cost: one virtual call for a name.
class AttributeSource {
 public:
  virtual ~AttributeSource() = default;
  virtual std::optional<std::string_view> find(std::string_view name) const = 0;
};

// A short list of attributes. Owns names and values; finds in linear time.
class Attributes final : public AttributeSource {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string_view, std::string_view>> values);
  // Replaces an earlier value of that name.
  void set(std::string_view name, std::string_view value);
  std::optional<std::string_view> find(std::string_view name) const override;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

// One thing wrong with a rules file, at its place (line and column from 1).
struct RuleError {
  std::string file;
  int line = 1;
  int column = 1;
  std::string what;      // "unknown key 'limt'"
  std::string expected;  // "expected one of: name, key, algorithm, ..."

  // "FILE:LINE:COLUMN: error: WHAT; EXPECTED"
  std::string to_string() const;
};

enum class OnMissing : std::uint8_t { kSkip, kDeny };  // when a key's attribute is absent
enum class RuleMode : std::uint8_t { kEnforce, kShadow };
// Which header fields tell a client its limits: RateLimit and RateLimit-Policy, X-RateLimit-*, ...
enum class HeaderFields : std::uint8_t { kDraft, kLegacy, kBoth, kNone };

// What a rule answers in the place of the default when it denies.
struct Reject {
  int status = 429;
  std::string body;               // empty: the door's own
  std::string content_type = {};  // of `body`; printable ASCII; empty where there is no body
};

// One limit of a rule. `name` is the file's, or "RULE/INDEX" where it gives none.
struct RuleLimit {
  std::string name;
  std::string key;  // the template as written; empty: one counter for all
  Limit limit;
  OnMissing on_missing = OnMissing::kSkip;
};

// One rule of a file, in file order.
struct Rule {
  std::string name;
  std::vector<RuleLimit> limits;
  RuleMode mode = RuleMode::kEnforce;
  FailurePolicy on_store_error = FailurePolicy::kAllow;
  bool continues = false;  // `continue: true`: the rules after it are tried too
  Reject reject;
  HeaderFields headers = HeaderFields::kBoth;
  std::string domain = {};  // that of its file
  std::string tag = {};     // the template as written; empty: none (Charge::tag)
};

// A file of rules that has been read.
struct RuleText {
  std::string_view file;  // its name, for errors
  std::string_view yaml;
};

// What rules have to keep to beside their format, as the store that they are for asks it of them.
struct RuleTerms {
  // False: limits that a Redis store without scripts cannot keep are errors (RedisOptions): all
  // but fixed windows that are aligned to the clock, and sliding window counters.
  bool scripting = true;
};

// A checked, immutable set of rules.
//
// Thread-safety: const, so any thread. Ownership: a cheap handle that shares the rules; pointers
// into them live as long as a copy does. Cost: matching is linear in the rules tried.
class RuleSet {
 public:
  // Reads YAML (docs/rules.md). `file` names it in errors. Errors: all that is wrong with it.
  static Expected<RuleSet, std::vector<RuleError>> parse(std::string_view yaml,
                                                         std::string_view file,
                                                         const RuleTerms& terms = {});
  // Reads a file, at most 4 MiB of it. Errors: also that it cannot be read.
  static Expected<RuleSet, std::vector<RuleError>> load(const std::string& path,
                                                        const RuleTerms& terms = {});
  // Several files as one set: their rules in the order of the files, each with the domain and the
  // defaults of its own file; the names of rules differ over all. Errors: those of every file.
  static Expected<RuleSet, std::vector<RuleError>> parse(std::span<const RuleText> files,
                                                         const RuleTerms& terms = {});
  static Expected<RuleSet, std::vector<RuleError>> load(std::span<const std::string> paths,
                                                        const RuleTerms& terms = {});

  // Of the first file.
  const std::string& domain() const noexcept;
  std::span<const Rule> rules() const noexcept;
  // The rule of that name, or null.
  const Rule* find(std::string_view name) const noexcept;

  class Impl;  // src/rules only
  const Impl& impl() const noexcept { return *impl_; }

 private:
  explicit RuleSet(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// The answer of one limit of one matched rule.
struct LimitAnswer {
  const Rule* rule = nullptr;
  const RuleLimit* limit = nullptr;
  std::string_view counter;   // the counter's key in the store (unambiguous, docs/rules.md)
  std::string_view label;     // the key as a person reads it: the template filled in
  Decision decision;          // the limit's own answer, also under a shadow rule
  std::string_view tag = {};  // of the counter, where the rule has one (docs/rules.md)
  std::size_t part = 0;       // of a request of several parts: the one that it was asked for
};

// The answer of a set of rules to one request.
struct RuleAnswer {
  // What to do. Allowed with `kOk` and no rule when none matched; `kShadow` when only rules on
  // trial would have denied.
  Decision decision;
  const Rule* rule = nullptr;  // the rule that decided: the first that denied, else that matched
  // Of every limit that applied, in the order of the rules. The views live until the next request.
  std::vector<LimitAnswer> limits;
  // Of every rule that matched: whether it denied (for a rule on trial: would have).
  struct Matched {
    const Rule* rule = nullptr;
    bool denied = false;
  };
  std::vector<Matched> matched;
};

// Stores beside that of the limiter. Both are borrowed.
struct RuleStores {
  // For rules on trial, such as the one below a deny cache; null: the limiter's.
  Store* trial = nullptr;
  // For `on_store_error: local`, such as a LocalShareStore; null: such rules deny.
  Store* local = nullptr;
};

// One of several sets of attributes that are one request together. Borrows them.
struct RequestPart {
  const AttributeSource* attributes = nullptr;
  std::uint64_t cost = 1;  // 0 looks only
};

// Decides requests by rules: matches them, fills in the keys, asks the limiter.
//
// All enforced rules that match are one all-or-nothing request; each rule on trial (shadow) is
// decided by itself, whatever the others say, and never denies or delays. Limits whose attributes
// are missing are skipped, or deny the request with `kMissing` before any store is asked
// (`on_missing`; then only they are in `limits`). More limits than kMaxCharges are `kInvalid`.
//
// A store that cannot decide is answered for by `on_store_error` with `kFallback`, of several rules
// by the strictest. All that say `local` are asked of the local store as one all-or-nothing
// request, and tell its numbers, unless another rule denies; without a local store they deny, with
// the store's reason. A refund or a reset that the store did not carry out is denied with the
// store's reason, whatever the policy, after the local store has carried it out for `local`.
//
// Thread-safety: one RuleRequest for a thread. Ownership: borrows the limiter and the stores; keeps
// its buffers, so that a request allocates nothing once they have grown.
class RuleRequest {
 public:
  explicit RuleRequest(Limiter& limiter, const RuleStores& stores = {});
  ~RuleRequest();
  RuleRequest(RuleRequest&&) noexcept;
  RuleRequest& operator=(RuleRequest&&) noexcept;

  // By the rules that match. Valid until the next call, and while `rules` lives.
  const RuleAnswer& decide(const RuleSet& rules, const AttributeSource& attributes,
                           std::uint64_t cost = 1, std::optional<Instant> now = {},
                           Verb verb = Verb::kTake);
  // By the rules of one domain that match, of several parts: each is matched by itself, what all
  // want is one all-or-nothing request. The answer has the limits of one part after the other.
  const RuleAnswer& decide_parts(const RuleSet& rules, std::string_view domain,
                                 std::span<const RequestPart> parts,
                                 std::optional<Instant> now = {}, Verb verb = Verb::kTake);
  // By one rule of the set, matching or not: what guards use.
  const RuleAnswer& decide_by(const RuleSet& rules, const Rule& rule,
                              const AttributeSource& attributes, std::uint64_t cost = 1,
                              std::optional<Instant> now = {}, Verb verb = Verb::kTake);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
