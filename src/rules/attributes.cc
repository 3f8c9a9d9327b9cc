#include "rules/attributes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/ip_address.h"
#include "rules/diagnostics.h"
#include "sluice/attributes.h"

namespace sluice {

Attributes::Attributes(
    std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  values_.reserve(values.size());
  for (const auto& [name, value] : values) set(name, value);
}

void Attributes::set(std::string_view name, std::string_view value) {
  for (auto& [known, old] : values_) {
    if (known != name) continue;
    old = value;
    return;
  }
  values_.emplace_back(name, value);
}

std::optional<std::string_view> Attributes::find(std::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

namespace rules {
namespace {

constexpr std::array<std::string_view, 4> kSent{"ip", "path", "host", "method"};
constexpr std::array<std::string_view, 4> kGroups{"header.", "query.", "cookie.", "body."};

// The names of attributes in other programs, in lower case with _ for -. `remote_address` is one of
// Envoy's descriptors, which rules may read.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kForeign{{
    {"user_agent", "header.user-agent"},
    {"authorization", "header.authorization"},
    {"referer", "header.referer"},
    {"remote_user", "header.x-user-id"},
    {"remote_addr", "ip"},
    {"binary_remote_addr", "ip"},
    {"ip_address", "ip"},
    {"client_ip", "ip"},
    {"clientip", "ip"},
    {"real_ip", "ip"},
    {"x_real_ip", "ip"},
    {"x_forwarded_for", "ip"},
    {"remote_ip", "ip"},
    {"source_ip", "ip"},
    {"uri", "path"},
    {"url", "path"},
    {"request_uri", "path"},
    {"path_info", "path"},
    {"verb", "method"},
    {"request_method", "method"},
    {"http_host", "host"},
    {"server_name", "host"},
}};

// Returns what a name of nginx, a framework or a field of HTTP is here, or an empty text.
std::string translated(std::string_view name) {
  std::string lower = lower_case(name);
  std::string plain = lower;
  std::ranges::replace(plain, '-', '_');
  for (const auto& [foreign, own] : kForeign) {
    if (plain == foreign) return std::string(own);
  }
  if (lower.starts_with("x-")) return "header." + lower;
  if (!lower.starts_with("http_")) return {};
  std::ranges::replace(lower, '_', '-');
  return "header." + lower.substr(5);
}

}  // namespace

std::uint32_t AttributeTable::number(std::string_view name) {
  std::string key = normalized(name);
  const auto next = static_cast<std::uint32_t>(names_.size());
  const auto [at, is_new] = numbers_.try_emplace(key, next);
  if (is_new) names_.push_back(std::move(key));
  return at->second;
}

std::string normalized(std::string_view name) {
  return name.starts_with("header.") ? lower_case(name) : std::string(name);
}

bool is_of_client(std::string_view name) noexcept {
  return std::ranges::any_of(kGroups,
                             [&](std::string_view group) { return name.starts_with(group); });
}

// Programs and Envoy send names of their own, so the first letter must be right, and a name of two
// letters all but the case.
std::string did_you_mean_attribute(std::string_view name) {
  if (const std::string narrow = half_width(name); narrow != name) {
    return "; did you mean " + in_quotes(narrow) + "?";
  }
  if (name.starts_with("header.") && name.find('_') != name.npos) {
    std::string own(name);
    std::ranges::replace(own, '_', '-');
    return "; did you mean " + in_quotes(own) + "?";
  }
  if (name.empty() || is_of_client(name)) return {};
  if (const std::string own = translated(name); !own.empty()) {
    return "; did you mean " + in_quotes(own) + "?";
  }
  if (std::ranges::find(kSent, name) != kSent.end()) return {};
  const std::size_t dot = name.find('.');
  const auto& known = dot != name.npos ? kGroups : kSent;
  std::vector<std::string> sent(known.begin(), known.end());
  std::vector<std::string_view> similar;
  for (std::string& one : sent) {
    if (dot != name.npos) one += name.substr(dot + 1);
    if (one.front() == (name.front() | 0x20)) similar.push_back(one);
  }
  if (name.size() == 2 && (name[1] | 0x20) != 'p') return {};
  return did_you_mean(name, similar);
}

void warn_of_attribute(std::string_view name, std::size_t at, const Warn& warn) {
  const std::string proposal = did_you_mean_attribute(name);
  if (proposal.empty()) return;
  warn(at, "no front end sends the attribute " + in_quotes(name),
       "expected method, path, host, ip, header.NAME, query.NAME, cookie.NAME, body.NAME, or an "
       "attribute that a program sends" +
           proposal);
}

void warn_of_constant_key(std::string_view key, std::size_t at, const Warn& warn) {
  if (key == "{method}") {
    return warn(at, "the key '{method}' is the same for all clients",
                "expected an attribute that differs between clients; did you mean '{ip}'?");
  }
  if (key.find("｛") != key.npos || key.find("｝") != key.npos) {
    return warn(at, "the key " + in_quotes(key) + " has full-width braces, which are plain text",
                "expected ASCII braces; did you mean " + in_quotes(half_width(key)) + "?");
  }
  std::string_view name = key;
  if (name.starts_with("{{") && name.ends_with("}}")) name = name.substr(2, name.size() - 4);
  if (name.find_first_of("{} ") != name.npos) return;
  if (name.starts_with('$')) name.remove_prefix(1);
  const std::string own = translated(name);
  const bool is_name =
      is_of_client(name) || std::ranges::find(kSent, name) != kSent.end() || !own.empty();
  if (!is_name) return;
  warn(at, "the key " + in_quotes(key) + " is the same for all requests",
       "expected an attribute in braces; did you mean " +
           in_quotes("{" + (own.empty() ? std::string(name) : own) + "}") + "?");
}

std::optional<std::string> find_address_error(std::string_view address) {
  const bool is_like_one = address.find_first_of(".:") != address.npos &&
                           address.find_first_not_of("0123456789abcdefABCDEF.:") == address.npos;
  if (is_like_one && !base::IpAddress::parse(address)) {
    return in_quotes(address) + " is not an address; expected one such as 192.0.2.1";
  }
  const std::size_t slash = std::min(address.find('/'), address.size());
  const std::string first(address.substr(0, slash));
  if (slash == address.size() || !base::IpAddress::parse(first)) return std::nullopt;
  return in_quotes(address) +
         " is a network, and a request has one address; expected an address such as " + first +
         ", or a rule with `match: { ip: " + std::string(address) + " }` and `action: deny`";
}

std::optional<std::string> find_name_error(std::string_view name) {
  if (name.empty()) return "an attribute without a name; expected one such as ip or header.host";
  if (has_control(name)) {
    return "a control character in the attribute " + in_quotes(name) +
           "; expected a name such as ip";
  }
  if (name.front() == ' ' || name.back() == ' ') {
    return "a space next to the attribute " + in_quotes(name) + "; expected the name alone";
  }
  for (const std::string_view group : kGroups) {
    if (name == group)
      return in_quotes(name) + " lacks its name; expected " + std::string(group) + "NAME";
  }
  return std::nullopt;
}

}  // namespace rules
}  // namespace sluice
