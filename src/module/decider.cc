#include "module/decider.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "stores/redis/script/format.h"

namespace sluice::redis_module {

namespace format = redis::format;
using core::Ticks;

bool read_block_value(std::string_view bytes, Ticks now, BlockValue& block) {
  block.denials.clear();
  block.state = {};
  if (bytes.empty()) return true;
  if (bytes.size() < format::kKeyBlockHead.size()) return false;
  const format::KeyBlockHead head = format::kKeyBlockHead.take(bytes);
  if (bytes.size() % format::kInstant.size() != 0 || head.kind != format::kKeyBlockKind ||
      head.changed >= format::kEndOfInstants || head.grown >= format::kEndOfSpans) {
    return false;
  }
  // Only a damaged value has more.
  if (bytes.size() > kMaxBlockDenials * format::kInstant.size()) return false;
  while (!bytes.empty()) {
    block.denials.push_back(static_cast<Ticks>(format::kInstant.take(bytes).value));
  }
  block.state = core::BlockState{.last = static_cast<Ticks>(head.changed),
                                 .end = static_cast<Ticks>(head.end),
                                 .grown = static_cast<Ticks>(head.grown),
                                 .forgotten = static_cast<Ticks>(head.forgotten),
                                 .denials = block.denials}
                    .at(now);
  return true;
}

bool denies(const AskedBlock& asked, const BlockValue& block, Ticks now) noexcept {
  return (asked.flags & format::kDeniesIfBlocked) != 0 && core::look(block.state, now).left > 0;
}

Ticks change_block_value(const AskedBlock& asked, const BlockValue& block, Ticks now,
                         std::string& out) {
  const core::NextBlock next =
      asked.flags == format::kBlocksByHand
          ? core::block_for(asked.block, block.state, now, asked.time.count())
          : core::deny(asked.block, block.state, now);
  const auto number = [](Ticks ticks) { return static_cast<std::uint64_t>(ticks); };
  out.clear();
  format::kKeyBlockHead.append({.kind = format::kKeyBlockKind,
                                .changed = number(next.state.last),
                                .end = number(next.state.end),
                                .grown = number(next.state.grown),
                                .forgotten = number(next.state.forgotten)},
                               out);
  for (const Ticks denial : block.state.denials.subspan(next.expired)) {
    format::kInstant.append({number(denial)}, out);
  }
  if (next.adds) format::kInstant.append({number(next.state.last)}, out);
  return next.state.forgotten;
}

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

namespace {

namespace format = redis::format;
using core::Ticks;

constexpr std::size_t kMostBlockBytes =
    format::kKeyBlockHead.size() + kMaxBlockDenials * format::kInstant.size();

}  // namespace

Ticks Decider::server_time() noexcept {
  return std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool Decider::open(RedisModuleCtx* context, std::span<RedisModuleString*> names) {
  close();
  for (std::size_t i = 1; i < names.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (bytes_of(names[i]) == bytes_of(names[j])) return false;
    }
  }
  keys_.reserve(names.size());
  for (RedisModuleString* const name : names) keys_.emplace_back(context, name);
  return true;
}

Decider::Result Decider::decide(const Request& request) {
  now_ = request.at ? *request.at : server_time();
  units_for_each_.reset();
  is_blocked_ = false;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    failed_ = i;
    if (!keys_[i].is_absent() && keys_[i].value().empty()) return Result::kForeign;
  }
  block_text_.reserve(kMostBlockBytes);  // so that write() allocates nothing
  Result result = read_blocks(request);
  if (result == Result::kDecided && request.shares_units) result = share_units(request);
  return result == Result::kDecided ? decide_counters(request) : result;
}

Decider::Result Decider::read_blocks(const Request& request) {
  if (blocks_.size() < request.blocks.size()) blocks_.resize(request.blocks.size());
  for (std::size_t j = 0; j < request.blocks.size(); ++j) {
    failed_ = request.counters.size() + j;
    if (!read_block_value(keys_[failed_].value(), now_, blocks_[j])) return Result::kForeign;
    is_blocked_ |= denies(request.blocks[j], blocks_[j], now_);
  }
  return Result::kDecided;
}

Decider::Result Decider::failure_of(std::size_t i) noexcept {
  failed_ = i;
  switch (outcomes_[i].kind) {
    case Outcome::Kind::kDecided: break;
    case Outcome::Kind::kForeign: return Result::kForeign;
    case Outcome::Kind::kWindow: return Result::kWindow;
  }
  return Result::kDecided;
}

// Finds out how many units every charge can have; one if there are none, which is denied then.
Decider::Result Decider::share_units(const Request& request) {
  std::uint64_t units = kMaxUnits;
  if (outcomes_.size() < request.counters.size()) outcomes_.resize(request.counters.size());
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    const Asked& asked = request.counters[i];
    redis_module::decide(Verb::kPeek, asked, 0, keys_[i].value(), now_, outcomes_[i]);
    const Result result = failure_of(i);
    if (result != Result::kDecided) return result;
    units = std::min({units, asked.cost, outcomes_[i].answer.remaining / asked.charges});
  }
  units_for_each_ = std::max<std::uint64_t>(units, 1);
  return Result::kDecided;
}

Decider::Result Decider::decide_counters(const Request& request) {
  const Action action = units_for_each_ ? Action(Verb::kTake) : request.action;
  if (outcomes_.size() < request.counters.size()) outcomes_.resize(request.counters.size());
  admits_ = !is_blocked_;
  new_.clear();
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    const Asked& asked = request.counters[i];
    Outcome& outcome = outcomes_[i];
    const std::uint64_t cost = units_for_each_ ? *units_for_each_ * asked.charges : asked.cost;
    const Action own = asked.gives_back ? Action(Verb::kRefund) : action;
    redis_module::decide(own, asked, cost, keys_[i].value(), now_, outcome);
    const Result result = failure_of(i);
    if (result != Result::kDecided) return result;
    admits_ = admits_ && outcome.answer.admitted;
    const bool is_new = outcome.change == core::Change::kWrite && keys_[i].is_absent();
    if (asked.must_exist && is_new) new_.push_back(i);
  }
  return admits_ && !new_.empty() ? Result::kStoreFull : Result::kDecided;
}

// Returns when the key expires, in ms since the Unix epoch; later than now.
long long Decider::end_of_key(const Request& request, Ticks keep_until) const noexcept {
  if (request.at) {
    return abi().Milliseconds() + static_cast<long long>(request.explicit_expiry_ms);
  }
  return core::ceil_div<Ticks>(std::max(keep_until, now_ + 1), 1000);
}

void Decider::write(const Request& request) {
  const Verb verb = request.action.verb;
  const bool writes = admits_ || verb == Verb::kRelease;
  for (std::size_t i = 0; writes && i < request.counters.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    Key& key = keys_[i];
    if (outcome.change == core::Change::kErase) key.erase();
    if (outcome.change != core::Change::kWrite) continue;
    const long long until_ms = end_of_key(request, outcome.keep_until);
    if (outcome.pieces.empty()) {
      key.store(outcome.value, until_ms);
      continue;
    }
    for (const Piece& piece : outcome.pieces) key.patch(piece.at, piece.bytes);
    if (!outcome.is_kept) key.expire(until_ms);
  }
  for (std::size_t j = 0; j < request.blocks.size(); ++j) write_block(request, j);
}

bool Decider::changes_block(const Request& request, const AskedBlock& asked) const noexcept {
  if (asked.flags == format::kBlocksByHand) return true;
  const bool counts = asked.flags >= format::kCountsDenials && !is_blocked_;
  const Outcome& outcome = outcomes_[asked.counter];
  return counts && request.action.verb != Verb::kReset && !outcome.answer.admitted;
}

void Decider::write_block(const Request& request, std::size_t j) {
  const AskedBlock& asked = request.blocks[j];
  Key& key = keys_[request.counters.size() + j];
  if (asked.flags == format::kUnblocksByHand || request.action.verb == Verb::kReset) {
    return key.erase();
  }
  if (!changes_block(request, asked)) return;
  const Ticks keep_until = change_block_value(asked, blocks_[j], now_, block_text_);
  key.store(block_text_, end_of_key(request, keep_until));
}

}  // namespace sluice::redis_module
