#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/client.h"
#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/target.h"
#include "stores/redis/cluster/node.h"
#include "stores/redis/cluster/parked.h"
#include "stores/redis/cluster/redirect.h"
#include "stores/redis/cluster/topology.h"

namespace sluice::redis {

// What make_cluster_client() makes: executes what Topology, next_step(), Parked and Node decide.
//
// One timer serves everything that waits. An answer of a server may lead to new nodes, but only the
// timer removes any, because a link must not be destroyed from within one of its calls.
class ClusterClient final : public Client, private Node::Owner {
 public:
  ClusterClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                StoreObserver* observer);
  ~ClusterClient() override;
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  void submit(Command& command) noexcept override;
  bool ready() const noexcept override;
  std::string why() const override;
  RedisStoreStats stats() const noexcept override;

 private:
  // CLUSTER SLOTS, asked of one server.
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
  void emit(StoreEventKind kind, const ServerAddress& address, std::string_view why) noexcept;

  void arm(Time due) noexcept;
  void turn();
  void end_overdue(Time now);
  void tend_nodes(Time now);
  Time next_turn(Time now) const;

  std::unique_ptr<EventLoop> loop_;
  std::shared_ptr<const Target> target_;
  StoreObserver* observer_;
  bool is_closing_ = false;

  LinkCounters counters_;
  std::atomic<std::uint64_t> redirects_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::size_t> parked_{0};

  Topology topology_;
  std::vector<std::unique_ptr<Question>> questions_;
  std::size_t connecting_ = 0;  // see Node::Parts; before the nodes, which use it
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> masters_;  // by their numbers in the map; null: not needed yet
  std::size_t next_master_ = 0;
  Parked waiting_;  // commands that wait for the first map, until their deadlines
  Parked paused_;   // commands that are sent again later
  std::string why_ = "not connected yet";

  std::unique_ptr<Timer> timer_;
  Time armed_ = Time::max();
};

}  // namespace sluice::redis
