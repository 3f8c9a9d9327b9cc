#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/glob.h"
#include "cli/redis_keys.h"
#include "cli/store_flags.h"
#include "core/quoted.h"
#include "server/api/admin/json_writer.h"

namespace sluice::cli {
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
    if (controls == 0) controls = core::control_length(text.substr(i));
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
