#include "cli/top_data.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdlib>

namespace sluice::cli {
namespace {

using boost::json::object;

// Takes the value of the next label from a text such as `rule="a\"b",outcome=...`. Returns false if
// there is none.
bool take_label(std::string_view& text, std::string_view& name, std::string& value) {
  const std::size_t equals = text.find("=\"");
  if (equals == text.npos) return false;
  name = text.substr(0, equals);
  value.clear();
  std::size_t i = equals + 2;
  for (; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      value += text[i] == 'n' ? '\n' : text[i];
    } else {
      value += text[i];
    }
  }
  if (i >= text.size()) return false;
  text.remove_prefix(i + 1);
  if (text.starts_with(',')) text.remove_prefix(1);
  return true;
}

void read_series(std::string_view labels, std::map<std::string, RequestCounts>& counts) {
  std::string rule, value;
  std::string_view name;
  bool is_allowed = false;
  while (!labels.starts_with('}') && take_label(labels, name, value)) {
    if (name == "rule") rule = value;
    if (name == "outcome") is_allowed = value == "allowed";
  }
  if (labels.size() < 2) return;
  const auto number =
      static_cast<std::uint64_t>(std::strtod(std::string(labels.substr(2)).c_str(), nullptr));
  RequestCounts& of_rule = counts[rule];
  of_rule.requests += number;
  if (!is_allowed) of_rule.denied += number;
}

std::uint64_t number_member(const object& json, std::string_view name) {
  const auto* const value = json.if_contains(name);
  return value != nullptr && value->is_number() ? value->to_number<std::uint64_t>() : 0;
}

std::string string_member(const object& json, std::string_view name) {
  const auto* const value = json.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

template <typename Use>
void each_object(const object& json, std::string_view name, const Use& use) {
  const auto* const values = json.if_contains(name);
  if (values == nullptr || !values->is_array()) return;
  for (const auto& value : values->as_array()) {
    if (value.is_object()) use(value.as_object());
  }
}

void read_keys(const object& json, TopSample& sample) {
  sample.seconds = number_member(json, "seconds");
  each_object(json, "limits", [&](const object& limit) {
    each_object(limit, "keys", [&](const object& key) {
      sample.keys.push_back({string_member(limit, "rule"), string_member(limit, "limit"),
                             string_member(key, "key"), number_member(key, "count"),
                             number_member(key, "error")});
    });
  });
  std::stable_sort(sample.keys.begin(), sample.keys.end(), [](const TopRow& a, const TopRow& b) {
    return a.count - a.error > b.count - b.error;
  });
}

void read_status(const object& json, TopSample& sample) {
  sample.version = string_member(json, "version");
  sample.uptime_s = number_member(json, "uptime_s");
  if (const auto* store = json.if_contains("store"); store != nullptr && store->is_object()) {
    sample.store = string_member(store->as_object(), "kind");
  }
  each_object(json, "listeners", [&](const object& listener) {
    sample.connections += number_member(listener, "connections");
  });
}

}  // namespace

std::map<std::string, RequestCounts> read_request_counts(std::string_view metrics) {
  constexpr std::string_view kName = "sluice_requests_total{";
  std::map<std::string, RequestCounts> counts;
  while (!metrics.empty()) {
    const std::size_t end = std::min(metrics.find('\n'), metrics.size() - 1);
    const std::string_view line = metrics.substr(0, end);
    if (line.starts_with(kName)) read_series(line.substr(kName.size()), counts);
    metrics.remove_prefix(end + 1);
  }
  return counts;
}

Expected<TopSample> read_top(AdminClient& client, const TopQuery& query) {
  const std::string keys = "/v1/top?n=100&by=" + std::string(name_of(query.by)) +
                           "&over=" + std::string(name_of(query.over));
  TopSample sample;
  sample.at = std::chrono::steady_clock::now();
  const auto status = client.ask("GET", "/v1/status");
  if (!status) return Unexpected{status.error()};
  const auto json = status->json();
  if (status->status != 200) return Unexpected{client.refusal(*status)};
  if (!json) return Unexpected{client.strange()};
  read_status(*json, sample);
  const auto metrics = client.ask("GET", "/metrics");
  if (!metrics) return Unexpected{metrics.error()};
  sample.rules = read_request_counts(metrics->body);
  const auto top = client.ask("GET", keys);
  if (!top) return Unexpected{top.error()};
  if (top->status != 200) {
    sample.no_keys = client.refusal(*top);
  } else if (const auto found = top->json()) {
    read_keys(*found, sample);
  }
  return sample;
}

}  // namespace sluice::cli
