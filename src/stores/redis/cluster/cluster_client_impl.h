#pragma once

#include <atomic>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/client.h"
#include "stores/redis/client/target.h"
#include "stores/redis/cluster/node.h"
#include "stores/redis/cluster/parked.h"
#include "stores/redis/cluster/redirect.h"
#include "stores/redis/cluster/topology.h"

namespace sluice::redis {

// What make_cluster_client() makes: the shell around Topology, next_step(), Parked and Node.
//
// One timer serves all that waits. What a server's answer leads to may make nodes, but only the
// timer's turn takes any away: a link must not be destroyed from within.
class ClusterClient final : public Client, private Node::Owner {
 public:
  ClusterClient(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
                StoreObserver* observer);
  ~ClusterClient() override;
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  void submit(Command& command) noexcept override;
  bool ready() const noexcept override;
  std::string why() const override;
  RedisStoreStats stats() const noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using AsioTimer = boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>,
                                                      boost::asio::io_context::executor_type>;

  // CLUSTER SLOTS on its way to one server.
  struct Question final : public Command {
    void done(const Answer& answer) noexcept override { client->answered(*this, answer); }

    ClusterClient* client = nullptr;
    ServerAddress asked;
    std::uint64_t number = 0;
  };

  void send(Command& command, Time now);
  void send_to(Node& node, Command& command, Node::Kind kind, Time now);
  void park(Command& command, Time until, Parked& where);
  void refuse(Command& command, std::string_view why) noexcept;

  Time ask_around(Time now);
  void ask(const Topology::Action& action, Time now);
  void answered(Question& question, const Answer& answer) noexcept;
  bool take_answer(const Question& question, const Answer& answer, Time now);
  void map_changed(const ServerAddress& by, Time now);
  void send_waiting(Time now);

  Node* node_of(std::uint16_t slot);
  Node* any_node();
  Node& master(std::uint16_t number);
  Node& node_at(const ServerAddress& address);
  bool is_question(const Command& command) const noexcept;

  void on_ready(Node& node) override;
  void on_ended(Node& node, std::string_view why, bool was_ready) override;
  bool on_error(Node& node, Command& command, std::string_view error) override;
  void on_script_sent(Node& node, const Script& script) override;
  void tell(StoreEventKind kind, const ServerAddress& address, std::string_view why) noexcept;

  void arm(Time due) noexcept;
  void turn(Time now);
  void end_overdue(Time now);
  void tend_nodes(Time now);
  Time next_turn(Time now) const;

  boost::asio::io_context& loop_;
  std::shared_ptr<const Target> target_;
  std::unique_ptr<EventLoop> events_;
  StoreObserver* observer_;
  std::mt19937_64 random_;
  bool is_closing_ = false;

  LinkCounters counters_;
  std::atomic<std::uint64_t> redirects_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::size_t> parked_{0};

  Topology topology_;
  std::vector<std::unique_ptr<Question>> questions_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> masters_;  // by their numbers in the map; null: not needed until now
  std::size_t next_master_ = 0;
  Parked waiting_;  // for the first map, until their deadlines
  Parked paused_;   // until they are sent again
  std::string why_ = "not connected yet";

  AsioTimer timer_;
  Time armed_ = Time::max();
  // The timer's handler may be on its way when this is destroyed.
  std::shared_ptr<ClusterClient*> self_;
};

}  // namespace sluice::redis
