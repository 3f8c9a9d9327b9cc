#include "server/api/auth/forwarded_attributes.h"

#include "server/protocol/http/access.h"
#include "server/protocol/http/fields.h"

namespace sluice::server {
namespace {

// The fields that can describe a request. An empty field counts as absent.
struct Describing {
  std::string_view name;
  std::string_view value = {};
  bool repeated = false;

  bool take(const http::Field& field) noexcept {
    if (!has_name(field, name)) return false;
    repeated = repeated || (!value.empty() && !field.value.empty());
    if (value.empty()) value = field.value;
    return true;
  }
};

struct Describer {
  Describing uri;
  Describing method;

  bool present() const noexcept { return !uri.value.empty(); }
  bool unclear() const noexcept { return uri.repeated || method.repeated; }
};

std::optional<std::string_view> unless_empty(std::string_view value) noexcept {
  return value.empty() ? std::nullopt : std::optional(value);
}

}  // namespace

// The client's own fields arrive together with the gateway's. Only the fields that belong to the
// gateway's URI count. Two URIs are refused, because nobody could know which is the gateway's.
Description ForwardedAttributes::begin(const http::Request& request) {
  Describer original{{"x-original-uri"}, {"x-original-method"}};
  Describer forwarded{{"x-forwarded-uri"}, {"x-forwarded-method"}};
  for (const http::Field& field : request.fields) {
    if (field.name.empty() || (field.name.front() | 0x20) != 'x') continue;
    if (original.uri.take(field) || original.method.take(field)) continue;
    if (!forwarded.uri.take(field)) forwarded.method.take(field);
  }
  const bool is_original = original.present();
  const Describer& describer = is_original ? original : forwarded;
  const bool both = is_original && forwarded.present();
  description_ = !describer.present()          ? Description::kMissing
                 : both || describer.unclear() ? Description::kUnclear
                 : is_original                 ? Description::kOriginal
                                               : Description::kForwarded;
  request_ = &request;
  target_ = split_target(describer.uri.value);
  method_ = describer.method.value.empty() ? request.method : describer.method.value;
  path_.reset();
  host_.reset();
  ip_.reset();
  buffers_.clear();
  return description_;
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
    return find_query(target_.query, name.substr(kQuery.size()), buffers_);
  }
  if (name.starts_with(kCookie)) {
    return find_cookie(request_->fields, name.substr(kCookie.size()));
  }
  return std::nullopt;
}

std::optional<std::string_view> ForwardedAttributes::path() const {
  if (!path_) path_ = normalized_path(target_.path, path_buffer_);
  return path_;
}

std::optional<std::string_view> ForwardedAttributes::host() const {
  if (!host_) host_ = host_name(authority(), host_buffer_);
  return unless_empty(*host_);
}

std::optional<std::string_view> ForwardedAttributes::ip() const {
  if (!ip_) ip_ = client_address(*request_, *trusted_, ip_buffer_);
  return unless_empty(*ip_);
}

// Returns X-Forwarded-Host if a trusted proxy describes the request with it, or else Host. If the
// field is repeated, the last one is the proxy's.
std::string_view ForwardedAttributes::authority() const {
  if (description_ == Description::kForwarded && trusted_->contains(request_->peer)) {
    const auto all = find_header(request_->fields, "x-forwarded-host", buffers_);
    const std::string_view last = all ? trimmed(all->substr(all->rfind(',') + 1)) : "";
    if (!last.empty()) return last;
  }
  return find_header(request_->fields, "host", buffers_).value_or("");
}

}  // namespace sluice::server
