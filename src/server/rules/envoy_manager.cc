#include "server/rules/envoy_manager.h"

#include <utility>

#include "base/quoted.h"
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
  out += base::as_utf8(value.substr(0, EnvoyFiles::kLongestValue), "?");
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

EnvoyFiles::EnvoyFiles(envoy::Config config) : config_(std::move(config)) {
  for (auto& stripe : stripes_) stripe = std::make_unique<Tally[]>(config_.limited().size());
  for (const Descriptor* limited : config_.limited()) {
    by_values_.push_back(wants_values(*limited));
  }
}

void EnvoyFiles::count(const envoy::Status& status, std::span<const Entry> entries,
                       std::size_t stripe) {
  if (status.descriptor == nullptr || (!status.limit && !status.unlimited)) return;
  const Descriptor& descriptor = *status.descriptor;
  const bool over = !status.decision.allowed();
  const std::size_t cell = !over ? kWithinLimit : !status.is_over ? kShadow : kOverLimit;
  if (by_values_[descriptor.number]) return count_by_value(descriptor, entries, cell);
  Tally& tally = stripes_[stripe % kStripes][descriptor.number];
  tally[cell].fetch_add(1, std::memory_order_relaxed);
}

void EnvoyFiles::count_by_value(const Descriptor& descriptor, std::span<const Entry> entries,
                                std::size_t cell) {
  std::string name = descriptor.rule.domain + "/";
  append_name(name, descriptor, entries, descriptor.detailed_metric);
  const std::lock_guard lock(mutex_);
  auto& values = values_[descriptor.number];
  auto found = values.find(name);
  if (found == values.end()) {
    if (values.size() >= kMostValues) name = descriptor.rule.name + " (other)";
    found = values.try_emplace(std::move(name)).first;
  }
  ++found->second[cell];
}

void EnvoyFiles::add_to(Sums& sums) const {
  for (const Descriptor* limited : config_.limited()) {
    if (by_values_[limited->number]) continue;
    Cells& cells = sums[limited->rule.name];
    for (const auto& stripe : stripes_) {
      for (std::size_t i = 0; i < cells.size(); ++i) {
        cells[i] += stripe[limited->number][i].load(std::memory_order_relaxed);
      }
    }
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [number, values] : values_) {
    for (const auto& [name, counted] : values) {
      Cells& cells = sums[name];
      for (std::size_t i = 0; i < cells.size(); ++i) cells[i] += counted[i];
    }
  }
}

Expected<std::unique_ptr<EnvoyManager>, EnvoyManager::Errors> EnvoyManager::open(
    EnvoyOptions options, const RuleTerms& terms) {
  std::unique_ptr<EnvoyManager> manager(new EnvoyManager(std::move(options), terms));
  if (!manager->has_files()) return manager;
  auto read = manager->adopt(read_files(manager->options_.files));
  if (!read) return Unexpected{std::move(read.error())};
  return manager;
}

Expected<bool, EnvoyManager::Errors> EnvoyManager::reload() {
  const std::lock_guard changing(change_mutex_);
  if (!has_files()) return false;
  auto changed = adopt(read_files(options_.files));
  const std::lock_guard lock(mutex_);
  status_.last_errors = changed ? Errors() : changed.error();
  if (!changed) ++status_.failures;
  if (changed && *changed) ++status_.reloads;
  return changed;
}

Expected<bool, EnvoyManager::Errors> EnvoyManager::adopt(FilesRead read) {
  known_ = last_look_ = std::move(read.picture);
  if (!read.errors.empty()) return Unexpected{std::move(read.errors)};
  if (read.texts == texts_) return false;
  auto config = envoy::Config::parse(views_of(read.texts), terms_, options_.merge_domains);
  if (!config) return Unexpected{std::move(config.error())};
  auto next = std::make_shared<EnvoyFiles>(std::move(*config));
  texts_ = std::move(read.texts);
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::exchange(active_, std::move(next)));
  }
  version_.fetch_add(1, std::memory_order_release);
  return true;
}

bool EnvoyManager::changed_on_disk() {
  const std::lock_guard changing(change_mutex_);
  if (!has_files()) return false;
  return has_settled(look_at(options_.files), last_look_, known_);
}

std::shared_ptr<EnvoyFiles> EnvoyManager::current() const {
  const std::lock_guard lock(mutex_);
  return active_;
}

EnvoyStatus EnvoyManager::status() const {
  const std::lock_guard lock(mutex_);
  EnvoyStatus status = status_;
  status.sources = options_.files;
  status.domains = active_->config().domains().size();
  status.limits = active_->config().limited().size();
  return status;
}

EnvoyFiles::Sums EnvoyManager::counted() const {
  const std::lock_guard lock(mutex_);
  std::erase_if(retired_, [this](const std::shared_ptr<EnvoyFiles>& one) {
    if (one.use_count() > 1) return false;
    one->add_to(kept_);
    return true;
  });
  EnvoyFiles::Sums sums = kept_;
  for (const auto& one : retired_) one->add_to(sums);
  active_->add_to(sums);
  return sums;
}

}  // namespace sluice::server
