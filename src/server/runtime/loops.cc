#include "server/runtime/loops.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <thread>
#include <utility>

namespace sluice::server {

std::size_t Loops::count(std::size_t wanted) {
  if (wanted > 0) return wanted;
  return std::max(1U, std::thread::hardware_concurrency());
}

void Loops::start() {
  for (Loop& loop : all_) loop.start();
}

void Loops::follow_rules() {
  for (Loop& loop : all_) loop.follow_rules();
}

void Loops::drain(boost::asio::io_context& main, net::Queued queued,
                  const std::function<void()>& drained) {
  const auto in_main = [this, &main](const std::function<void()>& last) {
    return [this, &main, last] {
      boost::asio::post(main, [this, last] {
        if (--waiting_for_ == 0) last();
      });
    };
  };
  const auto drain_connections = [this, in_main, drained] {
    waiting_for_ = all_.size();
    for (Loop& loop : all_) loop.drain(in_main(drained));
  };
  waiting_for_ = all_.size();
  for (Loop& loop : all_) loop.stop_accepting(queued, in_main(drain_connections));
}

void Loops::stop() {
  for (Loop& loop : all_) loop.stop();
}

}  // namespace sluice::server
