#include "server/runtime/loop.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

namespace sluice::server {

std::size_t count_loops(std::size_t wanted) {
  if (wanted > 0) return wanted;
  return std::max(1U, std::thread::hardware_concurrency());
}

std::function<void()> after_all(const std::deque<Loop>& loops, boost::asio::io_context& main,
                                std::function<void()> done) {
  const auto left = std::make_shared<std::size_t>(loops.size());
  return [&main, left, done = std::move(done)] {
    boost::asio::post(main, [left, done] {
      if (--*left == 0) done();
    });
  };
}

RuleStores rule_stores(LoopStores* loop, const Overrides* overrides) {
  if (loop == nullptr) return {.overrides = overrides};
  return {.shadow = loop->shadow(), .local = loop->local(), .overrides = overrides};
}

Loop::Loop(const MakeSession& make_session, const net::LoopClock& clock,
           const MakeStores& make_stores, const net::FiberPool::Options& fibers)
    : stores_(make_stores ? make_stores(context_) : nullptr),
      services_{.context = context_,
                .session = make_session(stores_.get()),
                .clock = clock,
                .sleeps = &sleeps_} {
  if (!stores_) return;
  services_.fibers = fibers;
  services_.redis = [stores = stores_.get()] { return stores->redis(); };
}

Loop::~Loop() {
  try {
    stop();
  } catch (const std::exception&) {
    std::abort();  // no memory for the message that ends the thread, which uses this object
  }
}

void Loop::start() {
  thread_ = std::thread([this] { context_.run(); });
}

void Loop::follow_rules() {
  boost::asio::post(context_, [this] {
    for (const auto& front_end : front_ends_) front_end->follow_rules();
  });
}

void Loop::hand_over_keys() {
  insight::KeyRecorder* const keys = services_.session.keys;
  if (keys != nullptr) boost::asio::post(context_, [keys] { keys->hand_over(); });
}

void Loop::stop_accepting(net::Queued queued, std::function<void()> stopped) {
  boost::asio::post(context_, [this, queued, stopped = std::move(stopped)]() mutable {
    const std::shared_ptr<void> last(nullptr, [all = std::move(stopped)](void*) { all(); });
    for (const auto& front_end : front_ends_) front_end->stop_accepting(queued, [last] {});
  });
}

void Loop::drain(std::function<void()> drained) {
  boost::asio::post(context_, [this, drained = std::move(drained)]() mutable {
    sleeps_.stop();
    // The last front end to release `last` calls `drained`.
    const std::shared_ptr<void> last(nullptr, [all = std::move(drained)](void*) { all(); });
    for (const auto& front_end : front_ends_) front_end->drain([last] {});
  });
}

void Loop::stop() {
  if (!thread_.joinable()) return;
  boost::asio::post(context_, [this] {
    sleeps_.stop();
    if (stores_) stores_->stop();
    context_.stop();
  });
  thread_.join();
}

}  // namespace sluice::server
