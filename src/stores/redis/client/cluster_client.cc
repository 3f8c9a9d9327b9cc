// The client of a Redis Cluster. It keeps a map from slots to masters, one link per master, and
// sends each command to the master of its slot. A redirect (MOVED, ASK, CLUSTERDOWN) or a lost link
// makes it ask for the map again; commands that wait for the map are parked until their deadline.
// What to ask, and when, is decided without sockets (SlotMap, Topology), so that tests need no
// cluster.

#include "stores/redis/client/clients.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/link.h"
#include "stores/redis/client/reconnect.h"
#include "stores/redis/client/target.h"

namespace sluice::redis {
namespace {

constexpr std::size_t kLongestHost = 1024;

std::optional<std::uint16_t> number_of(const Reply& reply, std::int64_t most) noexcept {
  if (reply.type != Reply::kInteger || reply.integer < 0 || reply.integer > most) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(reply.integer);
}

// Reads [host, port, id, further fields]. A null or empty host is the server that was asked. "?" is
// a server without its preferred name, whose address is in the further fields.
std::optional<ServerAddress> read_address(const Reply& node, const ServerAddress& asked) {
  if (!node.is_array_of(2)) return std::nullopt;
  const auto port = number_of(node[1], 65'535);
  if (!port || *port == 0) return std::nullopt;
  if (node[0].type == Reply::kNil) return ServerAddress{asked.host, *port};
  if (node[0].type != Reply::kString && node[0].type != Reply::kStatus) return std::nullopt;
  std::string_view host = node[0].text;
  if (host.size() > kLongestHost) return std::nullopt;
  if (host == "?") {
    host = node.is_array_of(4) ? node[3].field("ip") : std::string_view();
    if (host.empty()) return std::nullopt;
  }
  return ServerAddress{host.empty() ? asked.host : std::string(host), *port};
}

}  // namespace

void add_once(std::vector<ServerAddress>& to, ServerAddress address) {
  if (std::find(to.begin(), to.end(), address) == to.end()) to.push_back(std::move(address));
}

Expected<SlotMap> SlotMap::read(const Reply& reply, const ServerAddress& asked) {
  if (reply.type != Reply::kArray || reply.count > kSlots) {
    return Unexpected{"its answer to CLUSTER SLOTS is not a list of ranges"};
  }
  SlotMap map;
  for (const Reply& range : reply) {
    if (!map.read_range(range, asked)) {
      return Unexpected{"its answer to CLUSTER SLOTS has an invalid range"};
    }
  }
  if (map.covered_ == 0) {
    return Unexpected{"it knows no master that serves a slot: it may not be in a cluster"};
  }
  return map;
}

// Reads [first slot, last slot, master, replica...]. A master without an address serves nothing.
bool SlotMap::read_range(const Reply& range, const ServerAddress& asked) {
  if (!range.is_array_of(3)) return false;
  const auto first = redis::number_of(range[0], kSlots - 1);
  const auto last = redis::number_of(range[1], kSlots - 1);
  if (!first || !last || *first > *last || range[2].type != Reply::kArray) return false;
  if (const auto master = read_address(range[2], asked)) {
    const std::uint16_t owner = number_of(*master);
    for (std::size_t slot = *first; slot <= *last; ++slot) assign(slot, owner);
  }
  for (std::size_t i = 3; i < range.count && replicas_.size() < kMostReplicas; ++i) {
    if (auto replica = read_address(range[i], asked)) add_once(replicas_, std::move(*replica));
  }
  return true;
}

std::vector<std::uint16_t> SlotMap::slot_of_each() const {
  std::vector<std::uint16_t> slots;
  std::vector<bool> is_found(masters_.size());
  for (std::uint16_t slot = 0; slot < kSlots; ++slot) {
    const std::uint16_t owner = owners_[slot];
    if (owner == kNobody || is_found[owner]) continue;
    is_found[owner] = true;
    slots.push_back(slot);
  }
  return slots;
}

std::uint16_t SlotMap::find(const ServerAddress& address) const noexcept {
  const auto found = numbers_.find(address);
  return found == numbers_.end() ? kNobody : found->second;
}

// There are at most as many masters as ranges and moved slots, so the numbers suffice.
std::uint16_t SlotMap::number_of(const ServerAddress& address) {
  if (masters_.size() == kNobody) return find(address);
  const auto next = static_cast<std::uint16_t>(masters_.size());
  const auto [found, is_new] = numbers_.try_emplace(address, next);
  if (is_new) masters_.push_back(address);
  return found->second;
}

void SlotMap::assign(std::size_t slot, std::uint16_t owner) noexcept {
  if (owners_[slot] == kNobody && owner != kNobody) ++covered_;
  if (owners_[slot] != kNobody && owner == kNobody) --covered_;
  owners_[slot] = owner;
}

void SlotMap::move(std::uint16_t slot, const ServerAddress& address) {
  assign(slot % kSlots, number_of(address));
}

bool SlotMap::serves_as(const SlotMap& other) const noexcept {
  if (covered_ != other.covered_) return false;
  std::uint16_t last = kNobody;  // neighbours mostly have the same master
  std::uint16_t last_of_other = kNobody;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const std::uint16_t owner = owners_[slot];
    const std::uint16_t of_other = other.owners_[slot];
    if (owner == last && of_other == last_of_other) continue;
    if ((owner == kNobody) != (of_other == kNobody)) return false;
    if (owner != kNobody && masters_[owner] != other.masters_[of_other]) return false;
    last = owner;
    last_of_other = of_other;
  }
  return true;
}

namespace {

// "127.0.0.1:6379", "::1:6379", "[::1]:6379", "a.example:6379", or ":6379".
std::optional<ServerAddress> read_endpoint(std::string_view text, const ServerAddress& from) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = base::read_number<std::uint16_t>(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (!port || *port == 0 || host == "?") return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return ServerAddress{host.empty() ? from.host : std::string(host), *port};
}

// Questions at the same time, while servers do not answer.
constexpr std::size_t kMostAsked = 3;
// Servers asked in one round; the next round begins with others.
constexpr std::size_t kMostCandidates = 16;
// Of these, the seeds that are asked whatever the map says.
constexpr std::size_t kSeedsOfARound = 4;

// Adds those of `count` servers that fit, beginning with another one in each round.
template <typename At>
void add_rotated(std::vector<ServerAddress>& to, std::size_t room, std::size_t count, const At& at,
                 std::uint64_t round) {
  for (std::size_t i = 0; i < count && to.size() < room; ++i) add_once(to, at((round + i) % count));
}

}  // namespace

Topology::Topology(std::vector<ServerAddress> seeds, Duration first_backoff,
                   Duration longest_backoff, Random random)
    : seeds_(std::move(seeds)),
      first_backoff_(first_backoff),
      longest_backoff_(longest_backoff),
      random_(std::move(random)) {}

Time Topology::drawn(Time from, Duration wait) {
  const auto half = static_cast<std::uint64_t>(wait.count() / 2);
  const std::uint64_t more = random_() % (static_cast<std::uint64_t>(wait.count()) - half + 1);
  return from + Duration(static_cast<std::int64_t>(half + more));
}

bool Topology::has_more() const noexcept {
  return next_candidate_ < candidates_.size() && asked_ < kMostAsked;
}

const ServerAddress* Topology::to_ask(Time now) {
  if (!in_round_) {
    if (now < due_) return nullptr;
    begin_round();
  }
  if (!has_more() || (asked_ > 0 && now < ask_next_at_)) return nullptr;
  ++asked_;
  ask_next_at_ = now + kPatience;
  ++next_question_;
  return &candidates_[next_candidate_++];
}

Time Topology::ask_again_at() const noexcept {
  if (!in_round_) return due_;
  return has_more() ? ask_next_at_ : Time::max();
}

void Topology::begin_round() {
  in_round_ = true;
  is_hinted_ = false;
  is_answered_ = false;
  best_.reset();
  asked_ = 0;
  first_question_ = next_question_;
  candidates_.clear();
  next_candidate_ = 0;
  const auto add = [this](std::size_t room, std::size_t count, const auto& at) {
    add_rotated(candidates_, room, count, at, rounds_);
  };
  const std::size_t known = kMostCandidates - std::min(seeds_.size(), kSeedsOfARound);
  add(known, reachable_.size(), [this](std::size_t i) { return reachable_[i]; });
  const auto& masters = map_.masters();
  const auto& replicas = map_.replicas();
  add(known, masters.size() + replicas.size(), [&](std::size_t i) {
    return i < masters.size() ? masters[i] : replicas[i - masters.size()];
  });
  add(kMostCandidates, seeds_.size(), [this](std::size_t i) { return seeds_[i]; });
  ++rounds_;
}

void Topology::end_round(bool is_answered, Time now) {
  in_round_ = false;
  if (is_answered) {
    failures_ = 0;
    earliest_ = drawn(now, kShortestInterval);
    due_ = is_hinted_ ? earliest_ : drawn(now, kLongestInterval);
    return;
  }
  Duration wait = first_backoff_;
  for (unsigned i = 0; i < failures_ && wait < longest_backoff_; ++i) wait *= 2;
  ++failures_;
  earliest_ = due_ = drawn(now, std::min(wait, longest_backoff_));
}

// Ends the round if all servers were asked. True: the map has changed.
bool Topology::end_if_exhausted(Time now) {
  if (asked_ > 0 || next_candidate_ < candidates_.size()) return false;
  end_round(is_answered_, now);
  return best_ && adopt(std::move(*best_));
}

Time Topology::hint(Time now) {
  is_hinted_ = true;
  if (in_round_) return Time::max();
  due_ = std::min(due_, std::max(now, earliest_));
  return due_;
}

void Topology::set_reachable(const ServerAddress& address, bool reachable) {
  if (reachable) return add_once(reachable_, address);
  std::erase(reachable_, address);
}

// False: the question belongs to an earlier round.
bool Topology::take_back(std::uint64_t question) noexcept {
  if (!in_round_ || question < first_question_) return false;
  --asked_;
  return true;
}

bool Topology::adopt(SlotMap map) {
  const bool is_other = !is_known_ || has_moved_ || !map.serves_as(map_);
  is_known_ = true;
  has_moved_ = false;
  map_ = std::move(map);
  best_.reset();
  return is_other;
}

bool Topology::answered(std::uint64_t question, SlotMap map, Time now) {
  if (!take_back(question)) return false;
  is_answered_ = true;
  const std::size_t covered = map.covered();
  if (covered == kSlots) {
    end_round(true, now);
    return adopt(std::move(map));
  }
  // A server that reports fewer slots than before may be cut off: the others are asked first.
  bool is_other = false;
  if (!is_known_ || covered >= map_.covered()) {
    is_other = adopt(std::move(map));
  } else if (!best_ || covered > best_->covered()) {
    best_ = std::move(map);
  }
  return end_if_exhausted(now) || is_other;
}

bool Topology::failed(std::uint64_t question, std::string_view why, Time now) {
  why_ = why;
  return take_back(question) && end_if_exhausted(now);
}

void Topology::moved(std::uint16_t slot, const ServerAddress& address) {
  map_.move(slot, address);
  has_moved_ = true;
}

namespace {

// The most links that are being made at the same time. A map may name thousands of servers that do
// not answer, and each attempt takes a descriptor for as long as `connect_timeout`.
constexpr std::size_t kMostConnecting = 128;

// Commands that wait for a time, the earliest first, equal ones in their order. Borrows them.
using Parked = std::multimap<Time, Command*>;

}  // namespace

// One server of a cluster. The client makes a link when there is something to send, and another one
// when it ends.
struct Node {
  bool is_ready() const noexcept { return link != nullptr && link->ready(); }

  ServerAddress address;
  Reconnect reconnect;
  // Whether it is master of a slot; the client then connects to it again.
  bool is_master = false;
  Time used_until = {};  // until when the client keeps it if it is not
  std::string why = {};  // there is no link
  std::shared_ptr<Link> link = {};
};

// What make_cluster_client() makes: executes what Topology and Reconnect decide.
//
// One timer serves everything that waits. An answer of a server may lead to new nodes, but only the
// timer removes any, because a link must not be destroyed from within one of its calls.
class ClusterClient final : public LinkOwner {
 public:
  ClusterClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                StoreObserver* observer);
  ~ClusterClient() override;
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  void submit(Command& command) noexcept override;
  bool ready() const noexcept override;

 private:
  void send(Command& command, Time now);
  void send_to(Node& node, Command& command, bool asking, Time now);
  void connect(Node& node);
  void connect_if_due(Node& node, Time now);
  bool is_crowded() const noexcept;
  void park(Command& command, Time until, Parked& where);
  Command* take(Parked& parked, Time now) noexcept;

  void ask(const ServerAddress& address, Time now);
  void answered(std::uint64_t question, ServerAddress by, const Answer& answer);
  bool take_answer(std::uint64_t question, const ServerAddress& by, const Answer& answer, Time now);
  void map_changed(const ServerAddress& by, Time now);
  void send_waiting(Time now);

  Node* node_of(std::uint16_t slot);
  Node* any_node();
  Node& master(std::uint16_t number);
  Node& node_at(const ServerAddress& address);
  Node& node_of(const Link& link) noexcept;
  bool is_question(const Command& command) const noexcept;
  bool redirect(const Link& link, Command& command, bool is_moved, std::string_view text, Time now);

  void on_ready(Link& link) override;
  void on_ended(Link& link, std::string_view why, bool was_ready) override;
  bool on_error(Link& link, Command& command, std::string_view error) override;

  void arm(Time due) noexcept;
  void turn();
  void end_overdue(Time now);
  void tend_nodes(Time now);
  Time next_turn(Time now) const;

  bool is_closing_ = false;
  Topology topology_;
  std::map<std::uint64_t, AskCommand> questions_;  // CLUSTER SLOTS, by their numbers
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> masters_;  // by their numbers in the map; null: not needed yet
  std::size_t next_master_ = 0;
  Parked waiting_;  // commands that wait for the first map, until their deadlines
  Parked paused_;   // commands that are sent again later

  std::unique_ptr<Timer> timer_;
  Time armed_ = Time::max();
};

namespace {

using namespace std::chrono_literals;

constexpr std::uint8_t kMostRedirects = 5;
// The wait before a command is sent again after TRYAGAIN: its slot is moving, and its keys are not
// all on one server.
constexpr std::chrono::milliseconds kPause = 5ms;
// The shortest deadline of CLUSTER SLOTS: that of requests may be too short for a large map.
constexpr std::chrono::milliseconds kLeastTimeForAMap = 250ms;
// When the client tries again to connect to a master if too many others were being connected to.
constexpr std::chrono::milliseconds kNextAttempt = 10ms;
// How long the client keeps a server that is master of no slot: it may get some soon.
constexpr std::chrono::seconds kKeptUnused = 10s;

}  // namespace

ClusterClient::ClusterClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                             StoreObserver* observer)
    : LinkOwner(std::move(loop), std::move(target), observer),
      topology_(target_->servers, target_->options.first_backoff, target_->options.longest_backoff,
                [this] { return loop_->random(); }),
      timer_(loop_->make_timer([this] { turn(); })) {
  arm(Time::min());
}

ClusterClient::~ClusterClient() {
  is_closing_ = true;
  for (Parked* parked : {&waiting_, &paused_}) {
    while (Command* const command = take(*parked, Time::max())) refuse(*command, "shutting down");
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
  if (node != nullptr) return send_to(*node, command, false, now);
  arm(topology_.hint(now));
  const std::string why = command.slot ? "no master serves slot " + std::to_string(*command.slot)
                                       : std::string("no master is known");
  why_ = why;
  refuse(command, why);
}

// Refuses the command if the last attempt to connect failed or too many links are being made.
void ClusterClient::send_to(Node& node, Command& command, bool asking, Time now) {
  if (!node.is_master) node.used_until = command.deadline + kKeptUnused;
  connect_if_due(node, now);
  if (node.is_ready() || (node.link && !node.reconnect.is_failing())) {
    return node.link->submit(command, now, asking);
  }
  arm(topology_.hint(now));  // another may have taken its place
  refuse(command, node.why);
}

void ClusterClient::connect(Node& node) {
  node.reconnect.connecting();
  node.link = Link::connect(*this, node.address, link_options(*target_), counters_);
}

// Connects if there is no link, the backoff has passed, and not too many links are being made.
void ClusterClient::connect_if_due(Node& node, Time now) {
  if (!node.reconnect.is_due(now)) return;
  if (!is_crowded()) return connect(node);
  node.why = node.address.to_string() + ": too many other servers are being connected to";
}

// Whether as many links are being made as may be.
bool ClusterClient::is_crowded() const noexcept {
  const auto connecting = std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) {
    return node->link != nullptr && !node->link->ready();
  });
  return static_cast<std::size_t>(connecting) >= kMostConnecting;
}

void ClusterClient::park(Command& command, Time until, Parked& where) {
  if (waiting_.size() + paused_.size() >= target_->options.max_pending) {
    return refuse(command, "too many requests are waiting");
  }
  where.emplace(until, &command);
  LinkCounters::add(counters_.pending, 1);
  arm(until);
}

// Removes and returns the earliest if it is due; else null.
Command* ClusterClient::take(Parked& parked, Time now) noexcept {
  if (parked.empty() || parked.begin()->first > now) return nullptr;
  Command* const command = parked.begin()->second;
  parked.erase(parked.begin());
  LinkCounters::add(counters_.pending, ~std::size_t{0});
  return command;
}

bool ClusterClient::on_error(Link& link, Command& command, std::string_view error) {
  if (is_question(command)) return false;
  const Time now = loop_->now();
  std::string_view rest = error;
  const std::string_view word = base::take_until(rest, ' ');
  const bool is_moved = word == "MOVED";
  if ((is_moved || word == "ASK") && redirect(link, command, is_moved, rest, now)) return true;
  if (word == "TRYAGAIN" && command.is_divisible) return false;
  if (word == "TRYAGAIN" && now + kPause < command.deadline) {
    command.redirects = 0;  // only the deadline bounds it
    park(command, now + kPause, paused_);
    return true;
  }
  const bool is_unready =
      word == "CLUSTERDOWN" || word == "MASTERDOWN" || word == "LOADING" || word == "READONLY";
  if (is_unready) arm(topology_.hint(now));
  emit(StoreEventKind::kRequestFailed, link.address().to_string(), shown(error));
  return false;
}

// Sends the command to the server of a redirect, "SLOT ADDRESS". Returns false if it cannot be
// read, or if the command has no time left or was redirected too often.
bool ClusterClient::redirect(const Link& link, Command& command, bool is_moved,
                             std::string_view text, Time now) {
  const auto slot = base::read_number<std::uint16_t>(base::take_until(text, ' '));
  const auto address = read_endpoint(base::take_until(text, ' '), link.address());
  const bool is_readable = slot && *slot < kSlots && address;
  if (is_moved && is_readable) topology_.moved(*slot, *address);
  if (is_moved || !is_readable) arm(topology_.hint(now));
  if (!is_readable || now >= command.deadline || command.redirects >= kMostRedirects) return false;
  ++command.redirects;
  LinkCounters::add(counters_.redirects, 1);
  Node& to = node_at(*address);
  if (is_moved) to.is_master = true;
  send_to(to, command, !is_moved, now);
  return true;
}

bool ClusterClient::is_question(const Command& command) const noexcept {
  return std::any_of(questions_.begin(), questions_.end(),
                     [&](const auto& question) { return &question.second == &command; });
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
    if (node->address == address) return *node;
  }
  const RedisOptions& options = target_->options;
  nodes_.push_back(std::make_unique<Node>(
      Node{address, Reconnect(options.first_backoff, options.longest_backoff)}));
  arm(loop_->now() + kKeptUnused);
  return *nodes_.back();
}

Node& ClusterClient::node_of(const Link& link) noexcept {
  return **std::find_if(nodes_.begin(), nodes_.end(),
                        [&](const auto& node) { return node->link.get() == &link; });
}

void ClusterClient::on_ready(Link& link) {
  node_of(link).reconnect.ready(loop_->now());
  topology_.set_reachable(link.address(), true);
  emit(StoreEventKind::kConnected, link.address().to_string(), {});
}

void ClusterClient::on_ended(Link& link, std::string_view why, bool was_ready) {
  const Time now = loop_->now();
  Node& node = node_of(link);
  node.why = node.address.to_string() + ": " + std::string(why);
  node.reconnect.ended(now, loop_->random());
  node.link.reset();  // `why` may have been its own
  topology_.set_reachable(node.address, false);
  why_ = node.why;
  if (node.is_master) {
    arm(topology_.hint(now));
    arm(node.reconnect.due());
  }
  if (!node.is_master && topology_.is_known()) return;  // it was only asked for the map
  emit(was_ready ? StoreEventKind::kConnectionLost : StoreEventKind::kConnectFailed,
       node.address.to_string(), node.why);
}

// --- the map ----------------------------------------------------------------------------------

void ClusterClient::ask(const ServerAddress& address, Time now) {
  const std::uint64_t number = topology_.question();
  const auto answer = [this, number, by = address](const Answer& said) {
    answered(number, by, said);
  };
  AskCommand& question = questions_.try_emplace(number, answer).first->second;
  question.append("CLUSTER");
  question.append("SLOTS");
  Node& node = node_at(address);
  const RedisOptions& options = target_->options;
  question.deadline = now + std::max(options.deadline, kLeastTimeForAMap) +
                      (node.is_ready() ? 0ms : options.connect_timeout);
  if (!node.is_master) node.used_until = question.deadline + kKeptUnused;
  if (!node.link) connect(node);  // even if others are being connected to, or it has just failed
  node.link->submit(question, now);
}

// `by` is a copy, because the question has the original.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void ClusterClient::answered(std::uint64_t question, ServerAddress by, const Answer& answer) {
  if (is_closing_) return;
  const Time now = loop_->now();
  const bool is_other = take_answer(question, by, answer, now);
  questions_.erase(question);
  if (is_other) map_changed(by, now);
  send_waiting(now);
  arm(now);
}

bool ClusterClient::take_answer(std::uint64_t question, const ServerAddress& by,
                                const Answer& answer, Time now) {
  std::string why(answer.text);
  if (answer.failure == Failure::kNone) {
    auto map = SlotMap::read(*answer.reply, by);
    if (map) return topology_.answered(question, std::move(*map), now);
    why = map.error();
  }
  const std::string at = by.to_string();
  why_ = why.starts_with(at) ? why : at + ": " + why;
  return topology_.failed(question, why_, now);
}

// Servers that are no longer masters finish the commands that are under way.
void ClusterClient::map_changed(const ServerAddress& by, Time now) {
  const SlotMap& map = topology_.map();
  masters_.assign(map.masters().size(), nullptr);
  bool has_link = false;
  for (const auto& node : nodes_) {
    const std::uint16_t number = map.find(node->address);
    node->is_master = number != SlotMap::kNobody;
    if (node->is_master) {
      masters_[number] = node.get();
      has_link = has_link || node->link;
    } else {
      node->used_until = now + target_->options.deadline + kKeptUnused;
    }
  }
  if (!has_link) connect_if_due(*any_node(), now);
  emit(StoreEventKind::kTopologyChanged, by.to_string(),
       std::to_string(map.masters().size()) + " masters serve " + std::to_string(map.covered()) +
           " of 16384 slots");
}

// Sends or ends the commands that waited for the first map.
void ClusterClient::send_waiting(Time now) {
  if (!topology_.is_known() && !topology_.is_failing()) return;
  while (Command* const command = take(waiting_, Time::max())) {
    if (topology_.is_known()) {
      send(*command, now);
    } else {
      refuse(*command, topology_.why());
    }
  }
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
  while (const ServerAddress* const server = topology_.to_ask(now)) ask(*server, now);
  arm(std::min(topology_.ask_again_at(), next_turn(now)));
}

void ClusterClient::end_overdue(Time now) {
  while (Command* const command = take(waiting_, now)) {
    refuse(*command, "no server has sent the map of the slots yet");
  }
  while (Command* const command = take(paused_, now)) {
    if (now < command->deadline) {
      send(*command, now);
    } else {
      refuse(*command, "its keys are moving to another server");
    }
  }
}

void ClusterClient::tend_nodes(Time now) {
  const auto is_left = [&](const std::unique_ptr<Node>& node) {
    const std::size_t pending = node->link ? node->link->pending() : 0;
    const bool left = !node->is_master && now >= node->used_until && pending == 0;
    if (left) topology_.set_reachable(node->address, false);
    return left;
  };
  std::erase_if(nodes_, is_left);
  for (const auto& node : nodes_) {
    if (!node->is_master || !node->reconnect.is_due(now)) continue;
    if (is_crowded()) break;
    connect(*node);
  }
}

Time ClusterClient::next_turn(Time now) const {
  Time due = Time::max();
  for (const Parked* parked : {&waiting_, &paused_}) {
    if (!parked->empty()) due = std::min(due, parked->begin()->first);
  }
  for (const auto& node : nodes_) {
    // A master that is due has not connected because too many others do.
    const Time at = node->is_master ? node->reconnect.due() : node->used_until;
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

std::unique_ptr<Client> make_cluster_client(std::unique_ptr<EventLoop> loop,
                                            std::shared_ptr<const Target> target,
                                            StoreObserver* observer) {
  return std::make_unique<ClusterClient>(std::move(loop), std::move(target), observer);
}

}  // namespace sluice::redis
