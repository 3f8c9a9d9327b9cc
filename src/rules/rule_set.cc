#include "rules/rule_set.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <utility>

#include "rules/counter_key.h"
#include "rules/yaml_tree.h"

namespace sluice {
namespace rules {

bool Condition::matches(const std::optional<std::string_view>& value) const {
  if (!value) return false;
  for (const Pattern& pattern : any_of) {
    if (pattern.matches(*value)) return true;
  }
  for (const auto& list : texts) {
    if (list->contains(*value)) return true;
  }
  return has_networks && matches_network(*value);
}

bool Condition::matches_network(std::string_view value) const {
  const auto address = parse_address(value);
  if (!address) return false;
  if (own_networks.contains(*address)) return true;
  for (const auto& list : networks) {
    if (list->contains(*address)) return true;
  }
  return false;
}

namespace {

// Takes the work from the steps. Returns false if they do not suffice.
bool take(std::size_t& steps, std::size_t work) {
  const bool suffices = work <= steps;
  steps = suffices ? steps - work : 0;
  return suffices;
}

// Whether `wide` would match all requests of the rule `narrow` if this condition of `narrow` were
// negated.
bool covers(const RuleSet::Impl& set, std::size_t wide, std::size_t narrow, std::size_t& steps,
            const Condition* opposite = nullptr) {
  if (set.rules[wide].domain != set.rules[narrow].domain) return false;
  const CompiledRule& covered = set.compiled[narrow];
  const auto& names = set.attributes.names();
  // A request with a header, a query and the like has a path, and so has one without it.
  const auto has_path = [&] {
    return take(steps, covered.conditions.size()) &&
           std::ranges::any_of(covered.conditions, [&](const Condition& each) {
             return (!each.negated || &each == opposite) && is_of_client(names[each.attribute]);
           });
  };
  const auto implies = [&](const Condition& condition) {
    const bool of_path = names[condition.attribute] == "path";
    const bool is_every_path = of_path && !condition.negated && !condition.any_of.empty() &&
                               condition.any_of.front().covers_all(true);
    if (is_every_path && has_path()) return true;
    const auto is_narrower = [&](const Condition& narrow) {
      const bool negated = narrow.negated != (&narrow == opposite);
      if (narrow.attribute != condition.attribute || negated != condition.negated) return false;
      return condition.negated ? narrow.covers(condition, of_path, steps)
                               : condition.covers(narrow, of_path, steps);
    };
    return std::ranges::any_of(covered.conditions, is_narrower);
  };
  const auto& conditions = set.compiled[wide].conditions;
  return std::ranges::all_of(conditions, implies);
}

}  // namespace

bool Condition::covers(const Condition& other, bool of_path, std::size_t& steps) const {
  if (!take(steps, any_of.size() + other.own_networks.bytes() / sizeof(std::uint64_t)))
    return false;
  const auto matches_all = [&](const Pattern& pattern) { return pattern.covers_all(of_path); };
  if (std::ranges::any_of(any_of, matches_all)) return true;
  if (!other.texts.empty() || !other.networks.empty()) return false;
  const auto is_covered = [&](const Pattern& of_other) {
    return std::ranges::any_of(any_of, [&](const Pattern& pattern) {
      return take(steps, pattern.work_to_cover(of_other)) && pattern.covers(of_other);
    });
  };
  return own_networks.contains(other.own_networks) && std::ranges::all_of(other.any_of, is_covered);
}

const Condition* CompiledRule::mismatch(AttributeValues& values) const {
  for (const Condition& condition : conditions) {
    if (!condition.holds(values)) return &condition;
  }
  return nullptr;
}

const Rule* find_cover(const RuleSet::Impl& set, std::size_t rule, std::size_t& steps) {
  for (std::size_t i = 0; i < rule && take(steps, 1); ++i) {
    if (!lets_others_match(set.rules[i]) && covers(set, i, rule, steps)) return &set.rules[i];
  }
  return nullptr;
}

const Rule* find_trial(const RuleSet::Impl& set, std::size_t rule, std::size_t& steps) {
  if (set.rules[rule].mode == RuleMode::kShadow) return nullptr;
  for (std::size_t i = 0; i < rule && take(steps, 1); ++i) {
    const Rule& earlier = set.rules[i];
    const bool is_trial = earlier.mode == RuleMode::kShadow && !lets_others_match(earlier);
    if (is_trial && covers(set, rule, i, steps)) return &earlier;
  }
  return nullptr;
}

bool has_rest(const RuleSet::Impl& set, std::size_t rule, const Condition& condition,
              std::size_t& steps) {
  for (std::size_t i = 0; i < set.rules.size() && take(steps, 1); ++i) {
    if (i != rule && covers(set, i, rule, steps, &condition)) return true;
  }
  return false;
}

const Condition* find_contradiction(const RuleSet::Impl& set, std::size_t rule,
                                    std::size_t& steps) {
  const auto& conditions = set.compiled[rule].conditions;
  for (const Condition& excluded : conditions) {
    if (!excluded.negated) continue;
    const bool of_path = set.attributes.names()[excluded.attribute] == "path";
    for (const Condition& demanded : conditions) {
      const bool is_same = demanded.attribute == excluded.attribute && !demanded.negated;
      if (is_same && excluded.covers(demanded, of_path, steps)) return &excluded;
    }
  }
  return nullptr;
}

std::uint32_t limit_id_of(std::string_view name) noexcept {
  return static_cast<std::uint32_t>(std::hash<std::string_view>()(name)) | 1;
}

}  // namespace rules

using Result = Expected<RuleSet, std::vector<RuleError>>;

Result RuleSet::parse(std::string_view yaml, std::string_view file, const RuleTerms& terms) {
  const RuleText one{file, yaml};
  return parse(std::span(&one, 1), terms);
}

Result RuleSet::load(const std::string& path, const RuleTerms& terms) {
  return load(std::span(&path, 1), terms);
}

Result RuleSet::parse(std::span<const RuleText> files, const RuleTerms& terms) {
  auto impl = rules::load_rules(files, terms);
  if (!impl) return Unexpected{std::move(impl.error())};
  return RuleSet(std::move(impl.value()));
}

Result RuleSet::load(std::span<const std::string> paths, const RuleTerms& terms) {
  std::deque<std::string> bytes;
  std::vector<RuleText> files;
  std::vector<RuleError> errors;
  for (const std::string& path : paths) {
    if (auto read = rules::read_file(path)) {
      files.push_back({path, bytes.emplace_back(std::move(read.value()))});
    } else {
      errors.push_back(std::move(read.error().front()));
    }
  }
  RuleTerms with_lists = terms;
  with_lists.reads_lists = true;
  auto rules = parse(files, with_lists);
  if (errors.empty()) return rules;
  if (!rules) std::move(rules.error().begin(), rules.error().end(), std::back_inserter(errors));
  return Unexpected{std::move(errors)};
}

void RuleSet::Impl::index_names() {
  by_name.clear();
  for (std::size_t i = 0; i < rules.size(); ++i) by_name.emplace(rules[i].name, i);
}

const std::string& RuleSet::domain() const noexcept { return impl_->domain; }

std::span<const Rule> RuleSet::rules() const noexcept { return impl_->rules; }

std::span<const RuleError> RuleSet::warnings() const noexcept { return impl_->warnings; }

const Rule* RuleSet::find(std::string_view name) const noexcept {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? nullptr : &impl_->rules[found->second];
}

}  // namespace sluice
