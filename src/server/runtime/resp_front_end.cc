#include "server/runtime/resp_front_end.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/api/resp/command_handler.h"
#include "server/config/secret.h"
#include "server/protocol/resp/connection.h"

namespace sluice::server {
namespace {

// Returns the configured users with their passwords. Warns of weak ones.
Expected<resp::Users> read_users(const RespConfig& config, Log& log) {
  std::vector<resp::User> users;
  for (const ClientConfig& user : config.users) {
    users.push_back({user.name, {}, user.role, user.certificate});
    if (!user.secret.is_set()) continue;
    auto password = read_password(user.secret);
    if (!password) return Unexpected{"resp.users: " + password.error()};
    const std::string what = "the password of the RESP user '" + user.name + "'";
    const std::string weakness = find_weakness(what, user.secret, *password);
    if (!weakness.empty()) log.warning(weakness);
    users.back().password = std::move(*password);
  }
  return resp::Users(std::move(users));
}

class RespFrontEnd final : public FrontEnd {
 public:
  explicit RespFrontEnd(const FrontEndParts& parts) : FrontEnd(listen_address("resp"), {}, parts) {}

 protected:
  Expected<bool> check() override {
    auto users = read_users(parts().config.resp_options, parts().log);
    if (!users) return Unexpected{users.error()};
    users_ = std::move(*users);
    if (listening().loopback || !users_.none()) return true;
    return Unexpected{
        "RESP at " + listening().name +
        " needs users with passwords because other machines can connect; set resp.users in "
        "the configuration file, or listen on 127.0.0.1"};
  }
  std::unique_ptr<net::LoopFrontEnd> make(const LoopServices& loop,
                                          const net::Acceptor::Parts& accept,
                                          net::ListeningSocket socket) override {
    Log& log = parts().log;
    const auto make_handler = [this, loop, access = log.options().access ? &log : nullptr] {
      return std::make_unique<resp::CommandHandler>(
          resp::CommandHandler::Parts{.session = loop.session(),
                                      .users = users_,
                                      .about = about_,
                                      .clock = loop.clock,
                                      .access_log = access,
                                      .on_network = !listening().loopback,
                                      .overrides = parts().overrides,
                                      .redis = loop.redis,
                                      .top_keys = parts().top_keys});
    };
    return std::make_unique<resp::FrontEnd>(
        resp::FrontEnd::Parts{.bounds = bounds(),
                              .users = users_,
                              .last_id = last_id_,
                              .unix_path = listening().unix_path,
                              .idle_timeout = parts().config.resp_options.idle_timeout,
                              .make = make_handler,
                              .fibers = loop.fibers},
        accept, std::move(socket));
  }

 private:
  resp::Users users_;
  std::atomic<std::uint64_t> last_id_{0};
  const resp::About about_{SLUICE_VERSION, parts().clock.now(), connections_};
};

}  // namespace

std::unique_ptr<FrontEnd> make_resp_front_end(const FrontEndParts& parts) {
  return std::make_unique<RespFrontEnd>(parts);
}

}  // namespace sluice::server
