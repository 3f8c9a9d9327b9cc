#include "server/runtime/front_end.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "server/config/secret.h"
#include "server/net/address.h"

namespace sluice::server {

Expected<bool> FrontEnd::open(std::size_t loops) {
  if (auto prepared = prepare(); !prepared) return prepared;
  const auto address = parse_address(configured_);
  if (!address) return Unexpected{configured_ + ": " + address.error()};
  if (address->kind == Address::Kind::kOff) return true;
  auto listening = net::listen_at(*address, loops);
  if (!listening) return Unexpected{listening.error()};
  listening_ = std::move(*listening);
  return check();
}

std::unique_ptr<net::LoopFrontEnd> FrontEnd::start(const LoopServices& loop, std::size_t number) {
  const net::Acceptor::Parts accept{.loop = loop.context,
                                    .recorder = loop.recorder,
                                    .warn = warning_writer(parts_.log),
                                    .connections = connections_,
                                    .most = bounds().connections,
                                    .clock = loop.clock};
  return make(loop, accept, std::move(listening_->sockets[number]));
}

Expected<Access> FrontEnd::open_access() {
  std::vector<BearerClient> clients;
  for (const ClientConfig& client : parts_.config.clients) {
    auto token = read_token(client.secret);
    if (!token) return Unexpected{"clients: " + token.error()};
    const std::string what = "the token of the client '" + client.name + "'";
    const std::string weakness = find_weakness(what, client.secret, *token);
    if (!weakness.empty()) parts_.log.warning(weakness);
    clients.push_back({client.name, client.role, *std::move(token)});
  }
  const auto reach = !listening_->unix_path.empty() ? Access::Reach::kUnixSocket
                     : listening_->loopback         ? Access::Reach::kLoopback
                                                    : Access::Reach::kNetwork;
  Access access(reach, std::move(clients), parts_.config.hosts);
  if (access.nobody_operates()) {
    parts_.log.info(std::string(name_) + " at " + listening_->name +
                    " refuses refunds, resets and takes of several units, because no client in "
                    "`clients` has the role operate");
  }
  return access;
}

void FrontEnd::unlink() noexcept {
  if (listening_ && !listening_->unix_path.empty()) ::unlink(listening_->unix_path.c_str());
}

}  // namespace sluice::server
