// Reads the configuration files of Envoy's rate limit service. That service accepts forms
// of YAML 1.1 (merge keys, `yes`, `0x10`), which are rewritten before the files are read like
// rules.

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/limit.h"
#include "core/period.h"
#include "envoy/config.h"
#include "limiter/without_scripts.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/rule_set.h"
#include "rules/schema.h"
#include "rules/yaml_tree.h"

namespace sluice::envoy {
namespace {

using rules::describe;
using rules::Diagnostics;
using rules::Document;
using rules::Fields;
using rules::in_quotes;
using rules::Node;

constexpr std::array<std::string_view, 6> kFlags{"unlimited",       "shadow_mode",
                                                 "quota_mode",      "detailed_metric",
                                                 "value_to_metric", "share_threshold"};
constexpr std::array<std::string_view, 3> kNumbers{"requests_per_unit", "burst", "slices"};
constexpr std::array<std::string_view, 11> kTrue{"true", "True", "TRUE", "yes", "Yes", "YES",
                                                 "on",   "On",   "ON",   "y",   "Y"};
constexpr std::array<std::string_view, 11> kFalse{"false", "False", "FALSE", "no", "No", "NO",
                                                  "off",   "Off",   "OFF",   "n",  "N"};

template <std::size_t N>
bool is_one(const std::array<std::string_view, N>& of, std::string_view text) {
  return std::ranges::find(of, text) != of.end();
}

// Returns the number in plain digits, or nothing if it is not a number or already has that form.
std::optional<std::string> plain_number(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::string digits;
  std::remove_copy(text.begin(), text.end(), std::back_inserter(digits), '_');
  const bool hexadecimal =
      digits.size() > 2 && (digits.starts_with("0x") || digits.starts_with("0X"));
  if (!hexadecimal && digits.size() == text.size()) return std::nullopt;
  const char* const begin = digits.data() + (hexadecimal ? 2 : 0);
  const char* const end = digits.data() + digits.size();
  std::uint64_t value = 0;
  const auto [last, error] = std::from_chars(begin, end, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || last != end || (!hexadecimal && digits.front() == '0')) {
    return std::nullopt;
  }
  return std::to_string(value);
}

// Rewrites the YAML 1.1 forms that Envoy's service accepts and rules do not: merge keys (`<<`),
// flags such as `yes`, `On` and `True`, and numbers such as `1_000` and `0x10`.
//
// Errors, to the diagnostics: a merge key whose value is not made of maps. Cost: one pass over the
// nodes, each alias counted as its target.
class Rewriter {
 public:
  Rewriter(Document& document, rules::Diagnostics& diagnostics)
      : document_(document), diagnostics_(diagnostics) {}

  void run() {
    // Nodes that are created here need no rewriting.
    const std::size_t count = document_.nodes.size();
    for (std::size_t i = 0; i < count; ++i) {
      Node& node = document_.nodes[i];
      if (!node.is_map()) continue;
      by_address_.emplace(&node, &node);
      for (auto& [key, value] : node.pairs) value = rewritten(*key, *value);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (document_.nodes[i].is_map()) merge(document_.nodes[i]);
    }
  }

 private:
  // Returns the value, or an equivalent value in the form that rules accept.
  const Node* rewritten(const Node& key, const Node& value) {
    if (!value.is_scalar() || value.quoted) return &value;
    if (is_one(kFlags, key.text)) {
      if (is_one(kTrue, value.text)) return with_text(value, "true");
      if (is_one(kFalse, value.text)) return with_text(value, "false");
    } else if (is_one(kNumbers, key.text)) {
      if (auto number = plain_number(value.text)) return with_text(value, std::move(*number));
    }
    return &value;
  }
  const Node* with_text(const Node& value, std::string text) {
    if (value.text == text) return &value;
    Node& copy = document_.nodes.emplace_back(value);
    copy.text = std::move(text);
    return &copy;
  }

  // This terminates because an alias refers to a node that ended before it. With each alias counted
  // as its target, the file has at most kMaxNodes members, so that is also the most to merge.
  void merge(Node& map) {
    if (!merged_.insert(&map).second) return;
    const auto found = std::ranges::find_if(
        map.pairs, [](const auto& pair) { return pair.first->is_plain("<<"); });
    if (found == map.pairs.end()) return;
    const Node& from = *found->second;
    map.pairs.erase(found);
    if (from.is_map()) {
      take(map, from);
    } else if (from.is_sequence()) {
      for (const Node* one : from.items) take(map, *one);
    } else {
      refuse(from);
    }
  }
  void take(Node& into, const Node& from) {
    const auto known = by_address_.find(&from);
    if (known == by_address_.end()) return refuse(from);
    merge(*known->second);
    std::unordered_set<std::string_view> there;
    for (const auto& [key, value] : into.pairs) there.insert(key->text);
    for (const auto& pair : from.pairs) {
      if (there.insert(pair.first->text).second) into.pairs.push_back(pair);
    }
  }
  void refuse(const Node& node) {
    diagnostics_.add(node.at, "'<<' merges a value that is not a map",
                     "expected a map, or a list of maps");
  }

  Document& document_;
  rules::Diagnostics& diagnostics_;
  std::unordered_map<const Node*, Node*> by_address_;
  std::unordered_set<const Node*> merged_;
};

std::optional<bool> flag_of(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

// Parses a finite decimal number. It must begin with a digit, which excludes "inf" and "nan".
std::optional<double> number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return std::nullopt;
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

boost::json::value scalar(const Node& node) {
  if (!node.quoted) {
    if (node.text.empty() || node.text == "null") return nullptr;
    if (const auto flag = flag_of(node.text)) return *flag;
    if (const auto number = number_of(node.text)) return *number;
  }
  return boost::json::value(node.text);
}

// The deepest nesting of lists and maps; readers of messages also have a bound.
constexpr std::size_t kMaxMetadataDepth = 16;

// Returns whether YAML reads the unquoted scalar as a number, a flag or null instead of text.
bool is_plain_text(const Node& node) { return scalar(node).is_string(); }

boost::json::value read(const Node& node, Diagnostics& diagnostics, std::size_t depth) {
  if (node.kind == Node::Kind::kNull) return nullptr;
  if (node.is_scalar()) return scalar(node);
  if (depth == 0) {
    diagnostics.add(node.at, "'metadata' is nested too deeply",
                    "expected at most " + std::to_string(kMaxMetadataDepth) + " levels");
    return nullptr;
  }
  if (!node.is_map()) {
    boost::json::array items;
    for (const Node* item : node.items) items.push_back(read(*item, diagnostics, depth - 1));
    return items;
  }
  boost::json::object members;
  for (const auto& [key, member] : node.pairs) {
    if (!is_plain_text(*key)) {
      diagnostics.add(key->at, "the key " + rules::in_quotes(key->text) + " is not text",
                      "expected it in quotes");
    }
    members.emplace(key->text, read(*member, diagnostics, depth - 1));
  }
  return members;
}

// Reads `metadata`: a map of any maps, lists and scalars. The unquoted scalars `true`, `12` and `~`
// become a flag, a number and null, as in YAML; quoted scalars are text.
boost::json::object read_metadata(const Node& node, Diagnostics& diagnostics) {
  if (!node.is_map()) return {};  // already an error, or null
  return std::move(read(node, diagnostics, kMaxMetadataDepth).as_object());
}

// The schema of an Envoy configuration file; a descriptor contains a list of itself.
namespace schema {

using rules::schema::Key;
using rules::schema::kSet;
using rules::schema::Map;
using rules::schema::Set;
using rules::schema::Type;

// In the order of FailurePolicy, on which the loader relies, and the error of the call.
constexpr std::array<std::string_view, 4> kOnStoreError{"allow", "deny", "local", "error"};

constexpr std::uint64_t kLongestText = 65536;
constexpr std::uint64_t kMostItems = 1000000;

constexpr Key text(std::string_view name, bool required, std::uint64_t least, Set set = nullptr) {
  return {.name = name,
          .type = Type::kText,
          .required = required,
          .least = least,
          .most = kLongestText,
          .set = set};
}
constexpr Key flag(std::string_view name, Set set = nullptr) {
  return {.name = name, .type = Type::kFlag, .set = set};
}
constexpr Key integer(std::string_view name, std::uint64_t least, std::uint64_t most) {
  return {.name = name, .type = Type::kInteger, .least = least, .most = most};
}

constexpr std::array<Key, 1> kReplacementKeys{text("name", true, 1)};
constexpr Map kReplacement{"replaces", "each of `replaces`", kReplacementKeys};

constexpr std::array<Key, 10> kRateLimitKeys{
    text("unit", false, 1),
    integer("requests_per_unit", 0, kMaxUnits),
    flag("unlimited"),
    text("name", false, 0, kSet<&RateLimit::name>),
    Key{.name = "replaces", .type = Type::kList, .most = kMostItems, .map = &kReplacement},
    Key{.name = "algorithm", .type = Type::kChoice, .values = core::kAlgorithmNames},
    integer("burst", 0, kMaxUnits),
    Key{.name = "period", .type = Type::kPeriod},
    integer("slices", 1, kMaxSlices),
    Key{.name = "on_store_error", .type = Type::kChoice, .values = kOnStoreError},
};
constexpr Map kRateLimit{"rate_limit", "`rate_limit`", kRateLimitKeys};

// Its keys are any: see read_metadata().
constexpr Map kMetadata{"metadata", "`metadata`", {}};

// The items of this list contain descriptors again; readers handle the recursion.
constexpr Key kDescriptors{.name = "descriptors", .type = Type::kList, .most = kMostItems};

constexpr std::array<Key, 10> kDescriptorKeys{
    text("key", true, 1, kSet<&Descriptor::key>),
    text("value", false, 0, kSet<&Descriptor::value>),
    Key{.name = "rate_limit", .type = Type::kMap, .map = &kRateLimit},
    kDescriptors,
    flag("shadow_mode", kSet<&Descriptor::shadow_mode>),
    flag("quota_mode", kSet<&Descriptor::quota_mode>),
    flag("detailed_metric", kSet<&Descriptor::detailed_metric>),
    flag("value_to_metric", kSet<&Descriptor::value_to_metric>),
    flag("share_threshold", kSet<&Descriptor::share_threshold>),
    Key{.name = "metadata", .type = Type::kMap, .map = &kMetadata},
};
constexpr Map kDescriptor{"descriptor", "each of `descriptors`", kDescriptorKeys};

constexpr std::array<Key, 2> kFileKeys{text("domain", true, 1), kDescriptors};
constexpr Map kFile{"file", "the top of the file", kFileKeys};

}  // namespace schema

// A descriptor takes about 500 bytes, and aliases create many of them from few bytes.
constexpr std::size_t kMostDescriptors = 200000;
constexpr std::size_t kLongestName = 256;

// Each level of descriptors is a list and a map.
constexpr std::size_t kMaxDepth = 480;

// A key without a value counts as absent.
Fields read_fields(const Node& node, const rules::schema::Map& map, Diagnostics& diagnostics,
                   void* object = nullptr) {
  const auto says_nothing = [&](const std::pair<const Node*, const Node*>& pair) {
    if (pair.second->kind != Node::Kind::kNull) return false;
    for (const rules::schema::Key& key : map.keys) {
      if (key.name == pair.first->text) return true;
    }
    return false;
  };
  Node shown = node;
  std::erase_if(shown.pairs, says_nothing);
  return Fields::read(shown, map, diagnostics, object);
}

// Returns the key of `rate_limit` that the error of a limit is about.
std::string_view field_of(LimitError error, const LimitSpec& spec) {
  if (const auto option = core::option_of(error, spec)) return core::info(*option).name;
  return error == LimitError::kPeriodOutOfRange ? "period" : "requests_per_unit";
}

}  // namespace

class Loader {
 public:
  Loader(const RuleTerms& terms, bool merge_domains)
      : terms_(terms), merge_domains_(merge_domains) {}

  // Reads the next file.
  void read(const Node& root, Diagnostics& diagnostics) {
    diagnostics_ = &diagnostics;
    if (!merge_domains_) places_.clear();
    descriptors_ = 0;
    const Fields file = read_fields(root, schema::kFile, diagnostics);
    domain_ = file.text("domain");
    Domain& domain = domain_of(file);
    read_descriptors(file.node("descriptors"), nullptr, domain.descriptors, domain.level);
  }

  Config finish() { return std::move(config_); }

 private:
  using Descriptors = std::vector<std::unique_ptr<Descriptor>>;

  // Returns the domain of the file: a new one, or that of an earlier file if domains merge.
  Domain& domain_of(const Fields& file) {
    const auto known = domains_.find(domain_);
    if (known != domains_.end() && merge_domains_) return *config_.by_name_.at(domain_);
    const std::size_t at = file.at("domain");
    if (known != domains_.end()) {
      diagnostics_->add(at, "duplicate domain " + in_quotes(domain_),
                        "expected a name other than that of " + describe_place(known->second) +
                            ", or 'merge_domains: true' in 'envoy' of the configuration");
    }
    Domain& domain = *config_.domains_.emplace_back(std::make_unique<Domain>());
    domain.name = domain_;
    config_.by_name_.emplace(domain.name, &domain);
    if (!domain_.empty()) domains_.try_emplace(domain_, rules::Place{diagnostics_, at});
    return domain;
  }

  void read_descriptors(const Node* node, const Descriptor* parent, Descriptors& into,
                        Level& level) {
    if (node == nullptr) return;
    into.reserve(node->items.size());
    for (const Node* item : node->items) {
      if (++descriptors_ > kMostDescriptors) break;
      const Descriptor& read = *into.emplace_back(read_descriptor(*item, parent));
      if (read.key.empty()) continue;
      places_.emplace(&read, rules::Place{diagnostics_, item->at});
      if (level.add(read)) continue;
      diagnostics_->add(item->at,
                        "duplicate descriptor: key " + in_quotes(read.key) +
                            (read.value.empty() ? " without a value"
                                                : " with the value " + in_quotes(read.value)),
                        "expected a key or value other than that of " +
                            describe_place(places_.at(level.twin_of(read))));
    }
    if (descriptors_ != kMostDescriptors + 1) return;
    diagnostics_->add(node->at, "too many descriptors (aliases count as their values)",
                      "expected at most " + std::to_string(kMostDescriptors) + " in a file");
  }

  std::unique_ptr<Descriptor> read_descriptor(const Node& node, const Descriptor* parent) {
    auto descriptor = std::make_unique<Descriptor>();
    const Fields fields = read_fields(node, schema::kDescriptor, *diagnostics_, descriptor.get());
    descriptor->parent = parent;
    check_sharing(fields, *descriptor);
    if (const Node* metadata = fields.node("metadata")) {
      descriptor->metadata = read_metadata(*metadata, *diagnostics_);
    }
    if (const Node* limit = fields.node("rate_limit")) {
      descriptor->rate_limit = read_rate_limit(*limit);
    }
    name(*descriptor);
    read_descriptors(fields.node("descriptors"), descriptor.get(), descriptor->children,
                     descriptor->level);
    return descriptor;
  }

  void check_sharing(const Fields& fields, const Descriptor& descriptor) {
    if (!descriptor.share_threshold || descriptor.is_wildcard()) return;
    diagnostics_->add(fields.at("share_threshold"), "'share_threshold' without a wildcard",
                      "expected a 'value' with a '*', whose values share one counter");
  }

  std::optional<RateLimit> read_rate_limit(const Node& node) {
    RateLimit limit;
    const Fields fields = read_fields(node, schema::kRateLimit, *diagnostics_, &limit);
    if (fields.text("on_store_error") != "error") {
      limit.on_store_error = fields.choice<FailurePolicy>("on_store_error");
    }
    read_replaces(fields, limit);
    if (fields.flag("unlimited").value_or(false)) {
      check_unlimited(fields);
      return limit;
    }
    const Duration period = read_period(fields, limit.unit);
    limit.limit = read_numbers(fields, period);
    return limit;
  }

  void check_unlimited(const Fields& fields) {
    for (const std::string_view key :
         {"unit", "algorithm", "burst", "period", "slices", "on_store_error"}) {
      if (fields.node(key) == nullptr) continue;
      diagnostics_->add(fields.at(key), "'unlimited' with a '" + std::string(key) + "'",
                        "expected only one of them: an unlimited descriptor counts nothing");
    }
  }

  void read_replaces(const Fields& fields, RateLimit& limit) {
    const Node* replaces = fields.node("replaces");
    if (replaces == nullptr) return;
    for (const Node* item : replaces->items) {
      const Fields one = read_fields(*item, schema::kReplacement, *diagnostics_);
      const std::string_view replaced = one.text("name");
      if (replaced.empty()) continue;
      if (replaced == limit.name) {
        diagnostics_->add(one.at("name"), in_quotes(replaced) + " replaces itself",
                          "expected the name of another limit");
      }
      limit.replaces.emplace_back(replaced);
    }
  }

  // Returns the period of a limit: one of Envoy's units, or `period`.
  Duration read_period(const Fields& fields, Unit& unit) {
    constexpr std::string_view kUnits = "second, minute, hour, day, week, month or year";
    const Node* given = fields.node("unit");
    if (const Node* period = fields.node("period")) {
      const Duration length = fields.period("period").value_or(std::chrono::seconds{1});
      if (given != nullptr) {
        diagnostics_->add(period->at, "both 'unit' and 'period'", "expected one of them");
      }
      unit = unit_of(length);
      return length;
    }
    if (given == nullptr) {
      diagnostics_->add(fields.at("unit"), "rate_limit lacks 'unit'",
                        "expected 'unit:' with " + std::string(kUnits));
      return std::chrono::seconds{1};
    }
    const auto found = unit_from(given->text);
    if (!found) {
      diagnostics_->add(given->at, "'unit' is " + describe(*given),
                        "expected " + std::string(kUnits) +
                            rules::did_you_mean(given->text, {"second", "minute", "hour", "day",
                                                              "week", "month", "year"}));
    }
    unit = found.value_or(Unit::kSecond);
    return length_of(unit);
  }

  std::optional<Limit> read_numbers(const Fields& fields, Duration period) {
    const Algorithm algorithm =
        fields.choice<Algorithm>("algorithm").value_or(Algorithm::kFixedWindow);
    LimitSpec spec{.algorithm = algorithm,
                   .limit = fields.integer("requests_per_unit").value_or(0),
                   .per = period,
                   .burst = fields.integer("burst"),
                   .slices = fields.integer("slices")};
    if (applies(LimitOption::kAlign, algorithm)) spec.align = Align::kClock;
    for (LimitError error = find_error(spec); error != LimitError::kNone;
         error = find_error(spec)) {
      const std::string_view field = field_of(error, spec);
      diagnostics_->add_message(fields.at(field), explain(error, spec));
      core::drop_wrong_field(spec, error);
    }
    const auto limit = Limit::make(spec);
    if (!limit) return std::nullopt;
    check_terms(fields, *limit);
    return *limit;
  }

  void check_terms(const Fields& fields, const Limit& limit) {
    if (terms_.scripting || works_without_scripts(limit)) return;
    diagnostics_->add(fields.at("algorithm"),
                      in_quotes(to_string(limit.algorithm())) +
                          " cannot be stored without scripts (scripting: off)",
                      "expected " + algorithms_without_scripts(""));
  }

  // Sets the name, which includes the ancestors, and the index among descriptors with `rate_limit`.
  void name(Descriptor& descriptor) {
    Rule& rule = descriptor.rule;
    rule.name = descriptor.parent != nullptr ? descriptor.parent->rule.name + "." : domain_ + "/";
    rule.name += descriptor.key;
    if (!descriptor.value.empty()) rule.name += "_" + descriptor.value;
    if (rule.name.size() > kLongestName) {
      rule.name.resize(kLongestName);
      rule.name.resize(std::min(rule.name.size(), rules::find_invalid_utf8(rule.name)));
    }
    if (!descriptor.rate_limit) return;
    rule.domain = domain_;
    descriptor.number = config_.limited_.size();
    config_.limited_.push_back(&descriptor);
    descriptor.limit_id = rules::limit_id_of(rule.name);
    if (!descriptor.rate_limit->limit) return;
    rule.mode = descriptor.shadow_mode ? RuleMode::kShadow : RuleMode::kEnforce;
    const std::string& own = descriptor.rate_limit->name;
    rule.limits.push_back(
        {.name = own.empty() ? std::string(to_string(descriptor.rate_limit->unit)) : own,
         .key = {},
         .limit = *descriptor.rate_limit->limit});
  }

  // Names the file too if it is another one than the file that is being read.
  std::string describe_place(const rules::Place& place) const {
    const std::string text = place.file->place(place.at);
    return place.file == diagnostics_ ? text : place.file->file() + " (" + text + ")";
  }

  const RuleTerms terms_;
  const bool merge_domains_;
  Config config_;
  std::unordered_map<std::string, rules::Place> domains_;  // where each was named first
  std::unordered_map<const Descriptor*, rules::Place> places_;
  // The state of the file that is being read.
  Diagnostics* diagnostics_ = nullptr;
  std::string domain_;
  std::size_t descriptors_ = 0;
};

Expected<Config, std::vector<RuleError>> Config::parse(std::span<const RuleText> files,
                                                       const RuleTerms& terms, bool merge_domains) {
  // Errors of one file refer to positions in another, so all live until the end.
  std::deque<Diagnostics> diagnostics;
  Loader loader(terms, merge_domains);
  for (const RuleText& file : files) {
    diagnostics.emplace_back(file.yaml, file.file);
    rules::Document document = rules::read_yaml(diagnostics.back(), kMaxDepth, "domain: NAME");
    if (document.root == nullptr) continue;
    Rewriter(document, diagnostics.back()).run();
    loader.read(*document.root, diagnostics.back());
  }
  std::vector<RuleError> errors;
  for (Diagnostics& of_file : diagnostics) {
    if (of_file.empty()) continue;
    for (RuleError& error : of_file.take()) errors.push_back(std::move(error));
  }
  if (!errors.empty()) return Unexpected{std::move(errors)};
  return loader.finish();
}

}  // namespace sluice::envoy
