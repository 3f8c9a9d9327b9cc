#include "cli/override_pages.h"

#include <boost/json.hpp>
#include <iostream>
#include <optional>
#include <vector>

namespace sluice::cli {
namespace {

struct Page {
  std::vector<boost::json::object> overrides;
  std::string next;  // empty: it is the last one
};

// Returns nothing if the answer has another form.
std::optional<Page> read_page(const AdminClient::Answer& answer) {
  auto json = answer.json();
  const auto* list = json ? json->if_contains("overrides") : nullptr;
  if (list == nullptr || !list->is_array()) return std::nullopt;
  Page page;
  for (const boost::json::value& one : list->as_array()) {
    if (!one.is_object()) return std::nullopt;
    page.overrides.push_back(one.as_object());
  }
  const auto* next = json->if_contains("next");
  if (next != nullptr && !next->is_string()) return std::nullopt;
  if (next != nullptr) page.next = next->as_string();
  return page;
}

}  // namespace

Expected<std::size_t, Failed> for_each_override(
    AdminClient& client, const std::string& rule,
    const std::function<void(const boost::json::object&)>& take) {
  const std::string target =
      "/v1/overrides?count=10000" + (rule.empty() ? "" : "&rule=" + url_encoded(rule)) + "&cursor=";
  std::size_t count = 0;
  for (std::string cursor = "0"; !cursor.empty();) {
    const auto answer = client.ask("GET", target + cursor);
    if (!answer) return Unexpected{Failed{answer.error()}};
    if (answer->status != 200) return Unexpected{Failed{client.refusal(*answer)}};
    const auto page = read_page(*answer);
    if (!page) return Unexpected{Failed{client.strange()}};
    for (const boost::json::object& one : page->overrides) take(one);
    count += page->overrides.size();
    cursor = page->next;
  }
  return count;
}

int finish_overrides(const char* command, const Expected<int, Failed>& result) {
  if (result) return *result;
  std::cerr << "sluice: overrides " << command << ": " << result.error().what << '\n';
  return result.error().status;
}

}  // namespace sluice::cli
