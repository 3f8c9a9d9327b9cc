#include "server/protocol/grpc/front_end.h"

#include <utility>

namespace sluice::server::grpc {

FrontEnd::FrontEnd(const Parts& parts, net::ListeningSocket socket) {
  if (parts.waits) {
    workers_.emplace(parts.make, parts.fibers);
  } else {
    handler_ = parts.make();
  }
  const Common& common = parts.common;
  listener_.emplace(Listener::Parts{.loop = parts.loop,
                                    .bounds = parts.bounds,
                                    .behind = workers_ ? Behind(*workers_) : Behind(*handler_),
                                    .paths = common.paths,
                                    .recorder = parts.recorder,
                                    .log = parts.log,
                                    .connections = parts.common.connections,
                                    .serving = parts.serving,
                                    .most_streams = common.most_streams,
                                    .ages = common.ages,
                                    .tls = common.tls},
                    std::move(socket));
}

void FrontEnd::follow_rules() {
  if (workers_) return workers_->renew();
  handler_->follow_rules();
}

}  // namespace sluice::server::grpc
