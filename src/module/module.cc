// The module for Redis and Valkey: `sluice.so`. It registers commands that take the same requests
// as the Lua scripts, read the same values, and decide with the functions of core. All charges of a
// request are decided before the first value is written. The replies are those of the scripts, byte
// for byte, except for the size of one field, so clients need not know who has answered.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/block.h"
#include "limiter/answer.h"
#include "limiter/limit_arguments.h"
#include "module/request.h"
#include "sluice/decision.h"
#include "sluice/store.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"

// The part of the module interface of Redis and Valkey that Sluice uses: version 1, which has not
// changed since Redis 4. Redis publishes the interface as the names and types of functions, which a
// module asks for by name when it is loaded.

extern "C" {
struct RedisModuleCtx;
struct RedisModuleString;
struct RedisModuleKey;
struct RedisModuleCommand;
struct RedisModuleCallReply;
using RedisModuleCmdFunc = int (*)(RedisModuleCtx* ctx, RedisModuleString** argv, int argc);
}

namespace sluice::redis_module {

inline constexpr int kOk = 0;
inline constexpr int kError = 1;
inline constexpr int kAbiVersion = 1;

// Modes of OpenKey and StringDMA.
inline constexpr int kRead = 1 << 0;
inline constexpr int kWrite = 1 << 1;

// An option of the module: the server treats a key as changed if the module says so, not whenever
// it was open for writing.
inline constexpr int kSignalsChanges = 1 << 1;

// Results of KeyType.
inline constexpr int kNoKey = 0;
inline constexpr int kString = 1;
inline constexpr int kHash = 3;
inline constexpr int kStream = 7;

// Flags of HashGet and HashSet: the names of fields are texts of C.
inline constexpr int kCFields = 1 << 2;

// The functions of the server, with its names.
// NOLINTBEGIN(readability-identifier-naming)
struct Abi {
  int (*SetModuleAttribs)(RedisModuleCtx*, const char* name, int version, int abi_version);
  int (*IsModuleNameBusy)(const char* name);
  int (*CreateCommand)(RedisModuleCtx*, const char* name, RedisModuleCmdFunc, const char* flags,
                       int first_key, int last_key, int key_step);
  int (*WrongArity)(RedisModuleCtx*);
  const char* (*StringPtrLen)(const RedisModuleString*, std::size_t* size);
  RedisModuleString* (*CreateString)(RedisModuleCtx*, const char* bytes, std::size_t size);
  void (*FreeString)(RedisModuleCtx*, RedisModuleString*);
  RedisModuleKey* (*OpenKey)(RedisModuleCtx*, RedisModuleString* name, int mode);
  void (*CloseKey)(RedisModuleKey*);
  int (*KeyType)(RedisModuleKey*);
  int (*DeleteKey)(RedisModuleKey*);
  char* (*StringDMA)(RedisModuleKey*, std::size_t* size, int mode);
  int (*StringSet)(RedisModuleKey*, RedisModuleString*);
  int (*StringTruncate)(RedisModuleKey*, std::size_t size);
  int (*HashGet)(RedisModuleKey*, int flags, ...);
  int (*HashSet)(RedisModuleKey*, int flags, ...);
  int (*SetExpire)(RedisModuleKey*, long long milliseconds);
  long long (*Milliseconds)();
  int (*Replicate)(RedisModuleCtx*, const char* command, const char* format, ...);
  RedisModuleCallReply* (*Call)(RedisModuleCtx*, const char* command, const char* format, ...);
  void (*FreeCallReply)(RedisModuleCallReply*);
  int (*ReplyWithStringBuffer)(RedisModuleCtx*, const char* bytes, std::size_t size);
  int (*ReplyWithSimpleString)(RedisModuleCtx*, const char* text);
  int (*ReplyWithError)(RedisModuleCtx*, const char* text);
  int (*ReplyWithArray)(RedisModuleCtx*, long size);
  int (*ReplyWithLongLong)(RedisModuleCtx*, long long number);
  int (*ReplyWithNull)(RedisModuleCtx*);

  // Null if the server is too old for them.
  void (*SetModuleOptions)(RedisModuleCtx*, int options);
  int (*SignalModifiedKey)(RedisModuleCtx*, RedisModuleString* name);
  int (*SetAbsExpire)(RedisModuleKey*, long long unix_milliseconds);
  int (*ReplyWithMap)(RedisModuleCtx*, long pairs);
  int (*AddACLCategory)(RedisModuleCtx*, const char* name);
  RedisModuleCommand* (*GetCommand)(RedisModuleCtx*, const char* name);
  int (*SetCommandACLCategories)(RedisModuleCommand*, const char* names);
};
// NOLINTEND(readability-identifier-naming)

namespace {

// Set when the server loads the module.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
Abi functions;

using GetFunction = int (*)(const char* name, void* function);

template <typename Function>
bool get(GetFunction from, const char* name, Function& function) noexcept {
  function = nullptr;
  return from(name, static_cast<void*>(&function)) == kOk && function != nullptr;
}

}  // namespace

// Asks the server for its functions. Call this first. Returns false if one is missing.
//
// A context begins with a pointer to the function that returns the others.
bool load_abi(RedisModuleCtx* context) noexcept {
  const auto from = reinterpret_cast<GetFunction>(*reinterpret_cast<void**>(context));
  Abi& to = functions;
  bool has_all = true;
  const auto need = [&](const char* name, auto& function) { has_all &= get(from, name, function); };
  need("RedisModule_SetModuleAttribs", to.SetModuleAttribs);
  need("RedisModule_IsModuleNameBusy", to.IsModuleNameBusy);
  need("RedisModule_CreateCommand", to.CreateCommand);
  need("RedisModule_WrongArity", to.WrongArity);
  need("RedisModule_StringPtrLen", to.StringPtrLen);
  need("RedisModule_CreateString", to.CreateString);
  need("RedisModule_FreeString", to.FreeString);
  need("RedisModule_OpenKey", to.OpenKey);
  need("RedisModule_CloseKey", to.CloseKey);
  need("RedisModule_KeyType", to.KeyType);
  need("RedisModule_DeleteKey", to.DeleteKey);
  need("RedisModule_StringDMA", to.StringDMA);
  need("RedisModule_StringSet", to.StringSet);
  need("RedisModule_StringTruncate", to.StringTruncate);
  need("RedisModule_HashGet", to.HashGet);
  need("RedisModule_HashSet", to.HashSet);
  need("RedisModule_SetExpire", to.SetExpire);
  need("RedisModule_Milliseconds", to.Milliseconds);
  need("RedisModule_Replicate", to.Replicate);
  need("RedisModule_Call", to.Call);
  need("RedisModule_FreeCallReply", to.FreeCallReply);
  need("RedisModule_ReplyWithStringBuffer", to.ReplyWithStringBuffer);
  need("RedisModule_ReplyWithSimpleString", to.ReplyWithSimpleString);
  need("RedisModule_ReplyWithError", to.ReplyWithError);
  need("RedisModule_ReplyWithArray", to.ReplyWithArray);
  need("RedisModule_ReplyWithLongLong", to.ReplyWithLongLong);
  need("RedisModule_ReplyWithNull", to.ReplyWithNull);
  get(from, "RedisModule_SetModuleOptions", to.SetModuleOptions);
  get(from, "RedisModule_SignalModifiedKey", to.SignalModifiedKey);
  get(from, "RedisModule_SetAbsExpire", to.SetAbsExpire);
  get(from, "RedisModule_ReplyWithMap", to.ReplyWithMap);
  get(from, "RedisModule_AddACLCategory", to.AddACLCategory);
  get(from, "RedisModule_GetCommand", to.GetCommand);
  get(from, "RedisModule_SetCommandACLCategories", to.SetCommandACLCategories);
  return has_all;
}

const Abi& abi() noexcept { return functions; }

// The block of one counter, as its value holds it.
struct BlockValue {
  core::BlockState state;  // as it counts now
  std::vector<core::Ticks> denials;
};

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

  // What it was when it was opened. Change it once; but a string may have several patches.
  bool is_absent() const noexcept { return type_ == kNoKey; }
  bool is_string() const noexcept { return type_ == kString; }
  bool is_hash() const noexcept { return type_ == kHash; }
  // The value; empty if there is none, or one of another type. Valid until the next change.
  std::string_view value() const noexcept { return value_; }
  std::string_view name() const noexcept { return bytes_of(name_); }
  // The field of a hash; empty if there is none. May throw std::bad_alloc.
  std::string field(const std::string& name) const;

  // Writes a string that expires at an instant, in ms since the Unix epoch.
  void store(std::string_view value, long long until_ms) noexcept;
  // Changes a part of the string.
  void patch(std::size_t at, std::string_view bytes) noexcept;
  // Writes fields of a hash that expires then. `words` has room for their names and values.
  void store_fields(const Fields& fields, long long until_ms,
                    std::vector<RedisModuleString*>& words) noexcept;
  void expire(long long until_ms) noexcept;
  void erase() noexcept;

 private:
  void set_expiry(long long until_ms) noexcept;

  RedisModuleCtx* context_;
  RedisModuleString* name_;
  RedisModuleKey* key_;
  int type_ = kNoKey;
  bool is_changed_ = false;
  std::string_view value_;
};

// A call of a command, and what commands reuse from one call to the next, so that it seldom
// allocates. The server runs one command after the other, so nothing comes in between.
//
// A command decides a request on keys of the server: it reads all, decides, then writes all changes
// or none, as the scripts do:
//
//   open() -> decide() -> reply -> write()
class Call {
 public:
  // The commands (kCommands). They may throw, but not after a change: run() answers with an error.
  int apply();
  int limit() { return run_limit(Verb::kTake, 1); }
  int peek() { return run_part(Verb::kPeek); }
  int refund() { return run_part(Verb::kRefund); }
  int reset() { return run_part(Verb::kReset); }
  int throttle_like_cell() { return run_throttle(ThrottleForm::kCell); }
  int throttle_like_crab() { return run_throttle(ThrottleForm::kCrab); }
  int gcra() { return run_throttle(ThrottleForm::kGcra); }

  // Runs a command and closes the keys. The first of the words is the name of the command.
  int run(int (Call::*command)(), RedisModuleCtx* context,
          std::span<RedisModuleString*> words) noexcept;

 private:
  int run_limit(Verb verb, std::size_t at);
  int run_part(Verb verb);
  int run_throttle(ThrottleForm form);
  // Decides by one limit at the time of the server, and writes the change. `at` is the index of the
  // key in the words. Returns nothing if the reply has become an error.
  std::optional<Decision> decide_by_limit(std::size_t at, Verb verb, const Asked& asked);
  Result decide_near(std::optional<core::Ticks> near);

  // Opens the keys: those of the counters of the request, then those of its blocks. The last names
  // are those of its ledgers.
  bool open(std::span<RedisModuleString*> names);
  // Decides the request at its time, or at the server's. keys_[failed_], counter failed_ or
  // ledgers_[failed_] is the one of the result; with kStoreFull they are new_.
  Result decide();
  Result read_blocks();
  Result share_units();
  Result decide_counters();
  Result decide_counter(Action action, std::uint64_t cost, std::size_t i);
  void choose_in_rows();
  Result prepare_budgets();
  // Makes the changes.
  void write();
  void write_counter(std::size_t i);
  void write_ledger(std::size_t i, RedisModuleString* name);
  bool changes_block(const AskedBlock& asked) const noexcept;
  void write_block(std::size_t j);
  long long end_of_key(core::Ticks keep_until) const noexcept;

  void make_reply();
  int reply_window() const;
  int reply_full() const;
  int reply_error(const std::string& why) const;
  std::string foreign_value_error() const;
  // Whether keys_[failed_] has the type that the value of its counter or block has.
  bool has_right_type() const noexcept;

  RedisModuleCtx* context_ = nullptr;
  std::span<RedisModuleString*> words_;
  Request request_;
  std::vector<Key> keys_;
  std::span<RedisModuleString*> ledgers_;
  std::vector<Outcome> outcomes_;
  std::vector<RedisModuleString*> replicated_;  // the words of a command that write() replicates
  std::vector<BlockValue> blocks_;
  std::vector<std::size_t> new_;
  std::string reply_;
  std::string block_text_;
  core::Ticks now_ = 0;
  std::optional<std::uint64_t> units_for_each_;
  bool is_blocked_ = false;
  bool admits_ = false;
  std::size_t failed_ = 0;
};

namespace format = redis::format;
using core::Ticks;

constexpr std::size_t kMostBlockBytes =
    format::kKeyBlockHead.size() + kMaxBlockDenials * format::kInstant.size();

// Reads a value; empty if the key does not exist. Returns false if it is something else.
bool read_block_value(std::string_view bytes, Ticks now, BlockValue& block) {
  block.state = {};
  if (bytes.empty()) return true;
  // Only a damaged value is longer.
  const auto read =
      bytes.size() <= kMostBlockBytes ? redis::read_block(bytes, block.denials) : std::nullopt;
  if (read) block.state = read->at(now);
  return read.has_value();
}

// Returns whether the block denies its counter's request.
bool denies(const AskedBlock& asked, const BlockValue& block, Ticks now) noexcept {
  return (asked.flags & format::kDeniesIfBlocked) != 0 && core::look(block.state, now).left > 0;
}

std::string_view bytes_of(const RedisModuleString* text) noexcept {
  std::size_t size = 0;
  const char* const bytes = abi().StringPtrLen(text, &size);
  return {bytes, size};
}

Key::Key(RedisModuleCtx* context, RedisModuleString* name) noexcept
    : context_(context),
      name_(name),
      key_(abi().OpenKey(context, name, kRead | kWrite)),
      type_(abi().KeyType(key_)) {
  if (!is_string()) return;
  std::size_t size = 0;
  const char* const bytes = abi().StringDMA(key_, &size, kRead);
  if (size > 0) value_ = {bytes, size};
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
}

void Key::patch(std::size_t at, std::string_view bytes) noexcept {
  std::size_t size = 0;
  char* const held = abi().StringDMA(key_, &size, kWrite);
  if (at > size || bytes.size() > size - at) return;
  std::memcpy(held + at, bytes.data(), bytes.size());
  abi().Replicate(context_, "SETRANGE", "slb", name_, static_cast<long long>(at), bytes.data(),
                  bytes.size());
  is_changed_ = true;
}

std::string Key::field(const std::string& name) const {
  RedisModuleString* text = nullptr;
  abi().HashGet(key_, kCFields, name.c_str(), &text, nullptr);
  if (text == nullptr) return {};
  std::string value(bytes_of(text));
  abi().FreeString(context_, text);
  return value;
}

void Key::store_fields(const Fields& fields, long long until_ms,
                       std::vector<RedisModuleString*>& words) noexcept {
  words.clear();
  for (const auto& [name, value] : fields) {
    words.push_back(abi().CreateString(context_, name.data(), name.size()));
    words.push_back(abi().CreateString(context_, value.data(), value.size()));
    abi().HashSet(key_, 0, words.end()[-2], words.back(), nullptr);
  }
  set_expiry(until_ms);
  abi().Replicate(context_, "HSET", "sv", name_, words.data(), words.size());
  abi().Replicate(context_, "PEXPIREAT", "sl", name_, until_ms);
  for (RedisModuleString* const word : words) abi().FreeString(context_, word);
  is_changed_ = true;
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
}

Ticks server_time() noexcept {
  return std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool Call::open(std::span<RedisModuleString*> names) {
  for (std::size_t i = 1; i < names.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (bytes_of(names[i]) == bytes_of(names[j])) return false;
    }
  }
  ledgers_ = names.last(request_.ledgers);
  names = names.first(names.size() - request_.ledgers);
  keys_.reserve(names.size());
  for (RedisModuleString* const name : names) keys_.emplace_back(context_, name);
  return true;
}

Result Call::decide() {
  now_ = request_.at ? *request_.at : server_time();
  units_for_each_.reset();
  is_blocked_ = false;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    failed_ = i;
    if (keys_[i].is_absent()) continue;
    if (!has_right_type() || (keys_[i].is_string() && keys_[i].value().empty())) {
      return Result::kForeign;
    }
  }
  block_text_.reserve(kMostBlockBytes);  // so that write() allocates nothing
  Result result = read_blocks();
  if (result == Result::kDecided && request_.shares_units) result = share_units();
  return result == Result::kDecided ? decide_counters() : result;
}

Result Call::read_blocks() {
  if (blocks_.size() < request_.blocks.size()) blocks_.resize(request_.blocks.size());
  for (std::size_t j = 0; j < request_.blocks.size(); ++j) {
    failed_ = request_.counters.size() + j;
    if (!read_block_value(keys_[failed_].value(), now_, blocks_[j])) return Result::kForeign;
    is_blocked_ |= denies(request_.blocks[j], blocks_[j], now_);
  }
  return Result::kDecided;
}

// Finds out how many units every charge can have; one if there are none, which is denied then.
Result Call::share_units() {
  std::uint64_t units = kMaxAmount;
  if (outcomes_.size() < request_.counters.size()) outcomes_.resize(request_.counters.size());
  for (std::size_t i = 0; i < request_.counters.size(); ++i) {
    const Asked& asked = request_.counters[i];
    const Result result = decide_counter(Verb::kPeek, 0, i);
    if (result != Result::kDecided) return result;
    units = std::min({units, asked.cost, outcomes_[i].answer.remaining / asked.charges});
  }
  units_for_each_ = std::max<std::uint64_t>(units, 1);
  return Result::kDecided;
}

Result Call::decide_counters() {
  const Action action = units_for_each_ ? Action(Verb::kTake) : request_.action;
  if (outcomes_.size() < request_.counters.size()) outcomes_.resize(request_.counters.size());
  for (std::size_t i = 0; i < request_.counters.size(); ++i) {
    const Asked& asked = request_.counters[i];
    const std::uint64_t cost = units_for_each_ ? *units_for_each_ * asked.charges : asked.cost;
    const Action own = asked.gives_back ? Action(Verb::kRefund) : asked.with_id.value_or(action);
    const Result result = decide_counter(own, cost, i);
    if (result != Result::kDecided) return result;
  }
  if (request_.has_rows) choose_in_rows();
  admits_ = !is_blocked_;
  new_.clear();
  for (std::size_t i = 0; i < request_.counters.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    admits_ = admits_ && outcome.answer.admitted;
    const bool is_new = outcome.change == core::Change::kWrite && keys_[i].is_absent();
    if (request_.counters[i].must_exist && is_new) new_.push_back(i);
  }
  if (admits_ && !new_.empty()) return Result::kStoreFull;
  return prepare_budgets();
}

Result Call::decide_counter(Action action, std::uint64_t cost, std::size_t i) {
  const Asked& asked = request_.counters[i];
  const Key& key = keys_[i];
  failed_ = i;
  if (is_budget(asked)) {
    redis_module::decide_budget(
        action, asked, cost, key.is_absent(),
        [&key](const std::string& name) { return key.field(name); }, now_, outcomes_[i]);
  } else {
    redis_module::decide(action, asked, cost, key.value(), now_, outcomes_[i]);
  }
  return outcomes_[i].result;
}

void Call::choose_in_rows() {
  const std::span all = std::span(outcomes_).first(request_.counters.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].follows = request_.counters[i].is_alternative;
  }
  for (std::span<Outcome> rest = all; !rest.empty();) {
    const std::size_t size = row_size(std::span<const Outcome>(rest));
    choose_in_row(request_.action.verb, rest.first(size));
    rest = rest.subspan(size);
  }
}

// Ensures that what changes budgets cannot fail.
Result Call::prepare_budgets() {
  std::size_t words = 0;
  std::size_t ledger = 0;
  for (std::size_t i = 0; i < request_.counters.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    words = std::max(words, 2 * outcome.fields.size());
    for (const auto& entry : outcome.entries) words = std::max(words, entry.size());
    if (!request_.counters[i].ledger) continue;
    failed_ = ledger++;
    if (outcome.entries.empty()) continue;
    RedisModuleKey* const stream = abi().OpenKey(context_, ledgers_[failed_], kRead);
    const int type = abi().KeyType(stream);
    abi().CloseKey(stream);
    if (type != kNoKey && type != kStream) return Result::kForeignLedger;
  }
  replicated_.reserve(words);
  return Result::kDecided;
}

// Returns when the key expires, in ms since the Unix epoch; later than now.
long long Call::end_of_key(Ticks keep_until) const noexcept {
  if (request_.at) {
    return abi().Milliseconds() + static_cast<long long>(request_.explicit_expiry_ms);
  }
  return core::ceil_div<Ticks>(std::max(keep_until, now_ + 1), 1000);
}

void Call::write() {
  const Verb verb = request_.action.verb;
  const bool writes = admits_ || verb == Verb::kRelease;
  std::size_t ledger = 0;
  for (std::size_t i = 0; writes && i < request_.counters.size(); ++i) {
    write_counter(i);
    if (request_.counters[i].ledger) write_ledger(i, ledgers_[ledger++]);
  }
  for (std::size_t j = 0; j < request_.blocks.size(); ++j) write_block(j);
}

void Call::write_counter(std::size_t i) {
  const Outcome& outcome = outcomes_[i];
  Key& key = keys_[i];
  if (outcome.change == core::Change::kErase) key.erase();
  if (outcome.change != core::Change::kWrite) return;
  const long long until_ms = end_of_key(outcome.keep_until);
  if (!outcome.fields.empty()) {
    if (outcome.replaces_fields) key.erase();
    return key.store_fields(outcome.fields, until_ms, replicated_);
  }
  if (outcome.pieces.empty()) return key.store(outcome.value, until_ms);
  for (const auto& [at, bytes] : outcome.pieces) key.patch(at, bytes);
  if (!outcome.is_kept) key.expire(until_ms);
}

// The server names the entries, and replicates the names.
void Call::write_ledger(std::size_t i, RedisModuleString* name) {
  const Outcome& outcome = outcomes_[i];
  if (outcome.entries.empty()) return;
  for (const std::vector<std::string>& entry : outcome.entries) {
    replicated_.clear();
    for (const std::string& text : entry) {
      replicated_.push_back(abi().CreateString(context_, text.data(), text.size()));
    }
    RedisModuleCallReply* const reply = abi().Call(context_, "XADD", "!scclcv", name, "MAXLEN", "~",
                                                   static_cast<long long>(request_.kept.keep), "*",
                                                   replicated_.data(), replicated_.size());
    if (reply != nullptr) abi().FreeCallReply(reply);
    for (RedisModuleString* const word : replicated_) abi().FreeString(context_, word);
  }
  const long long until_ms = outcome.change == core::Change::kWrite ? end_of_key(outcome.keep_until)
                                                                    : abi().Milliseconds();
  Key(context_, name).expire(until_ms + static_cast<long long>(request_.kept.after_ms));
}

bool Call::changes_block(const AskedBlock& asked) const noexcept {
  if (asked.flags == format::kBlocksByHand) return true;
  const bool counts = asked.flags >= format::kCountsDenials && !is_blocked_;
  const core::Answer& answer = outcomes_[asked.counter].answer;
  return counts && request_.action.verb != Verb::kReset &&
         core::reason_of(answer) == Reason::kLimited;
}

void Call::write_block(std::size_t j) {
  const AskedBlock& asked = request_.blocks[j];
  Key& key = keys_[request_.counters.size() + j];
  if (asked.flags == format::kUnblocksByHand || request_.action.verb == Verb::kReset) {
    return key.erase();
  }
  if (!changes_block(asked)) return;
  const core::BlockState& found = blocks_[j].state;
  const core::NextBlock next = asked.flags == format::kBlocksByHand
                                   ? core::block_for(asked.block, found, now_, asked.time.count())
                                   : core::deny(asked.block, found, now_);
  block_text_.clear();
  redis::append_block(next, found, block_text_);
  key.store(block_text_, end_of_key(next.state.forgotten));
}

// SLUICE.APPLY key... request: the request of a RedisStore, which gets the reply of the scripts.
namespace {

// The reply must be written before the change, which may overwrite the values that were found.
void append_found(std::string_view found, std::string& out) {
  format::kValueSize.append({found.size()}, out);
  out.append(found);
}

// Returns the error of a key that holds something else.
std::string foreign_error(std::string_view key, std::string_view what) {
  constexpr std::size_t kShown = 64;
  std::string shown(key.substr(0, kShown));
  for (char& c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  if (key.size() > kShown) shown += "...";
  return "FOREIGNVALUE " + shown + " holds " + std::string(what);
}

}  // namespace

void Call::make_reply() {
  reply_.clear();
  const auto now = static_cast<std::uint64_t>(now_);
  format::kInstant.append({admits_ ? now + format::kAdmits : now}, reply_);
  for (std::size_t i = 0; i < request_.counters.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    append_found(outcome.replaces_found ? outcome.reply : keys_[i].value(), reply_);
  }
  for (std::size_t j = 0; j < request_.blocks.size(); ++j) {
    const std::string_view found = keys_[request_.counters.size() + j].value();
    format::kValueSize.append({found.size() + 1}, reply_);
    reply_ += '\1';  // it was written if it had to be
    reply_.append(found);
  }
}

int Call::reply_window() const {
  const Outcome& outcome = outcomes_[failed_];
  std::string text = "WINDOW " + std::to_string(request_.counters[failed_].windows->number) + " " +
                     std::to_string(outcome.at) + " " + std::to_string(now_);
  if (outcome.unknown_end > 0) text += " " + std::to_string(outcome.unknown_end);
  return abi().ReplyWithSimpleString(context_, text.c_str());
}

int Call::reply_full() const {
  std::string text = "STOREFULL";
  for (const std::size_t i : new_) text.append(" ").append(std::to_string(i + 1));
  return abi().ReplyWithSimpleString(context_, text.c_str());
}

int Call::reply_error(const std::string& why) const {
  return abi().ReplyWithError(context_, ("ERR " + why).c_str());
}

bool Call::has_right_type() const noexcept {
  const bool is_hash = failed_ < request_.counters.size() && is_budget(request_.counters[failed_]);
  return is_hash ? keys_[failed_].is_hash() : keys_[failed_].is_string();
}

std::string Call::foreign_value_error() const {
  return foreign_error(keys_[failed_].name(),
                       has_right_type() ? "a value of another kind or version" : "another type");
}

int Call::apply() {
  const auto keys = words_.subspan(1, words_.size() - 2);
  if (keys.size() > 3 * kMaxCharges ||
      !read_request(bytes_of(words_.back()), keys.size(), request_)) {
    return reply_error("the request is malformed, or of a later version");
  }
  if (!open(keys)) return reply_error("a key is given twice");
  switch (decide()) {
    case Result::kDecided: break;
    case Result::kForeign: return abi().ReplyWithError(context_, foreign_value_error().c_str());
    case Result::kForeignLedger:
      return abi().ReplyWithError(
          context_,
          foreign_error(bytes_of(ledgers_[failed_]), "another type than a ledger").c_str());
    case Result::kWindow: return reply_window();
    case Result::kStoreFull: return reply_full();
  }
  make_reply();
  write();
  return abi().ReplyWithStringBuffer(context_, reply_.data(), reply_.size());
}

// RL.LIMIT, RL.PEEK, RL.REFUND and RL.RESET: any limit in the arguments. The key is an argument, as
// it is.
namespace {

// More words than these contain an option twice, or an unknown one.
constexpr std::size_t kMostWords = 3 + 32;

void reply_field(RedisModuleCtx* context, const DecisionField& field) {
  abi().ReplyWithStringBuffer(context, field.name.data(), field.name.size());
  if (field.number) {
    abi().ReplyWithLongLong(context, *field.number);
  } else if (field.text.empty()) {
    abi().ReplyWithNull(context);
  } else {
    abi().ReplyWithStringBuffer(context, field.text.data(), field.text.size());
  }
}

}  // namespace

// `at` is the index of the key in the words.
int Call::run_limit(Verb verb, std::size_t at) {
  const auto after_key = words_.subspan(at + 1);
  std::vector<std::string_view> words;
  words.reserve(kMostWords);
  for (std::size_t i = 0; i < std::min(after_key.size(), kMostWords); ++i) {
    words.push_back(bytes_of(after_key[i]));
  }
  const auto asked = parse_limit({verb}, words);
  if (!asked) return reply_error(asked.error());
  if (holds_permits(asked->limit.algorithm())) {
    return reply_error("algorithm: the module has no permits; sluice serve has");
  }
  const auto decision = decide_by_limit(at, verb, {.limit = asked->limit, .cost = asked->cost});
  if (!decision) return kOk;
  const auto fields =
      decision_fields(*decision, has_numbers(*decision), is_ever_full(asked->limit, *decision));
  if (abi().ReplyWithMap != nullptr) {
    abi().ReplyWithMap(context_, static_cast<long>(fields.size()));
  } else {
    abi().ReplyWithArray(context_, static_cast<long>(2 * fields.size()));
  }
  for (const DecisionField& field : fields) reply_field(context_, field);
  return kOk;
}

// The command has a form for rules in sluice serve.
int Call::run_part(Verb verb) {
  if (!same_word(bytes_of(words_[1]), "LIMIT")) {
    return reply_error("there are no rules in the module; expected LIMIT");
  }
  return run_limit(verb, 2);
}

// `near`: an instant of the window of the calendar; the time of the server if absent.
Result Call::decide_near(std::optional<core::Ticks> near) {
  Asked& asked = request_.counters[0];
  const Calendar* const calendar = asked.limit.calendar();
  if (calendar != nullptr && !is_budget(asked)) {
    asked.windows = redis::windows_of(*calendar, near ? *near : server_time(), 0);
  }
  return decide();
}

std::optional<Decision> Call::decide_by_limit(std::size_t at, Verb verb, const Asked& asked) {
  request_.action = verb;
  request_.has_rows = request_.shares_units = false;
  request_.at.reset();
  request_.ledgers = 0;
  request_.blocks.clear();
  request_.counters.assign(1, asked);
  open(words_.subspan(at, 1));
  Result result = decide_near(std::nullopt);
  // The counter may be in a later window.
  if (result == Result::kWindow) result = decide_near(outcomes_[0].at);
  if (result == Result::kDecided) {
    Decision decision;
    core::write(asked.limit, outcomes_[0].answer, decision);
    write();
    return decision;
  }
  if (has_right_type()) {
    reply_error(foreign_value_error());
  } else {
    abi().ReplyWithError(context_,
                         "WRONGTYPE Operation against a key holding the wrong kind of value");
  }
  return std::nullopt;
}

// CL.THROTTLE and the same decision under other names. The key is the first argument, as it is.
int Call::run_throttle(ThrottleForm form) {
  std::array<std::string_view, 5> words;
  const std::size_t count = words_.size() - 2;
  for (std::size_t i = 0; i < count; ++i) words[i] = bytes_of(words_[i + 2]);
  const auto asked = parse_throttle(form, {words.data(), count});
  if (!asked) return reply_error(asked.error());
  const auto limit = asked->limit(form);
  if (!limit) return reply_error(limit.error());
  const auto decision = decide_by_limit(1, asked->verb(), {.limit = *limit, .cost = asked->cost()});
  if (!decision) return kOk;
  abi().ReplyWithArray(context_, 5);
  for (const std::int64_t number : throttle_reply(form, *asked, *limit, *decision)) {
    abi().ReplyWithLongLong(context_, number);
  }
  return kOk;
}

// The server stays up whatever happens here: without memory the command fails, and has changed
// nothing.
int Call::run(int (Call::*command)(), RedisModuleCtx* context,
              std::span<RedisModuleString*> words) noexcept {
  context_ = context;
  words_ = words;
  int result = kOk;
  try {
    result = (this->*command)();
  } catch (const std::exception& error) {
    result = abi().ReplyWithError(context, "ERR sluice has no memory for this command");
  }
  keys_.clear();
  return result;
}

// The entry of the module: its commands, and what no exception may pass.
namespace {

constexpr int kVersion = 1;

struct CommandRow {
  const char* name;
  int (Call::*run)();
  std::size_t least;  // words, with the name
  std::size_t most;   // 0: any number
  int first_key = 1;
  int last_key = 1;
};

constexpr std::array kCommands = {
    CommandRow{"sluice.apply", &Call::apply, 3, 0, 1, -2},
    CommandRow{"cl.throttle", &Call::throttle_like_cell, 5, 6},
    CommandRow{"rl.throttle", &Call::throttle_like_cell, 5, 6},
    CommandRow{"throttle", &Call::throttle_like_crab, 5, 6},
    CommandRow{"gcra", &Call::gcra, 5, 7},
    CommandRow{"rl.limit", &Call::limit, 5, 0},
    CommandRow{"rl.peek", &Call::peek, 6, 0, 2, 2},
    CommandRow{"rl.refund", &Call::refund, 6, 0, 2, 2},
    CommandRow{"rl.reset", &Call::reset, 6, 0, 2, 2},
};

int run(const CommandRow& command, RedisModuleCtx* context, RedisModuleString** words,
        int count) noexcept {
  static Call call;
  const auto size = static_cast<std::size_t>(count);
  if (size < command.least || (command.most > 0 && size > command.most)) {
    return abi().WrongArity(context);
  }
  return call.run(command.run, context, {words, size});
}

template <std::size_t I>
int command(RedisModuleCtx* context, RedisModuleString** words, int count) {
  return run(kCommands[I], context, words, count);
}

template <std::size_t I = 0>
bool create_commands(RedisModuleCtx* context) {
  if constexpr (I < kCommands.size()) {
    const CommandRow& row = kCommands[I];
    constexpr const char* kFlags = "write deny-oom fast";
    // A server may have its own command of that name, such as GCRA, or another module's.
    const bool is_made = abi().CreateCommand(context, row.name, command<I>, kFlags, row.first_key,
                                             row.last_key, 1) == kOk;
    if (!is_made && I == 0) return false;
    if (is_made && abi().GetCommand != nullptr && abi().SetCommandACLCategories != nullptr) {
      RedisModuleCommand* const made = abi().GetCommand(context, row.name);
      if (made != nullptr) abi().SetCommandACLCategories(made, "sluice write fast");
    }
    return create_commands<I + 1>(context);
  }
  return true;
}

int on_load(RedisModuleCtx* context) {
  if (!load_abi(context) || abi().IsModuleNameBusy("sluice") != 0) return kError;
  abi().SetModuleAttribs(context, "sluice", kVersion, kAbiVersion);
  if (abi().SetModuleOptions != nullptr && abi().SignalModifiedKey != nullptr) {
    abi().SetModuleOptions(context, kSignalsChanges);
  }
  if (abi().AddACLCategory != nullptr) abi().AddACLCategory(context, "sluice");
  return create_commands(context) ? kOk : kError;
}

}  // namespace

// The functions that the server finds by their names.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" [[gnu::visibility("default")]] int RedisModule_OnLoad(RedisModuleCtx* context,
                                                                 RedisModuleString** /*words*/,
                                                                 int /*count*/) {
  return on_load(context);
}

// Refuses. Redis 8 keeps the last command of each client, and would call it after MODULE UNLOAD.
extern "C" [[gnu::visibility("default")]] int RedisModule_OnUnload(RedisModuleCtx* /*context*/) {
  return kError;
}
// NOLINTEND(readability-identifier-naming)

}  // namespace sluice::redis_module
