#include "server/runtime/admin_front_end.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "server/protocol/http/connection.h"
#include "server/runtime/admin_handler.h"

namespace sluice::server {
namespace {

// Returns bounds under which a file of rules fits into a body.
Bounds bounds_for_rules(Bounds bounds) {
  constexpr std::size_t kMostRules = std::size_t{4} << 20;
  bounds.body_bytes = std::max(bounds.body_bytes, kMostRules);
  return bounds;
}

class AdminFrontEnd final : public FrontEnd {
 public:
  AdminFrontEnd(const FrontEndParts& parts, AdminParts admin)
      : FrontEnd(listen_address("admin"), "http/1.1", parts),
        admin_(std::move(admin)),
        bounds_(bounds_for_rules(parts.config.bounds)) {}

 protected:
  Expected<bool> check() override {
    if (listening().loopback || admin_.token.is_set()) return true;
    return Unexpected{"administration at " + listening().name +
                      " needs a token because other machines can connect; set admin.token_file or "
                      "admin.token_env in the configuration file, or listen on 127.0.0.1"};
  }
  std::unique_ptr<net::LoopFrontEnd> make(const LoopServices& loop,
                                          const net::Acceptor::Parts& accept,
                                          net::ListeningSocket socket) override {
    const auto make_handler = [this, loop] {
      return std::make_unique<AdminHandler>(AdminHandler::Parts{{.rules = admin_.rules,
                                                                 .limiter = loop.session().limiter,
                                                                 .token = admin_.token,
                                                                 .status = admin_.status,
                                                                 .reload = admin_.reload,
                                                                 .done = admin_.done,
                                                                 .overrides = admin_.overrides,
                                                                 .push = admin_.push,
                                                                 .find_blocks = admin_.find_blocks,
                                                                 .top_keys = &admin_.top_keys,
                                                                 .events = admin_.events},
                                                                parts().operations.in(loop.sleeps),
                                                                access(),
                                                                loop.recorder,
                                                                parts().log});
    };
    return std::make_unique<http::FrontEnd>(
        http::FrontEnd::Parts{bounds_, make_handler, loop.fibers, role_of_certificate()}, accept,
        std::move(socket));
  }
  const Bounds& bounds() const override { return bounds_; }
  bool is_administration() const override { return true; }

 private:
  const AdminParts admin_;
  const Bounds bounds_;
};

}  // namespace

std::unique_ptr<FrontEnd> make_admin_front_end(const FrontEndParts& parts, AdminParts admin) {
  return std::make_unique<AdminFrontEnd>(parts, std::move(admin));
}

}  // namespace sluice::server
