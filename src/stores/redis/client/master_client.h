#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "stores/redis/client/asio_event_loop.h"
#include "stores/redis/client/backoff.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/link.h"
#include "stores/redis/client/ring.h"
#include "stores/redis/client/target.h"

namespace sluice::redis {

// A client of one server at a time: keeps a link to it, and makes another when it ends. Which
// server that is, is said by find_server().
//
// Commands are sent while the link is ready. While it is made for the first time, or anew after one
// that lasted, they wait for it until their deadline; while it cannot be made they end at once.
class MasterClient : public Client, protected Link::Owner {
 public:
  using Clock = std::chrono::steady_clock;

  MasterClient(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
               StoreObserver* observer);
  ~MasterClient() override;

  void submit(Command& command) noexcept final;
  bool ready() const noexcept final { return link_ != nullptr && link_->ready(); }
  std::string why() const final { return why_; }
  RedisStoreStats stats() const noexcept final;

 protected:
  using AsioTimer = boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>,
                                                      boost::asio::io_context::executor_type>;

  // Begins to find out which server; switch_to() or attempt_failed() must follow, perhaps later.
  virtual void find_server() = 0;
  // Connects to a server, in the place of the one there may be. `hopeful`: nothing speaks against
  // its being there, so that commands wait for it. Not from within a call by the present link.
  void switch_to(const ServerAddress& address, bool hopeful);
  void attempt_failed(std::string_view endpoint, std::string_view why);
  void emit(StoreEventKind kind, std::string_view endpoint, std::string_view why) noexcept;

  void on_ready(Link& link) override;
  void on_ended(Link& link, std::string_view why, bool was_ready) override;
  bool on_error(Link& link, Command& command, std::string_view error) override;
  void on_script_sent(Link& link, const Script& script) override;

  EventLoop& events() noexcept { return *events_; }
  boost::asio::io_context& loop() noexcept { return loop_; }
  const std::shared_ptr<const Target>& target() const noexcept { return target_; }
  const Link* link() const noexcept { return link_.get(); }

  // A handler that does nothing when this is gone.
  template <typename F>
  auto guarded(F f) {
    return [alive = alive_, f = std::move(f)](auto&&... arguments) {
      if (*alive != nullptr) f(std::forward<decltype(arguments)>(arguments)...);
    };
  }
  // When what runs now has returned to the loop.
  template <typename F>
  void later(F f) {
    boost::asio::post(loop_, guarded(std::move(f)));
  }

 private:
  // Commands that wait for find_server(), in the order of their deadlines.
  void keep_waiting(Command& command) noexcept;
  void expire_waiting();
  void arm_waiting() noexcept;
  void end_waiting(std::string_view why) noexcept;
  void refuse(Command& command, std::string_view why) noexcept;
  // Lets what is under way end by itself, and sends nothing more there.
  void retire_link();
  void leave(std::string_view why);
  void set_why(std::string_view endpoint, std::string_view why);
  void lost(std::string_view endpoint, std::string_view why);
  void try_after(Backoff::Duration delay);

  boost::asio::io_context& loop_;
  std::shared_ptr<const Target> target_;
  std::unique_ptr<EventLoop> events_;
  StoreObserver* observer_;
  LinkCounters counters_;
  Backoff backoff_;
  std::minstd_rand random_;
  AsioTimer retry_timer_;
  AsioTimer waiting_timer_;
  AsioTimer retired_timer_;
  Ring<Command*> waiting_;
  bool hopeful_ = true;   // nothing speaks against the attempt that is under way
  bool leaving_ = false;  // the link is to be retired when this turn is over
  Clock::time_point ready_since_ = {};
  std::string why_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<Link> retired_;
  std::shared_ptr<MasterClient*> alive_;  // what is posted may come when this is gone
};

}  // namespace sluice::redis
