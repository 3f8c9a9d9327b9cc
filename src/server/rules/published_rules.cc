// Only xxHash's inline header is used; nothing is linked.
#define XXH_INLINE_ALL
#include "server/rules/published_rules.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "rules/diagnostics.h"
#include "sluice/clock.h"

namespace sluice::server {

void begin_command(redis::Command& command, std::string_view key,
                   std::initializer_list<std::string_view> words) {
  command.script = nullptr;
  command.elements = 0;
  command.tail.clear();
  command.slot = redis::slot_of(key);
  for (const std::string_view word : words) command.append(word);
}

namespace {

using base::take_until;

std::optional<PastPush> read_entry(std::string_view line) {
  PastPush push;
  push.id = take_until(line, ' ');
  const auto version = base::read_number<std::uint64_t>(take_until(line, ' '));
  push.pushed_at = take_until(line, ' ');
  const auto files = base::read_number<std::uint64_t>(take_until(line, ' '));
  const auto bytes = base::read_number<std::uint64_t>(take_until(line, ' '));
  if (!version || !files || !bytes) return std::nullopt;
  push.version = *version;
  push.files = *files;
  push.bytes = *bytes;
  push.by = line;
  return push;
}

// Removes "SIZE:TEXT" and returns the text.
std::optional<std::string> take_text(std::string_view& rest) {
  const auto size = base::read_number<std::uint64_t>(take_until(rest, ':'));
  if (!size || *size > rest.size()) return std::nullopt;
  std::string text(rest.substr(0, *size));
  rest.remove_prefix(*size);
  return text;
}

// Errors: these are not the texts of the push.
Expected<PublishedRules> decode_texts(std::string_view rest, const PastPush& push) {
  std::vector<RulesText> texts;
  while (!rest.empty()) {
    auto name = take_text(rest);
    auto text = name ? take_text(rest) : std::nullopt;
    if (!text) return Unexpected{"damaged rules"};
    texts.push_back({std::move(*name), std::move(*text)});
  }
  auto rules = publish(push.version, push.pushed_at, std::move(texts));
  if (!rules || rules->id != push.id) {
    return Unexpected{"damaged rules: something other than a push has changed them"};
  }
  rules->by = push.by;
  return rules;
}

constexpr std::string_view kKept = "sluice rules 1";

constexpr std::string_view kFormat = "1";

// KEYS: the rules, and their history, if there is one. ARGV: the expected id; the entry of the
// history and its rules; the fields of the rules.
//
// The hash is not deleted first: while its slot moves to another server, a key that is gone cannot
// be written again. HDEL is first because a server without memory executes HSET only after a write
// that needs none.
constexpr std::string_view kPushText = R"(local id = redis.call('HGET', KEYS[1], 'id')
if not id and redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('ERR the key does not contain rules')
end
if (id or '') ~= ARGV[1] then return 0 end
local entries = KEYS[2] and redis.call('HGET', KEYS[2], 'entries') or ''
local is_new, gone = {}, {''}
for i = 4, #ARGV, 2 do is_new[ARGV[i]] = true end
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if not is_new[fields[i]] then gone[#gone + 1] = fields[i] end
end
redis.call('HDEL', KEYS[1], unpack(gone))
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
if not KEYS[2] then return 1 end
local new = string.match(ARGV[2], '^%S+')
local kept, bytes = {ARGV[2]}, #ARGV[3]
for entry in string.gmatch(entries, '[^\n]+') do
  local old, size = string.match(entry, '^(%S+) %S+ %S+ %S+ (%d+)')
  if old and old ~= new then
    bytes = bytes + size
    if #kept < 50 and bytes <= 67108864 then
      kept[#kept + 1] = entry
    else
      redis.call('HDEL', KEYS[2], 'rules.' .. old)
    end
  end
end
redis.call('HSET', KEYS[2], 'entries', table.concat(kept, '\n'), 'rules.' .. new, ARGV[3])
return 1
)";
constexpr redis::Script kPush{"push_rules", kPushText, "3723e8e671f19201fa6616230a28317eb69eb598"};

std::string id_of(std::uint64_t version, const std::vector<RulesText>& texts) {
  const std::string all = encode_texts(texts);
  const XXH64_hash_t hash = XXH3_64bits(all.data(), all.size());
  std::string id = std::to_string(version) + "-";
  for (int shift = 56; shift >= 0; shift -= 8) {
    base::append_lower_hex(id, static_cast<char>(hash >> shift));
  }
  return id;
}

// Calls `append` for each field of the hash: a name and a value.
template <typename Append>
void for_each_field(const PublishedRules& rules, const Append& append) {
  append("format", kFormat);
  append("id", rules.id);
  append("version", std::to_string(rules.version));
  append("pushed_at", rules.pushed_at);
  append("by", rules.by);
  append("files", std::to_string(rules.texts.size()));
  for (std::size_t i = 0; i < rules.texts.size(); ++i) {
    append("name." + std::to_string(i), rules.texts[i].name);
    append("text." + std::to_string(i), rules.texts[i].text);
  }
}

void append_fields(redis::Command& command, const PublishedRules& rules) {
  for_each_field(rules, [&](std::string_view name, std::string_view value) {
    command.append(name);
    command.append(value);
  });
}

// Returns the value of a field in the reply of HGETALL.
std::optional<std::string_view> find_field(const redis::Reply& hash, std::string_view name) {
  for (std::size_t i = 0; i + 1 < hash.count; i += 2) {
    if (hash[i].string() == name) return hash[i + 1].string();
  }
  return std::nullopt;
}
std::optional<std::uint64_t> find_number(const redis::Reply& hash, std::string_view name) {
  const auto text = find_field(hash, name);
  return text ? base::read_number<std::uint64_t>(*text) : std::nullopt;
}

}  // namespace

std::string history_key(std::string_view key) {
  std::string history = std::string(key) + ":history";
  if (redis::slot_of(history) != redis::slot_of(key)) {
    history.append("{").append(key).append("}");
  }
  if (redis::slot_of(history) != redis::slot_of(key)) history.clear();
  return history;
}

std::string entry_of(const PublishedRules& rules) {
  std::string entry = rules.id + " " + std::to_string(rules.version) + " " +
                      (rules.pushed_at.empty() ? "-" : rules.pushed_at) + " " +
                      std::to_string(rules.texts.size()) + " " +
                      std::to_string(encode_texts(rules.texts).size()) + " " + rules.by;
  std::ranges::replace(entry, '\n', ' ');
  return entry;
}

std::string encode_texts(const std::vector<RulesText>& texts) {
  std::string all;
  for (const RulesText& text : texts) {
    for (const std::string* part : {&text.name, &text.text}) {
      all.append(std::to_string(part->size())).append(":").append(*part);
    }
  }
  return all;
}

void fill_in_read_history(redis::Command& command, std::string_view key) {
  begin_command(command, key, {"HGET", history_key(key), "entries"});
}

void fill_in_read_past(redis::Command& command, std::string_view key, std::string_view id) {
  begin_command(command, key, {"HGET", history_key(key), "rules." + std::string(id)});
}

Expected<std::vector<PastPush>> read_history(const redis::Reply& reply) {
  std::vector<PastPush> pushes;
  if (reply.type == redis::Reply::kNil) return pushes;
  if (reply.type != redis::Reply::kString) return Unexpected{"the reply is not text"};
  std::string_view rest = reply.text;
  while (!rest.empty()) {
    auto push = read_entry(take_until(rest, '\n'));
    if (push) pushes.push_back(std::move(*push));  // else something else has written the line
  }
  return pushes;
}

Expected<std::vector<RulesText>> read_past(const redis::Reply& reply, const PastPush& push) {
  if (reply.type != redis::Reply::kString) return Unexpected{"the rules are no longer there"};
  auto rules = decode_texts(reply.text, push);
  if (!rules) return Unexpected{rules.error()};
  return std::move(rules->texts);
}

std::string kept_text(const PublishedRules& rules) {
  std::string text(kKept);
  return text.append("\n").append(entry_of(rules)).append("\n").append(encode_texts(rules.texts));
}

Expected<PublishedRules> read_kept_text(std::string_view text) {
  if (take_until(text, '\n') != kKept) return Unexpected{"it does not contain kept rules"};
  const auto push = read_entry(take_until(text, '\n'));
  if (!push) return Unexpected{"its second line is damaged"};
  return decode_texts(text, *push);
}

Expected<PublishedRules> publish(std::uint64_t version, std::string pushed_at,
                                 std::vector<RulesText> texts) {
  std::size_t bytes = 0;
  for (const RulesText& text : texts) bytes += text.name.size() + text.text.size();
  if (texts.empty()) return Unexpected{"there are no rules to push; expected a rules file"};
  if (texts.size() > kMostPublishedFiles) {
    return Unexpected{std::to_string(texts.size()) + " rules files; expected at most " +
                      std::to_string(kMostPublishedFiles)};
  }
  if (bytes > kMostPublishedBytes) {
    return Unexpected{std::to_string(bytes) + " bytes of rules; expected at most " +
                      std::to_string(kMostPublishedBytes)};
  }
  std::string id = id_of(version, texts);
  return PublishedRules{version, std::move(id), std::move(pushed_at), {}, std::move(texts)};
}

std::string find_wrong_by(const std::string& by) {
  if (!by.empty() && by.size() <= 128 && !rules::has_control(by)) return {};
  return "expected 1 to 128 bytes without control characters";
}

std::string pushed_now() { return base::to_rfc3339(SystemClock::instance().now()); }

void fill_in_read_id(redis::Command& command, std::string_view key) {
  begin_command(command, key, {"HGET", key, "id"});
}

void fill_in_read_rules(redis::Command& command, std::string_view key) {
  begin_command(command, key, {"HGETALL", key});
}

Expected<std::optional<PublishedRules>> read_rules(const redis::Reply& reply) {
  if (reply.type != redis::Reply::kArray) return Unexpected{"the reply is not a hash"};
  if (reply.count == 0) return std::optional<PublishedRules>{};
  const auto format = find_field(reply, "format");
  if (!format) return Unexpected{"a hash that does not contain rules"};
  if (*format != kFormat) {
    return Unexpected{"rules in format '" + std::string(*format) +
                      "', which this version does not know"};
  }
  const auto version = find_number(reply, "version");
  const auto files = find_number(reply, "files");
  if (!version || !files || *files > kMostPublishedFiles) return Unexpected{"damaged rules"};
  std::vector<RulesText> texts;
  for (std::uint64_t i = 0; i < *files; ++i) {
    const auto name = find_field(reply, "name." + std::to_string(i));
    const auto text = find_field(reply, "text." + std::to_string(i));
    if (!name || !text)
      return Unexpected{"damaged rules: file " + std::to_string(i) + " is missing"};
    texts.push_back({std::string(*name), std::string(*text)});
  }
  auto rules =
      publish(*version, std::string(find_field(reply, "pushed_at").value_or("")), std::move(texts));
  if (!rules) return Unexpected{"damaged rules: " + rules.error()};
  if (rules->id != find_field(reply, "id")) {
    return Unexpected{"damaged rules: something other than a push has changed them"};
  }
  rules->by = find_field(reply, "by").value_or("");
  return std::optional(std::move(*rules));
}

void fill_in_push(redis::Command& command, std::string_view key, const PublishedRules& rules,
                  std::string_view expected) {
  begin_command(command, key, {});
  command.script = &kPush;
  const std::string history = history_key(key);
  command.append(history.empty() ? 1 : 2);
  command.append(key);
  if (!history.empty()) command.append(history);
  command.append(expected);
  command.append(entry_of(rules));
  command.append(history.empty() ? std::string() : encode_texts(rules.texts));
  append_fields(command, rules);
}

void fill_in_overwrite(redis::Command& command, std::string_view key, const PublishedRules& rules) {
  begin_command(command, key, {"HSET", key});
  append_fields(command, rules);
}

Expected<bool> read_pushed(const redis::Reply& reply) {
  if (reply.type != redis::Reply::kInteger) return Unexpected{"a reply that is not a number"};
  return reply.integer != 0;
}

}  // namespace sluice::server
