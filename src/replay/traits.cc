#include "replay/traits.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/quoted.h"
#include "replay/text.h"

namespace sluice::replay {

void FrequentValues::add(std::string_view value) {
  value = value.substr(0, kLongest);
  ++added_;
  if (last_ >= values_.size() || values_[last_].text != value) {
    last_ = static_cast<std::size_t>(&place_of(value) - values_.data());
  }
  ++values_[last_].least;
}

FrequentValues::Value& FrequentValues::place_of(std::string_view value) {
  for (Value& each : values_) {
    if (each.text == value) return each;
  }
  if (values_.size() < kKept) return values_.emplace_back(Value{std::string(value)});
  Value& rarest = *std::min_element(
      values_.begin(), values_.end(),
      [](const Value& a, const Value& b) { return a.least + a.before < b.least + b.before; });
  rarest.text = value;
  rarest.before += std::exchange(rarest.least, 0);
  return rarest;
}

std::vector<FrequentValues::Value> FrequentValues::most(std::size_t count) const {
  std::vector<Value> all = values_;
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
    for (const std::string_view part : {line.method, std::string_view(" "), line.path}) {
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

constexpr std::string_view kManyAgents = "many agents, such as ";

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

std::string agent_of(const Traits& traits) {
  const auto agents = traits.agents.most(1);
  if (agents.empty()) return {};
  const bool is_many = agents[0].least * 10 < traits.agents.added();
  return (is_many ? std::string(kManyAgents) : "") + agents[0].text;
}

std::string requests_of(const Traits& traits) {
  std::string requests = list_of(traits.requests, 2);
  const std::string statuses = list_of(traits.statuses, 2);
  if (statuses.empty()) return requests;
  return requests + (requests.empty() ? "status " : "; status ") + statuses;
}

namespace {

bool has_word(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) { return base::lower(a) == b; };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

// Whether a token of an agent names a robot. The address of its page does not.
bool names_robot(std::string_view token) {
  if (token.find("//") != token.npos || token.find('@') != token.npos) return false;
  if (token.find("www.") != token.npos) return false;
  return has_word(token, "bot") || has_word(token, "spider") || has_word(token, "crawler");
}

// Whether the product is part of the agents of most browsers.
bool is_common(std::string_view product) {
  constexpr std::array<std::string_view, 8> kCommon = {"Mozilla", "AppleWebKit", "Gecko",  "KHTML",
                                                       "Version", "Mobile",      "Safari", "like"};
  const std::string_view name = product.substr(0, product.find('/'));
  return std::find(kCommon.begin(), kCommon.end(), name) != kCommon.end();
}

}  // namespace

std::string agent_name(std::string_view agent) {
  constexpr std::string_view kCompatible = "compatible;";
  constexpr std::string_view kEnds = " ;,()";
  if (!agent.starts_with("Mozilla/")) return std::string(agent);
  std::string_view compatible, product;
  if (std::size_t at = agent.find(kCompatible); at != agent.npos) {
    compatible =
        agent.substr(std::min(agent.find_first_not_of(' ', at + kCompatible.size()), agent.size()));
    compatible = compatible.substr(0, compatible.find_first_of(";)"));
  }
  if (!compatible.empty() && !compatible.starts_with("MSIE")) return std::string(compatible);
  int depth = 0;
  for (std::string_view rest = agent; !rest.empty();) {
    const std::size_t size = std::min(rest.find_first_of(kEnds), rest.size());
    const std::string_view token = rest.substr(0, size);
    if (names_robot(token)) return std::string(token);
    if (!token.empty() && depth == 0 && !is_common(token)) product = token;
    if (size == rest.size()) break;
    depth += rest[size] == '(' ? 1 : rest[size] == ')' ? -1 : 0;
    rest.remove_prefix(size + 1);
  }
  if (product.empty()) product = compatible;
  return std::string(product.empty() ? agent : product);
}

std::string fitted_text(const Traits& traits, std::string_view label, std::size_t columns) {
  constexpr std::size_t kNameColumns = 40;
  const std::string requests = printable(requests_of(traits));
  const std::string all = agent_of(traits);
  if (all.empty() || all == label) return printable(requests, columns);
  const std::string_view between = requests.empty() ? "" : "; ";
  const std::string whole = requests + std::string(between) + printable(all);
  const bool is_many = all.starts_with(kManyAgents);
  const std::string_view agent = std::string_view(all).substr(is_many ? kManyAgents.size() : 0);
  const std::string name = agent_name(agent);
  if (columns_of(whole) <= columns || name == agent) return printable(whole, columns);
  // The paths are what can be cut.
  const std::size_t paths = std::min(requests.rfind("; status "), requests.size());
  std::string rest = requests.substr(paths) + std::string(between);
  if (is_many) rest += kManyAgents;
  rest += printable(name, kNameColumns);
  const std::size_t left = columns - std::min(columns, columns_of(rest));
  return printable(printable(requests.substr(0, paths), std::max<std::size_t>(left, 1)) + rest,
                   columns);
}

const Traits* TraitsByKey::find(std::uint32_t key) const {
  const auto found = traits_.find(key);
  return found == traits_.end() ? nullptr : found->second.get();
}

Traits* TraitsByKey::add_heavy(std::uint32_t key, std::uint64_t weight, const LogLine& line) {
  std::unique_ptr<Traits>& place = traits_[key];
  if (place == nullptr) place = std::make_unique<Traits>();
  Traits* const traits = place.get();
  traits->weight = std::max(traits->weight, weight);
  traits->add(line);
  if (traits_.size() <= kMost) return traits;
  make_room();
  return traits_.contains(key) ? traits : nullptr;
}

// Raises the weight that a key needs until half of the keys have gone, so that it happens rarely.
void TraitsByKey::make_room() {
  while (traits_.size() > kMost / 2) {
    least_ += least_ / 4 + 1;
    boost::unordered::erase_if(traits_,
                               [this](const auto& each) { return each.second->weight < least_; });
  }
}

}  // namespace sluice::replay
