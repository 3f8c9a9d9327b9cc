#include "server/rules/rules_history.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace sluice::server {
namespace {

void begin_read(redis::Command& command, std::string_view key, std::string_view field) {
  const std::string history = history_key(key);
  command.script = nullptr;
  command.elements = 0;
  command.tail.clear();
  command.slot = redis::slot_of(key);
  command.repeatable = true;
  command.append("HGET");
  command.append(history);
  command.append(field);
}

// Removes the text before the first `end`, and `end`.
std::string_view take_until(std::string_view& rest, char end) {
  const std::size_t at = std::min(rest.find(end), rest.size());
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return taken;
}

std::optional<std::uint64_t> count_of(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<PastPush> read_entry(std::string_view line) {
  PastPush push;
  push.id = take_until(line, ' ');
  const auto version = count_of(take_until(line, ' '));
  push.pushed_at = take_until(line, ' ');
  const auto files = count_of(take_until(line, ' '));
  const auto bytes = count_of(take_until(line, ' '));
  if (!version || !files || !bytes) return std::nullopt;
  push.version = *version;
  push.files = *files;
  push.bytes = *bytes;
  push.by = line;
  return push;
}

// Removes "SIZE:TEXT" and returns the text.
std::optional<std::string> take_text(std::string_view& rest) {
  const auto size = count_of(take_until(rest, ':'));
  if (!size || *size > rest.size()) return std::nullopt;
  std::string text(rest.substr(0, *size));
  rest.remove_prefix(*size);
  return text;
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
  std::replace(entry.begin(), entry.end(), '\n', ' ');
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
  begin_read(command, key, "entries");
}

void fill_in_read_past(redis::Command& command, std::string_view key, std::string_view id) {
  begin_read(command, key, "rules." + std::string(id));
}

Expected<std::vector<PastPush>> read_history(const redisReply& reply) {
  std::vector<PastPush> pushes;
  if (reply.type == REDIS_REPLY_NIL) return pushes;
  if (reply.type != REDIS_REPLY_STRING) return Unexpected{"the reply is not text"};
  std::string_view rest(reply.str, reply.len);
  while (!rest.empty()) {
    auto push = read_entry(take_until(rest, '\n'));
    if (push) pushes.push_back(std::move(*push));  // else something else has written the line
  }
  return pushes;
}

Expected<std::vector<RulesText>> read_past(const redisReply& reply, const PastPush& push) {
  if (reply.type != REDIS_REPLY_STRING) return Unexpected{"the rules are no longer there"};
  std::string_view rest(reply.str, reply.len);
  std::vector<RulesText> texts;
  while (!rest.empty()) {
    auto name = take_text(rest);
    auto text = name ? take_text(rest) : std::nullopt;
    if (!text) return Unexpected{"damaged rules"};
    texts.push_back({std::move(*name), std::move(*text)});
  }
  const auto rules = publish(push.version, push.pushed_at, texts);
  if (!rules || rules->id != push.id) {
    return Unexpected{"damaged rules: something other than a push has changed them"};
  }
  return texts;
}

}  // namespace sluice::server
