#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/block.h"
#include "module/abi.h"
#include "module/counter.h"
#include "module/request.h"

namespace sluice::redis_module {

// The block of one counter, as its value holds it.
struct BlockValue {
  core::BlockState state;  // as it counts now
  std::vector<core::Ticks> denials;
};

// Reads a value; empty if the key does not exist. Returns false if it is something else.
bool read_block_value(std::string_view bytes, core::Ticks now, BlockValue& block);

// Returns whether the block denies its counter's request.
bool denies(const AskedBlock& asked, const BlockValue& block, core::Ticks now) noexcept;

// Writes the value with a denial, or with a block by hand, to `out`. Returns the instant until
// which it is to be kept.
core::Ticks change_block_value(const AskedBlock& asked, const BlockValue& block, core::Ticks now,
                               std::string& out);

std::string_view bytes_of(const RedisModuleString* text) noexcept;

// An open key of the server. A change is replicated as what it does, such as `SET`, so replicas and
// append-only files need no module. A change ends the transactions that watch the key (WATCH) and
// the copies of clients that track it; reading does not. Ownership: borrows the context and the
// name.
//
// Do not open a key twice at the same time.
class Key {
 public:
  Key(RedisModuleCtx* context, RedisModuleString* name) noexcept;
  ~Key();
  Key(Key&& other) noexcept;
  Key& operator=(Key&&) = delete;
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  bool is_absent() const noexcept { return type_ == kNoKey; }
  bool is_string() const noexcept { return type_ == kString; }
  // The value; empty if there is none, or one of another type. Valid until the next change.
  std::string_view value() const noexcept { return value_; }
  std::string_view name() const noexcept { return bytes_of(name_); }

  // Writes a string that expires at an instant, in ms since the Unix epoch.
  void store(std::string_view value, long long until_ms) noexcept;
  // Changes a part of the string.
  void patch(std::size_t at, std::string_view bytes) noexcept;
  void expire(long long until_ms) noexcept;
  void erase() noexcept;

 private:
  void read() noexcept;
  void set_expiry(long long until_ms) noexcept;

  RedisModuleCtx* context_;
  RedisModuleString* name_;
  RedisModuleKey* key_;
  int type_ = kNoKey;
  bool is_changed_ = false;
  std::string_view value_;
};

// Decides requests on keys of the server: reads all, decides, then writes all changes or none, as
// the scripts do. The server runs one command after the other, so nothing comes in between. Reused,
// so that it seldom allocates.
//
//   open() -> decide() -> reply from outcomes() -> write()
class Decider {
 public:
  enum class Result : std::uint8_t {
    kDecided,
    kForeign,    // key(failed()) holds something else
    kWindow,     // counter failed() needs other windows of its calendar
    kStoreFull,  // counters that must exist do not: new_counters()
  };

  // Opens the keys: those of the counters of a request, then those of its blocks.
  bool open(RedisModuleCtx* context, std::span<RedisModuleString*> names);
  // Decides the request at its time, or at the server's.
  Result decide(const Request& request);
  // Makes the changes.
  void write(const Request& request);
  // Closes the keys.
  void close() noexcept { keys_.clear(); }

  static core::Ticks server_time() noexcept;
  core::Ticks now() const noexcept { return now_; }
  bool admits() const noexcept { return admits_; }
  const Key& key(std::size_t i) const noexcept { return keys_[i]; }
  const Outcome& outcome(std::size_t i) const noexcept { return outcomes_[i]; }
  std::size_t failed() const noexcept { return failed_; }
  const std::vector<std::size_t>& new_counters() const noexcept { return new_; }

 private:
  Result read_blocks(const Request& request);
  Result share_units(const Request& request);
  Result decide_counters(const Request& request);
  Result failure_of(std::size_t i) noexcept;
  bool changes_block(const Request& request, const AskedBlock& asked) const noexcept;
  void write_block(const Request& request, std::size_t j);
  long long end_of_key(const Request& request, core::Ticks keep_until) const noexcept;

  std::vector<Key> keys_;
  std::vector<Outcome> outcomes_;
  std::vector<BlockValue> blocks_;
  std::vector<std::size_t> new_;
  std::string block_text_;
  core::Ticks now_ = 0;
  std::optional<std::uint64_t> units_for_each_;
  bool is_blocked_ = false;
  bool admits_ = false;
  std::size_t failed_ = 0;
};

}  // namespace sluice::redis_module
