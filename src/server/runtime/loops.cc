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

void Loops::hand_over_keys() {
  for (Loop& loop : all_) loop.hand_over_keys();
}

// Returns what each loop calls when it has finished. The last one calls `done` in the loop `main`.
std::function<void()> Loops::after_all(boost::asio::io_context& main, std::function<void()> done) {
  waiting_for_ = all_.size();
  return [this, &main, done = std::move(done)] {
    boost::asio::post(main, [this, done] {
      if (--waiting_for_ == 0) done();
    });
  };
}

void Loops::stop_accepting(boost::asio::io_context& main, net::Queued queued,
                           const std::function<void()>& stopped) {
  const auto one_stopped = after_all(main, stopped);
  for (Loop& loop : all_) loop.stop_accepting(queued, one_stopped);
}

void Loops::drain(boost::asio::io_context& main, const std::function<void()>& drained) {
  const auto one_drained = after_all(main, drained);
  for (Loop& loop : all_) loop.drain(one_drained);
}

void Loops::stop() {
  for (Loop& loop : all_) loop.stop();
}

}  // namespace sluice::server
