#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "stores/redis/client/reply.h"

#include "sluice/clock.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/link.h"
#include "stores/redis/client/pipeline.h"
#include "stores/redis/client/reconnect.h"
#include "stores/redis/client/server_address.h"
#include "stores/redis/client/target.h"

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

// An event loop on Boost.Asio, with sockets as the target's options say. Borrows both. `clock` must
// run at the pace of std::chrono::steady_clock and have its epoch, as SteadyClock does.
std::unique_ptr<EventLoop> make_asio_event_loop(boost::asio::io_context& loop,
                                                std::shared_ptr<const Target> target,
                                                const Clock& clock = SteadyClock::instance());

// Which Sentinel to ask for the master, without I/O: first those that the options name, then those
// that Sentinels report. The one that answered last is asked first.
//
//   begin() -> ask to_ask() -> on_master(), or on_failed() -> ask to_ask() ... until there is none
class Sentinels {
 public:
  // `seeds`: one or more.
  Sentinels(std::vector<ServerAddress> seeds, std::string master);

  void begin();
  // Null: no Sentinel has helped since begin(). Valid until the next call of a member.
  const ServerAddress* to_ask() const noexcept;
  // The Sentinel that was asked did not help: another is next.
  void on_failed(std::string_view why);
  // Reads its reply to SENTINEL GET-MASTER-ADDR-BY-NAME. Empty: it knows no such master, and
  // another one is next.
  std::optional<ServerAddress> on_master(const Reply& reply);
  // Reads its reply to SENTINEL SENTINELS: the other Sentinels.
  void on_others(const Reply& reply);

  // Why each Sentinel since begin() did not help.
  const std::string& why() const noexcept { return why_; }

 private:
  std::vector<ServerAddress> all_;
  std::size_t seeds_;  // this many at the front are never removed
  std::string master_;
  std::size_t next_ = 0;
  std::size_t asked_ = 0;
  std::string why_;
};

// A client of one server at a time: keeps a link to it, and makes another when it ends.
//
// Commands are sent while the link is ready. They wait until their deadline while the first link is
// being made, or a new one after a link that had lasted. While no link can be made they end at
// once.
class MasterClient : public LinkOwner {
 public:
  MasterClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
               StoreObserver* observer);
  ~MasterClient() override;

  void submit(Command& command) noexcept final;
  bool ready() const noexcept final { return link_ != nullptr && link_->ready(); }

 protected:
  // Begins to find out which server; must lead to switch_to() or attempt_failed(), perhaps later.
  // Here it is the one server that the target names.
  virtual void find_server();
  // Connects to a server, and leaves the present one. `hopeful`: the server is probably there, so
  // that commands wait for it. Must not be called from within a call by the present link.
  void switch_to(const ServerAddress& address, bool hopeful);
  void attempt_failed(std::string_view endpoint, std::string_view why);

  void on_ready(Link& link) override;
  void on_ended(Link& link, std::string_view why, bool was_ready) override;
  bool on_error(Link& link, Command& command, std::string_view error) override;

  const Link* link() const noexcept { return link_.get(); }

 private:
  // Commands that wait for find_server(), in the order of their deadlines.
  void keep_waiting(Command& command) noexcept;
  Command& take_waiting() noexcept;
  void expire_waiting();
  void end_waiting(std::string_view why) noexcept;
  // Sends nothing more on the link, and gives its commands time to end.
  void retire_link();
  void leave();
  void set_why(std::string_view endpoint, std::string_view why);
  void lost(std::string_view endpoint, std::string_view why);

  Reconnect reconnect_;
  std::unique_ptr<Timer> retry_timer_;
  std::unique_ptr<Timer> waiting_timer_;
  std::unique_ptr<Timer> retired_timer_;
  std::unique_ptr<Timer> leave_timer_;  // for after the answers that came with an error
  Ring<Command*> waiting_;
  bool hopeful_ = true;   // the attempt that is under way will probably succeed
  bool leaving_ = false;  // the link is retired at the end of this turn
  std::string leaving_why_;
  std::shared_ptr<Link> link_;
  std::shared_ptr<Link> retired_;
};

// A client of the one server that the target names.
std::unique_ptr<Client> make_standalone_client(std::unique_ptr<EventLoop> loop,
                                               std::shared_ptr<const Target> target,
                                               StoreObserver* observer);

// A client of the master that the target's Sentinels name; it follows a change of master.
std::unique_ptr<Client> make_sentinel_client(std::unique_ptr<EventLoop> loop,
                                             std::shared_ptr<const Target> target,
                                             StoreObserver* observer);

}  // namespace sluice::redis
