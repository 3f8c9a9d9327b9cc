#include "envoy/config.h"

#include "envoy/wildcard.h"
#include "rules/counter_key.h"

namespace sluice::envoy {

using rules::append_escaped;
using rules::Escape;

bool Level::add(const Descriptor& descriptor) {
  if (twin_of(descriptor) != nullptr) return false;
  OfKey& of = keys_[descriptor.key];
  if (descriptor.value.empty()) {
    of.bare = &descriptor;
  } else if (descriptor.is_wildcard()) {
    of.wildcards.push_back(&descriptor);
  } else {
    of.exact.emplace(descriptor.value, &descriptor);
  }
  return true;
}

const Descriptor* Level::twin_of(const Descriptor& descriptor) const {
  const auto found = keys_.find(descriptor.key);
  if (found == keys_.end()) return nullptr;
  const OfKey& of = found->second;
  if (descriptor.value.empty()) return of.bare;
  for (const Descriptor* wildcard : of.wildcards) {
    if (wildcard->value == descriptor.value) return wildcard;
  }
  const auto exact = of.exact.find(descriptor.value);
  return exact != of.exact.end() ? exact->second : nullptr;
}

const Descriptor* Level::find(std::string_view key, std::string_view value) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  const OfKey& of = found->second;
  if (const auto exact = of.exact.find(value); exact != of.exact.end()) return exact->second;
  for (const Descriptor* wildcard : of.wildcards) {
    if (matches_wildcard(wildcard->value, value)) return wildcard;
  }
  return of.bare;
}

const Domain* Config::find(std::string_view domain) const {
  const auto found = domains_->by_name.find(domain);
  return found != domains_->by_name.end() ? found->second : nullptr;
}

const Descriptor* match(const Domain& domain, std::span<const Entry> entries) {
  const Level* level = &domain.level;
  const Descriptor* matched = nullptr;
  for (const Entry& entry : entries) {
    matched = level->find(entry.key, entry.value);
    if (matched == nullptr) return nullptr;
    level = &matched->level;
  }
  return matched;
}

namespace {

void append_entry(std::string& out, std::string_view key, std::string_view value) {
  append_escaped(out += '|', key, Escape::kName);
  append_escaped(out += '=', value, Escape::kValue);
}

// In native rules, the part of the name after the domain is never empty.
void append_domain(std::string& out, const Domain& domain) {
  append_escaped(out, domain.name, Escape::kName);
  out += '|';
}

// Appends `descriptor` and its ancestors, as many as there are entries.
void append_path(std::string& out, std::span<const Entry> entries, const Descriptor& descriptor) {
  if (descriptor.parent != nullptr) {
    append_path(out, entries.first(entries.size() - 1), *descriptor.parent);
  }
  if (descriptor.share_threshold) {
    append_entry(out += '|', descriptor.key, descriptor.value);
  } else {
    append_entry(out, descriptor.key, entries.back().value);
  }
}

}  // namespace

void append_counter(std::string& out, const Domain& domain, std::span<const Entry> entries,
                    const Descriptor& matched) {
  append_domain(out, domain);
  append_path(out, entries, matched);
}

void append_counter(std::string& out, const Domain& domain, std::span<const Entry> entries,
                    Unit unit) {
  append_domain(out, domain);
  for (const Entry& entry : entries) append_entry(out, entry.key, entry.value);
  out.append("|").append(to_string(unit));
}

}  // namespace sluice::envoy
