#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "server/http/listener.h"
#include "server/public_handler.h"

namespace sluice::server {

// A thread with its event loop, and what the public listener needs in it.
//
// All members by the thread that made it. Ownership: borrows the parts.
class Loop {
 public:
  struct Parts {
    Limiter& limiter;
    const RulesKeeper& rules;
    metrics::Recorder& recorder;
    DenialLog& denials;
    Log& log;
    const TrustedProxies& trusted;
    const Bounds& bounds;
    Operations operations;
    std::atomic<std::size_t>& connections;
  };

  explicit Loop(const Parts& parts)
      : parts_(parts),
        session_({parts.limiter, parts.rules, parts.recorder, parts.denials}),
        handler_({session_, parts.trusted, parts.recorder, parts.log, parts.operations}) {}
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void listen(http::ListeningSocket socket) {
    listener_.emplace(http::Listener::Parts{context_, parts_.bounds, handler_, parts_.recorder,
                                            parts_.log, parts_.connections},
                      std::move(socket));
  }
  void start() {
    thread_ = std::thread([this] { context_.run(); });
  }
  void follow_rules() {
    boost::asio::post(context_, [this] { session_.follow_rules(); });
  }
  // Calls `drained` in the loop's thread.
  void drain(std::function<void()> drained) {
    boost::asio::post(context_, [this, drained = std::move(drained)]() mutable {
      if (listener_) return listener_->drain(std::move(drained));
      drained();
    });
  }
  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  Parts parts_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  Session session_;
  PublicHandler handler_;
  std::optional<http::Listener> listener_;
  std::thread thread_;
};

}  // namespace sluice::server
