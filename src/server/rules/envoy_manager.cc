#include "server/rules/envoy_manager.h"

#include <utility>

namespace sluice::server {

Expected<std::unique_ptr<EnvoyManager>, EnvoyManager::Errors> EnvoyManager::open(
    std::vector<std::string> paths, EnvoyOptions options, const RuleTerms& terms) {
  std::unique_ptr<EnvoyManager> manager(
      new EnvoyManager(std::move(paths), std::move(options), terms));
  if (!manager->has_files()) return manager;
  auto read = manager->adopt(read_files(manager->paths_));
  if (!read) return Unexpected{std::move(read.error())};
  return manager;
}

Expected<std::unique_ptr<EnvoyManager>, EnvoyManager::Errors> EnvoyManager::open_texts(
    std::vector<RulesText> texts, EnvoyOptions options, const RuleTerms& terms) {
  std::unique_ptr<EnvoyManager> manager(new EnvoyManager({}, std::move(options), terms));
  auto read = manager->adopt({.picture = {}, .texts = std::move(texts), .errors = {}});
  if (!read) return Unexpected{std::move(read.error())};
  return manager;
}

Expected<bool, EnvoyManager::Errors> EnvoyManager::reload() {
  const std::lock_guard changing(change_mutex_);
  if (!has_files()) return false;
  auto changed = adopt(read_files(paths_));
  const std::lock_guard lock(mutex_);
  last_errors_ = changed ? Errors() : changed.error();
  if (!changed) ++failures_;
  if (changed && *changed) ++reloads_;
  return changed;
}

Expected<bool, EnvoyManager::Errors> EnvoyManager::adopt(FilesRead read) {
  known_ = last_look_ = std::move(read.picture);
  if (!read.errors.empty()) return Unexpected{std::move(read.errors)};
  if (read.texts == texts_) return false;
  std::vector<RuleText> files;
  for (const RulesText& text : read.texts) files.push_back({text.name, text.text});
  auto config = envoy::Config::parse(files, terms_, options_.merge_domains);
  if (!config) return Unexpected{std::move(config.error())};
  auto next = std::make_shared<ActiveEnvoyFiles>(std::move(*config));
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
  Picture look = look_at(paths_);
  const bool still = look == last_look_;
  last_look_ = std::move(look);
  if (!still || last_look_ == known_) return false;
  known_ = last_look_;
  return true;
}

std::shared_ptr<ActiveEnvoyFiles> EnvoyManager::current() const {
  const std::lock_guard lock(mutex_);
  return active_;
}

EnvoyStatus EnvoyManager::status() const {
  const std::lock_guard lock(mutex_);
  const envoy::Config& config = active_->config;
  return {paths_,      config.domains().size(), config.limited().size(), reloads_, failures_,
          last_errors_};
}

std::vector<EnvoyCounts::Row> EnvoyManager::counted() const {
  const std::lock_guard lock(mutex_);
  std::erase_if(retired_, [this](const std::shared_ptr<ActiveEnvoyFiles>& one) {
    if (one.use_count() > 1) return false;
    one->counts.add_to(kept_);
    return true;
  });
  EnvoyCounts::Sums sums = kept_;
  for (const auto& one : retired_) one->counts.add_to(sums);
  active_->counts.add_to(sums);
  std::vector<EnvoyCounts::Row> rows;
  for (auto& [name, cells] : sums) rows.push_back({name, cells});
  return rows;
}

}  // namespace sluice::server
