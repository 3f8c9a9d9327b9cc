#include "server/runtime/front_ends.h"

#include <utility>

#include "server/config/secret.h"
#include "server/runtime/grpc_front_end.h"
#include "server/runtime/http_front_end.h"
#include "server/runtime/resp_front_end.h"

namespace sluice::server {

namespace {

Expected<std::vector<KnownClient>> read_clients(const Config& config, Log& log) {
  std::vector<KnownClient> clients;
  for (const ClientConfig& client : config.clients) {
    clients.push_back({client.name, client.role, {}, client.certificate});
    if (!client.secret.is_set()) continue;
    auto token = read_token(client.secret);
    if (!token) return Unexpected{"clients: " + token.error()};
    const std::string what = "the token of the client '" + client.name + "'";
    const std::string weakness = find_weakness(what, client.secret, *token);
    if (!weakness.empty()) log.warning(weakness);
    clients.back().token = *std::move(token);
  }
  return clients;
}

}  // namespace

FrontEnds::FrontEnds(const FrontEndParts& parts, AdminParts admin)
    : config_(parts.config),
      log_(parts.log),
      admin_(make_admin_front_end(parts, std::move(admin))) {
  all_.push_back(make_http_front_end(parts));
  all_.push_back(make_grpc_front_end(parts));
  all_.push_back(make_resp_front_end(parts));
}

Expected<bool> FrontEnds::open(std::size_t loops, net::InheritedSockets& inherited) {
  auto clients = read_clients(config_, log_);
  if (!clients) return Unexpected{clients.error()};
  clients_ = std::move(*clients);
  for (const auto& one : all_) {
    if (auto opened = one->open(loops, clients_, inherited); !opened) return opened;
  }
  if (auto opened = admin_->open(1, clients_, inherited); !opened) return opened;
  for (const auto& unused : inherited) {
    net::SocketAddress address;
    address.read_name_of(unused.descriptor());
    log_.warning("an inherited socket is closed, because no listener has its address",
                 {{"address", address.text()}});
  }
  return true;
}

void FrontEnds::start(Loop& loop, std::size_t number) {
  for (const auto& one : all_) {
    if (one->is_open()) loop.add(one->start(loop.services(), number));
  }
}

std::unique_ptr<net::LoopFrontEnd> FrontEnds::start_administration(const LoopServices& loop) {
  return admin_->is_open() ? admin_->start(loop, 0) : nullptr;
}

void FrontEnds::unlink() noexcept {
  for (const auto& one : all_) one->unlink();
}

std::vector<int> FrontEnds::descriptors() const {
  std::vector<int> out = admin_->descriptors();
  for (const auto& one : all_) {
    out.insert(out.end(), one->descriptors().begin(), one->descriptors().end());
  }
  return out;
}

void FrontEnds::keep_unix_sockets() noexcept {
  admin_->keep_unix_socket();
  for (const auto& one : all_) one->keep_unix_socket();
}

void FrontEnds::reload(Log& log) {
  const auto reload = [&](FrontEnd& one) {
    if (const auto read = one.reload(); !read) {
      log.error("the files of a front end could not be reloaded",
                {{"front_end", one.name()}, {"why", read.error()}});
    }
  };
  for (const auto& one : all_) reload(*one);
  reload(*admin_);
}

std::string FrontEnds::ready_line() const {
  std::string line = "ready";
  for (const ServerStatus::Listener& one : status()) line += " " + one.name + "=" + one.address;
  return line;
}

std::string FrontEnds::example() const {
  for (const auto& one : all_) {
    if (std::string example = one->example(); !example.empty()) return example;
  }
  return {};
}

std::size_t FrontEnds::connections() const noexcept {
  std::size_t sum = 0;
  for (const auto& one : all_) sum += one->connections();
  return sum;
}

std::size_t FrontEnds::most_connections() const {
  std::size_t sum = admin_->most_connections();
  for (const auto& one : all_) sum += one->most_connections();
  return sum;
}

std::vector<ServerStatus::Listener> FrontEnds::status() const {
  std::vector<ServerStatus::Listener> out;
  const auto add = [&](const FrontEnd& one) {
    out.push_back({std::string(one.name()), one.address(), one.connections()});
  };
  for (const auto& one : all_) add(*one);
  add(*admin_);
  return out;
}

}  // namespace sluice::server
