#include "module/key.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice::redis_module {

std::string_view bytes_of(const RedisModuleString* text) noexcept {
  std::size_t size = 0;
  const char* const bytes = abi().StringPtrLen(text, &size);
  return {bytes, size};
}

Key::Key(RedisModuleCtx* context, RedisModuleString* name) noexcept
    : context_(context), name_(name), key_(abi().OpenKey(context, name, kRead | kWrite)) {
  read();
}

Key::~Key() {
  if (key_ == nullptr) return;
  abi().CloseKey(key_);
  if (is_changed_ && abi().SignalModifiedKey != nullptr) {
    abi().SignalModifiedKey(context_, name_);
  }
}

Key::Key(Key&& other) noexcept
    : context_(other.context_),
      name_(other.name_),
      key_(std::exchange(other.key_, nullptr)),
      type_(other.type_),
      is_changed_(other.is_changed_),
      value_(other.value_) {}

void Key::read() noexcept {
  type_ = abi().KeyType(key_);
  value_ = {};
  if (!is_string()) return;
  std::size_t size = 0;
  const char* const bytes = abi().StringDMA(key_, &size, kRead);
  if (size > 0) value_ = {bytes, size};
}

void Key::set_expiry(long long until_ms) noexcept {
  if (abi().SetAbsExpire != nullptr) {
    abi().SetAbsExpire(key_, until_ms);
  } else {
    abi().SetExpire(key_, std::max(until_ms - abi().Milliseconds(), 1LL));
  }
}

void Key::store(std::string_view value, long long until_ms) noexcept {
  if (!is_string()) {
    RedisModuleString* const text = abi().CreateString(context_, value.data(), value.size());
    abi().StringSet(key_, text);
    abi().FreeString(context_, text);
  } else {
    if (value_.size() != value.size()) abi().StringTruncate(key_, value.size());
    std::size_t size = 0;
    char* const bytes = abi().StringDMA(key_, &size, kWrite);
    if (size == value.size()) std::memcpy(bytes, value.data(), size);
  }
  set_expiry(until_ms);
  abi().Replicate(context_, "SET", "sbcl", name_, value.data(), value.size(), "PXAT", until_ms);
  is_changed_ = true;
  read();
}

void Key::patch(std::size_t at, std::string_view bytes) noexcept {
  std::size_t size = 0;
  char* const held = abi().StringDMA(key_, &size, kWrite);
  if (at > size || bytes.size() > size - at) return;
  std::memcpy(held + at, bytes.data(), bytes.size());
  abi().Replicate(context_, "SETRANGE", "slb", name_, static_cast<long long>(at), bytes.data(),
                  bytes.size());
  is_changed_ = true;
  read();
}

void Key::expire(long long until_ms) noexcept {
  set_expiry(until_ms);
  abi().Replicate(context_, "PEXPIREAT", "sl", name_, until_ms);
  is_changed_ = true;
}

void Key::erase() noexcept {
  if (is_absent()) return;
  abi().DeleteKey(key_);
  abi().Replicate(context_, "DEL", "s", name_);
  is_changed_ = true;
  read();
}

}  // namespace sluice::redis_module
