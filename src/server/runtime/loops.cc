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

void Loops::drain(boost::asio::io_context& main, const std::function<void()>& drained) {
  draining_ = all_.size();
  for (Loop& loop : all_) {
    loop.drain([this, &main, drained] {
      boost::asio::post(main, [this, drained] {
        if (--draining_ == 0) drained();
      });
    });
  }
}

void Loops::stop() {
  for (Loop& loop : all_) loop.stop();
}

}  // namespace sluice::server
