#pragma once

#include <cstddef>
#include <string_view>

#include "module/abi.h"

namespace sluice::redis_module {

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

}  // namespace sluice::redis_module
