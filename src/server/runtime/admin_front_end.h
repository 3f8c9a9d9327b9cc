#pragma once

#include <memory>

#include "server/api/admin/admin_endpoint.h"
#include "server/runtime/front_end.h"

namespace sluice::server {

// Several fibers, so that /healthz does not wait for /metrics or a page that asks the store. Their
// stacks are as long as a thread's because they parse rules; a stack takes no memory before it is
// used.
inline constexpr net::FiberPool::Options kAdminFibers{.most = 4,
                                                      .stack_bytes = std::size_t{8} << 20};

// What the administration needs in addition to FrontEndParts.
struct AdminParts {
  RulesManager& rules;
  const AdminToken& token;
  std::function<ServerStatus()> status;
  std::function<Expected<bool, RulesManager::Errors>()> reload;
  std::function<void(std::string_view what, std::string_view peer)> done;
  ServerOverrides* overrides;
  AdminEndpoint::Push push;
  std::function<Expected<HeldBlocks>(std::size_t most)> find_blocks;
  const insight::TopKeys& top_keys;
  LiveEvents* events;
};

// The administration over HTTP. It runs in one loop, whose fibers need the stack of a thread,
// because they parse rules.
std::unique_ptr<FrontEnd> make_admin_front_end(const FrontEndParts& parts, AdminParts admin);

}  // namespace sluice::server
