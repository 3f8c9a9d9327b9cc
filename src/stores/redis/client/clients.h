#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/link.h"
#include "stores/redis/client/pipeline.h"
#include "stores/redis/client/reconnect.h"
#include "stores/redis/client/target.h"

namespace sluice::redis {

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
  std::deque<Command*> waiting_;
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

// A client of the master that the target's Sentinels name; it follows a change of master. It asks
// first the Sentinels that the options name, then those that Sentinels report, from the one on that
// answered last.
std::unique_ptr<Client> make_sentinel_client(std::unique_ptr<EventLoop> loop,
                                             std::shared_ptr<const Target> target,
                                             StoreObserver* observer);

// Adds the address unless it is there already.
void add_once(std::vector<ServerAddress>& to, ServerAddress address);

// Which master serves which slot of a cluster, as reported by one of its servers.
//
// A value of 32 KiB and the addresses. Masters are numbered in the order of the report. Reading
// takes time in proportion to the report, whatever it says.
class SlotMap {
 public:
  static constexpr std::uint16_t kNobody = 0xFFFF;
  static constexpr std::size_t kMostReplicas = 64;

  SlotMap() { owners_.fill(kNobody); }

  // Reads the answer to CLUSTER SLOTS. A server without an address is the one that was asked.
  // Errors: not such an answer, or no slot is served.
  static Expected<SlotMap> read(const Reply& reply, const ServerAddress& asked);

  // The number of the slot's master; kNobody: none, or unknown.
  std::uint16_t owner_of(std::uint16_t slot) const noexcept { return owners_[slot % kSlots]; }
  const std::vector<ServerAddress>& masters() const noexcept { return masters_; }
  // They know the map too, but get no commands. Of many, the first kMostReplicas.
  const std::vector<ServerAddress>& replicas() const noexcept { return replicas_; }
  // One slot of each master that serves any, by which a client finds the master.
  std::vector<std::uint16_t> slot_of_each() const;
  // How many slots are served: 0 to 16384.
  std::size_t covered() const noexcept { return covered_; }

  // The number of the master at the address; kNobody if there is none.
  std::uint16_t find(const ServerAddress& address) const noexcept;
  // Enters that the slot has moved to the address. The numbers of masters do not change.
  void move(std::uint16_t slot, const ServerAddress& address);

  // Whether the same slots are served at the same addresses.
  bool serves_as(const SlotMap& other) const noexcept;

 private:
  std::uint16_t number_of(const ServerAddress& address);
  void assign(std::size_t slot, std::uint16_t owner) noexcept;
  bool read_range(const Reply& range, const ServerAddress& asked);

  std::array<std::uint16_t, kSlots> owners_;
  std::vector<ServerAddress> masters_;
  std::map<ServerAddress, std::uint16_t> numbers_;  // of the masters
  std::vector<ServerAddress> replicas_;
  std::size_t covered_ = 0;
};

// When to ask which server for the map of the slots, and the map, without sockets and clocks.
//
//   to_ask() -> ask -> to_ask() ... until it is null -> again at ask_again_at(), or after an event
//
// It asks in rounds: first servers that are connected, then those that are known, then the seeds,
// each once, until one reports a master for every slot. Every wait is random between half of it and
// all of it, so that many clients do not ask at the same time.
class Topology {
 public:
  using Duration = std::chrono::steady_clock::duration;
  using Random = std::function<std::uint64_t()>;  // 64 random bits

  // Between two rounds, and between two without a hint.
  static constexpr Duration kShortestInterval = std::chrono::milliseconds(100);
  static constexpr Duration kLongestInterval = std::chrono::seconds(60);
  // The time before another server is asked too.
  static constexpr Duration kPatience = std::chrono::milliseconds(100);

  // The backoffs are the times between rounds without an answer.
  Topology(std::vector<ServerAddress> seeds, Duration first_backoff, Duration longest_backoff,
           Random random);

  // The server to ask now, with the number question(). Null: none. Valid until the next call.
  const ServerAddress* to_ask(Time now);
  std::uint64_t question() const noexcept { return next_question_ - 1; }
  // When to call to_ask() again, without another event.
  Time ask_again_at() const noexcept;

  // Reports that the map seems out of date. Returns when the next round begins; Time::max() during
  // a round.
  Time hint(Time now);
  // Reports whether the server can be asked without connecting first.
  void set_reachable(const ServerAddress& address, bool reachable);
  // Report the result of a question. True: the slots are served by other masters than before.
  bool answered(std::uint64_t question, SlotMap map, Time now);
  bool failed(std::uint64_t question, std::string_view why, Time now);

  const SlotMap& map() const noexcept { return map_; }
  // Enters a MOVED in the map. A hint should follow, because other slots may have moved too.
  void moved(std::uint16_t slot, const ServerAddress& address);

  bool is_known() const noexcept { return is_known_; }
  // The last round had no answer. `why`: the reason of the last question that failed.
  bool is_failing() const noexcept { return failures_ > 0; }
  const std::string& why() const noexcept { return why_; }

 private:
  bool has_more() const noexcept;
  void begin_round();
  void end_round(bool is_answered, Time now);
  bool end_if_exhausted(Time now);
  bool take_back(std::uint64_t question) noexcept;
  bool adopt(SlotMap map);
  Time drawn(Time from, Duration wait);

  std::vector<ServerAddress> seeds_;
  Duration first_backoff_;
  Duration longest_backoff_;
  Random random_;
  std::vector<ServerAddress> reachable_;

  SlotMap map_;
  bool is_known_ = false;
  bool has_moved_ = false;  // since the map was received

  bool in_round_ = false;
  bool is_hinted_ = false;       // during this round
  bool is_answered_ = false;     // by any server in this round
  std::optional<SlotMap> best_;  // of this round, if every map has fewer slots than map_
  std::vector<ServerAddress> candidates_;
  std::size_t next_candidate_ = 0;
  std::size_t asked_ = 0;  // questions without an answer
  Time ask_next_at_ = {};
  std::uint64_t first_question_ = 0;  // of this round
  std::uint64_t next_question_ = 0;
  std::uint64_t rounds_ = 0;

  Time due_ = {};       // the next round
  Time earliest_ = {};  // it must not come before
  unsigned failures_ = 0;
  std::string why_;
};

// A client of a Redis Cluster: it connects to each master that it needs, sends commands by their
// slots, follows redirects, and keeps the map of the slots up to date.
//
// Commands wait for the first map; they are refused from when no server could be asked for it until
// one answers. A command is sent again only if the server said that it was not executed: after
// MOVED and ASK to the server that they name, up to five times, and after TRYAGAIN 5 ms later,
// until its deadline, unless it is divisible. See Client for thread-safety and ownership.
std::unique_ptr<Client> make_cluster_client(std::unique_ptr<EventLoop> loop,
                                            std::shared_ptr<const Target> target,
                                            StoreObserver* observer);

}  // namespace sluice::redis
