#include "server/api/resp/front_end.h"

#include <utility>

namespace sluice::server::resp {

FrontEnd::FrontEnd(const Parts& parts, net::ListeningSocket socket) {
  Common& common = parts.common;
  const auto make = [session = parts.session, &common] {
    return std::make_unique<CommandHandler>(
        CommandHandler::Parts{session(), common.users, common.about});
  };
  if (parts.waits) {
    crew_ = std::make_unique<Crew>(make, parts.fibers);
  } else {
    handler_ = make();
  }
  listener_.emplace(
      Listener::Parts{parts.loop, parts.bounds, crew_ ? Behind(*crew_) : Behind(*handler_),
                      common.users, parts.recorder, parts.log, common.connections, common.last_id,
                      common.unix_path, common.idle_timeout},
      std::move(socket));
}

void FrontEnd::follow_rules() {
  if (crew_) return crew_->renew();
  handler_->follow_rules();
}

}  // namespace sluice::server::resp
