#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "stores/redis/client/asio_event_loop.h"
#include "stores/redis/client/link.h"
#include "stores/redis/cluster/reconnect.h"

namespace sluice::redis {

// One server of a cluster: its link, made when there is something to send, and made again.
//
// Used by its loop's thread only. Not to be destroyed from within a call to its owner, but for what
// its destruction itself ends.
class Node final : private Link::Owner {
 public:
  using Time = Reconnect::Time;

  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_ready(Node& node) = 0;
    virtual void on_ended(Node& node, std::string_view why, bool was_ready) = 0;
    // As that of Link::Owner.
    virtual bool on_error(Node& node, Command& command, std::string_view error) = 0;
    virtual void on_script_sent(Node& node, const Script& script) = 0;
  };
  struct Parts {
    EventLoop& loop;
    std::shared_ptr<const Target> target;
    LinkCounters& counters;
    Owner& owner;
    Reconnect::Random random;
  };

  Node(Parts parts, ServerAddress address);

  // False: refused, as the last attempt to connect has failed (why()); the command is its owner's
  // still. A command of `urgent` kind connects at once nevertheless.
  enum class Kind : std::uint8_t { kPlain, kAsking, kUrgent };
  [[nodiscard]] bool submit(Command& command, Kind kind, Time now);

  // Connects, where nothing is in the way.
  void connect(Time now);
  Time due() const noexcept { return reconnect_.due(); }

  bool is_ready() const noexcept { return link_ && link_->ready(); }
  bool has_link() const noexcept { return link_ != nullptr; }
  std::size_t pending() const noexcept { return link_ ? link_->pending() : 0; }
  const ServerAddress& address() const noexcept { return address_; }
  const std::string& why() const noexcept { return why_; }

  // Whether it is master of a slot; connects again by itself then. Of the client.
  bool is_master = false;
  // Where it is not: from then on it may go.
  Time used_until = {};

 private:
  void make_link();
  void on_ready(Link& link) override;
  void on_ended(Link& link, std::string_view why, bool was_ready) override;
  bool on_error(Link& link, Command& command, std::string_view error) override;
  void on_script_sent(Link& link, const Script& script) override;

  Parts parts_;
  ServerAddress address_;
  Reconnect reconnect_;
  std::string why_;
  std::unique_ptr<Link> link_;
};

}  // namespace sluice::redis
