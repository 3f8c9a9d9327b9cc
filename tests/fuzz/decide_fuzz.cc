#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/decide.h"
#include "sluice/memory_store.h"

namespace {

namespace json = boost::json;

bool is_count(const json::value* value) {
  return value != nullptr && value->is_int64() && value->as_int64() >= 0;
}

// In every answer, remaining is at most the limit, and a wait is one that the contract allows.
void check_limit(const json::object& limit, bool denied) {
  if (!is_count(limit.if_contains("limit")) || !is_count(limit.if_contains("remaining")) ||
      !is_count(limit.if_contains("reset_after_us"))) {
    std::abort();
  }
  if (limit.at("remaining").as_int64() > limit.at("limit").as_int64()) std::abort();
  if (const json::value* const wait = limit.if_contains("retry_after_us")) {
    if (!denied || !is_count(wait) || wait->as_int64() == 0) std::abort();
  }
}

// Every answer is one line of valid JSON: an error with its line, or an outcome with its limits.
void check_answer(std::string_view answer) {
  if (answer.find('\n') != std::string_view::npos) std::abort();
  json::error_code failed;
  const json::value value = json::parse({answer.data(), answer.size()}, failed);
  if (failed || !value.is_object()) std::abort();
  const json::object& object = value.as_object();
  if (const json::value* const error = object.if_contains("error")) {
    if (!error->is_string() || error->as_string().empty()) std::abort();
    if (!is_count(object.if_contains("line")) || object.size() != 2) std::abort();
    return;
  }
  const bool denied = object.at("outcome").as_string() == "denied";
  if (!denied && object.at("outcome").as_string() != "allowed") std::abort();
  const json::string& reason = object.at("reason").as_string();
  if (reason == "store_error") return;
  if (denied != (reason == "limited" || reason == "never")) std::abort();
  if (object.contains("retry_after_us") != (reason == "limited")) std::abort();
  if (object.at("limits").as_array().empty()) std::abort();
  for (const json::value& limit : object.at("limits").as_array()) {
    check_limit(limit.as_object(), denied);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::MemoryStore store({.max_keys = 128, .max_log_bytes = 8192, .shards = 1});
  sluice::cli::DecisionFilter filter(store);
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (true) {
    const std::size_t end = text.find('\n');
    check_answer(filter.answer(text.substr(0, end)));
    if (end == std::string_view::npos) return 0;
    text.remove_prefix(end + 1);
  }
}
