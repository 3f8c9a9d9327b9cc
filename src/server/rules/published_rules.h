#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/rules/rules_files.h"
#include "sluice/expected.h"
#include "stores/redis/client/command.h"

namespace sluice::server {

// A set of rules as it stands in Redis, one hash under one key:
//
//   format     1
//   id         VERSION-HASH: other rules have another, whatever has happened to the server between
//   version    counts the pushes, from 1
//   pushed_at  2026-11-21T07:48:59Z
//   files      how many
//   name.0 text.0 name.1 text.1 ...
struct PublishedRules {
  std::uint64_t version = 0;
  std::string id;
  std::string pushed_at;
  std::vector<RulesText> texts;
};

inline constexpr std::size_t kMostPublishedFiles = 256;
inline constexpr std::size_t kMostPublishedBytes = std::size_t{16} << 20;  // of names and texts

// Rules to be pushed as that version. Errors: there are none, or too many of them.
Expected<PublishedRules> publish(std::uint64_t version, std::string pushed_at,
                                 std::vector<RulesText> texts);

// Fill in a command: which rules are there (the reply is their id, or nil), and all of them.
void ask_for_id(redis::Command& command, std::string_view key);
void ask_for_rules(redis::Command& command, std::string_view key);
// Absent where there are none. Errors: what is there is something else, or damaged.
Expected<std::optional<PublishedRules>> read_rules(const redisReply& reply);

// Fills in the command that puts the rules in the place of those with the id `expected` (empty: of
// none), all at once or not at all. One script call.
void ask_to_push(redis::Command& command, std::string_view key, const PublishedRules& rules,
                 std::string_view expected);
// The same without a script, in the place of whichever are there.
void ask_to_overwrite(redis::Command& command, std::string_view key, const PublishedRules& rules);
// Whether the rules were pushed, or others were there than expected. Errors: not an answer to it.
Expected<bool> read_pushed(const redisReply& reply);

}  // namespace sluice::server
