#include "module/abi.h"

namespace sluice::redis_module {
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
  need("RedisModule_SetExpire", to.SetExpire);
  need("RedisModule_Milliseconds", to.Milliseconds);
  need("RedisModule_Replicate", to.Replicate);
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

}  // namespace sluice::redis_module
