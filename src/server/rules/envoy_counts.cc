#include "server/rules/envoy_counts.h"

#include "rules/diagnostics.h"

namespace sluice::server {
namespace {

using envoy::Descriptor;
using envoy::Entry;

// Values that share a counter also share a name, that of the pattern.
bool shows_value(const Descriptor& descriptor, bool detailed) {
  return (detailed || descriptor.value_to_metric) && !descriptor.share_threshold;
}

bool wants_values(const Descriptor& descriptor) {
  for (const Descriptor* at = &descriptor; at != nullptr; at = at->parent) {
    if (shows_value(*at, descriptor.detailed_metric)) return true;
  }
  return false;
}

// Appends a value of a request in a form that is valid for a label.
void append_value(std::string& out, std::string_view value) {
  value = value.substr(0, EnvoyCounts::kLongestValue);
  while (!value.empty()) {
    const std::size_t bad = rules::find_invalid_utf8(value);
    out.append(value.substr(0, bad));
    if (bad == value.npos) return;
    out += '?';
    value.remove_prefix(bad + 1);
  }
}

// Appends the name as in Descriptor::rule, with the request's values if the descriptor asks for it.
void append_name(std::string& out, const Descriptor& descriptor, std::span<const Entry> entries,
                 bool detailed) {
  if (descriptor.parent != nullptr) {
    append_name(out, *descriptor.parent, entries.first(entries.size() - 1), detailed);
    out += '.';
  }
  out += descriptor.key;
  const bool with_value = shows_value(descriptor, detailed);
  if (!with_value && descriptor.value.empty()) return;
  out += '_';
  if (with_value) {
    append_value(out, entries.back().value);
  } else {
    out += descriptor.value;
  }
}

}  // namespace

std::string_view EnvoyCounts::to_string(Cell cell) noexcept {
  static constexpr std::array<std::string_view, 3> kNames = {"within_limit", "over_limit",
                                                             "shadow_mode"};
  return kNames[cell];
}

EnvoyCounts::EnvoyCounts(const envoy::Config& config) : config_(config) {
  for (auto& stripe : stripes_) stripe = std::make_unique<Tally[]>(config_.limited().size());
  for (const Descriptor* limited : config_.limited()) {
    by_values_.push_back(wants_values(*limited));
  }
}

void EnvoyCounts::count(const envoy::Status& status, std::span<const Entry> entries,
                        std::size_t stripe) {
  if (status.descriptor == nullptr || (!status.limit && !status.unlimited)) return;
  const Descriptor& descriptor = *status.descriptor;
  const bool over = !status.decision.allowed();
  const Cell cell = !over ? kWithinLimit : status.code == envoy::Code::kOk ? kShadow : kOverLimit;
  if (by_values_[descriptor.number]) return count_by_value(descriptor, entries, cell);
  Tally& tally = stripes_[stripe % kStripes][descriptor.number];
  tally.cells[cell].fetch_add(1, std::memory_order_relaxed);
}

void EnvoyCounts::count_by_value(const Descriptor& descriptor, std::span<const Entry> entries,
                                 Cell cell) {
  std::string name = descriptor.rule.domain + "/";
  append_name(name, descriptor, entries, descriptor.detailed_metric);
  const std::lock_guard lock(mutex_);
  auto& values = values_[descriptor.number].values;
  auto found = values.find(name);
  if (found == values.end()) {
    if (values.size() >= kMostValues) name = descriptor.rule.name + " (other)";
    found = values.try_emplace(std::move(name)).first;
  }
  ++found->second[cell];
}

void EnvoyCounts::add_to(Sums& sums) const {
  for (const Descriptor* limited : config_.limited()) {
    if (by_values_[limited->number]) continue;
    Cells& cells = sums[limited->rule.name];
    for (const auto& stripe : stripes_) {
      for (std::size_t i = 0; i < cells.size(); ++i) {
        cells[i] += stripe[limited->number].cells[i].load(std::memory_order_relaxed);
      }
    }
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [number, by_value] : values_) {
    for (const auto& [name, counted] : by_value.values) {
      Cells& cells = sums[name];
      for (std::size_t i = 0; i < cells.size(); ++i) cells[i] += counted[i];
    }
  }
}

}  // namespace sluice::server
