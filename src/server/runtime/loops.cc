#include "server/runtime/loops.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace sluice::server {

void Loops::start() {
  for (Loop& loop : all_) loop.start();
}

void Loops::follow_rules() {
  for (Loop& loop : all_) loop.follow_rules();
}

void Loops::drain(boost::asio::io_context& main, std::function<void()> drained) {
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
