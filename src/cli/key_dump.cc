// `sluice key dump`: finds and reads the counters in Redis.

#include "cli/key_command.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/civil_time.h"
#include "base/json_writer.h"
#include "base/quoted.h"
#include "cli/command.h"
#include "cli/store_flags.h"
#include "limiter/without_scripts.h"
#include "rules/counter_key.h"
#include "server/rules/published_rules.h"
#include "server/rules/server_overrides.h"
#include "stores/redis/client/target.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kBatch = 100;  // keys whose values are read at once

using KeyPattern = std::optional<std::string>;  // of the keys to print; absent: all

// The value of a key that begins with the prefix of the counters.
struct FoundKey {
  std::string redis_key;
  std::string type;
  std::optional<std::string> value = {};  // of a string
  std::int64_t ttl_ms = -1;               // time until it expires; below 0: never
  std::optional<KeyName> name = {};
  bool is_counter = false;
  redis::CounterState state = {};  // only the summary, if the value is not that of a counter
  bool has_times = false;          // in the state
};

std::optional<KeyName> read_name(std::string_view redis_key) {
  if (auto name = redis::read_counter_name(redis_key))
    return KeyName{*std::move(name), false, {}, {}, {}};
  if (auto name = redis::read_block_name(redis_key))
    return KeyName{*std::move(name), true, {}, {}, {}};
  return read_slice_name(redis_key);
}

// Describes the value of a counter with this name, or says that it is not a counter.
void read_counter(FoundKey& found) {
  const KeyName& name = *found.name;
  const std::string& value = *found.value;
  std::string& summary = found.state.summary;
  if (!name.slice.empty()) {
    found.is_counter = !value.empty() && value.find_first_not_of("-0123456789") == value.npos;
    summary = found.is_counter ? value + " units in slice " + name.slice + " of the clock, of " +
                                     name.period_us + " us in " + name.slices
                               : "a string that is not a count";
    return;
  }
  auto state = name.is_block ? redis::read_block_state(value)
                             : redis::read_counter_state(name.algorithm, value);
  found.is_counter = found.has_times = state.has_value();
  if (state) {
    found.state = *std::move(state);
  } else {
    summary = "a string that is not the state of a counter";
  }
}

void read_value(const std::string& prefix, FoundKey& found) {
  found.name = read_name(std::string_view(found.redis_key).substr(prefix.size()));
  if (!found.name) {
    found.state.summary = "a " + found.type + " under a key that is not a counter's";
  } else if (!found.value) {
    found.state.summary = "a " + found.type + ", not a counter";
  } else {
    read_counter(found);
  }
}

// Reads the values of keys. A key that is gone has the type "none".
std::vector<FoundKey> read_values(RedisSession& session, std::span<const std::string> keys) {
  std::vector<RedisSession::Fill> commands;
  std::vector<FoundKey> found;
  for (const std::string& key : keys) {
    found.push_back({.redis_key = key, .type = {}});
    const std::uint16_t slot = redis::slot_of(key);
    for (const std::string_view verb : {"TYPE", "PTTL", "GET"}) {
      commands.push_back(RedisSession::of_words({verb, key}, slot));
    }
    commands.push_back(RedisSession::of_words({"HGET", key, redis::kHeadOfBudget}, slot));
  }
  const auto take = [&](std::size_t number, const redis::Reply& reply) {
    FoundKey& one = found[number / 4];
    if (number % 4 == 0) one.type = reply.string();
    if (number % 4 == 1) one.ttl_ms = reply.integer;
    if (number % 4 >= 2 && reply.type == redis::Reply::kString) one.value = reply.string();
  };
  // GET and HGET fail for a value of another type, which TYPE reports.
  session.ask(commands, take, true);
  return found;
}

// Returns a pattern that matches at least the requested keys.
std::string wide_pattern(const std::string& prefix, const KeyPattern& wanted) {
  std::string pattern = as_glob(prefix) + "*";
  const bool is_plain = wanted && wanted->find_first_of("[\\%}") == std::string::npos;
  return is_plain ? pattern + *wanted + "*" : pattern;
}

// Removes the part after the last separator from the end. Returns it if it is a number.
std::optional<std::string_view> take_last(std::string_view& text, char separator) {
  const std::size_t at = text.rfind(separator);
  if (at == text.npos) return std::nullopt;
  const std::string_view last = text.substr(at + 1);
  text = text.substr(0, at);
  return base::is_digits(last) ? std::optional(last) : std::nullopt;
}

// Without scripts the keys of an algorithm begin with its letter in upper case.
std::optional<Algorithm> algorithm_without_scripts(char letter) {
  for (const AlgorithmInfo& row : kAlgorithms) {
    const bool works = works_without_scripts(row.state, Align::kClock);
    if (works && row.letter - 'a' + 'A' == letter) return row.algorithm;
  }
  return std::nullopt;
}

}  // namespace

std::optional<KeyName> read_slice_name(std::string_view redis_key) {
  KeyName name;
  name.keyspace = redis::take_keyspace(redis_key);
  if (redis_key.size() < 2 || redis_key[1] != '{') return std::nullopt;
  const std::optional<Algorithm> algorithm = algorithm_without_scripts(redis_key[0]);
  std::string_view rest = redis_key.substr(2);
  const auto slice = take_last(rest, ':');
  const auto slices = slice ? take_last(rest, '/') : std::nullopt;
  const auto period = slices ? take_last(rest, ':') : std::nullopt;
  const std::size_t brace = rest.find('}');
  if (!algorithm || !period || brace == rest.npos || brace + 1 == rest.size()) return std::nullopt;
  const std::string_view inner = rest.substr(0, brace);
  const std::string_view behind = rest.substr(brace + 2);
  name.algorithm = *algorithm;
  name.period_us = *period;
  name.slices = *slices;
  name.slice = *slice;
  if (rest[brace + 1] == '.') {
    name.tag = base::decoded(inner);
    name.key = behind;
    return name;
  }
  if (rest[brace + 1] != '!' || !behind.empty()) return std::nullopt;
  name.key = inner == "%" ? std::string() : base::decoded(inner);
  return name;
}

namespace {

// Returns the first element of a pattern: "a", "\a", "?", "*", "[...]". An unterminated class ends
// with the pattern.
std::string_view first_of(std::string_view pattern) noexcept {
  if (pattern.empty()) return {};
  std::size_t size = 1;
  if (pattern[0] == '\\' && pattern.size() > 1) size = 2;
  if (pattern[0] == '[') {
    while (size < pattern.size() && pattern[size] != ']') {
      size += pattern[size] == '\\' && size + 1 < pattern.size() ? 2U : 1U;
    }
    size += size < pattern.size() ? 1U : 0U;
  }
  return pattern.substr(0, size);
}

// Removes the first byte of a class.
unsigned char take_byte(std::string_view& members) noexcept {
  if (members.size() > 1 && members[0] == '\\') members.remove_prefix(1);
  const auto byte = static_cast<unsigned char>(members[0]);
  members.remove_prefix(1);
  return byte;
}

bool in_class(std::string_view members, unsigned char byte) noexcept {
  members.remove_prefix(1);
  if (members.ends_with(']')) members.remove_suffix(1);
  const bool negated = members.starts_with('^');
  if (negated) members.remove_prefix(1);
  bool found = false;
  while (!members.empty()) {
    unsigned char low = take_byte(members);
    unsigned char high = low;
    if (members.size() > 1 && members[0] == '-') {
      members.remove_prefix(1);
      high = take_byte(members);
    }
    if (low > high) std::swap(low, high);
    found |= low <= byte && byte <= high;
  }
  return found != negated;
}

bool matches_byte(std::string_view element, char c) noexcept {
  if (element == "?") return true;
  if (element[0] == '[') return in_class(element, static_cast<unsigned char>(c));
  return element.back() == c;
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) noexcept {
  // Where to continue if the text after the last star does not match: that star matches one byte
  // more.
  std::string_view behind_star;
  std::string_view retry;
  bool starred = false;
  for (;;) {
    if (pattern.empty() && text.empty()) return true;
    const std::string_view element = first_of(pattern);
    if (element == "*") {
      starred = true;
      behind_star = pattern = pattern.substr(1);
      retry = text;
    } else if (!element.empty() && !text.empty() && matches_byte(element, text[0])) {
      pattern.remove_prefix(element.size());
      text.remove_prefix(1);
    } else {
      if (!starred || retry.empty()) return false;
      retry.remove_prefix(1);
      text = retry;
      pattern = behind_star;
    }
  }
}

bool is_literal(std::string_view pattern) noexcept {
  while (!pattern.empty()) {
    const std::string_view element = first_of(pattern);
    if (element == "*" || element == "?" || element[0] == '[') return false;
    pattern.remove_prefix(element.size());
  }
  return true;
}

std::string as_glob(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string in_two_units(std::int64_t ms) {
  constexpr std::array<std::pair<std::int64_t, const char*>, 5> kUnits{
      {{86'400'000, "d"}, {3'600'000, "h"}, {60'000, "m"}, {1'000, "s"}, {1, "ms"}}};
  std::size_t first = 0;
  while (first + 1 < kUnits.size() && ms < kUnits[first].first) ++first;
  std::string text;
  for (std::size_t i = first; i < std::min(first + 2, kUnits.size()); ++i) {
    const std::int64_t count = ms / kUnits[i].first;
    ms %= kUnits[i].first;
    if (count == 0 && i > first) break;
    text.append(text.empty() ? "" : " ").append(std::to_string(count)).append(kUnits[i].second);
  }
  return text;
}

namespace {

constexpr const char* kKeysHelp =
    R"(Print one line per counter in Redis: the algorithm, the key as written in rules
(docs/rules.md), the units counted, and the time until Redis deletes the counter. Values that are
not counters are marked as foreign. Redis does not contain the limits, so the output cannot say
what remains; `sluice key RULE NAME=VALUE` asks a server.

PATTERN matches keys. It may contain `*`, `?` and `[a-z]`; write `\` before these characters to
match them literally. A key without wildcards is shown with all details. The command finds keys
with SCAN, which does not block the server. It may miss keys that are created or deleted meanwhile.
JSON has %XX for bytes of keys that are not UTF-8.

Exit status: 0 success; 1 the store is not available, or the key does not exist; 2 wrong usage.

Examples:
  sluice key dump --store redis://127.0.0.1:6379
  sluice key dump --store redis://127.0.0.1:6379 'shop|login|*'
  sluice key dump --config /etc/sluice/sluice.yaml --json 'shop|order|user|*')";

// Writes the bytes of control characters as `\xNN`.
std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0, controls = 0; i < text.size(); ++i) {
    if (controls == 0) controls = base::control_length(text.substr(i));
    if (controls == 0) {
      out += text[i];
    } else {
      base::append_lower_hex(out += "\\x", text[i]);
      --controls;
    }
  }
  return out;
}

std::string expiry(const FoundKey& found) {
  return found.ttl_ms < 0 ? "never" : "in " + in_two_units(found.ttl_ms);
}

void print_line(const FoundKey& found) {
  if (!found.is_counter) {
    std::cout << "foreign " << printable(found.redis_key);
  } else {
    const KeyName& name = *found.name;
    std::cout << (name.keyspace == Keyspace::kRules ? "rule " : "") << to_string(name.algorithm)
              << ' ' << (name.tag.empty() ? "" : "{" + printable(name.tag) + "} ")
              << printable(name.key);
  }
  std::cout << ": " << found.state.summary << "; expires " << expiry(found) << '\n';
}

// Return a date, or an empty text.
std::string changed(const FoundKey& found) {
  return found.has_times ? base::to_rfc3339(found.state.changed, 6) : std::string();
}
std::string forgotten(const FoundKey& found) {
  const auto from = found.state.forgotten_from;
  return from ? base::to_rfc3339(*from, 6) : std::string();
}

void print_whole(const FoundKey& found) {
  const auto print = [](const char* name, const std::string& value) {
    if (!value.empty()) std::cout << name << printable(value) << '\n';
  };
  const KeyName name = found.name.value_or(KeyName());
  std::cout << "key         " << printable(name.key) << '\n';
  if (found.is_counter) {
    print("named by    ", name.keyspace == Keyspace::kRules ? "a rule" : "a caller");
  }
  print("tag         ", name.tag);
  print("algorithm   ", std::string(found.is_counter ? to_string(name.algorithm) : "foreign"));
  print("in Redis    ", found.redis_key);
  print("state       ", found.state.summary);
  print("changed     ", changed(found));
  print("untouched   ", forgotten(found));
  print("expires     ", expiry(found));
  for (const std::string& detail : found.state.details) print("            ", detail);
}

void print_json(const FoundKey& found) {
  base::JsonWriter json;
  const auto put = [&json](std::string_view member, std::string_view text) {
    json.member(member, rules::utf8_counter_key(text));
  };
  json.begin_object();
  put("redis_key", found.redis_key);
  if (found.is_counter) {
    const KeyName& name = *found.name;
    json.member("algorithm", to_string(name.algorithm));
    put("key", name.key);
    json.member("keyspace", name.keyspace == Keyspace::kRules ? "rules" : "callers");
    if (!name.tag.empty()) put("tag", name.tag);
    json.member("state", found.state.summary);
  } else {
    json.member("foreign", found.state.summary);
  }
  if (found.has_times) json.member("changed", changed(found));
  if (found.state.forgotten_from) json.member("untouched_from", forgotten(found));
  if (found.ttl_ms >= 0) json.member("ttl_ms", static_cast<std::uint64_t>(found.ttl_ms));
  if (!found.state.details.empty()) {
    json.array("details", found.state.details);
  }
  std::cout << json.end_object().view() << '\n';
}

// Prints the values of keys, at most `left`, which it reduces. Returns whether these are all.
template <typename Print>
bool print_found(RedisSession& session, const std::string& prefix,
                 std::span<const std::string> keys, std::size_t& left, const Print& print) {
  while (!keys.empty()) {
    if (left == 0) return false;
    const auto batch = keys.first(std::min({keys.size(), kBatch, left}));
    for (FoundKey& found : read_values(session, batch)) {
      if (found.type == "none") continue;
      read_value(prefix, found);
      print(found);
    }
    keys = keys.subspan(batch.size());
    left -= batch.size();
  }
  return true;
}

// Scans all servers and prints the requested keys, at most `left`. Returns whether these are all.
// It may miss keys that are created or deleted during the scan.
template <typename Print>
bool print_keys(RedisSession& session, const server::Config& config, const KeyPattern& pattern,
                std::size_t left, const Print& print) {
  const std::string& prefix = config.redis.options.prefix;
  // What servers keep next to the counters.
  const server::OverrideKeys overrides(prefix);
  const std::string rules = server::rules_key(config.redis);
  const std::array not_counters{rules, server::history_key(rules), overrides.all, overrides.changes,
                                overrides.head};
  std::unordered_set<std::string> seen;  // SCAN may return a key twice
  const auto is_other = [&](const std::string& key) {
    if (std::ranges::find(not_counters, key) != not_counters.end() || !key.starts_with(prefix)) {
      return true;
    }
    if (redis::read_ledger_name(std::string_view(key).substr(prefix.size()))) return true;
    if (pattern) {
      const auto name = read_name(std::string_view(key).substr(prefix.size()));
      if (!name || !glob_matches(*pattern, name->key)) return true;
    }
    return !seen.insert(key).second;
  };
  return session.scan(wide_pattern(prefix, pattern), [&](std::vector<std::string> keys) {
    std::erase_if(keys, is_other);
    return print_found(session, prefix, keys, left, print);
  });
}

int list(const StoreFlags& flags, const KeyPattern& pattern, std::size_t most, bool is_json) {
  const server::Config config = config_of(flags);
  RedisSession session(redis_options_of(config));
  const bool whole = pattern && is_literal(*pattern);
  bool any = false;
  const auto print = [&](const FoundKey& found) {
    if (is_json) {
      print_json(found);
    } else if (whole) {
      std::cout << (any ? "\n" : "");
      print_whole(found);
    } else {
      print_line(found);
    }
    any = true;
  };
  if (!print_keys(session, config, pattern, most, print)) {
    std::cerr << "sluice: key dump: there are more than " << most << "; --max N shows more\n";
  }
  if (!any && whole) throw Failed("there is no counter with this key in " + session.shown());
  return 0;
}

}  // namespace

void add_key_dump(Command key) {
  const Command command = key.add_subcommand("dump", "Print the counters in Redis", kKeysHelp);
  const auto store = add_store_flags(command);
  const auto pattern = std::make_shared<KeyPattern>();
  const auto most = std::make_shared<std::size_t>(1000);
  const auto json = std::make_shared<bool>(false);
  command.add_option("PATTERN", *pattern, "A pattern of keys [all keys]");
  command.add_option("--max", *most, "The maximum number of keys [1000]").range(1, 100'000'000);
  command.add_flag("--json", *json, "Print one JSON object per line");
  command.run("key dump",
              [store, pattern, most, json] { return list(*store, *pattern, *most, *json); });
}

}  // namespace sluice::cli
