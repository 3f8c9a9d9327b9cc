#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/rules/rules_files.h"
#include "sluice/expected.h"
#include "stores/redis/client/command.h"

namespace sluice::server {

// A set of rules as stored in Redis, one hash under one key:
//
//   format     1
//   id         VERSION-HASH: different for different rules, even after the server lost data
//   version    counts the pushes, from 1
//   pushed_at  2026-11-21T07:48:59Z
//   by         who pushed them; absent in rules of older versions
//   files      the number of files
//   name.0 text.0 name.1 text.1 ...
struct PublishedRules {
  std::uint64_t version = 0;
  std::string id;
  std::string pushed_at;
  std::string by = {};
  std::vector<RulesText> texts;
};

inline constexpr std::size_t kMostPublishedFiles = 256;
inline constexpr std::size_t kMostPublishedBytes = std::size_t{16} << 20;  // of names and texts

// Prepares rules to be pushed with that version. Errors: no rules, or too many.
Expected<PublishedRules> publish(std::uint64_t version, std::string pushed_at,
                                 std::vector<RulesText> texts);

// Returns what is wrong with PublishedRules::by, of which the history has a line for each push, or
// an empty text.
std::string find_wrong_by(const std::string& by);
// Returns the present instant as PublishedRules::pushed_at.
std::string pushed_now();

// Begins a command with these words and without a script, in the slot of the key.
void begin_command(redis::Command& command, std::string_view key,
                   std::initializer_list<std::string_view> words);
// Fill in a command: the first asks for the id of the rules (the reply is nil if there are none),
// the second for the rules themselves.
void fill_in_read_id(redis::Command& command, std::string_view key);
void fill_in_read_rules(redis::Command& command, std::string_view key);
// Returns nothing if there are no rules. Errors: the value is something else, or damaged.
Expected<std::optional<PublishedRules>> read_rules(const redis::Reply& reply);

// Fills in the command that replaces the rules with the id `expected` (empty: no rules), and adds
// them to the history, all at once or not at all. One script call.
void fill_in_push(redis::Command& command, std::string_view key, const PublishedRules& rules,
                  std::string_view expected);
// The same without a script and without the history; replaces any rules.
void fill_in_overwrite(redis::Command& command, std::string_view key, const PublishedRules& rules);
// Returns whether the rules were pushed; false if the id was not the expected one. Errors: an
// unexpected reply.
Expected<bool> read_pushed(const redis::Reply& reply);

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

// The text of a file that keeps rules which were active, for a start without Redis:
//
//   sluice rules 1
//   ID VERSION PUSHED_AT FILES BYTES BY
//   SIZE:NAME SIZE:TEXT ... without the spaces
std::string kept_text(const PublishedRules& rules);
// Errors: what is wrong with the text.
Expected<PublishedRules> read_kept_text(std::string_view text);

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
Expected<std::vector<PastPush>> read_history(const redis::Reply& reply);
// Errors: there are none, or they are damaged.
Expected<std::vector<RulesText>> read_past(const redis::Reply& reply, const PastPush& push);

}  // namespace sluice::server
