#define XXH_INLINE_ALL
#include "rules/request_names.h"

#include <xxhash.h>

#include <algorithm>

#include "rules/rule_decider.h"

namespace sluice::rules {

RememberedRequests::RememberedRequests(Limiter& limiter, const RuleSet& rules,
                                       const RuleStores& stores)
    : limiter_(limiter),
      rules_(rules),
      stores_(stores),
      decider_(limiter, stores),
      remembered_(kRemembered) {
  decider_.impl_->leave_permits();
}

const RuleAnswer& RememberedRequests::decide(std::string_view name,
                                             const AttributeSource& attributes, Instant now) {
  if (name.empty()) return decider_.decide(rules_, attributes, 1, now);
  if (last_ == nullptr || last_->name != name) last_ = &place_of(name);
  if (last_->name == name) return last_->decider.impl_->repeat(now);
  last_->name.clear();
  const RuleAnswer& answer = last_->decider.decide(rules_, attributes, 1, now);
  if (last_->decider.impl_->can_repeat()) last_->name = name;
  return answer;
}

RememberedRequests::Remembered& RememberedRequests::place_of(std::string_view name) {
  std::optional<Remembered>& place =
      remembered_[XXH3_64bits(name.data(), name.size()) % kRemembered];
  if (!place) {
    place.emplace(Remembered{{}, RuleDecider(limiter_, stores_)});
    place->decider.impl_->leave_permits();
  }
  return *place;
}

namespace {

// Returns the attributes that the charges of the rule depend on, or nothing if they depend on more
// than the keys.
std::optional<std::vector<std::uint32_t>> key_attributes(const Rule& rule,
                                                         const CompiledRule& compiled,
                                                         std::size_t attributes) {
  const auto depends_on_more = [](const CompiledLimit& limit) {
    return limit.cost.kind() == CostTemplate::Kind::kComputed || limit.count.has_value();
  };
  const std::vector<CompiledLimit>& limits = compiled.limits;
  if (!rule.plans.empty() || std::ranges::any_of(limits, depends_on_more)) return {};
  std::vector<std::uint32_t> out;
  for (std::uint32_t attribute = 0; attribute < attributes; ++attribute) {
    const auto reads = [&](const CompiledLimit& limit) { return limit.key.reads(attribute); };
    if (compiled.tag.reads(attribute) || std::ranges::any_of(limits, reads)) {
      out.push_back(attribute);
    }
  }
  return out;
}

}  // namespace

RequestNames::RequestNames(const RuleSet& rules, const Overrides* overrides)
    : rules_(rules), attributes_(rules.rules().size()) {
  if (overrides != nullptr && overrides->size() > 0) return;
  const RuleSet::Impl& set = rules_.impl();
  for (std::size_t i = 0; i < attributes_.size(); ++i) {
    attributes_[i] = key_attributes(set.rules[i], set.compiled[i], set.attributes.names().size());
  }
}

std::string_view RequestNames::name(const AttributeSource& request) {
  const RuleSet::Impl& set = rules_.impl();
  values_.begin(set.attributes, request);
  name_.clear();
  for (std::size_t i = 0; i < set.rules.size(); ++i) {
    const bool matches = set.compiled[i].matches(values_);
    if (values_.take_too_much()) return {};
    if (!matches) continue;
    if (!attributes_[i]) return {};
    append(i, std::nullopt);
    for (const std::uint32_t attribute : *attributes_[i]) append(i, values_.get(attribute));
    if (!lets_others_match(set.rules[i])) break;
  }
  return name_.size() <= kLongest ? std::string_view(name_) : std::string_view();
}

// Each value follows its size plus one, which is 0 without a value, so that names are unambiguous.
void RequestNames::append(std::size_t rule, const std::optional<std::string_view>& value) {
  const std::string_view text = value.value_or(std::string_view());
  const std::uint64_t head[] = {rule, value ? text.size() + 1 : 0};
  name_.append(reinterpret_cast<const char*>(head), sizeof(head)).append(text);
}

}  // namespace sluice::rules
