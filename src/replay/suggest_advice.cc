#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/json_writer.h"
#include "base/quoted.h"
#include "core/period.h"
#include "replay/suggest.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::array<std::string_view, 4> kWriteMethods = {"POST", "PUT", "PATCH", "DELETE"};
constexpr std::array<std::string_view, 27> kExtensions = {
    "css", "js",   "mjs",  "map",  "png",   "jpg", "jpeg", "gif", "svg",
    "ico", "webp", "avif", "woff", "woff2", "ttf", "otf",  "eot", "mp3",
    "mp4", "webm", "wasm", "txt",  "pdf",   "zip", "gz",   "csv", "log"};
constexpr std::array<std::string_view, 2> kStaticFolders = {"static", "assets"};
static_assert(kExtensions.size() + kStaticFolders.size() <= 32, "RouteFinder has a bit for each");
constexpr std::array<std::string_view, 7> kApiFolders = {"api",     "apis", "rest",   "rpc",
                                                         "graphql", "ajax", "jsonrpc"};
// What the paths contain where people or programs say who they are,
constexpr std::array<std::string_view, 5> kLoginTexts = {"login", "logon", "password", "passwd",
                                                         "xmlrpc"};
// and the words that end a part of such a path.
constexpr std::array<std::string_view, 13> kLoginWords = {
    "log-in",    "signin",       "sign-in",        "signup",   "sign-up", "auth", "oauth",
    "authorize", "authenticate", "authentication", "register", "session", "token"};

// Returns a text as a number that no other text has, so that comparing it takes one instruction. 0:
// it is longer than the names that are compared.
constexpr std::uint64_t number_of(std::string_view text) {
  if (text.size() > 7) return 0;
  std::uint64_t number = text.size();
  for (const char c : text) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

template <std::size_t Size>
constexpr std::array<std::uint64_t, Size> numbers_of(
    const std::array<std::string_view, Size>& names) {
  std::array<std::uint64_t, Size> numbers{};
  for (std::size_t i = 0; i < Size; ++i) numbers[i] = number_of(names[i]);
  return numbers;
}
constexpr auto kWriteMethodNumbers = numbers_of(kWriteMethods);
constexpr auto kExtensionNumbers = numbers_of(kExtensions);
constexpr auto kStaticFolderNumbers = numbers_of(kStaticFolders);
constexpr auto kApiFolderNumbers = numbers_of(kApiFolders);

template <std::size_t Size>
std::size_t index_in(const std::array<std::uint64_t, Size>& numbers, std::string_view name) {
  const std::uint64_t number = number_of(name);
  return static_cast<std::size_t>(std::find(numbers.begin(), numbers.end(), number) -
                                  numbers.begin());
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
  return index_in(kApiFolderNumbers, folder) < kApiFolders.size();
}

std::string_view extension_of(std::string_view path) {
  constexpr std::size_t kLongest = 6;  // with its dot
  const std::string_view tail = path.substr(path.size() - std::min(path.size(), kLongest));
  const std::size_t dot = tail.rfind('.');
  return dot == tail.npos ? std::string_view{} : tail.substr(dot + 1);
}

// Whether the path is a pattern that matches only itself, and needs no quotes in YAML.
bool is_plain(std::string_view path) {
  const auto is_plain_byte = [](char c) { return base::is_letter_or("/.-_", c); };
  return path.size() <= 128 && std::ranges::all_of(path, is_plain_byte);
}

// Returns what follows the first occurrence of a text of lower case, or nothing.
std::optional<std::string_view> after(std::string_view path, std::string_view text) {
  const auto same = [](char a, char b) { return base::lower(a) == b; };
  const auto* const found = std::search(path.begin(), path.end(), text.begin(), text.end(), same);
  if (found == path.end()) return std::nullopt;
  return path.substr(static_cast<std::size_t>(found - path.begin()) + text.size());
}

// Whether a part of the path ends with the word, its plural or a number after it: /user/sessions,
// /accessToken, /oauth2, but not /authors, /session-notes or /assessions.
bool ends_part(std::string_view path, std::string_view word) {
  for (auto rest = after(path, word); rest; rest = after(*rest, word)) {
    const std::size_t start = path.size() - rest->size() - word.size();
    const bool begins = start == 0 || !base::is_letter(path[start - 1]) ||
                        ((path[start] & 0x20) == 0 && (path[start - 1] & 0x20) != 0);
    std::string_view end = *rest;
    if (end.starts_with('s')) end.remove_prefix(1);
    end.remove_prefix(std::min(end.find_first_not_of("0123456789"), end.size()));
    if (begins && (end.empty() || end[0] == '/' || end[0] == '.')) return true;
  }
  return false;
}

// Whether the path is the first page of a folder for administrators, where they log in:
// /administrator/index.php, but not /admin/users.
bool is_admin_page(std::string_view path) {
  const auto last_part = [&] { return path.substr(path.rfind('/') + 1); };
  if (last_part().starts_with("index.")) path.remove_suffix(last_part().size());
  while (path.ends_with('/')) path.remove_suffix(1);
  return last_part() == "admin" || last_part() == "administrator";
}

std::string listed(const std::vector<std::string>& items) {
  return "[" + base::joined(items) + "]";
}

}  // namespace

RouteKind RouteFinder::find(const LogLine& line) {
  if (has_paths_ && line.path == last_path_ && line.method == last_method_) return last_kind_;
  last_path_ = line.path;
  last_method_ = line.method;
  return last_kind_ = look(line);
}

RouteKind RouteFinder::look(const LogLine& line) {
  const std::string_view path = line.path;
  is_in_api_ = false;
  if (path.empty() || path.front() != '/') return RouteKind::kPages;
  has_paths_ = true;
  const bool may_write = !line.method.empty() && line.method[0] != 'G' && line.method[0] != 'H';
  const std::size_t method =
      may_write ? index_in(kWriteMethodNumbers, line.method) : kWriteMethods.size();
  const bool is_write = method < kWriteMethods.size();
  if (is_write) methods_ |= 1U << method;
  const std::string_view folder = folder_of(path);
  is_in_api_ = has(RouteKind::kApi) && is_api(folder);
  if (is_in_api_ && std::find(api_.begin(), api_.end(), folder) == api_.end()) {
    api_.emplace_back(folder);
  }
  if (is_write && has(RouteKind::kLogin) && is_login(path)) return RouteKind::kLogin;
  if (is_in_api_) return RouteKind::kApi;
  if (is_write && has(RouteKind::kWrites)) return RouteKind::kWrites;
  if (!has(RouteKind::kStatic)) return RouteKind::kPages;
  const std::size_t place = index_in(kStaticFolderNumbers, folder);
  if (place < kStaticFolders.size()) {
    extensions_ |= 1U << (kExtensions.size() + place);
    return RouteKind::kStatic;
  }
  const std::string_view extension = extension_of(path);
  if (extension.empty()) return RouteKind::kPages;
  const std::size_t kind = index_in(kExtensionNumbers, extension);
  if (kind == kExtensions.size()) return RouteKind::kPages;
  extensions_ |= 1U << kind;
  return RouteKind::kStatic;
}

// Whether a path that is written to looks like a login, and is one of the first of them.
bool RouteFinder::is_login(std::string_view path) {
  if (path == last_) return last_is_login_;
  last_ = path;
  last_is_login_ = is_known_login(path);
  if (last_is_login_ || logins_.size() == kMostPaths || !is_plain(path)) return last_is_login_;
  const auto any_of = [](const auto& words, const auto& is_in) {
    return std::any_of(words.begin(), words.end(), is_in);
  };
  const bool looks_so =
      any_of(kLoginTexts, [&](std::string_view text) { return after(path, text).has_value(); }) ||
      any_of(kLoginWords, [&](std::string_view word) { return ends_part(path, word); });
  if (!looks_so && !is_admin_page(path)) return false;
  logins_.emplace_back(path);
  return last_is_login_ = true;
}

bool RouteFinder::is_known_login(std::string_view path) const {
  return std::find(logins_.begin(), logins_.end(), path) != logins_.end();
}

bool RouteFinder::is_write(const LogLine& line) {
  return index_in(kWriteMethodNumbers, line.method) < kWriteMethods.size();
}

void GuessFinder::add(std::uint32_t client, std::uint32_t requests, const LogLine& line,
                      RouteKind kind) {
  if (client >= writer_of_.size()) writer_of_.resize(client + std::size_t{1}, kNone);
  std::uint32_t& place = writer_of_[client];
  if (kind != RouteKind::kWrites) {
    if (place == kNone) return;
    Writer& writer = writers_[place];
    writer.requests = requests;
    if (line.path == paths_[writer.path]) ++writer.reads;
    return;
  }
  if (is_missing(line.status)) return;
  const std::uint32_t path = is_plain(line.path) ? number_of(line.path) : kNone;
  if (path == kNone) return;
  ++writes_[path];
  if (place == kNone) {
    place = static_cast<std::uint32_t>(writers_.size());
    writers_.push_back({path});
  }
  Writer& writer = writers_[place];
  writer.requests = requests;
  if (writer.path != path && writer.others++ < writer.writes) return;
  if (writer.path != path) writer = {path, 0, 0, 0, 0, requests};
  ++writer.writes;
  writer.failed += line.status.starts_with('4') ? 1U : 0U;
}

std::uint32_t GuessFinder::number_of(std::string_view path) {
  if (const auto found = numbers_.find(path); found != numbers_.end()) return found->second;
  if (paths_.size() == kMostPaths) return kNone;
  const auto number = static_cast<std::uint32_t>(paths_.size());
  numbers_.emplace(paths_.emplace_back(path), number);
  writes_.push_back(0);
  return number;
}

bool GuessFinder::guesses(const Writer& writer) noexcept {
  const std::uint64_t writes = writer.writes;
  const std::uint64_t elsewhere =
      writer.requests - std::min<std::uint64_t>(writer.requests, writes + writer.reads);
  return guesses(writes, writer.failed, elsewhere);
}

std::vector<std::string> GuessFinder::paths() const {
  std::vector<std::uint32_t> clients(paths_.size());  // that guess there
  std::vector<std::uint64_t> requests(paths_.size());
  for (const Writer& writer : writers_) {
    if (!guesses(writer)) continue;
    ++clients[writer.path];
    requests[writer.path] += writer.writes;
  }
  std::vector<std::size_t> all;
  for (std::size_t path = 0; path < paths_.size(); ++path) {
    const bool is_guessed = clients[path] >= kClients && requests[path] * 2 > writes_[path];
    if (is_guessed) all.push_back(path);
  }
  std::ranges::sort(all, std::greater(), [&](std::size_t path) { return requests[path]; });
  all.resize(std::min(all.size(), RouteFinder::kMostPaths));
  std::vector<std::string> found;
  for (const std::size_t path : all) found.push_back(paths_[path]);
  return found;
}

std::size_t GuessFinder::bytes() const noexcept {
  return writer_of_.size() * sizeof(writer_of_[0]) + writers_.size() * sizeof(Writer);
}

void MatchMap::add_to(Patterns& all, std::string_view attribute, std::string pattern) {
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const auto& each) { return each.first == attribute; });
  if (found == all.end()) found = all.insert(found, {std::string(attribute), {}});
  found->second.push_back(std::move(pattern));
}

std::string MatchMap::text() const {
  const auto text_of = [](const Patterns& all) {
    std::string text;
    for (const auto& [attribute, patterns] : all) {
      text += (text.empty() ? "" : ", ") + attribute + ": " + listed(patterns);
    }
    return text;
  };
  std::string text = text_of(matches_);
  if (excludes_.empty()) return text;
  return text + (text.empty() ? "" : ", ") + "not: { " + text_of(excludes_) + " }";
}

void RouteFinder::leave_out(RouteKind kind) {
  left_out_[static_cast<std::size_t>(kind)] = true;
  if (kind == RouteKind::kLogin) logins_.clear();
  if (kind == RouteKind::kApi) api_.clear();
  if (kind == RouteKind::kStatic) extensions_ = 0;
}

MatchMap RouteFinder::match(RouteKind kind) const {
  MatchMap map;
  // Adds the methods, paths or folders to the routes that consist of them, and excludes them from
  // those that come later.
  const auto add = [&](bool has_them, bool is_without, std::string_view attribute,
                       const std::string& pattern) {
    if (has_them) map.add(attribute, pattern);
    if (is_without) map.exclude(attribute, pattern);
  };
  const bool is_login = kind == RouteKind::kLogin;
  const bool is_writes = kind == RouteKind::kWrites;
  const bool is_static = kind == RouteKind::kStatic;
  const bool is_pages = kind == RouteKind::kPages;
  const bool has_writes = has(RouteKind::kWrites);
  for (std::size_t i = 0; i < kWriteMethods.size(); ++i) {
    if ((methods_ >> i & 1) == 0) continue;
    add(is_login || is_writes, has_writes && (is_static || is_pages), "method",
        std::string(kWriteMethods[i]));
  }
  for (const std::string& path : logins_) add(is_login, is_writes, "path", path);
  for (const std::string& folder : api_) {
    add(kind == RouteKind::kApi, is_writes || is_static || is_pages, "path",
        "\"/" + folder + "/**\"");
  }
  for (std::size_t i = 0; i < kStaticFolders.size(); ++i) {
    if ((extensions_ >> (kExtensions.size() + i) & 1) == 0) continue;
    add(is_static, is_pages, "path", "\"/" + std::string(kStaticFolders[i]) + "/**\"");
  }
  for (std::size_t i = 0; i < kExtensions.size(); ++i) {
    if ((extensions_ >> i & 1) == 0) continue;
    add(is_static, is_pages, "path", "\"/**." + std::string(kExtensions[i]) + "\"");
  }
  return map;
}

namespace {

// How far the advice is at least above what the clients needed that it is made for: nearly all of
// them, without those whose requests that write mostly get a status of 4xx. The limit for logins is
// made for what three of four of them need, and for those that look like people.
constexpr double kHeadroom = 1.5;
constexpr double kStrictHeadroom = 4;

// Returns a number that is easy to read, and not below: 1, 2, ... 10, 12, 15, 20, 25, 30, 40, ...
std::uint64_t round_up(double number) {
  constexpr std::array<double, 11> kSteps = {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
  if (number <= 10) return static_cast<std::uint64_t>(std::max(1.0, std::ceil(number - 1e-9)));
  const double power = std::pow(10, std::floor(std::log10(number)));
  for (const double step : kSteps) {
    if (step * power >= number - 1e-9)
      return static_cast<std::uint64_t>(std::llround(step * power));
  }
  return static_cast<std::uint64_t>(std::llround(power * 10));
}

// Whether a client looks like a person or a program that does its work. Most of its requests do not
// get a status of 4xx. One that logs in also requests at least as much of other routes, as robots
// that guess passwords do not.
bool looks_legitimate(const RouteDemand& route, std::uint32_t key) {
  if (!is_of_writes(route.kind)) return true;
  const Behaviour& behaviour = route.behaviour[key];
  const std::uint64_t requests = route.demand.requests_of(key);
  if (std::uint64_t{behaviour.failed} * 2 > requests) return false;
  return route.kind != RouteKind::kLogin || behaviour.elsewhere >= requests;
}

// What clients of a route needed, and how many of them a limit may deny.
struct Needs {
  std::vector<DemandCurve> curves;  // as those of the route
  std::uint64_t keys = 0;
  std::uint64_t most_denied = 0;
  double headroom = kHeadroom;

  std::uint64_t units(std::size_t curve) const { return curves[curve].smallest(most_denied); }
  double need(std::size_t curve) const { return static_cast<double>(units(curve)) * headroom; }
};

// What the limit of a route is made for: the larger of these needs. The first are those of clients
// that look legitimate. Where passwords are guessed, many of the other clients are robots, and
// people need little, so the second leaves more room above what most clients need. `robots`: the
// hashes of clients that do not count. `is_shared`: all clients count.
std::vector<Needs> needs_of(const RouteDemand& route, double harm,
                            const std::set<std::uint64_t>& robots, bool is_shared) {
  constexpr double kGuessingShare = 0.25;
  const Demand& demand = route.demand;
  std::vector<Needs> all(1);
  if (!is_shared && (is_of_writes(route.kind) || !robots.empty())) {
    for (const DemandCurve& each : demand.curves()) {
      all[0].curves.emplace_back(each.algorithm, each.period, each.rate);
    }
    for (std::uint32_t key = 0; key < demand.keys(); ++key) {
      if (!looks_legitimate(route, key) || robots.contains(demand.hash_of(key))) continue;
      ++all[0].keys;
      for (std::size_t i = 0; i < all[0].curves.size(); ++i) {
        all[0].curves[i].add_key(peak_code(demand.peak_of(key, i)));
      }
    }
    all[0].most_denied = share_of(all[0].keys, harm);
  }
  // A limit that is made for nobody would deny all.
  if (all[0].curves.empty() || (all[0].keys == 0 && !is_of_writes(route.kind))) {
    all[0] = {demand.curves(), demand.keys(), share_of(demand.keys(), harm), kHeadroom};
  }
  if (route.kind == RouteKind::kLogin) {
    all.push_back({demand.curves(), demand.keys(),
                   share_of(demand.keys(), std::max(harm, kGuessingShare)), kStrictHeadroom});
  }
  return all;
}

// Measures what the clients needed that the advice admits, where robots are many of those that look
// legitimate. Returns the one that needed the largest burst, unless several did.
std::optional<std::uint32_t> measure_admitted(Advice& advice) {
  const RouteDemand& route = *advice.route;
  const std::size_t bucket = advice.bucket();
  std::optional<std::uint32_t> most;
  advice.keys_measured = 0;
  advice.busiest_hour = advice.burst_needed = 1;
  for (std::uint32_t key = 0; key < route.demand.keys(); ++key) {
    const std::uint64_t need = route.demand.peak_of(key, bucket);
    if (need > advice.burst || !looks_legitimate(route, key)) continue;
    ++advice.keys_measured;
    advice.busiest_hour = std::max(advice.busiest_hour, route.demand.busiest_hour_of(key));
    if (need < advice.burst_needed) continue;
    most = need > advice.burst_needed ? std::optional(key) : std::nullopt;
    advice.burst_needed = need;
  }
  return most;
}

// The clients that the advice denies, `most`, and those with at least a twentieth of many requests.
std::vector<AdvisedClient> clients_of(const Advice& advice, std::optional<std::uint32_t> most) {
  const RouteDemand& route = *advice.route;
  constexpr std::uint64_t kMany = 100;
  const auto is_heavy = [&](const AdvisedClient& each) {
    return each.requests >= kMany && each.requests * 20 >= route.demand.requests();
  };
  std::vector<AdvisedClient> clients;
  for (std::uint32_t key = 0; key < route.demand.keys(); ++key) {
    const std::uint64_t need = route.demand.peak_of(key, advice.bucket());
    const AdvisedClient each{.label = {},
                             .requests = route.demand.requests_of(key),
                             .burst_needed = std::max<std::uint64_t>(1, need),
                             .denied = need > advice.burst,
                             .needs_most = key == most,
                             .traits = route.traits.find(key)};
    if (each.denied || each.needs_most || is_heavy(each)) clients.push_back(each);
  }
  // Denied clients that are not heavy leave room for the others.
  const std::size_t count = std::min(clients.size(), Advice::kMostClients);
  std::partial_sort(clients.begin(), clients.begin() + static_cast<std::ptrdiff_t>(count),
                    clients.end(), [&](const AdvisedClient& a, const AdvisedClient& b) {
                      return std::tuple(a.needs_most, is_heavy(a), a.requests) >
                             std::tuple(b.needs_most, is_heavy(b), b.requests);
                    });
  clients.resize(count);
  std::sort(clients.begin(), clients.end(), [](const AdvisedClient& a, const AdvisedClient& b) {
    return std::tuple(a.denied, a.needs_most, a.requests) >
           std::tuple(b.denied, b.needs_most, b.requests);
  });
  for (AdvisedClient& each : clients) {
    if (each.traits != nullptr) each.label = each.traits->label;
  }
  return clients;
}

// The readable key of a client, or "one client".
std::string name_of(const RouteDemand& route, std::uint32_t key, const std::string& client) {
  const Traits* const traits = route.traits.find(key);
  return traits == nullptr || traits->label.empty() ? "one " + client
                                                    : printable(traits->label, 40);
}

// Says how much clients send to a login that request hardly anything else and are not denied, if it
// is at least a twentieth.
std::string guesses_note(const Advice& advice, const std::string& client) {
  const RouteDemand& route = *advice.route;
  std::uint64_t clients = 0, theirs = 0;
  for (std::uint32_t key = 0; key < route.behaviour.size(); ++key) {
    const std::uint64_t requests = route.demand.requests_of(key);
    if (route.demand.peak_of(key, advice.bucket()) > advice.burst) continue;
    if (!GuessFinder::repeats(requests, route.behaviour[key].elsewhere)) continue;
    ++clients;
    theirs += requests;
  }
  if (clients == 0 || theirs * 20 < route.demand.requests()) return "";
  return plural(clients, client) + " that send" + (clients == 1 ? "s" : "") +
         " hardly anything but logins " + (clients == 1 ? "is" : "are") + " not denied (" +
         percent(theirs, route.demand.requests()) + ")";
}

// Returns a warning if the clients that the advice does not deny and that cause most requests of a
// route of writes can be attackers, or an empty text. It names the least number of them that do.
std::string pace_note(const Advice& advice, const std::string& client) {
  const RouteDemand& route = *advice.route;
  const std::uint64_t all = route.demand.requests();
  if (route.kind == RouteKind::kLogin) return guesses_note(advice, client);
  if (route.writes * 2 <= all) return "";
  const std::size_t bucket = advice.bucket();
  const auto requests_of = [&](std::uint32_t key) { return route.demand.requests_of(key); };
  std::vector<std::uint32_t> allowed;  // those with most requests first
  for (std::uint32_t key = 0; key < route.behaviour.size(); ++key) {
    if (route.demand.peak_of(key, bucket) <= advice.burst) allowed.push_back(key);
  }
  std::stable_sort(allowed.begin(), allowed.end(), [&](std::uint32_t a, std::uint32_t b) {
    return requests_of(a) > requests_of(b);
  });
  constexpr std::size_t kMostNamed = 3;
  std::uint64_t clients = 0, theirs = 0;
  std::string names;
  for (const std::uint32_t key : allowed) {
    const bool repeats = GuessFinder::repeats(requests_of(key), route.behaviour[key].elsewhere);
    if (!route.is_alone || !repeats || theirs * 2 >= all) continue;
    theirs += requests_of(key);
    if (clients++ >= kMostNamed) continue;
    names += (names.empty() ? "" : ", ") + name_of(route, key, client);
  }
  if (theirs * 2 >= all) {
    if (clients > kMostNamed) names += " and " + grouped(clients - kMostNamed) + " more";
    return "most are of " + names + ", which send" + (clients == 1 ? "s" : "") +
           " hardly anything else: this may be the pace of an attacker";
  }
  const std::uint64_t most = allowed.empty() ? 0 : requests_of(allowed[0]);
  if (most * 2 < all || most < GuessFinder::kRepeats) return "";
  return name_of(route, allowed[0], client) + " sends " + percent(most, all) +
         " of these requests: the limit may be its pace";
}

// Chooses the rate and the burst. `need`: what the limit should allow of the curve with this index.
// `busiest`: units in an hour, of which the rate is no large multiple. `times`: an hour
// divided by the time of the log; 1 for longer logs.
template <class Need>
void choose_bucket(const Need& need, double busiest, double times, Advice& advice) {
  static constexpr double kMostPace = 10;        // times the busiest hour: more bounds nobody
  static constexpr std::uint64_t kMinutes = 10;  // in which a bucket should be full again
  const auto rank_of = [](std::uint64_t rate, std::uint64_t burst) {
    return std::pair(std::max(kMinutes, (burst - 1) / rate + 1), rate + burst);
  };
  const auto& curves = advice.route->demand.curves();
  const double hour = need(0) * times;
  for (std::size_t i = advice.route->demand.first_bucket(); i < curves.size(); ++i) {
    const std::uint64_t rate = curves[i].rate;
    if (i + 1 < curves.size() && static_cast<double>(rate) * 60 < hour) continue;
    const bool is_first = advice.curve == nullptr;
    if (!is_first && static_cast<double>(rate) * 60 > kMostPace * busiest * times) break;
    const std::uint64_t burst = round_up(need(i));
    if (!is_first && rank_of(rate, burst) >= rank_of(advice.curve->rate, advice.burst)) continue;
    advice.curve = &curves[i];
    advice.burst = burst;
  }
}

// Returns the needs of which the burst of the curve with this index is a multiple.
Advice::Basis basis_of(const std::vector<Needs>& needs, std::size_t curve) {
  const Needs& largest = *std::max_element(
      needs.begin(), needs.end(),
      [&](const Needs& a, const Needs& b) { return a.need(curve) < b.need(curve); });
  return {largest.headroom, largest.keys - largest.most_denied, largest.keys, largest.units(0),
          largest.units(curve)};
}

Advice advice_for(const SuggestReport& report, const RouteDemand& route, double harm,
                  const std::set<std::uint64_t>& robots, bool is_shared) {
  constexpr std::uint64_t kFewKeys = 20;      // fewer can all be robots
  constexpr std::uint64_t kPersonRate = 6;    // logins of a person in a minute,
  constexpr std::uint64_t kPersonBurst = 10;  // and one after the other
  const std::vector<Needs> needs = needs_of(route, harm, robots, is_shared);
  const auto& curves = route.demand.curves();
  // Of units: the slowest bucket has one a minute.
  const std::uint64_t scale = curves[route.demand.first_bucket()].rate;
  const bool is_few = needs[0].keys < kFewKeys;
  bool is_capped = false;
  const auto need = [&](std::size_t curve) {
    double largest = 0;
    for (const Needs& each : needs) largest = std::max(largest, each.need(curve));
    const auto most = static_cast<double>((curve == 0 ? kPersonRate * 60 : kPersonBurst) * scale);
    if (route.kind != RouteKind::kLogin || !is_few || is_shared || largest <= most) return largest;
    is_capped = true;
    return most;
  };
  Advice best;
  best.route = &route;
  const double times = 3600 / static_cast<double>(report.rate_span().count());
  choose_bucket(need, static_cast<double>(needs[0].units(0)), times, best);
  best.burst = std::clamp(best.burst, Advice::kLeastBurst, kMostUnits);
  if (!is_capped) best.basis = basis_of(needs, best.bucket());
  best.keys_denied = best.curve->keys_over(best.burst);
  const auto exact = route.demand.denied(best.bucket(), best.burst);
  best.is_exact = exact.has_value();
  best.requests_denied = exact.value_or(best.curve->requests_over(best.burst));
  best.clients = clients_of(best, measure_admitted(best));
  const std::string client = report.options.key == "{ip}" ? "client" : "key";
  const bool is_large = best.curve->rate > kPersonRate * scale || best.burst > kPersonBurst * scale;
  if (is_capped) {
    best.note = "too few " + client + "s look like people (" + grouped(needs[0].keys) + " of " +
                grouped(route.demand.keys()) + "): the limit is what one person needs";
  } else if (is_few && (is_large || !is_of_writes(route.kind))) {
    best.note =
        "only " + plural(needs[0].keys, client) + ": the limit is what the heaviest of them needs";
  }
  const std::string pace = pace_note(best, client);
  if (!pace.empty()) best.note += (best.note.empty() ? "" : "; ") + pace;
  return best;
}

// Returns the route to begin with: the largest one without those for which few requests are usual.
const RouteDemand* main_route(const SuggestReport& report) {
  const RouteDemand* main = nullptr;
  for (const RouteDemand& route : report.routes) {
    if (is_of_writes(route.kind) || route.kind == RouteKind::kStatic) continue;
    if (main == nullptr || route.demand.requests() > main->demand.requests()) main = &route;
  }
  return main != nullptr || report.routes.empty() ? main : &report.routes.back();
}

}  // namespace

std::chrono::seconds SuggestReport::covered() const {
  const auto covered =
      first ? std::chrono::floor<std::chrono::seconds>(*last - *first) : std::chrono::seconds{0};
  return std::max(covered, std::chrono::seconds{1});
}

std::chrono::seconds SuggestReport::rate_span() const {
  return std::clamp<std::chrono::seconds>(covered(), std::chrono::minutes{1},
                                          std::chrono::hours{1});
}

bool has_advice(const SuggestReport& report, const RouteDemand& route) {
  constexpr std::uint64_t kFewRequests = 20;
  if (&route == main_route(report)) return true;
  const std::uint64_t requests = route.demand.requests();
  return requests >= kFewRequests &&
         (is_of_writes(route.kind) || requests * 100 >= report.requests);
}

namespace {

// Returns the limits of advise(). `is_shared`: no clients are robots, as people share them.
std::vector<Advice> advice_for_routes(const SuggestReport& report, double harm, bool is_shared) {
  std::vector<Advice> advice;
  // That the limit of a login, which is the first route, denies and that do not look legitimate.
  std::set<std::uint64_t> robots;
  const RouteDemand* const main = main_route(report);
  for (const RouteDemand& route : report.routes) {
    if (!has_advice(report, route)) continue;
    const Advice each = advice_for(report, route, harm, robots, is_shared);
    advice.insert(&route == main ? advice.begin() : advice.end(), each);
    if (route.kind != RouteKind::kLogin || is_shared) continue;
    for (std::uint32_t key = 0; key < route.demand.keys(); ++key) {
      const bool denied = route.demand.peak_of(key, each.bucket()) > each.burst;
      if (denied && !looks_legitimate(route, key)) robots.insert(route.demand.hash_of(key));
    }
  }
  return advice;
}

// Returns how many clients a limit of writes denies that request other routes at least as much:
// most robots do not.
std::uint64_t denied_readers(const std::vector<Advice>& advice) {
  std::set<std::uint64_t> denied;
  for (const Advice& each : advice) {
    const RouteDemand& route = *each.route;
    if (!is_of_writes(route.kind)) continue;
    for (std::uint32_t key = 0; key < route.behaviour.size(); ++key) {
      const bool reads = route.behaviour[key].elsewhere >= route.demand.requests_of(key);
      const bool is_denied = route.demand.peak_of(key, each.bucket()) > each.burst;
      if (is_denied && reads) denied.insert(route.demand.hash_of(key));
    }
  }
  return denied.size();
}

}  // namespace

std::vector<Advice> advise(const SuggestReport& report, double harm) {
  std::vector<Advice> advice = advice_for_routes(report, harm, false);
  const auto put_first = [&](const std::string& what) {
    std::string& note = advice[0].note;
    note.insert(0, what + (note.empty() ? "" : "; "));
  };
  // Proxies, or other keys that people share: not that many clients are robots that read.
  const std::uint64_t shared = denied_readers(advice);
  if (static_cast<double>(shared) > std::max(harm, 0.5) * static_cast<double>(report.keys)) {
    advice = advice_for_routes(report, harm, true);
    const std::string& key = report.options.key;
    if (key.find("{ip") != key.npos || key.find("|ip") != key.npos) {
      put_first(grouped(shared) + " of " + plural(report.keys, "client") +
                " log in or fail too often for one person, and look like proxies: expected "
                "the address of the client in the log, such as by real_ip_header in nginx");
    }
  }
  if (!advice.empty() && report.covered() < std::chrono::hours{1}) {
    put_first("the log covers " + duration_text(report.covered()) +
              ", and rates are for hours: use a longer log");
  }
  if (!advice.empty() && report.disordered) {
    put_first(
        "a log is not in order of time, so the numbers are wrong: sort it, or name the log of each "
        "server");
  }
  return advice;
}

namespace {

// Returns the attributes of a key that a client could choose or leave out: those besides `ip`, with
// no alternative.
std::string trusted_of(const std::string& key) {
  std::string names;
  for (std::size_t at = key.find('{'); at != key.npos; at = key.find('{', at + 1)) {
    const std::string part = key.substr(at + 1, key.find('}', at) - at - 1);
    if (part.find('|') == part.npos && part.starts_with("header.")) {
      names += (names.empty() ? "" : ", ") + part;
    }
  }
  return names;
}

std::string rule_text(const SuggestReport& report, const Advice& advice,
                      const std::string& prefix) {
  const std::string& name = advice.route->name;
  // Two marks: with one removed from each line, it is still a comment.
  std::string yaml = "  ## " + denial_text(report, advice) + "\n";
  if (!advice.note.empty()) yaml += "  ## " + advice.note + "\n";
  const auto add = [&](const std::string& line) { yaml += "  " + prefix + line + "\n"; };
  add("- name: " + name);
  add("  mode: shadow  # denies nothing; delete this line to enforce the limit");
  add("  continue: true  # the rules after it decide; delete this line too");
  if (!advice.route->match.empty()) add("  match: { " + advice.route->match + " }");
  add("  limits:");
  add("    - { name: " + name + ", key: " + base::json_string(report.options.key) +
      ", algorithm: token_bucket, limit: " + std::to_string(advice.curve->rate) + ", per: " +
      core::format_period(advice.curve->period) + ", burst: " + std::to_string(advice.burst) +
      (report.options.unit().empty() ? "" : ", cost: request") + " }");
  return yaml;
}

}  // namespace

std::string denial_text(const SuggestReport& report, const Advice& advice) {
  const Demand& demand = advice.route->demand;
  const std::string all = plural(demand.requests(), "request") + " of " +
                          plural(demand.keys(), report.options.key == "{ip}" ? "client" : "key");
  if (advice.keys_denied == 0) return "denies none of " + all;
  return (advice.is_exact ? "denies " : "denies at most ") + grouped(advice.requests_denied) +
         " of " + grouped(demand.requests()) + " requests, of " + grouped(advice.keys_denied) +
         " of " + grouped(demand.keys()) + (report.options.key == "{ip}" ? " clients" : " keys");
}

std::string advised_rules(const SuggestReport& report, const std::vector<Advice>& advice) {
  std::string yaml =
      "# Limits for past traffic, found by sluice suggest. The rule that is not a comment is the "
      "one\n"
      "# to begin with. Each rule is in shadow mode: it denies nothing, and counts what it would "
      "deny.\n";
  if (advice.size() > 1) {
    yaml += "# This command makes rules of the comments: sed 's/^  # /  /' THIS_FILE > NEW_FILE\n";
  }
  yaml += "version: 1\n";
  if (const std::string trusted = trusted_of(report.options.key); !trusted.empty()) {
    yaml += "# Clients must not be able to choose these; a gateway sets them.\ntrusted: [" +
            trusted + "]\n";
  }
  yaml += cost_comment(report.options);
  if (advice.empty()) return yaml + "rules: []\n";
  std::vector<const Advice*> ordered;
  for (const Advice& each : advice) ordered.push_back(&each);
  std::sort(ordered.begin(), ordered.end(),
            [](const Advice* a, const Advice* b) { return a->route->kind < b->route->kind; });
  yaml += "rules:\n";
  for (const Advice* each : ordered) {
    yaml += rule_text(report, *each, each == &advice.front() ? "" : "# ");
  }
  return yaml;
}

}  // namespace sluice::replay
