#include "cli/redis_keys.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include "cli/glob.h"
#include "limiter/without_scripts.h"
#include "stores/redis/client/target.h"
#include "stores/redis/script/state_reader.h"

namespace sluice::cli {
namespace {

using Slot = std::optional<std::uint16_t>;

constexpr std::size_t kBatch = 100;  // keys whose values are read at once

std::string text_of(const redisReply& reply) {
  const bool has_text = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS;
  return has_text ? std::string(reply.str, reply.len) : std::string();
}

// Returns one slot of each master of a cluster, so that the client can address each master.
Expected<std::vector<Slot>> slots_of_masters(RedisSession& session) {
  std::vector<Slot> slots;
  std::vector<std::string> masters;
  const auto take = [&](const redisReply& reply) {
    for (std::size_t i = 0; i < reply.elements; ++i) {
      const redisReply& range = *reply.element[i];
      if (range.type != REDIS_REPLY_ARRAY || range.elements < 3) continue;
      const redisReply& master = *range.element[2];
      if (master.type != REDIS_REPLY_ARRAY || master.elements < 2) continue;
      std::string name =
          text_of(*master.element[0]) + ":" + std::to_string(master.element[1]->integer);
      if (std::find(masters.begin(), masters.end(), name) != masters.end()) continue;
      masters.push_back(std::move(name));
      slots.emplace_back(static_cast<std::uint16_t>(range.element[0]->integer));
    }
  };
  const auto asked = session.ask(
      [](redis::Command& command) {
        command.append("CLUSTER");
        command.append("SLOTS");
      },
      take);
  if (!asked) return Unexpected{asked.error()};
  return slots;
}

// Iterates over the matching keys of one server.
class Scan {
 public:
  Scan(RedisSession& session, Slot slot, std::string pattern)
      : session_(session), slot_(slot), pattern_(std::move(pattern)) {}

  bool ended() const { return cursor_ == "0"; }
  Expected<std::vector<std::string>> next() {
    std::vector<std::string> keys;
    const auto take = [&](const redisReply& reply) {
      cursor_ = "0";
      if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 2) return;
      cursor_ = text_of(*reply.element[0]);
      const redisReply& list = *reply.element[1];
      for (std::size_t i = 0; i < list.elements; ++i) keys.push_back(text_of(*list.element[i]));
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
  found.changed = redis::to_text(state->changed);
  if (state->forgotten_from) found.forgotten = redis::to_text(*state->forgotten_from);
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

  Expected<bool> read(std::span<const std::string> keys) {
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
    const auto take = [&](std::size_t number, const redisReply& reply) {
      Raw& one = raw[number / 3];
      if (number % 3 == 0) one.type = text_of(reply);
      if (number % 3 == 1) one.ttl_ms = reply.integer;
      if (number % 3 == 2 && reply.type == REDIS_REPLY_STRING) one.value = text_of(reply);
    };
    // GET fails for a value of another type, which TYPE reports.
    const auto refused = [](std::size_t, std::string_view) {};
    if (auto asked = session_.ask(commands, take, refused); !asked) return asked;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (raw[i].type != "none") found_(describe(keys[i], raw[i]));
    }
    return true;
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
  std::vector<Slot> slots{Slot{}};
  if (session.target().kind == redis::Target::Kind::kCluster) {
    auto masters = slots_of_masters(session);
    if (!masters) return Unexpected{masters.error()};
    slots = *std::move(masters);
  }
  KeyReader reader(session, query, found);
  std::unordered_set<std::string> seen;  // SCAN may return a key twice
  std::size_t left = query.most;
  for (const Slot slot : slots) {
    for (Scan scan(session, slot, wide_pattern(query)); !scan.ended();) {
      auto keys = scan.next();
      if (!keys) return Unexpected{keys.error()};
      keep_new(*keys, reader, seen);
      for (std::span<const std::string> rest(*keys); !rest.empty();) {
        if (left == 0) return false;
        const auto batch = rest.first(std::min({rest.size(), kBatch, left}));
        if (auto read = reader.read(batch); !read) return read;
        rest = rest.subspan(batch.size());
        left -= batch.size();
      }
    }
  }
  return true;
}

}  // namespace sluice::cli
