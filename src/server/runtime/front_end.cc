#include "server/runtime/front_end.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "server/net/address.h"

namespace sluice::server {

Expected<bool> FrontEnd::open(std::size_t loops, std::span<const KnownClient> clients,
                              net::InheritedSockets& inherited) {
  const Config& config = parts_.config;
  const auto address = parse_address(config.*address_.address);
  if (!address) return Unexpected{config.*address_.address + ": " + address.error()};
  if (address->kind == Address::Kind::kOff) return true;
  if (const net::TlsFiles& files = config.*address_.tls; !files.cert_file.empty()) {
    auto tls = net::TlsContext::open(files, protocol_);
    if (!tls) return Unexpected{std::string(name()) + ".tls: " + tls.error()};
    tls_ = std::move(*tls);
  }
  auto listening = net::listen_at(*address, loops, inherited);
  if (!listening) return Unexpected{listening.error()};
  listening_ = std::move(*listening);
  for (const auto& socket : listening_->sockets) descriptors_.push_back(socket.descriptor());
  const auto reach = !listening_->unix_path.empty() ? Access::Reach::kUnixSocket
                     : listening_->loopback         ? Access::Reach::kLoopback
                                                    : Access::Reach::kNetwork;
  share_ = &parts_.descriptors.add_listener(is_administration());
  access_.emplace(reach, clients, parts_.config.hosts);
  return check();
}

std::unique_ptr<net::LoopFrontEnd> FrontEnd::start(const LoopServices& loop, std::size_t number) {
  const net::Acceptor::Parts accept{.loop = loop.context,
                                    .recorder = loop.recorder,
                                    .warn = warning_writer(parts_.log),
                                    .connections = connections_,
                                    .most = bounds().connections,
                                    .clock = loop.clock,
                                    .descriptors = &parts_.descriptors,
                                    .share = share_,
                                    .tls = tls_.get(),
                                    .handshake_timeout = bounds().header_timeout};
  return make(loop, accept, std::move(listening_->sockets[number]));
}

void FrontEnd::log_that_nobody_operates() const {
  parts_.log.info(std::string(name()) + " at " + listening_->name +
                  " refuses refunds, resets and takes of several units, because no client in "
                  "`clients` has the role operate");
}

Expected<bool> FrontEnd::reload() {
  if (!tls_) return true;
  if (const auto read = tls_->reload(); !read) {
    return Unexpected{"the certificate was not replaced: " + read.error()};
  }
  return true;
}

void FrontEnd::keep_unix_socket() noexcept {
  if (listening_) listening_->removes_unix_path = false;
}

void FrontEnd::unlink() noexcept {
  if (listening_ && listening_->removes_unix_path) ::unlink(listening_->unix_path.c_str());
}

}  // namespace sluice::server
