#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "server/api/resp/front_end.h"
#include "server/net/fiber.h"
#include "server/protocol/grpc/front_end.h"
#include "server/protocol/http/listener.h"
#include "server/protocol/http/workers.h"
#include "server/runtime/public_handler.h"
#include "server/runtime/rls_handler.h"
#include "server/storage/loop_stores.h"

namespace sluice::server {

// A thread with its event loop, and what the public listener needs in it.
//
// Decisions are made by `limiter`, whose store never waits, on the loop's own stack; or by stores
// of the loop's own, each request on a fiber:
//
//   parts.make_stores = [&](boost::asio::io_context& loop) { return redis_stores.make(loop); };
//
// Which makes what a Loop has a part of, and so is to be declared before the loops. Likewise the
// listener of the administration, whose loop is somebody else's: members in this order,
//
//   admin_stores.emplace(redis_stores.make(main));
//   AdminHandler::Parts parts{{.limiter = (*admin_stores)->limiter(), ...}, ...};
//   admin_workers.emplace([parts] { return std::make_unique<AdminHandler>(parts); },
//                         net::FiberPool::Options{.most = 4, .stack_bytes = std::size_t{8} << 20});
//   admin_listener.emplace(http::Listener::Parts{main, bounds, *admin_workers, ...}, socket);
//
// (some workers, so that /healthz does not wait for a page that asks the store; stacks as long as a
// thread's, which take no memory before they are used: rules are parsed there) and after
// main.run(), in the same thread, (*admin_stores)->stop(): what still waits then ends.
//
// All members by the thread that made it. Ownership: borrows the parts.
class Loop {
 public:
  struct Parts {
    Limiter& limiter;
    const RulesManager& rules;
    metrics::Recorder& recorder;
    DenialLog& denials;
    Log& log;
    const TrustedProxies& trusted;
    const Bounds& bounds;
    Operations operations;
    std::atomic<std::size_t>& connections;
    EnvoyManager& envoy;
    // Where the store waits: called once, before the loop runs.
    std::function<std::unique_ptr<LoopStores>(boost::asio::io_context&)> make_stores = {};
    net::FiberPool::Options fibers = {};  // `most`: requests under way at once; others wait in turn
  };

  explicit Loop(const Parts& parts) : parts_(parts) {
    if (!parts.make_stores) {
      handler_ = make_handler(parts.limiter, {});
      return;
    }
    stores_ = parts.make_stores(context_);
    workers_.emplace(
        [this] {
          return make_handler(stores_->limiter(), {stores_->trial(), stores_->local()});
        },
        parts.fibers);
  }
  ~Loop() {
    try {
      stop();
    } catch (const std::exception&) {
      std::abort();  // without the memory to tell the thread to end, which uses what is here
    }
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void listen(net::ListeningSocket socket) {
    listener_.emplace(http::Listener::Parts{context_, parts_.bounds, behind(), parts_.recorder,
                                            parts_.log, parts_.connections},
                      std::move(socket));
  }
  void listen_resp(net::ListeningSocket socket, resp::Common& common) {
    resp_.emplace(resp::FrontEnd::Parts{context_, parts_.bounds, parts_.recorder, parts_.log,
                                        common, [this] { return session_parts(); },
                                        stores_ != nullptr, parts_.fibers},
                  std::move(socket));
  }
  void listen_grpc(net::ListeningSocket socket, grpc::Common& common,
                   const std::atomic<bool>& serving) {
    grpc_.emplace(
        grpc::FrontEnd::Parts{context_, parts_.bounds, parts_.recorder, parts_.log, common, serving,
                              [this] {
                                return make_rls_handler({session_parts(), parts_.envoy});
                              },
                              stores_ != nullptr, parts_.fibers},
        std::move(socket));
  }
  void start() {
    thread_ = std::thread([this] { context_.run(); });
  }
  // Lets go of rules that are no longer in force; requests that wait do so when they are done.
  void follow_rules() {
    boost::asio::post(context_, [this] {
      if (grpc_) grpc_->follow_rules();
      if (resp_) resp_->follow_rules();
      if (workers_) return workers_->renew();
      handler_->follow_rules();
    });
  }
  // Calls `drained` in the loop's thread.
  void drain(std::function<void()> drained) {
    boost::asio::post(context_, [this, drained = std::move(drained)]() mutable {
      const auto all = std::make_shared<std::function<void()>>(std::move(drained));
      // The last of the doors that lets go of it calls it.
      const std::shared_ptr<void> last(nullptr, [all](void*) { (*all)(); });
      if (listener_) listener_->drain([last] {});
      if (grpc_) grpc_->drain([last] {});
      if (resp_) resp_->drain([last] {});
    });
  }
  // Cuts what is open; requests that wait for the store are answered for by what fails then.
  void stop() {
    if (!stores_) context_.stop();
    if (!thread_.joinable()) return;
    boost::asio::post(context_, [this] {
      if (stores_) stores_->stop();
      context_.stop();
    });
    thread_.join();
  }

 private:
  // What a session of another door asks: the same as that of HTTP.
  Session::Parts session_parts() {
    if (!stores_) return session_parts(parts_.limiter, {});
    return session_parts(stores_->limiter(), {stores_->trial(), stores_->local()});
  }
  Session::Parts session_parts(Limiter& limiter, const RuleStores& stores) {
    return {limiter, parts_.rules, parts_.recorder, parts_.denials, stores};
  }
  std::unique_ptr<PublicHandler> make_handler(Limiter& limiter, const RuleStores& stores) {
    return std::make_unique<PublicHandler>(
        PublicHandler::Parts{session_parts(limiter, stores), parts_.envoy, parts_.trusted,
                             parts_.recorder, parts_.log, parts_.operations});
  }
  http::Behind behind() {
    if (workers_) return *workers_;
    return *handler_;
  }

  Parts parts_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  std::unique_ptr<LoopStores> stores_;
  std::unique_ptr<PublicHandler> handler_;  // this, or the workers
  std::optional<http::Workers> workers_;
  std::optional<http::Listener> listener_;
  std::optional<grpc::FrontEnd> grpc_;
  std::optional<resp::FrontEnd> resp_;
  std::thread thread_;
};

}  // namespace sluice::server
