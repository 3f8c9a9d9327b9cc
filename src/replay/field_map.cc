#include "replay/field_map.h"

#include <algorithm>

namespace sluice::replay {
namespace {

constexpr std::string_view kCosts = "costs.";

struct UsualField {
  std::string_view source;
  FieldTarget target;
};

constexpr UsualField usual(std::string_view source, FieldKind kind, std::uint8_t rank) {
  return {source, {kind, rank, {}, nullptr}};
}

using enum FieldKind;

// The names that servers use. Where a log has several of them, the lowest rank is the most exact.
constexpr UsualField kUsualFields[] = {
    usual("msec", kTime, 1),
    usual("time", kTime, 2),
    usual("ts", kTime, 2),
    usual("timestamp", kTime, 2),
    usual("@timestamp", kTime, 2),
    usual("start_time", kTime, 2),
    usual("datetime", kTime, 3),
    usual("time_iso8601", kTime, 4),
    usual("time_local", kTime, 5),
    usual("ip", kClient, 1),
    usual("client_ip", kClient, 1),
    usual("request.client_ip", kClient, 1),
    usual("remote_addr", kClient, 2),
    usual("request.remote_ip", kClient, 2),
    usual("remote_ip", kClient, 2),
    usual("downstream_remote_address", kClient, 2),
    usual("client", kClient, 3),
    usual("x_forwarded_for", kForwardedFor, 4),
    usual("x-forwarded-for", kForwardedFor, 4),
    usual("method", kMethod, 1),
    usual(":method", kMethod, 1),
    usual("request_method", kMethod, 1),
    usual("request.method", kMethod, 1),
    usual("request_uri", kTarget, 1),
    usual("request.uri", kTarget, 1),
    usual("x-envoy-original-path", kTarget, 1),
    usual("x-envoy-origin-path", kTarget, 1),
    usual(":path", kTarget, 2),
    usual("path", kTarget, 2),
    usual("uri", kTarget, 3),
    usual("url", kTarget, 3),
    usual("request", kRequest, 1),
    usual("args", kQuery, 1),
    usual("query_string", kQuery, 1),
    usual("status", kStatus, 1),
    usual("response_code", kStatus, 1),
    usual("status_code", kStatus, 1),
    usual("referer", kReferer, 1),
    usual("user_agent", kUserAgent, 1),
    usual("user-agent", kUserAgent, 1),
    {"host", {kAttribute, 1, "host", nullptr}},
    {"http_host", {kAttribute, 1, "host", nullptr}},
    {"request.host", {kAttribute, 1, "host", nullptr}},
    {"authority", {kAttribute, 1, "host", nullptr}},
    {":authority", {kAttribute, 1, "host", nullptr}},
};

unsigned char lower(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 'A' && byte <= 'Z' ? static_cast<unsigned char>(byte + ('a' - 'A')) : byte;
}

}  // namespace

FieldTarget target_of_name(std::string_view name, std::uint8_t rank) noexcept {
  if (name == "time") return {kTime, rank};
  if (name == "ip") return {kClient, rank};
  if (name == "method") return {kMethod, rank};
  if (name == "path") return {kTarget, rank};
  if (name == "status") return {kStatus, rank};
  if (name == "header.referer") return {kReferer, rank};
  if (name == "header.user-agent") return {kUserAgent, rank};
  if (name == "cost") return {kUnits, rank};
  if (name.starts_with(kCosts)) return {kCost, rank, name.substr(kCosts.size())};
  return {kAttribute, rank, name};
}

FieldMap::FieldMap(std::span<const FieldMapping> mappings)
    : mappings_(mappings.begin(), mappings.end()) {
  for (const UsualField& field : kUsualFields) add(field.source, field.target);
  for (const FieldMapping& mapping : mappings_) {
    add(mapping.source, target_of_name(mapping.name, 0));
  }
}

void FieldMap::add(std::string_view source, FieldTarget target) {
  const auto [place, is_new] = targets_.try_emplace(source, target);
  if (is_new) return;
  others_.push_back(place->second);
  place->second = target;
  place->second.also = &others_.back();
}

const FieldTarget* FieldMap::find(std::string_view source) const noexcept {
  const auto found = targets_.find(source);
  return found == targets_.end() ? nullptr : &found->second;
}

std::size_t FieldMap::CaseHash::operator()(std::string_view text) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ lower(c)) * 0x100000001b3u;
  return static_cast<std::size_t>(hash);
}

bool FieldMap::CaseEqual::operator()(std::string_view a, std::string_view b) const noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace sluice::replay
