#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/command.h"

// The overrides in Redis are three keys in one slot: a hash from counters to overrides
// (rules/override_text.h); a stream of the latest changes, whose entry N-0 is change number N; and
// a hash with the number of the latest change and an `epoch`, which differs after a loss of all
// data.
namespace sluice::server {

struct OverrideKeys {
  explicit OverrideKeys(const std::string& prefix)
      : all(prefix + "{overrides}"), changes(all + ":changes"), head(all + ":head") {}

  std::string all, changes, head;
};

// The state of the overrides: no change has the number 0.
struct OverrideHead {
  std::string epoch;
  std::uint64_t number = 0;

  friend bool operator==(const OverrideHead&, const OverrideHead&) = default;
};

struct OverrideChange {
  std::uint64_t number = 0;
  std::string_view counter;
  std::string_view text;  // empty: it was removed
};

struct OverrideScan {
  std::string cursor;  // of the next page; "0": it was the last one
  std::vector<OverrideChange> entries;
};

void fill_in_read_head(redis::Command& command, const OverrideKeys& keys);
void fill_in_read_changes(redis::Command& command, const OverrideKeys& keys, std::uint64_t after);
void fill_in_scan(redis::Command& command, const OverrideKeys& keys, std::string_view cursor);
// With an empty text: removes it.
void fill_in_change(redis::Command& command, const OverrideKeys& keys, std::string_view epoch,
                    std::string_view counter, std::string_view text, std::size_t most);
// Sets at most 1000 of them in one step. Each has a text.
void fill_in_change_all(redis::Command& command, const OverrideKeys& keys, std::string_view epoch,
                        std::span<const OverrideChange> changes, std::size_t most);

// Return nothing for replies that are none. What they return borrows the reply.
std::optional<OverrideHead> read_head(const redisReply& reply);
std::optional<std::vector<OverrideChange>> read_changes(const redisReply& reply);
std::optional<OverrideScan> read_scan(const redisReply& reply);

}  // namespace sluice::server
