#include "server/rules/redis_override_commands.h"

#include <hiredis/hiredis.h>

#include <charconv>

namespace sluice::server {
namespace {

constexpr std::uint64_t kPage = 1000;

// Returns the number of the change, 0 if there was nothing to remove, -1 if there are too many.
constexpr std::string_view kChangeText = R"(if ARGV[3] == '' then
  if redis.call('HDEL', KEYS[1], ARGV[2]) == 0 then return 0 end
else
  if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4])
    and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return -1 end
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
if redis.call('HSETNX', KEYS[3], 'epoch', ARGV[1]) == 1 then redis.call('DEL', KEYS[2]) end
local number = redis.call('HINCRBY', KEYS[3], 'number', 1)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 100000, number .. '-0', 'c', ARGV[2], 't', ARGV[3])
return number
)";
constexpr redis::Script kChange{"change_override", kChangeText,
                                "218ecc2bc3a19100afa68305767b00c083a03807"};

// ARGV: epoch, most, and counters with their texts. Returns the number of the last change, or -1 if
// there are too many.
constexpr std::string_view kChangesText = R"(local count = (#ARGV - 2) / 2
local there = redis.call('HLEN', KEYS[1])
if there + count > tonumber(ARGV[2]) then
  for i = 3, #ARGV, 2 do there = there + 1 - redis.call('HEXISTS', KEYS[1], ARGV[i]) end
  if there > tonumber(ARGV[2]) then return -1 end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
if redis.call('HSETNX', KEYS[3], 'epoch', ARGV[1]) == 1 then redis.call('DEL', KEYS[2]) end
local number = redis.call('HINCRBY', KEYS[3], 'number', count) - count
for i = 3, #ARGV, 2 do
  number = number + 1
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', 100000, number .. '-0', 'c', ARGV[i], 't', ARGV[i + 1])
end
return number
)";
constexpr redis::Script kChanges{"change_overrides", kChangesText,
                                 "06d1db049aea9c988fcb7e24ba3668beb43a55c7"};

void begin_script(redis::Command& command, const OverrideKeys& keys) {
  command.script = nullptr;
  command.elements = 0;
  command.tail.clear();
  command.slot = redis::slot_of(keys.all);
  command.repeatable = true;
}

bool is_text(const redisReply& reply) noexcept {
  return reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS;
}

std::string_view text_in(const redisReply& reply) noexcept {
  return is_text(reply) ? std::string_view(reply.str, reply.len) : std::string_view();
}

std::optional<std::uint64_t> parsed_number(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc{} || read.ptr == text.data()) return std::nullopt;
  return number;
}

bool is_array(const redisReply& reply, std::size_t least) noexcept {
  return reply.type == REDIS_REPLY_ARRAY && reply.elements >= least;
}

// [ID, [c, COUNTER, t, TEXT]]
std::optional<OverrideChange> read_change(const redisReply& entry) {
  if (!is_array(entry, 2) || !is_array(*entry.element[1], 4)) return std::nullopt;
  const auto number = parsed_number(text_in(*entry.element[0]));
  if (!number) return std::nullopt;
  const redisReply& fields = *entry.element[1];
  return OverrideChange{*number, text_in(*fields.element[1]), text_in(*fields.element[3])};
}

}  // namespace

void fill_in_read_head(redis::Command& command, const OverrideKeys& keys) {
  begin_script(command, keys);
  for (const std::string_view word : {std::string_view("HMGET"), std::string_view(keys.head),
                                      std::string_view("epoch"), std::string_view("number")}) {
    command.append(word);
  }
}

void fill_in_read_changes(redis::Command& command, const OverrideKeys& keys, std::uint64_t after) {
  begin_script(command, keys);
  command.append("XRANGE");
  command.append(keys.changes);
  command.append(std::to_string(after + 1) + "-0");
  command.append("+");
  command.append("COUNT");
  command.append(kPage);
}

void fill_in_scan(redis::Command& command, const OverrideKeys& keys, std::string_view cursor) {
  begin_script(command, keys);
  command.append("HSCAN");
  command.append(keys.all);
  command.append(cursor);
  command.append("COUNT");
  command.append(kPage);
}

void fill_in_change(redis::Command& command, const OverrideKeys& keys, std::string_view epoch,
                    std::string_view counter, std::string_view text, std::size_t most) {
  begin_script(command, keys);
  command.script = &kChange;
  command.repeatable = false;
  command.append(std::uint64_t{3});
  for (const std::string_view word : {std::string_view(keys.all), std::string_view(keys.changes),
                                      std::string_view(keys.head), epoch, counter, text}) {
    command.append(word);
  }
  command.append(std::uint64_t{most});
}

void fill_in_change_all(redis::Command& command, const OverrideKeys& keys, std::string_view epoch,
                        std::span<const OverrideChange> changes, std::size_t most) {
  begin_script(command, keys);
  command.script = &kChanges;
  command.repeatable = false;
  command.append(std::uint64_t{3});
  for (const std::string_view word : {std::string_view(keys.all), std::string_view(keys.changes),
                                      std::string_view(keys.head), epoch}) {
    command.append(word);
  }
  command.append(std::uint64_t{most});
  for (const OverrideChange& change : changes) {
    command.append(change.counter);
    command.append(change.text);
  }
}

std::optional<OverrideHead> read_head(const redisReply& reply) {
  if (!is_array(reply, 2)) return std::nullopt;
  OverrideHead head{std::string(text_in(*reply.element[0])), 0};
  if (!head.epoch.empty()) head.number = parsed_number(text_in(*reply.element[1])).value_or(0);
  return head;
}

std::optional<std::vector<OverrideChange>> read_changes(const redisReply& reply) {
  if (!is_array(reply, 0)) return std::nullopt;
  std::vector<OverrideChange> changes;
  for (std::size_t i = 0; i < reply.elements; ++i) {
    const auto change = read_change(*reply.element[i]);
    if (!change) return std::nullopt;
    changes.push_back(*change);
  }
  return changes;
}

std::optional<OverrideScan> read_scan(const redisReply& reply) {
  if (!is_array(reply, 2) || !is_array(*reply.element[1], 0)) return std::nullopt;
  OverrideScan scan{std::string(text_in(*reply.element[0])), {}};
  const redisReply& pairs = *reply.element[1];
  for (std::size_t i = 0; i + 1 < pairs.elements; i += 2) {
    scan.entries.push_back({0, text_in(*pairs.element[i]), text_in(*pairs.element[i + 1])});
  }
  if (scan.cursor.empty()) return std::nullopt;
  return scan;
}

}  // namespace sluice::server
