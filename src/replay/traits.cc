#include "replay/traits.h"

#include <algorithm>
#include <array>
#include <utility>

#include "replay/text.h"

namespace sluice::replay {

void FrequentValues::add(std::string_view value) {
  value = value.substr(0, kLongest);
  ++added_;
  if (last_ >= values_.size() || values_[last_].text != value) {
    last_ = static_cast<std::size_t>(&place_of(value) - values_.data());
  }
  ++values_[last_].count;
}

FrequentValues::Counted& FrequentValues::place_of(std::string_view value) {
  for (Counted& each : values_) {
    if (each.text == value) return each;
  }
  if (values_.size() < kKept) return values_.emplace_back(Counted{std::string(value)});
  Counted& rarest =
      *std::min_element(values_.begin(), values_.end(),
                        [](const Counted& a, const Counted& b) { return a.count < b.count; });
  rarest.text = value;
  rarest.before = rarest.count;
  return rarest;
}

std::vector<FrequentValues::Value> FrequentValues::most(std::size_t count) const {
  std::vector<Value> all;
  all.reserve(values_.size());
  for (const Counted& each : values_) all.push_back({each.text, each.count - each.before});
  std::stable_sort(all.begin(), all.end(),
                   [](const Value& a, const Value& b) { return a.least > b.least; });
  all.resize(std::min(count, all.size()));
  return all;
}

void Traits::add(const LogLine& line) {
  std::string decoded;
  const auto plain = [&](std::string_view logged) -> std::string_view {
    if (!line.escaped || logged.find('\\') == logged.npos) return logged;
    undo_log_escapes(logged, decoded);
    return decoded;
  };
  if (!line.user_agent.empty()) agents.add(plain(line.user_agent));
  if (!line.path.empty()) {
    std::array<char, FrequentValues::kLongest> request;  // spares an allocation
    std::size_t size = 0;
    for (const std::string_view part : {line.method, std::string_view(" "), plain(line.path)}) {
      if (size == 0 && part == " ") continue;
      const std::string_view fits = part.substr(0, request.size() - size);
      std::copy(fits.begin(), fits.end(), request.begin() + static_cast<std::ptrdiff_t>(size));
      size += fits.size();
    }
    requests.add({request.data(), size});
  }
  if (!line.status.empty()) statuses.add(line.status);
}

namespace {

// Returns the values that make up at least a tenth of all, or says that there are many.
std::string list_of(const FrequentValues& values, std::size_t count) {
  std::string text;
  const auto most = values.most(count);
  for (const FrequentValues::Value& each : most) {
    if (each.least * 10 < values.added()) break;
    text += (text.empty() ? "" : ", ") + printable(each.text, 48);
    if (each.least < values.added()) text += " (" + percent(each.least, values.added()) + ")";
  }
  if (text.empty() && !most.empty()) return "many paths, such as " + printable(most[0].text, 40);
  return text;
}

}  // namespace

TraitsText text_of(const Traits& traits) {
  TraitsText text;
  if (const auto agents = traits.agents.most(1); !agents.empty()) {
    text.agent = agents[0].text;
    if (agents[0].least * 10 < traits.agents.added())
      text.agent = "many agents, such as " + text.agent;
  }
  text.requests = list_of(traits.requests, 2);
  if (const std::string statuses = list_of(traits.statuses, 2); !statuses.empty()) {
    text.requests += (text.requests.empty() ? "status " : "; status ") + statuses;
  }
  return text;
}

const Traits* TraitsByKey::find(std::uint32_t key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second.traits.get();
}

Traits* TraitsByKey::add_heavy(std::uint32_t key, std::uint64_t weight, const LogLine& line) {
  Entry& entry = entries_[key];
  entry.weight = std::max(entry.weight, weight);
  if (entry.traits == nullptr) entry.traits = std::make_unique<Traits>();
  Traits* const traits = entry.traits.get();
  traits->add(line);
  if (entries_.size() <= kMost) return traits;
  make_room();
  return entries_.contains(key) ? traits : nullptr;
}

// Raises the weight that a key needs until half of the keys have gone, so that it happens rarely.
void TraitsByKey::make_room() {
  while (entries_.size() > kMost / 2) {
    least_ += least_ / 4 + 1;
    boost::unordered::erase_if(entries_,
                               [this](const auto& each) { return each.second.weight < least_; });
  }
}

}  // namespace sluice::replay
