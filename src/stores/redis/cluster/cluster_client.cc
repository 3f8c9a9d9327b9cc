#include "stores/redis/cluster/cluster_client.h"

#include <algorithm>
#include <utility>

#include "stores/redis/client/words.h"
#include "stores/redis/cluster/cluster_client_impl.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

// The shortest deadline of CLUSTER SLOTS: that of requests may be too short for a large map.
constexpr std::chrono::milliseconds kLeastTimeForAMap = 250ms;
// When the client tries again to connect to a master if too many others were being connected to.
constexpr std::chrono::milliseconds kNextAttempt = 10ms;
// How long the client keeps a server that is master of no slot: it may get some soon.
constexpr std::chrono::seconds kKeptUnused = 10s;

TopologyOptions topology_options(const RedisOptions& options) {
  TopologyOptions out;
  out.first_backoff = options.first_backoff;
  out.longest_backoff = options.longest_backoff;
  return out;
}

}  // namespace

ClusterClient::ClusterClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                             StoreObserver* observer)
    : loop_(std::move(loop)),
      target_(std::move(target)),
      observer_(observer),
      topology_(target_->servers, topology_options(target_->options),
                [this] { return loop_->random(); }),
      timer_(loop_->make_timer([this] { turn(); })) {
  arm(Time::min());
}

ClusterClient::~ClusterClient() {
  is_closing_ = true;
  for (Parked* parked : {&waiting_, &paused_}) {
    while (Command* const command = parked->take(Time::max())) refuse(*command, "shutting down");
  }
  nodes_.clear();  // ends the commands that are under way
}

// --- commands ---------------------------------------------------------------------------------

void ClusterClient::submit(Command& command) noexcept {
  const Time now = loop_->now();
  command.deadline = now + target_->options.deadline;
  command.redirects = 0;
  if (is_closing_) return refuse(command, "shutting down");
  if (topology_.is_known()) return send(command, now);
  if (topology_.is_failing()) return refuse(command, topology_.why());
  park(command, command.deadline, waiting_);
}

void ClusterClient::send(Command& command, Time now) {
  Node* const node = command.slot ? node_of(*command.slot) : any_node();
  if (node != nullptr) return send_to(*node, command, Node::Kind::kPlain, now);
  arm(topology_.hint(now));
  const std::string why = command.slot ? "no master serves slot " + std::to_string(*command.slot)
                                       : std::string("no master is known");
  why_ = why;
  refuse(command, why);
}

void ClusterClient::send_to(Node& node, Command& command, Node::Kind kind, Time now) {
  if (!node.is_master) node.used_until = command.deadline + kKeptUnused;
  if (node.submit(command, kind, now)) return;
  arm(topology_.hint(now));  // another may have taken its place
  refuse(command, node.why());
}

void ClusterClient::park(Command& command, Time until, Parked& where) {
  if (waiting_.size() + paused_.size() >= target_->options.max_pending) {
    return refuse(command, "too many requests are waiting");
  }
  where.add(command, until);
  parked_.store(waiting_.size() + paused_.size(), std::memory_order_relaxed);
  arm(until);
}

void ClusterClient::refuse(Command& command, std::string_view why) noexcept {
  refused_.fetch_add(1, std::memory_order_relaxed);
  command.done({Failure::kUnavailable, why, nullptr});
}

bool ClusterClient::on_error(Node& node, Command& command, std::string_view error) {
  if (is_question(command)) return false;
  const Time now = loop_->now();
  const Step step = next_step({error, node.address(), command.redirects, command.deadline}, now);
  if (step.moved) topology_.moved(*step.moved, step.address);
  if (step.refresh) arm(topology_.hint(now));
  command.redirects = step.redirects;
  switch (step.kind) {
    case Step::Kind::kEnd:
      emit(StoreEventKind::kRequestFailed, node.address(), shown(error));
      return false;
    case Step::Kind::kPause: park(command, step.until, paused_); return true;
    case Step::Kind::kSend: break;
  }
  redirects_.fetch_add(1, std::memory_order_relaxed);
  Node& to = node_at(step.address);
  if (step.moved) to.is_master = true;
  send_to(to, command, step.asking ? Node::Kind::kAsking : Node::Kind::kPlain, now);
  return true;
}

bool ClusterClient::is_question(const Command& command) const noexcept {
  return std::any_of(questions_.begin(), questions_.end(),
                     [&](const auto& question) { return question.get() == &command; });
}

// --- servers ----------------------------------------------------------------------------------

Node* ClusterClient::node_of(std::uint16_t slot) {
  const std::uint16_t owner = topology_.map().owner_of(slot);
  return owner == SlotMap::kNobody ? nullptr : &master(owner);
}

// Returns the masters that are ready in turn; if none is, one that may become ready.
Node* ClusterClient::any_node() {
  const std::size_t known = topology_.map().masters().size();
  if (known == 0) return nullptr;
  ++next_master_;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    Node* const node = masters_[(next_master_ + i) % masters_.size()];
    if (node != nullptr && node->is_ready()) return node;
  }
  return &master(static_cast<std::uint16_t>(next_master_ % known));
}

Node& ClusterClient::master(std::uint16_t number) {
  if (number >= masters_.size()) masters_.resize(number + std::size_t{1});
  if (masters_[number] == nullptr) {
    masters_[number] = &node_at(topology_.map().masters()[number]);
    masters_[number]->is_master = true;
  }
  return *masters_[number];
}

Node& ClusterClient::node_at(const ServerAddress& address) {
  for (const auto& node : nodes_) {
    if (node->address() == address) return *node;
  }
  nodes_.push_back(
      std::make_unique<Node>(Node::Parts{*loop_, target_, counters_, *this, connecting_}, address));
  arm(loop_->now() + kKeptUnused);
  return *nodes_.back();
}

void ClusterClient::on_ready(Node& node) {
  topology_.set_reachable(node.address(), true);
  emit(StoreEventKind::kConnected, node.address(), {});
}

void ClusterClient::on_ended(Node& node, std::string_view why, bool was_ready) {
  const Time now = loop_->now();
  topology_.set_reachable(node.address(), false);
  why_ = why;
  if (node.is_master) {
    arm(topology_.hint(now));
    arm(node.due());
  }
  emit(was_ready ? StoreEventKind::kConnectionLost : StoreEventKind::kConnectFailed, node.address(),
       why);
}

void ClusterClient::on_script_sent(Node& node, const Script& script) {
  emit(StoreEventKind::kScriptLoaded, node.address(), script.name);
}

void ClusterClient::emit(StoreEventKind kind, const ServerAddress& address,
                         std::string_view why) noexcept {
  if (observer_ == nullptr || is_closing_) return;
  observer_->on({kind, address.to_string(), why});
}

// --- the map ----------------------------------------------------------------------------------

// Returns when to ask again.
Time ClusterClient::ask_around(Time now) {
  for (;;) {
    const Topology::Action action = topology_.next(now);
    if (action.kind == Topology::Action::Kind::kWait) return action.until;
    ask(action, now);
  }
}

void ClusterClient::ask(const Topology::Action& action, Time now) {
  auto question = std::make_unique<Question>();
  question->client = this;
  question->asked = action.address;
  question->number = action.question;
  question->repeatable = true;
  question->append("CLUSTER");
  question->append("SLOTS");
  Node& node = node_at(action.address);
  const RedisOptions& options = target_->options;
  question->deadline = now + std::max(options.deadline, kLeastTimeForAMap) +
                       (node.is_ready() ? 0ms : options.connect_timeout);
  Question& asked = *questions_.emplace_back(std::move(question));
  if (!node.is_master) node.used_until = asked.deadline + kKeptUnused;
  if (!node.submit(asked, Node::Kind::kUrgent, now)) {
    asked.done({Failure::kUnavailable, node.why(), nullptr});
  }
}

void ClusterClient::answered(Question& question, const Answer& answer) noexcept {
  if (is_closing_) return;
  const Time now = loop_->now();
  const ServerAddress by = question.asked;
  const bool is_other = take_answer(question, answer, now);
  std::erase_if(questions_, [&](const auto& other) { return other.get() == &question; });
  if (is_other) map_changed(by, now);
  send_waiting(now);
  arm(now);
}

bool ClusterClient::take_answer(const Question& question, const Answer& answer, Time now) {
  std::string why(answer.text);
  if (answer.failure == Failure::kNone) {
    auto map = SlotMap::read(*answer.reply, question.asked);
    if (map) return topology_.answered(question.number, std::move(*map), now);
    why = map.error();
  }
  const std::string at = question.asked.to_string();
  why_ = why.starts_with(at) ? why : at + ": " + why;
  return topology_.failed(question.number, why_, now);
}

// Servers that are no longer masters finish the commands that are under way.
void ClusterClient::map_changed(const ServerAddress& by, Time now) {
  const SlotMap& map = topology_.map();
  masters_.assign(map.masters().size(), nullptr);
  bool has_link = false;
  for (const auto& node : nodes_) {
    const std::uint16_t number = map.find(node->address());
    node->is_master = number != SlotMap::kNobody;
    if (node->is_master) {
      masters_[number] = node.get();
      has_link = has_link || node->has_link();
    } else {
      node->used_until = now + target_->options.deadline + kKeptUnused;
    }
  }
  if (!has_link) any_node()->connect(now);
  emit(StoreEventKind::kTopologyChanged, by,
       std::to_string(map.masters().size()) + " masters serve " + std::to_string(map.covered()) +
           " of 16384 slots");
}

// Sends or ends the commands that waited for the first map.
void ClusterClient::send_waiting(Time now) {
  if (!topology_.is_known() && !topology_.is_failing()) return;
  while (Command* const command = waiting_.take(Time::max())) {
    if (topology_.is_known()) {
      send(*command, now);
    } else {
      refuse(*command, topology_.why());
    }
  }
  parked_.store(waiting_.size() + paused_.size(), std::memory_order_relaxed);
}

// --- time -------------------------------------------------------------------------------------

void ClusterClient::arm(Time due) noexcept {
  if (due >= armed_ || is_closing_) return;
  armed_ = due;
  timer_->set(std::max(due, Time{}));
}

void ClusterClient::turn() {
  const Time now = loop_->now();
  armed_ = Time::max();
  end_overdue(now);
  tend_nodes(now);
  const Time ask_again = ask_around(now);
  arm(std::min(ask_again, next_turn(now)));
}

void ClusterClient::end_overdue(Time now) {
  while (Command* const command = waiting_.take(now)) {
    refuse(*command, "no server has sent the map of the slots yet");
  }
  while (Command* const command = paused_.take(now)) {
    if (now < command->deadline) {
      send(*command, now);
    } else {
      refuse(*command, "its keys are moving to another server");
    }
  }
  parked_.store(waiting_.size() + paused_.size(), std::memory_order_relaxed);
}

void ClusterClient::tend_nodes(Time now) {
  const auto is_left = [&](const std::unique_ptr<Node>& node) {
    const bool left = !node->is_master && now >= node->used_until && node->pending() == 0;
    if (left) topology_.set_reachable(node->address(), false);
    return left;
  };
  std::erase_if(nodes_, is_left);
  for (const auto& node : nodes_) {
    if (connecting_ >= Node::kMostConnecting) break;
    if (node->is_master) node->connect(now);
  }
}

Time ClusterClient::next_turn(Time now) const {
  Time due = std::min(waiting_.due(), paused_.due());
  for (const auto& node : nodes_) {
    // A master that is due has not connected because too many others do.
    const Time at = node->is_master ? node->due() : node->used_until;
    due = std::min(due, std::max(at, now + (node->is_master ? kNextAttempt : 1s)));
  }
  return due;
}

// --- state ------------------------------------------------------------------------------------

bool ClusterClient::ready() const noexcept {
  return topology_.is_known() && std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
           return node->is_master && node->is_ready();
         });
}

std::string ClusterClient::why() const { return why_; }

RedisStoreStats ClusterClient::stats() const noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  RedisStoreStats stats;
  stats.requests = counters_.requests.load(kRelaxed);
  stats.timeouts = counters_.timeouts.load(kRelaxed);
  stats.errors = counters_.errors.load(kRelaxed) + refused_.load(kRelaxed);
  stats.connects = counters_.connects.load(kRelaxed);
  stats.scripts_sent = counters_.scripts_sent.load(kRelaxed);
  stats.redirects = redirects_.load(kRelaxed);
  stats.connected = counters_.connected.load(kRelaxed);
  stats.pending = counters_.pending.load(kRelaxed) + parked_.load(kRelaxed);
  return stats;
}

std::unique_ptr<Client> make_cluster_client(std::unique_ptr<EventLoop> loop,
                                            std::shared_ptr<const Target> target,
                                            StoreObserver* observer) {
  return std::make_unique<ClusterClient>(std::move(loop), std::move(target), observer);
}

}  // namespace sluice::redis
