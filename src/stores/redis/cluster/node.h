#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/link.h"
#include "stores/redis/cluster/reconnect.h"

namespace sluice::redis {

// One server of a cluster: makes a link when there is something to send, and another one when it
// ends.
//
// Thread-safety: the loop's thread only. Must not be destroyed from within a call to its owner,
// except for calls that its destruction causes.
class Node final : private Link::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_ready(Node& node) = 0;
    virtual void on_ended(Node& node, std::string_view why, bool was_ready) = 0;
    // As in Link::Owner.
    virtual bool on_error(Node& node, Command& command, std::string_view error) = 0;
    virtual void on_script_sent(Node& node, const Script& script) = 0;
  };
  struct Parts {
    EventLoop& loop;
    std::shared_ptr<const Target> target;
    LinkCounters& counters;
    Owner& owner;
    std::size_t& connecting;  // the number of nodes whose links are not ready
  };
  // The most links that are being made at the same time. A map may name thousands of servers that
  // do not answer, and each attempt takes a descriptor for as long as `connect_timeout`.
  static constexpr std::size_t kMostConnecting = 128;

  Node(Parts parts, ServerAddress address);
  ~Node() override { set_connecting(false); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // False: refused, because the last attempt to connect failed or too many links are being made
  // (why()); the caller keeps the command. kUrgent connects at once all the same.
  enum class Kind : std::uint8_t { kPlain, kAsking, kUrgent };
  [[nodiscard]] bool submit(Command& command, Kind kind, Time now);

  // Connects if there is no link, the backoff has passed, and not too many links are being made.
  void connect(Time now);
  Time due() const noexcept { return reconnect_.due(); }

  bool is_ready() const noexcept { return link_ && link_->ready(); }
  bool has_link() const noexcept { return link_ != nullptr; }
  std::size_t pending() const noexcept { return link_ ? link_->pending() : 0; }
  const ServerAddress& address() const noexcept { return address_; }
  const std::string& why() const noexcept { return why_; }

  // Whether it is master of a slot; the client then connects to it again. Set by the client.
  bool is_master = false;
  // Until when the client keeps it if it is not.
  Time used_until = {};

 private:
  void make_link(Kind kind);
  void set_connecting(bool connecting) noexcept;
  void on_ready(Link& link) override;
  void on_ended(Link& link, std::string_view why, bool was_ready) override;
  bool on_error(Link& link, Command& command, std::string_view error) override;
  void on_script_sent(Link& link, const Script& script) override;

  Parts parts_;
  ServerAddress address_;
  Reconnect reconnect_;
  bool is_connecting_ = false;
  std::string why_;
  std::unique_ptr<Link> link_;
};

}  // namespace sluice::redis
