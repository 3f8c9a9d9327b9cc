#include <boost/json.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/check/check_endpoint.h"

namespace {

namespace json = boost::json;
using sluice::server::CheckKind;
using sluice::server::CheckReader;
using sluice::server::CheckRequest;

// Compares the requests that the reader finds with those that another JSON parser finds.
class Comparison {
 public:
  explicit Comparison(std::string_view body) {
    json::error_code failed;
    value_ = json::parse({body.data(), body.size()}, failed);
    valid_ = !failed;
  }

  void operator()(const CheckRequest& request, bool alone) {
    if (!valid_ || alone == value_.is_array()) std::abort();
    const json::object& object =
        alone ? value_.as_object() : value_.as_array().at(count_).as_object();
    ++count_;
    if (request.cost != number(object.if_contains("cost"), 1)) std::abort();
    compare_costs(request.costs, object.if_contains("costs"));
    compare_actual(request, object.if_contains("actual"));
    const auto milliseconds = [](const json::value* of) {
      return std::chrono::milliseconds(number(of, 0));
    };
    if (request.max_wait != milliseconds(object.if_contains("max_wait_ms"))) std::abort();
    if (request.wait != milliseconds(object.if_contains("wait_ms"))) std::abort();
    if (request.hold != milliseconds(object.if_contains("hold_ms"))) std::abort();
    const json::value* const id = object.if_contains("id");
    if (request.id.has_value() != (id != nullptr)) std::abort();
    if (id != nullptr && *request.id != std::string_view(id->as_string())) std::abort();
    const json::value* const attributes = object.if_contains("attributes");
    if (attributes == nullptr) return;  // the request has a limit of its own
    for (const auto& member : attributes->as_object()) {
      const std::string_view name(member.key().data(), member.key().size());
      if (name.substr(0, 7) != "header.") compare(request, name, member.value());
    }
  }
  void finish(const std::string& error, bool is_array) const {
    if (!error.empty() && count_ > 0) std::abort();
    if (!error.empty() || !is_array) return;
    if (!valid_ || count_ != value_.as_array().size()) std::abort();
  }

 private:
  static std::uint64_t number(const json::value* value, std::uint64_t otherwise) {
    return value != nullptr ? static_cast<std::uint64_t>(value->as_int64()) : otherwise;
  }
  static void compare_actual(const CheckRequest& request, const json::value* actual) {
    const bool is_object = actual != nullptr && actual->is_object();
    compare_costs(request.actual_costs, is_object ? actual : nullptr);
    const json::value* const whole = is_object ? nullptr : actual;
    if (request.actual.has_value() != (whole != nullptr)) std::abort();
    if (request.actual && *request.actual != number(whole, 0)) std::abort();
  }
  static void compare_costs(const std::vector<sluice::LimitCost>& found, const json::value* costs) {
    const std::size_t count = costs != nullptr ? costs->as_object().size() : 0;
    if (found.size() != count) std::abort();
    for (const sluice::LimitCost& cost : found) {
      const json::value& units = costs->as_object().at({cost.limit.data(), cost.limit.size()});
      if (cost.units != static_cast<std::uint64_t>(units.as_int64())) std::abort();
    }
  }
  static void compare(const CheckRequest& request, std::string_view name,
                      const json::value& value) {
    const auto found = request.attributes.find(name);
    if (const json::string* const text = value.if_string()) {
      if (!found || *found != std::string_view(text->data(), text->size())) std::abort();
    } else if (const json::object* const object = value.if_object()) {
      for (const auto& member : *object) {
        compare(request,
                std::string(name) + '.' + std::string(member.key().data(), member.key().size()),
                member.value());
      }
    } else if (found.has_value() == value.is_null()) {
      std::abort();
    }
  }

  json::value value_;
  bool valid_ = false;
  std::size_t count_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  static CheckReader reader;  // reused as in the server: one body must not affect the next
  for (const CheckKind kind :
       {CheckKind::kCheck, CheckKind::kSettle, CheckKind::kCancel, CheckKind::kExtend}) {
    Comparison comparison(body);
    const std::string error = reader.read(kind, body, true, std::ref(comparison));
    comparison.finish(error, reader.is_array());
  }
  return 0;
}
