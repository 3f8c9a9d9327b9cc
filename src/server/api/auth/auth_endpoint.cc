#include "server/api/auth/auth_endpoint.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/request_target.h"
#include "rules/cost_template.h"
#include "server/decide/named_attributes.h"
#include "server/decide/rejection.h"
#include "server/protocol/http/access.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/problem.h"
#include "sluice/clock.h"

namespace sluice::server {
namespace {

constexpr std::string_view kMissing =
    "X-Original-URI and X-Forwarded-Uri are both missing; expected a gateway that sets one of them";
constexpr std::string_view kUnclear =
    "X-Original-URI and X-Forwarded-Uri are both given, or one of the fields that describe the "
    "request is given twice; expected a gateway that sets X-Original-URI and X-Original-Method and "
    "clears the others, or sets X-Forwarded-Uri and X-Forwarded-Method and clears the others";

// The fields that can describe a request. An empty field counts as absent.
constexpr auto kDescribing = std::to_array<std::string_view>(
    {"x-original-uri", "x-original-method", "x-forwarded-uri", "x-forwarded-method"});

std::optional<std::string_view> unless_empty(std::string_view value) noexcept {
  return value.empty() ? std::nullopt : std::optional(value);
}

}  // namespace

// The client's own fields arrive together with the gateway's. Only the fields that belong to the
// gateway's URI count. Two URIs are refused, because nobody could know which is the gateway's.
std::string_view ForwardedAttributes::begin(const http::Request& request) {
  std::array<std::string_view, kDescribing.size()> values;
  std::array<bool, kDescribing.size()> repeated{};
  for (const http::Field& field : request.fields) {
    if (field.value.empty() || field.name.empty() || (field.name.front() | 0x20) != 'x') continue;
    for (std::size_t i = 0; i < kDescribing.size(); ++i) {
      if (!has_name(field, kDescribing[i])) continue;
      repeated[i] = !values[i].empty();
      if (!repeated[i]) values[i] = field.value;
      break;
    }
  }
  is_forwarded_ = values[0].empty();
  const std::size_t uri = is_forwarded_ ? 2 : 0, method = uri + 1;
  request_ = &request;
  target_ = base::split_target(values[uri]);
  method_ = values[method].empty() ? request.method : values[method];
  path_.reset();
  host_.reset();
  ip_.reset();
  buffers_.clear();
  if (values[uri].empty()) return kMissing;
  const bool both = !is_forwarded_ && !values[2].empty();
  return both || repeated[uri] || repeated[method] ? kUnclear : std::string_view();
}

std::optional<std::string_view> ForwardedAttributes::find(std::string_view name) const {
  constexpr std::string_view kHeader = "header.";
  constexpr std::string_view kQuery = "query.";
  constexpr std::string_view kCookie = "cookie.";
  if (request_ == nullptr) return std::nullopt;
  if (name == "path") return path();
  if (name == "ip") return ip();
  if (name == "method") return unless_empty(method_);
  if (name == "host") return host();
  if (name.starts_with(kHeader)) {
    return find_header(request_->fields, name.substr(kHeader.size()), buffers_);
  }
  if (name.starts_with(kQuery)) {
    return base::find_query(target_.query, name.substr(kQuery.size()), buffers_);
  }
  if (name.starts_with(kCookie)) {
    return find_cookie(request_->fields, name.substr(kCookie.size()));
  }
  return std::nullopt;
}

std::optional<std::string_view> ForwardedAttributes::path() const {
  if (!path_) path_ = base::normalized_path(target_.path, path_buffer_);
  return path_;
}

std::optional<std::string_view> ForwardedAttributes::host() const {
  if (!host_) host_ = base::host_name(authority(), host_buffer_);
  return unless_empty(*host_);
}

std::optional<std::string_view> ForwardedAttributes::ip() const {
  if (!ip_) ip_ = client_address(*request_, *trusted_, ip_buffer_);
  return unless_empty(*ip_);
}

// Returns X-Forwarded-Host if a trusted proxy describes the request with it, or else Host. If the
// field is repeated, the last one is the proxy's.
std::string_view ForwardedAttributes::authority() const {
  if (is_forwarded_ && trusted_->contains(request_->peer)) {
    const auto all = find_header(request_->fields, "x-forwarded-host", buffers_);
    const std::string_view last = all ? trimmed(all->substr(all->rfind(',') + 1)) : "";
    if (!last.empty()) return last;
  }
  return find_header(request_->fields, "host", buffers_).value_or("");
}

namespace {

constexpr std::string_view kDenyBy403 = "deny=403";

constexpr std::string_view kWrongQuery =
    "unknown query of /v1/auth; expected none, or deny=403 for denials with this status";

constexpr std::string_view kWrongCost =
    "X-Sluice-Cost is given twice or is no number of units; expected one whole number from 0 to "
    "9007199254740991";

constexpr std::string_view kWrongReport =
    "unknown query of /v1/report; expected status=NUMBER, the status of the response, and nothing "
    "else";
constexpr std::string_view kStatusIs = "status=";

// Returns an attribute of the response that a gateway reports.
std::optional<std::string_view> find_reported(std::string_view status,
                                              std::span<const http::Field> fields,
                                              std::string_view name) {
  constexpr std::string_view kHeader = "header.", kPrefix = "x-sluice-response-";
  if (name == "status") return status;
  if (!name.starts_with(kHeader)) return std::nullopt;
  name.remove_prefix(kHeader.size());
  for (const http::Field& field : fields) {
    if (field.name.size() != kPrefix.size() + name.size()) continue;
    const http::Field prefix{field.name.substr(0, kPrefix.size()), {}};
    const http::Field rest{field.name.substr(kPrefix.size()), {}};
    if (has_name(prefix, kPrefix) && has_name(rest, name)) return field.value;
  }
  return std::nullopt;
}

// Returns the cost that the field gives, 1 without it, or nothing if the field is wrong. Gateways
// forward the fields of clients, so only limits that ask for it have this cost.
std::optional<RequestCosts> costs_of(const http::Request& request) {
  RequestCosts costs;
  costs.only_if_wanted = true;
  bool given = false;
  for (const http::Field& field : request.fields) {
    if (!has_name(field, "x-sluice-cost") || field.value.empty()) continue;
    const auto units = rules::units_from(field.value);
    if (given || !units) return std::nullopt;
    given = true;
    costs.units = *units;
  }
  return costs;
}

}  // namespace

// Remembers a gateway that says who its client is and is not trusted. Warns of the first.
void AuthEndpoint::warn_of_peer(const http::Request& request) {
  const Instant now = SystemClock::instance().now();
  if (trusted_.knows_stranger(now)) return;
  Buffers buffers;
  for (const std::string_view field : {"x-forwarded-for", "x-real-ip"}) {
    if (!find_header(request.fields, field, buffers)) continue;
    if (!trusted_.add_stranger(request.peer, now)) return;
    log_.warning("the gateway is not in trusted_proxies, so that all its clients have its address",
                 {{"gateway", request.peer.empty() ? "unix" : request.peer}, {"ignored", field}});
    return;
  }
}

// Reads the description of the request. Returns nothing if it is wrong, which is the response then.
std::optional<RequestCosts> AuthEndpoint::read(const http::Request& request,
                                               http::Response& response) {
  const auto fail = [&](std::string_view problem) {
    refuse_request(response, {400, problem});
    return std::nullopt;
  };
  if (const std::string_view wrong = attributes_.begin(request); !wrong.empty()) return fail(wrong);
  std::optional<RequestCosts> costs{std::in_place};
  if (trusted_.contains(request.peer)) {
    costs = costs_of(request);
  } else {
    warn_of_peer(request);
  }
  return costs ? costs : fail(kWrongCost);
}

void AuthEndpoint::report(const http::Request& request, http::Response& response) {
  std::string_view status = base::split_target(request.target).query;
  if (!status.starts_with(kStatusIs)) return refuse_request(response, {400, kWrongReport});
  status.remove_prefix(kStatusIs.size());
  const auto costs = read(request, response);
  if (!costs) return;
  const AttributesBy reported(
      [&](std::string_view name) { return find_reported(status, request.fields, name); });
  const RuleAnswer& answer =
      *session_.decide({.attributes = attributes_, .costs = *costs, .response = &reported});
  response.status = http_status(answer);
  if (!answer.decision.allowed()) put_rejection(answer, response);
}

void AuthEndpoint::handle(const http::Request& request, http::Response& response) {
  const std::string_view query = base::split_target(request.target).query;
  if (!query.empty() && query != kDenyBy403) return refuse_request(response, {400, kWrongQuery});
  const auto costs = read(request, response);
  if (!costs) return;
  const RuleAnswer& answer = *session_.decide({.attributes = attributes_, .costs = *costs});
  put_gateway_answer(answer, fields_, response);
  // What is no request that can be decided has 400, as without the query.
  const bool is_invalid = answer.decision.reason == Reason::kInvalid;
  if (query.empty() || answer.decision.allowed() || is_invalid) return;
  // Without this field, the gateway takes the 403 of a rule for a lack of quota.
  if (response.status == 403 || answer.decision.reason == Reason::kDenyRule) {
    response.fields.append("X-Sluice-Status: 403\r\n");
  }
  response.status = 403;
}

}  // namespace sluice::server
