#pragma once

#include <cstddef>

// The part of the module interface of Redis and Valkey that Sluice uses: version 1, which has not
// changed since Redis 4. Redis publishes the interface as the names and types of functions, which a
// module asks for by name when it is loaded.

extern "C" {
struct RedisModuleCtx;
struct RedisModuleString;
struct RedisModuleKey;
struct RedisModuleCommand;
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
  int (*SetExpire)(RedisModuleKey*, long long milliseconds);
  long long (*Milliseconds)();
  int (*Replicate)(RedisModuleCtx*, const char* command, const char* format, ...);
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

// Asks the server for its functions. Call this first. Returns false if one is missing.
bool load_abi(RedisModuleCtx* context) noexcept;
const Abi& abi() noexcept;

}  // namespace sluice::redis_module
