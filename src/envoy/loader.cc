#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "core/limit.h"
#include "core/period.h"
#include "envoy/config.h"
#include "envoy/go_yaml.h"
#include "envoy/metadata.h"
#include "envoy/schema.h"
#include "limiter/without_scripts.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/rule_set.h"
#include "rules/yaml_tree.h"

namespace sluice::envoy {

using rules::describe;
using rules::Diagnostics;
using rules::Fields;
using rules::in_quotes;
using rules::Node;

namespace {

// A descriptor takes about 500 bytes, and aliases create many of them from few bytes.
constexpr std::size_t kMostDescriptors = 200000;
constexpr std::size_t kLongestName = 256;

// Each level of descriptors is a list and a map.
constexpr rules::YamlKind kYaml{.max_depth = 480, .begins_with = "domain: NAME"};

// A key without a value counts as absent.
Fields read_fields(const Node& node, const rules::schema::Map& map, Diagnostics& diagnostics) {
  const auto says_nothing = [&](const std::pair<const Node*, const Node*>& pair) {
    if (pair.second->kind != Node::Kind::kNull) return false;
    for (const rules::schema::Key& key : map.keys) {
      if (key.name == pair.first->text) return true;
    }
    return false;
  };
  Node shown = node;
  std::erase_if(shown.pairs, says_nothing);
  return Fields::read(shown, map, diagnostics);
}

// Returns the key of `rate_limit` that the error of a limit is about.
std::string_view field_of(LimitError error, const LimitSpec& spec) {
  if (const auto option = core::option_of(error, spec)) return core::info(*option).name;
  return error == LimitError::kPeriodOutOfRange ? "period" : "requests_per_unit";
}

std::string place_of(const Diagnostics& file, std::size_t at) {
  const rules::Place place = file.source().place(at);
  return "line " + std::to_string(place.line) + ", column " + std::to_string(place.column);
}

}  // namespace

class Loader {
 public:
  Loader(const RuleTerms& terms, bool merge_domains)
      : terms_(terms), merge_domains_(merge_domains) {}

  // Reads the next file.
  void read(const Node& root, Diagnostics& diagnostics);
  Config finish() { return Config(std::move(config_)); }

 private:
  using Descriptors = std::vector<std::unique_ptr<Descriptor>>;

  Domain& domain_of(const Fields& file);
  void read_descriptors(const Node* node, const Descriptor* parent, Descriptors& into,
                        Level& level);
  std::unique_ptr<Descriptor> read_descriptor(const Node& node, const Descriptor* parent);
  void check_sharing(const Fields& fields, const Descriptor& descriptor);
  std::optional<RateLimit> read_rate_limit(const Node& node);
  void check_unlimited(const Fields& fields);
  void read_replaces(const Fields& fields, RateLimit& limit);
  Duration read_period(const Fields& fields, Unit& unit);
  std::optional<Limit> read_numbers(const Fields& fields, Duration period);
  void check_terms(const Fields& fields, const Limit& limit);
  void name(Descriptor& descriptor);

  // Where a descriptor is.
  struct At {
    const Diagnostics* file;
    std::size_t at;
  };
  std::string describe_place(const At& place) const;

  const RuleTerms terms_;
  const bool merge_domains_;
  std::shared_ptr<Config::Domains> config_ = std::make_shared<Config::Domains>();
  struct Known {
    At first;
    Domain* domain;
  };
  std::map<std::string, Known> domains_;
  std::unordered_map<const Descriptor*, At> places_;
  // The state of the file that is being read.
  Diagnostics* diagnostics_ = nullptr;
  std::string domain_;
  std::size_t descriptors_ = 0;
};

void Loader::read(const Node& root, Diagnostics& diagnostics) {
  diagnostics_ = &diagnostics;
  if (!merge_domains_) places_.clear();
  descriptors_ = 0;
  const Fields file = read_fields(root, schema::file(), diagnostics);
  domain_ = file.text("domain");
  Domain& domain = domain_of(file);
  read_descriptors(file.node("descriptors"), nullptr, domain.descriptors, domain.level);
}

// Returns the domain of the file: a new one, or that of an earlier file if domains merge.
Domain& Loader::domain_of(const Fields& file) {
  const auto known = domains_.find(domain_);
  if (known != domains_.end() && merge_domains_) return *known->second.domain;
  const std::size_t at = file.at("domain");
  if (known != domains_.end()) {
    diagnostics_->add(at, "duplicate domain " + in_quotes(domain_),
                      "expected a name other than that of " + describe_place(known->second.first) +
                          ", or 'merge_domains: true' in 'envoy' of the configuration");
  }
  Domain& domain = *config_->all.emplace_back(std::make_unique<Domain>());
  domain.name = domain_;
  config_->by_name.emplace(domain.name, &domain);
  if (!domain_.empty()) domains_.try_emplace(domain_, Known{{diagnostics_, at}, &domain});
  return domain;
}

// Names the file too if it is another one than the file that is being read.
std::string Loader::describe_place(const At& place) const {
  const std::string text = place_of(*place.file, place.at);
  return place.file == diagnostics_ ? text : place.file->file() + " (" + text + ")";
}

void Loader::read_descriptors(const Node* node, const Descriptor* parent, Descriptors& into,
                              Level& level) {
  if (node == nullptr) return;
  into.reserve(node->items.size());
  for (const Node* item : node->items) {
    if (++descriptors_ > kMostDescriptors) break;
    const Descriptor& read = *into.emplace_back(read_descriptor(*item, parent));
    if (read.key.empty()) continue;
    places_.emplace(&read, At{diagnostics_, item->at});
    if (level.add(read)) continue;
    diagnostics_->add(
        item->at,
        "duplicate descriptor: key " + in_quotes(read.key) +
            (read.value.empty() ? " without a value" : " with the value " + in_quotes(read.value)),
        "expected a key or value other than that of " +
            describe_place(places_.at(level.twin_of(read))));
  }
  if (descriptors_ != kMostDescriptors + 1) return;
  diagnostics_->add(node->at, "too many descriptors (aliases count as their values)",
                    "expected at most " + std::to_string(kMostDescriptors) + " in a file");
}

std::unique_ptr<Descriptor> Loader::read_descriptor(const Node& node, const Descriptor* parent) {
  const Fields fields = read_fields(node, schema::descriptor(), *diagnostics_);
  auto descriptor = std::make_unique<Descriptor>();
  descriptor->parent = parent;
  descriptor->key = fields.text("key");
  descriptor->value = fields.text("value");
  descriptor->shadow_mode = fields.flag("shadow_mode").value_or(false);
  descriptor->quota_mode = fields.flag("quota_mode").value_or(false);
  descriptor->detailed_metric = fields.flag("detailed_metric").value_or(false);
  descriptor->value_to_metric = fields.flag("value_to_metric").value_or(false);
  descriptor->share_threshold = fields.flag("share_threshold").value_or(false);
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

void Loader::check_sharing(const Fields& fields, const Descriptor& descriptor) {
  if (!descriptor.share_threshold || descriptor.is_wildcard()) return;
  diagnostics_->add(fields.at("share_threshold"), "'share_threshold' without a wildcard",
                    "expected a 'value' with a '*', whose values share one counter");
}

std::optional<RateLimit> Loader::read_rate_limit(const Node& node) {
  const Fields fields = read_fields(node, schema::rate_limit(), *diagnostics_);
  RateLimit limit;
  limit.name = fields.text("name");
  limit.on_store_error =
      fields.choice<OnStoreError>("on_store_error").value_or(limit.on_store_error);
  read_replaces(fields, limit);
  if (fields.flag("unlimited").value_or(false)) {
    check_unlimited(fields);
    return limit;
  }
  const Duration period = read_period(fields, limit.unit);
  limit.limit = read_numbers(fields, period);
  return limit;
}

void Loader::check_unlimited(const Fields& fields) {
  for (const std::string_view key :
       {"unit", "algorithm", "burst", "period", "slices", "on_store_error"}) {
    if (fields.node(key) == nullptr) continue;
    diagnostics_->add(fields.at(key), "'unlimited' with a '" + std::string(key) + "'",
                      "expected only one of them: an unlimited descriptor counts nothing");
  }
}

void Loader::read_replaces(const Fields& fields, RateLimit& limit) {
  const Node* replaces = fields.node("replaces");
  if (replaces == nullptr) return;
  for (const Node* item : replaces->items) {
    const Fields one = read_fields(*item, schema::replacement(), *diagnostics_);
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
Duration Loader::read_period(const Fields& fields, Unit& unit) {
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

std::optional<Limit> Loader::read_numbers(const Fields& fields, Duration period) {
  const Algorithm algorithm =
      fields.choice<Algorithm>("algorithm").value_or(Algorithm::kFixedWindow);
  LimitSpec spec{.algorithm = algorithm,
                 .limit = fields.integer("requests_per_unit").value_or(0),
                 .per = period,
                 .burst = fields.integer("burst"),
                 .slices = fields.integer("slices")};
  if (applies(LimitOption::kAlign, algorithm)) spec.align = Align::kClock;
  for (LimitError error = find_error(spec); error != LimitError::kNone; error = find_error(spec)) {
    const std::string_view field = field_of(error, spec);
    diagnostics_->add_message(fields.at(field), explain(error, spec));
    core::drop_wrong_field(spec, error);
  }
  const auto limit = Limit::make(spec);
  if (!limit) return std::nullopt;
  check_terms(fields, *limit);
  return *limit;
}

void Loader::check_terms(const Fields& fields, const Limit& limit) {
  if (terms_.scripting || works_without_scripts(limit)) return;
  diagnostics_->add(fields.at("algorithm"),
                    in_quotes(to_string(limit.algorithm())) +
                        " cannot be stored without scripts (scripting: off)",
                    "expected " + algorithms_without_scripts(""));
}

// Sets the name, which includes the ancestors, and the index among descriptors with `rate_limit`.
void Loader::name(Descriptor& descriptor) {
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
  descriptor.number = config_->limited.size();
  config_->limited.push_back(&descriptor);
  descriptor.limit_id = rules::limit_id_of(rule.name);
  if (!descriptor.rate_limit->limit) return;
  rule.mode = descriptor.shadow_mode ? RuleMode::kShadow : RuleMode::kEnforce;
  const std::string& own = descriptor.rate_limit->name;
  rule.limits.push_back(
      {.name = own.empty() ? std::string(to_string(descriptor.rate_limit->unit)) : own,
       .key = {},
       .limit = *descriptor.rate_limit->limit});
}

Expected<Config, std::vector<RuleError>> Config::parse(std::span<const RuleText> files,
                                                       const RuleTerms& terms, bool merge_domains) {
  // Errors of one file refer to positions in another, so all texts live until the end.
  std::deque<rules::SourceText> sources;
  std::deque<Diagnostics> diagnostics;
  Loader loader(terms, merge_domains);
  for (const RuleText& file : files) {
    diagnostics.emplace_back(sources.emplace_back(file.yaml), file.file);
    rules::Document document;
    rules::read_yaml(diagnostics.back(), document, kYaml);
    if (document.root == nullptr) continue;
    read_as_yaml_1_1(document, diagnostics.back());
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
