#include "server/runtime/shutdown.h"

#include "server/runtime/notify.h"

namespace sluice::server {

using boost::system::error_code;

Shutdown::Shutdown(const Parts& parts) : parts_(parts), timer_(parts.main) {}

void Shutdown::drain() {
  begun_ = true;
  // Without a delay, this would only make clients connect again while the listeners close.
  if (parts_.config.drain_delay.count() > 0) parts_.ready = false;
  notify_manager("STOPPING=1");
  parts_.log.info("draining", {{"connections", parts_.front_ends.connections()}});
  timer_.expires_after(parts_.config.drain_delay);
  timer_.async_wait([this](const error_code& why) {
    if (!why) close_listeners(net::Queued::kAccept);
  });
}

// The successor accepts, so this server is not missed, and its health is not of interest.
void Shutdown::hand_over() {
  begun_ = true;
  parts_.log.info("handed over", {{"connections", parts_.front_ends.connections()}});
  parts_.front_ends.keep_unix_sockets();
  close_listeners(net::Queued::kLeave);
}

void Shutdown::close_listeners(net::Queued queued) {
  // The file system refuses new connections; those in the queue are accepted.
  parts_.front_ends.unlink();
  parts_.loops.stop_accepting(parts_.main, queued, [this, queued] {
    if (queued == net::Queued::kAccept) parts_.ready = false;
    parts_.loops.drain(parts_.main, [this] { stop(); });
  });
  timer_.expires_after(parts_.config.drain_timeout);
  timer_.async_wait([this](const error_code& why) {
    if (why) return;
    parts_.log.warning("connections were closed because they did not end in time",
                       {{"connections", parts_.front_ends.connections()}});
    stop();
  });
}

void Shutdown::stop() {
  parts_.log.info("stopped");
  parts_.main.stop();
}

}  // namespace sluice::server
