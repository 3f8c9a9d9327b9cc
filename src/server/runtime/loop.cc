#include "server/runtime/loop.h"

#include <algorithm>
#include <boost/asio/post.hpp>
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

void Loop::open(std::unique_ptr<LoopStores> stores, const Session::Parts& session) {
  stores_ = std::move(stores);
  session_.emplace(session);
}

std::function<redis::Client*()> Loop::redis() const {
  if (!stores_) return {};
  return [stores = stores_.get()] { return stores->redis(); };
}

void Loop::run() {
  context_.run();
  sleeps_.stop();
  if (stores_) stores_->stop();
}

void Loop::start() {
  thread_ = std::thread([this] { run(); });
}

void Loop::follow_rules() {
  boost::asio::post(context_, [this] {
    for (const auto& front_end : front_ends_) front_end->follow_rules();
  });
}

void Loop::hand_over_keys() {
  insight::KeyRecorder* const keys = session_->keys;
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
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace sluice::server
