#include "cli/keys_command.h"

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
#include "base/quoted.h"
#include "cli/commands.h"
#include "cli/store_flags.h"
#include "limiter/without_scripts.h"
#include "server/api/admin/json_writer.h"
#include "stores/redis/client/target.h"
#include "stores/redis/script/state_reader.h"

namespace sluice::cli {
namespace {

using Slot = std::optional<std::uint16_t>;

constexpr std::size_t kBatch = 100;  // keys whose values are read at once

// Returns the masters of a cluster.
Expected<std::vector<redis::SlotMaster>> ask_masters(RedisSession& session) {
  std::vector<redis::SlotMaster> masters;
  const auto asked = session.ask(
      [](redis::Command& command) {
        command.append("CLUSTER");
        command.append("SLOTS");
      },
      [&](const redis::Reply& reply) { masters = redis::masters_of(reply); });
  if (!asked) return Unexpected{asked.error()};
  return masters;
}

// Iterates over the matching keys of one server.
class Scan {
 public:
  Scan(RedisSession& session, Slot slot, std::string pattern)
      : session_(session), slot_(slot), pattern_(std::move(pattern)) {}

  bool ended() const { return cursor_ == "0"; }
  Expected<std::vector<std::string>> next() {
    std::vector<std::string> keys;
    const auto take = [&](const redis::Reply& reply) {
      cursor_ = "0";
      if (reply.type != redis::Reply::kArray || reply.count != 2) return;
      cursor_ = reply[0].string();
      for (const redis::Reply& key : reply[1]) keys.emplace_back(key.string());
    };
    const auto fill = [&](redis::Command& command) {
      for (const std::string_view word : {"SCAN", cursor_.empty() ? "0" : cursor_.c_str(), "MATCH",
                                          pattern_.c_str(), "COUNT", "1000"}) {
        command.append(word);
      }
      command.slot = slot_;
    };
    if (const auto asked = session_.ask(fill, take); !asked) return Unexpected{asked.error()};
    return keys;
  }

 private:
  RedisSession& session_;
  const Slot slot_;
  const std::string pattern_;
  std::string cursor_;
};

struct Name {
  Keyspace keyspace;
  Algorithm algorithm;
  std::string tag;
  std::string key;
  std::optional<SliceName> slice;
  bool is_block = false;
};

std::optional<Name> read_name(std::string_view redis_key) {
  if (auto name = redis::read_counter_name(redis_key)) {
    return Name{name->keyspace, name->algorithm, std::move(name->tag), std::move(name->key), {}};
  }
  if (auto name = redis::read_block_name(redis_key)) {
    return Name{
        name->keyspace, name->algorithm, std::move(name->tag), std::move(name->key), {}, true};
  }
  if (auto slice = read_slice_name(redis_key)) {
    return Name{slice->keyspace, slice->algorithm, slice->tag, slice->key, std::move(slice)};
  }
  return std::nullopt;
}

// Describes the value of a counter with this name, or says that it is not a counter.
void read_value(const Name& name, const std::string& value, FoundKey& found) {
  if (name.slice) {
    if (value.empty() || value.find_first_not_of("-0123456789") != value.npos) {
      found.summary = "a string that is not a count";
      return;
    }
    found.algorithm = name.algorithm;
    found.summary = value + " units in slice " + name.slice->slice + " of the clock, of " +
                    name.slice->period_us + " us in " + name.slice->slices;
    return;
  }
  auto state = name.is_block ? redis::read_block_state(value)
                             : redis::read_counter_state(name.algorithm, value);
  if (!state) {
    found.summary = "a string that is not the state of a counter";
    return;
  }
  found.algorithm = name.algorithm;
  found.summary = std::move(state->summary);
  found.details = std::move(state->details);
  found.changed = base::to_rfc3339(state->changed, 6);
  if (state->forgotten_from) found.forgotten = base::to_rfc3339(*state->forgotten_from, 6);
}

// Reads the values of keys and reports them.
class KeyReader {
 public:
  using Found = std::function<void(const FoundKey&)>;

  KeyReader(RedisSession& session, const KeyQuery& query, const Found& found)
      : session_(session), query_(query), found_(found) {}

  bool is_wanted(std::string_view redis_key) const {
    if (redis_key == query_.except || !redis_key.starts_with(query_.prefix)) return false;
    if (!query_.pattern) return true;
    const auto name = read_name(redis_key.substr(query_.prefix.size()));
    return name && glob_matches(*query_.pattern, name->key);
  }

  Status read(std::span<const std::string> keys) {
    std::vector<RedisSession::Fill> commands;
    for (const std::string& key : keys) {
      for (const std::string_view verb : {"TYPE", "PTTL", "GET"}) {
        commands.emplace_back([&key, verb](redis::Command& command) {
          command.append(verb);
          command.append(key);
          command.slot = redis::slot_of(key);
        });
      }
    }
    std::vector<Raw> raw(keys.size());
    const auto take = [&](std::size_t number, const redis::Reply& reply) {
      Raw& one = raw[number / 3];
      if (number % 3 == 0) one.type = reply.string();
      if (number % 3 == 1) one.ttl_ms = reply.integer;
      if (number % 3 == 2 && reply.type == redis::Reply::kString) one.value = reply.string();
    };
    // GET fails for a value of another type, which TYPE reports.
    const auto refused = [](std::size_t, std::string_view) {};
    if (auto asked = session_.ask(commands, take, refused); !asked) return asked;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (raw[i].type != "none") found_(describe(keys[i], raw[i]));
    }
    return {};
  }

 private:
  struct Raw {
    std::string type;
    std::int64_t ttl_ms = -1;
    std::optional<std::string> value;
  };

  FoundKey describe(const std::string& redis_key, const Raw& raw) const {
    FoundKey found;
    found.redis_key = redis_key;
    found.ttl_ms = raw.ttl_ms;
    const auto name = read_name(std::string_view(redis_key).substr(query_.prefix.size()));
    if (!name) {
      found.summary = "a " + raw.type + " under a key that is not a counter's";
      return found;
    }
    found.is_of_rule = name->keyspace == Keyspace::kRules;
    found.tag = name->tag;
    found.key = name->key;
    if (raw.value) {
      read_value(*name, *raw.value, found);
    } else {
      found.summary = "a " + raw.type + ", not a counter";
    }
    return found;
  }

  RedisSession& session_;
  const KeyQuery& query_;
  const Found& found_;
};

// Returns a pattern that matches at least the requested keys; is_wanted() decides exactly.
std::string wide_pattern(const KeyQuery& query) {
  std::string pattern = as_glob(query.prefix) + "*";
  const bool is_plain = query.pattern && query.pattern->find_first_of("[\\%}") == std::string::npos;
  return is_plain ? pattern + *query.pattern + "*" : pattern;
}

// Keeps the requested keys that were not seen before.
void keep_new(std::vector<std::string>& keys, const KeyReader& reader,
              std::unordered_set<std::string>& seen) {
  std::erase_if(keys, [&](const std::string& key) {
    return !reader.is_wanted(key) || !seen.insert(key).second;
  });
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view here = text.substr(i, 3);
    if (here == "%25" || here == "%7D") {
      out += here == "%25" ? '%' : '}';
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Removes the part after the last separator from the end. Returns it if it is a number.
std::optional<std::string_view> take_last(std::string_view& text, char separator) {
  const std::size_t at = text.rfind(separator);
  if (at == text.npos) return std::nullopt;
  const std::string_view last = text.substr(at + 1);
  text = text.substr(0, at);
  const bool is_number = !last.empty() && last.find_first_not_of("0123456789") == last.npos;
  return is_number ? std::optional(last) : std::nullopt;
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

std::optional<SliceName> read_slice_name(std::string_view redis_key) {
  const Keyspace keyspace = redis::take_keyspace(redis_key);
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
  SliceName name{.keyspace = keyspace,
                 .algorithm = *algorithm,
                 .tag = {},
                 .key = {},
                 .period_us = std::string(*period),
                 .slices = std::string(*slices),
                 .slice = std::string(*slice)};
  if (rest[brace + 1] == '.') {
    name.tag = decoded(inner);
    name.key = behind;
    return name;
  }
  if (rest[brace + 1] != '!' || !behind.empty()) return std::nullopt;
  name.key = inner == "%" ? std::string() : decoded(inner);
  return name;
}

Expected<bool> find_keys(RedisSession& session, const KeyQuery& query,
                         const std::function<void(const FoundKey&)>& found) {
  std::vector<redis::SlotMaster> masters(1);
  if (session.target().kind == redis::Target::Kind::kCluster) {
    auto asked = ask_masters(session);
    if (!asked) return Unexpected{asked.error()};
    masters = *std::move(asked);
  }
  KeyReader reader(session, query, found);
  std::unordered_set<std::string> seen;  // SCAN may return a key twice
  std::size_t left = query.most;
  for (const redis::SlotMaster& master : masters) {
    for (Scan scan(session, master.slot, wide_pattern(query)); !scan.ended();) {
      auto keys = scan.next();
      if (!keys) return Unexpected{keys.error()};
      keep_new(*keys, reader, seen);
      for (std::span<const std::string> rest(*keys); !rest.empty();) {
        if (left == 0) return false;
        const auto batch = rest.first(std::min({rest.size(), kBatch, left}));
        if (auto read = reader.read(batch); !read) return Unexpected{read.error()};
        rest = rest.subspan(batch.size());
        left -= batch.size();
      }
    }
  }
  return true;
}

namespace {

// One element of a pattern, and the rest of the pattern.
struct Element {
  std::string_view text;  // "a", "\a", "?", "*", "[...]"
  std::string_view rest;
};

// Reads the first element of a pattern that is not empty. An unterminated class ends with the
// pattern.
Element first_of(std::string_view pattern) noexcept {
  std::size_t size = 1;
  if (pattern[0] == '\\' && pattern.size() > 1) size = 2;
  if (pattern[0] == '[') {
    while (size < pattern.size() && pattern[size] != ']') {
      size += pattern[size] == '\\' && size + 1 < pattern.size() ? 2U : 1U;
    }
    size += size < pattern.size() ? 1U : 0U;
  }
  return {pattern.substr(0, size), pattern.substr(size)};
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
    const Element element = pattern.empty() ? Element{} : first_of(pattern);
    if (element.text == "*") {
      starred = true;
      behind_star = pattern = element.rest;
      retry = text;
    } else if (!element.text.empty() && !text.empty() && matches_byte(element.text, text[0])) {
      pattern = element.rest;
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
    const Element element = first_of(pattern);
    if (element.text == "*" || element.text == "?" || element.text[0] == '[') return false;
    pattern = element.rest;
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

namespace {

constexpr const char* kKeysHelp =
    R"(Print one line per counter in Redis: the algorithm, the key as written in rules
(docs/rules.md), the units counted, and the time until Redis deletes the counter. Values that are
not counters are marked as foreign. Redis does not contain the limits, so the output cannot say
what remains.

PATTERN matches keys. It may contain `*`, `?` and `[a-z]`; write `\` before these characters to
match them literally. A key without wildcards is shown with all details. The command finds keys
with SCAN, which does not block the server. It may miss keys that are created or deleted meanwhile.

Exit status: 0 success; 1 the store is not available, or the key does not exist; 2 wrong usage.

Examples:
  sluice keys --store redis://127.0.0.1:6379
  sluice keys --store redis://127.0.0.1:6379 'shop|login|*'
  sluice keys --config /etc/sluice/sluice.yaml --json 'shop|order|user|*')";

struct KeysFlags {
  std::shared_ptr<StoreFlags> store;
  std::optional<std::string> pattern;
  std::size_t most = 1000;
  bool json = false;
};

// Writes the bytes of control characters as `\xNN`.
std::string printable(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0, controls = 0; i < text.size(); ++i) {
    if (controls == 0) controls = base::control_length(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (controls == 0) {
      out += text[i];
    } else {
      out.append("\\x").append({kDigits[byte >> 4], kDigits[byte & 15]});
      --controls;
    }
  }
  return out;
}

// Formats a duration in its two largest units: "23h 59m", "1s 200ms".
std::string duration(std::int64_t ms) {
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

std::string expiry(const FoundKey& key) {
  return key.ttl_ms < 0 ? "never" : "in " + duration(key.ttl_ms);
}

void print_line(const FoundKey& key) {
  if (!key.algorithm) {
    std::cout << "foreign " << printable(key.redis_key) << ": " << key.summary;
  } else {
    std::cout << (key.is_of_rule ? "rule " : "") << to_string(*key.algorithm) << ' '
              << (key.tag.empty() ? "" : "{" + printable(key.tag) + "} ") << printable(key.key)
              << ": " << key.summary;
  }
  std::cout << "; expires " << expiry(key) << '\n';
}

void print_whole(const FoundKey& key) {
  const auto print = [](const char* name, const std::string& value) {
    if (!value.empty()) std::cout << name << printable(value) << '\n';
  };
  std::cout << "key         " << printable(key.key) << '\n';
  if (key.algorithm) print("named by    ", key.is_of_rule ? "a rule" : "a caller");
  print("tag         ", key.tag);
  print("algorithm   ", std::string(key.algorithm ? to_string(*key.algorithm) : "foreign"));
  print("in Redis    ", key.redis_key);
  print("state       ", key.summary);
  print("changed     ", key.changed);
  print("untouched   ", key.forgotten);
  print("expires     ", expiry(key));
  for (const std::string& detail : key.details) print("            ", detail);
}

void print_json(const FoundKey& key) {
  server::JsonWriter json;
  json.begin_object().member("redis_key", key.redis_key);
  if (key.algorithm) {
    json.member("algorithm", to_string(*key.algorithm)).member("key", key.key);
    json.member("keyspace", key.is_of_rule ? "rules" : "callers");
    if (!key.tag.empty()) json.member("tag", key.tag);
    json.member("state", key.summary);
  } else {
    json.member("foreign", key.summary);
  }
  if (!key.changed.empty()) json.member("changed", key.changed);
  if (!key.forgotten.empty()) json.member("untouched_from", key.forgotten);
  if (key.ttl_ms >= 0) json.member("ttl_ms", static_cast<std::uint64_t>(key.ttl_ms));
  if (!key.details.empty()) {
    json.key("details").begin_array();
    for (const std::string& detail : key.details) json.value(detail);
    json.end_array();
  }
  std::cout << json.end_object().view() << '\n';
}

Expected<int, Failed> list(const KeysFlags& flags) {
  const auto config = config_of(*flags.store);
  if (!config) return Unexpected{config.error()};
  const auto options = redis_options_of(*config);
  if (!options) return Unexpected{options.error()};
  const auto session = RedisSession::open(*options);
  if (!session) return Unexpected{Failed{session.error()}};
  const bool whole = flags.pattern && is_literal(*flags.pattern);
  bool any = false;
  const auto print = [&](const FoundKey& key) {
    if (flags.json) {
      print_json(key);
    } else if (whole) {
      std::cout << (any ? "\n" : "");
      print_whole(key);
    } else {
      print_line(key);
    }
    any = true;
  };
  const auto all = find_keys(**session,
                             {.prefix = options->prefix,
                              .pattern = flags.pattern,
                              .except = server::rules_key(config->redis),
                              .most = flags.most},
                             print);
  if (!all) return Unexpected{Failed{all.error()}};
  if (!*all) {
    std::cerr << "sluice: keys: there are more than " << flags.most << "; --most N shows more\n";
  }
  if (!any && whole)
    return Unexpected{Failed{"there is no counter with this key in " + (*session)->shown()}};
  return 0;
}

int run_list(const KeysFlags& flags) {
  const auto status = list(flags);
  if (status) return *status;
  std::cerr << "sluice: keys: " << status.error().what << '\n';
  return status.error().status;
}

}  // namespace

void add_keys(Command app, int& status) {
  const Command command = app.add_subcommand("keys", "Print the counters in Redis");
  auto flags = std::make_shared<KeysFlags>();
  flags->store = add_store_flags(command);
  command.add_option("PATTERN", flags->pattern, "A pattern of keys [all keys]");
  command.add_option("--most", flags->most, "The maximum number of keys [1000]")
      .range(1, 100'000'000);
  command.add_flag("--json", flags->json, "Print one JSON object per line");
  command.footer(kKeysHelp);
  command.callback([flags, &status] { status = run_list(*flags); });
}

}  // namespace sluice::cli
