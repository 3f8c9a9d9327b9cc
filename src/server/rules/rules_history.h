#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/rules/published_rules.h"

namespace sluice::server {

// The last pushes of rules in Redis, a hash under a key of its own in the slot of the rules:
//
//   entries   a line for each push, the latest first: ID VERSION PUSHED_AT FILES BYTES BY
//   rules.ID  its files: SIZE:NAME SIZE:TEXT ... without the spaces
//
// The script of a push keeps at most 50 pushes of together at most 64 MiB, and always the latest.
struct PastPush {
  std::string id;
  std::uint64_t version = 0;
  std::string pushed_at;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::string by;
};

inline constexpr std::size_t kMostPastPushes = 50;

// Returns the key of the history of the rules under `key`: it begins with `key` and has its slot.
// Empty if there is no such key, because `key` has a '}' outside of a hash tag.
std::string history_key(std::string_view key);
// Returns the line of the rules.
std::string entry_of(const PublishedRules& rules);
std::string encode_texts(const std::vector<RulesText>& texts);

// Fill in a command: the first asks for the entries, the second for the rules of one of them.
void fill_in_read_history(redis::Command& command, std::string_view key);
void fill_in_read_past(redis::Command& command, std::string_view key, std::string_view id);
// Returns nothing if there was no push. Errors: the value is something else.
Expected<std::vector<PastPush>> read_history(const redisReply& reply);
// Errors: there are none, or they are damaged.
Expected<std::vector<RulesText>> read_past(const redisReply& reply, const PastPush& push);

}  // namespace sluice::server
