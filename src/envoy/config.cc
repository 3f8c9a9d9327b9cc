#include "envoy/config.h"

#include <algorithm>
#include <array>

#include "base/quoted.h"
#include "rules/counter_key.h"

namespace sluice::envoy {
namespace {

using rules::append_name;
using rules::append_value;
using std::chrono::days;
constexpr std::array<std::string_view, 8> kNames{"unknown", "second", "minute", "hour",
                                                 "day",     "month",  "year",   "week"};
constexpr std::array<Duration, 8> kLengths{Duration{0},
                                           std::chrono::seconds{1},
                                           std::chrono::minutes{1},
                                           std::chrono::hours{1},
                                           days{1},
                                           days{30},
                                           days{365},
                                           days{7}};

void append_entry(std::string& out, std::string_view key, std::string_view value) {
  append_name(out += '|', key);
  append_value(out += '=', value);
}

// In native rules, the part of the name after the domain is never empty.
void append_domain(std::string& out, const Domain& domain) {
  append_name(out, domain.name);
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

std::optional<Unit> unit_from(std::string_view name) noexcept {
  for (std::size_t i = 1; i < kNames.size(); ++i) {
    if (base::same_word(name, kNames[i])) return static_cast<Unit>(i);
  }
  return std::nullopt;
}

std::string_view to_string(Unit unit) noexcept { return kNames[static_cast<std::size_t>(unit)]; }

Duration length_of(Unit unit) noexcept { return kLengths[static_cast<std::size_t>(unit)]; }

Unit unit_of(Duration length) noexcept {
  const auto* const found = std::find(kLengths.begin() + 1, kLengths.end(), length);
  return found == kLengths.end() ? Unit::kUnknown : static_cast<Unit>(found - kLengths.begin());
}

Unit unit_of(const Limit& limit) noexcept {
  if (limit.calendar() == nullptr) return unit_of(limit.period());
  switch (limit.calendar()->spec().unit) {
    case CalendarUnit::kDay: return Unit::kDay;
    case CalendarUnit::kWeek: return Unit::kWeek;
    case CalendarUnit::kMonth: return Unit::kMonth;
    case CalendarUnit::kYear: return Unit::kYear;
  }
  return Unit::kUnknown;
}

// The part before the first `*` must begin the text and the part after the last must end it. The
// pieces between are searched from the left: the leftmost match leaves the most text for the rest.
bool matches_wildcard(std::string_view pattern, std::string_view text) noexcept {
  const std::size_t first = pattern.find('*');
  if (first == pattern.npos) return pattern == text;
  const std::string_view begin = pattern.substr(0, first);
  const std::string_view end = pattern.substr(pattern.rfind('*') + 1);
  if (text.size() < begin.size() + end.size()) return false;
  if (!text.starts_with(begin) || !text.ends_with(end)) return false;
  text.remove_prefix(begin.size());
  text.remove_suffix(end.size());
  pattern.remove_prefix(first);
  pattern.remove_suffix(end.size());
  while (!pattern.empty()) {
    const std::string_view piece = pattern.substr(0, pattern.find('*'));
    const std::size_t at = text.find(piece);
    if (at == text.npos) return false;
    text.remove_prefix(at + piece.size());
    pattern.remove_prefix(piece.size() < pattern.size() ? piece.size() + 1 : piece.size());
  }
  return true;
}

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
  const auto found = by_name_.find(domain);
  return found != by_name_.end() ? found->second : nullptr;
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
