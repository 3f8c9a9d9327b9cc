#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "core/period.h"
#include "replay/suggest.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::array<std::string_view, 4> kWriteMethods = {"POST", "PUT", "PATCH", "DELETE"};
constexpr std::array<std::string_view, 22> kExtensions = {
    "css",  "js",   "mjs",   "map", "png", "jpg", "jpeg", "gif", "svg",  "ico",  "webp",
    "avif", "woff", "woff2", "ttf", "otf", "eot", "mp3",  "mp4", "webm", "wasm", "txt"};
constexpr std::array<std::string_view, 2> kStaticFolders = {"static", "assets"};
constexpr std::array<std::string_view, 7> kApiFolders = {"api",     "apis", "rest",   "rpc",
                                                         "graphql", "ajax", "jsonrpc"};
// Parts of the paths where people or programs say who they are.
constexpr std::array<std::string_view, 14> kLoginWords = {
    "login", "log-in",   "signin", "sign-in",  "logon",   "signup", "sign-up",
    "auth",  "password", "passwd", "register", "session", "token",  "xmlrpc"};

template <std::size_t kSize>
std::size_t index_in(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// Returns the first folder of a path, or its only part: "api" of "/api/items".
std::string_view folder_of(std::string_view path) {
  path.remove_prefix(1);
  return path.substr(0, path.find('/'));
}

bool is_api(std::string_view folder) {
  if (folder.size() >= 2 && folder.size() <= 3 && folder[0] == 'v') {
    return folder.find_first_not_of("0123456789", 1) == folder.npos;
  }
  return index_in(kApiFolders, folder) < kApiFolders.size();
}

std::string_view extension_of(std::string_view path) {
  constexpr std::size_t kLongest = 6;  // with its dot
  const std::string_view tail = path.substr(path.size() - std::min(path.size(), kLongest));
  const std::size_t dot = tail.rfind('.');
  return dot == tail.npos ? std::string_view{} : tail.substr(dot + 1);
}

// Whether the path is a pattern that matches only itself, and needs no quotes in YAML.
bool is_plain(std::string_view path) {
  const auto is_plain_byte = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '.' || c == '-' || c == '_';
  };
  return path.size() <= 128 && std::all_of(path.begin(), path.end(), is_plain_byte);
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return "[" + text + "]";
}

}  // namespace

RouteKind RouteFinder::find(const LogLine& line) {
  const std::string_view path = line.path;
  if (path.empty() || path.front() != '/') return RouteKind::kPages;
  has_paths_ = true;
  const bool may_write = !line.method.empty() && line.method[0] != 'G' && line.method[0] != 'H';
  const std::size_t method =
      may_write ? index_in(kWriteMethods, line.method) : kWriteMethods.size();
  const bool is_write = method < kWriteMethods.size();
  if (is_write) {
    methods_ |= 1U << method;
    if (is_login(path)) return RouteKind::kLogin;
  }
  const std::string_view folder = folder_of(path);
  if (is_api(folder)) {
    if (std::find(api_.begin(), api_.end(), folder) == api_.end()) api_.emplace_back(folder);
    return RouteKind::kApi;
  }
  if (is_write) return RouteKind::kWrites;
  const std::size_t place = index_in(kStaticFolders, folder);
  if (place < kStaticFolders.size()) {
    extensions_ |= 1U << (kExtensions.size() + place);
    return RouteKind::kStatic;
  }
  const std::string_view extension = extension_of(path);
  if (extension.empty()) return RouteKind::kPages;
  const std::size_t kind = index_in(kExtensions, extension);
  if (kind == kExtensions.size()) return RouteKind::kPages;
  extensions_ |= 1U << kind;
  return RouteKind::kStatic;
}

// Whether a path that is written to looks like a login, and is one of the first of them.
bool RouteFinder::is_login(std::string_view path) {
  if (path == last_) return last_is_login_;
  last_ = path;
  last_is_login_ = std::find(logins_.begin(), logins_.end(), path) != logins_.end();
  if (last_is_login_ || logins_.size() == kMostPaths || !is_plain(path)) return last_is_login_;
  const auto is_part = [&](std::string_view word) {
    const auto same = [](char a, char b) {
      return (a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a) == b;
    };
    return std::search(path.begin(), path.end(), word.begin(), word.end(), same) != path.end();
  };
  if (std::none_of(kLoginWords.begin(), kLoginWords.end(), is_part)) return false;
  logins_.emplace_back(path);
  return last_is_login_ = true;
}

std::string RouteFinder::match(RouteKind kind) const {
  std::vector<std::string> methods, api, files;
  for (std::size_t i = 0; i < kWriteMethods.size(); ++i) {
    if ((methods_ >> i & 1) != 0) methods.emplace_back(kWriteMethods[i]);
  }
  for (const std::string& folder : api_) api.push_back("\"/" + folder + "/**\"");
  for (std::size_t i = 0; i < kStaticFolders.size(); ++i) {
    if ((extensions_ >> (kExtensions.size() + i) & 1) != 0) {
      files.push_back("\"/" + std::string(kStaticFolders[i]) + "/**\"");
    }
  }
  for (std::size_t i = 0; i < kExtensions.size(); ++i) {
    if ((extensions_ >> i & 1) != 0) files.push_back("\"/**." + std::string(kExtensions[i]) + "\"");
  }
  switch (kind) {
    case RouteKind::kLogin: return "method: " + joined(methods) + ", path: " + joined(logins_);
    case RouteKind::kApi: return "path: " + joined(api);
    case RouteKind::kWrites: return "method: " + joined(methods);
    case RouteKind::kStatic: return "path: " + joined(files);
    case RouteKind::kPages: break;
  }
  std::string others;
  if (!methods.empty()) others = "method: " + joined(methods);
  api.insert(api.end(), files.begin(), files.end());
  if (!api.empty()) others += (others.empty() ? "path: " : ", path: ") + joined(api);
  return others.empty() ? "" : "not: { " + others + " }";
}

}  // namespace sluice::replay
