// Clients of one Redis server, and of the master that Sentinels name. Both keep one link and a
// queue of commands that wait for it. A Sentinel's client asks the Sentinels in turn for the
// address, checks the role of the server that it finds, and asks again when the link is lost.

#include "stores/redis/client/clients.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quoted.h"

namespace sluice::redis {

namespace {

// Errors after which this connection, or this server, is of no use any more.
constexpr std::array<std::string_view, 4> kLeaving = {"READONLY", "MASTERDOWN", "NOAUTH",
                                                      "WRONGPASS"};

bool says_leave(std::string_view error) noexcept {
  return std::any_of(kLeaving.begin(), kLeaving.end(),
                     [error](std::string_view one) { return error.starts_with(one); });
}

}  // namespace

MasterClient::MasterClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                           StoreObserver* observer)
    : LinkOwner(std::move(loop), std::move(target), observer),
      reconnect_(target_->options.first_backoff, target_->options.longest_backoff),
      retry_timer_(loop_->make_timer([this] {
        if (link_ == nullptr) find_server();
      })),
      waiting_timer_(loop_->make_timer([this] { expire_waiting(); })),
      retired_timer_(loop_->make_timer([this] { retired_.reset(); })),
      leave_timer_(loop_->make_timer([this] { leave(); })) {
  retry_timer_->set(loop_->now());
}

MasterClient::~MasterClient() {
  hopeful_ = false;
  // Commands may be submitted again when they end: they find no link and are refused.
  const auto link = std::move(link_);
  const auto retired = std::move(retired_);
  end_waiting("the client is closed");
}

// --- commands -------------------------------------------------------------------------------

void MasterClient::submit(Command& command) noexcept {
  const Time now = loop_->now();
  command.deadline = now + target_->options.deadline;
  if (link_ != nullptr && (hopeful_ || link_->ready()) && !leaving_) {
    return link_->submit(command, now);
  }
  if (link_ == nullptr && hopeful_) return keep_waiting(command);
  refuse(command, why_);
}

void MasterClient::keep_waiting(Command& command) noexcept {
  if (waiting_.size() >= target_->options.max_pending) {
    return refuse(command, "too many requests are pending");
  }
  LinkCounters::add(counters_.pending, 1);
  waiting_.push_back(&command);
  if (waiting_.size() == 1) waiting_timer_->set(command.deadline);
}

Command& MasterClient::take_waiting() noexcept {
  LinkCounters::add(counters_.pending, ~std::size_t{0});
  Command& command = *waiting_.front();
  waiting_.pop_front();
  return command;
}

void MasterClient::expire_waiting() {
  const Time now = loop_->now();
  while (!waiting_.empty() && waiting_.front()->deadline <= now) {
    refuse(take_waiting(), "no connection by the deadline");
  }
  if (!waiting_.empty()) waiting_timer_->set(waiting_.front()->deadline);
}

void MasterClient::end_waiting(std::string_view why) noexcept {
  for (std::size_t left = waiting_.size(); left > 0; --left) refuse(take_waiting(), why);
}

// --- the link -------------------------------------------------------------------------------

void MasterClient::find_server() { switch_to(target_->servers.front(), false); }

void MasterClient::switch_to(const ServerAddress& address, bool hopeful) {
  retire_link();
  retry_timer_->stop();
  hopeful_ = hopeful_ || hopeful;
  reconnect_.connecting();
  link_ = Link::connect(*this, address, link_options(*target_), counters_);
  waiting_timer_->stop();
  while (!waiting_.empty()) link_->submit(take_waiting(), loop_->now());
}

void MasterClient::attempt_failed(std::string_view endpoint, std::string_view why) {
  hopeful_ = false;
  set_why(endpoint, why);
  emit(StoreEventKind::kConnectFailed, endpoint, why);
  end_waiting(why_);
  reconnect_.ended(loop_->now(), loop_->random());
  retry_timer_->set(reconnect_.due());
}

void MasterClient::retire_link() {
  leaving_ = false;
  if (link_ == nullptr) return;
  auto link = std::exchange(link_, nullptr);
  if (!link->ready()) return;  // nothing was sent
  retired_ = std::move(link);
  retired_timer_->set(loop_->now() + 2 * target_->options.deadline);
}

void MasterClient::on_ready(Link& link) {
  reconnect_.ready(loop_->now());
  hopeful_ = true;
  why_.clear();
  emit(StoreEventKind::kConnected, link.address().to_string(), {});
}

void MasterClient::on_ended(Link& link, std::string_view why, bool was_ready) {
  if (&link == retired_.get()) return retired_.reset();
  const std::string endpoint = link.address().to_string();
  link_.reset();
  if (!was_ready) return attempt_failed(endpoint, why);
  lost(endpoint, why);
}

void MasterClient::lost(std::string_view endpoint, std::string_view why) {
  leaving_ = false;
  set_why(endpoint, why);
  reconnect_.ended(loop_->now(), loop_->random());
  hopeful_ = !reconnect_.is_failing();
  emit(StoreEventKind::kConnectionLost, endpoint, why);
  retry_timer_->set(reconnect_.due());
}

bool MasterClient::on_error(Link& link, Command&, std::string_view error) {
  emit(StoreEventKind::kRequestFailed, link.address().to_string(), shown(error));
  if (&link != link_.get() || leaving_ || !says_leave(error)) return false;
  leaving_ = true;
  leaving_why_ = shown(error);
  set_why(link.address().to_string(), leaving_why_);
  leave_timer_->set(loop_->now());  // the answers that came with this one are given first
  return false;
}

void MasterClient::leave() {
  if (!leaving_) return;  // the link has ended meanwhile
  const std::string endpoint = link_->address().to_string();
  retire_link();
  lost(endpoint, leaving_why_);
}

void MasterClient::set_why(std::string_view endpoint, std::string_view why) {
  why_.assign(endpoint).append(": ").append(why);
}

std::unique_ptr<Client> make_standalone_client(std::unique_ptr<EventLoop> loop,
                                               std::shared_ptr<const Target> target,
                                               StoreObserver* observer) {
  return std::make_unique<MasterClient>(std::move(loop), std::move(target), observer);
}

namespace {

// How often the client asks a Sentinel whether the master has changed.
constexpr std::chrono::seconds kPoll{1};
// The most Sentinels that are known, unless the options name more.
constexpr std::size_t kMostSentinels = 64;

std::optional<ServerAddress> address_of(std::string_view host, std::string_view port) {
  const auto number = base::read_number<std::uint16_t>(port);
  // A path would mean a Unix socket.
  if (!number || *number == 0 || host.empty() || host.starts_with('/')) return {};
  return ServerAddress{std::string(host), *number};
}

// A master client that asks Sentinels for the master's address, before it connects and once a
// second.
class SentinelClient final : public MasterClient {
 public:
  SentinelClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                 StoreObserver* observer)
      : MasterClient(std::move(loop), std::move(target), observer),
        sentinels_(target_->servers),
        poll_timer_(loop_->make_timer([this] { poll(); })),
        pass_on_timer_(loop_->make_timer([this] { pass_on(); })) {
    for (const std::string_view word : {"SENTINEL", "SENTINELS"}) others_request_.append(word);
    for (const std::string_view word : {"SENTINEL", "GET-MASTER-ADDR-BY-NAME"}) {
      master_request_.append(word);
    }
    others_request_.append(target_->master);
    master_request_.append(target_->master);
  }
  ~SentinelClient() override {
    giving_up_ = true;  // ignores the answers to the requests that end now
    sentinel_.reset();
  }

 private:
  void find_server() override;
  void begin_search() noexcept;
  // Of the link to the master, or to a Sentinel.
  void on_ready(Link& link) override;
  bool on_error(Link& link, Command& command, std::string_view error) override;
  void on_ended(Link& link, std::string_view why, bool was_ready) override;
  void ask();
  void on_others(const Answer& answer);
  void learn_others(const Reply& reply);
  void on_master(const Answer& answer);
  void on_found(const ServerAddress& address);
  // Drops this Sentinel. pass_on() then asks another one.
  void give_up(std::string_view why);
  void pass_on();
  void poll_soon();
  void poll();

  std::vector<ServerAddress> sentinels_;  // those of the options first, which are never removed
  std::size_t next_ = 0;                  // the Sentinel that is asked, or is next
  std::size_t failed_ = 0;                // how many did not help since begin_search()
  std::string search_why_;                // why they did not
  AskCommand others_request_{[this](const Answer& answer) { on_others(answer); }};
  AskCommand master_request_{[this](const Answer& answer) { on_master(answer); }};
  LinkCounters sentinel_counters_;
  std::shared_ptr<Link> sentinel_;
  std::optional<ServerAddress> master_;
  std::unique_ptr<Timer> poll_timer_;
  std::unique_ptr<Timer> pass_on_timer_;
  bool searching_ = false;  // find_server() has no result yet
  bool asked_ = false;      // the requests are under way
  bool giving_up_ = false;  // pass_on() is scheduled
};

void SentinelClient::find_server() {
  searching_ = true;
  begin_search();
  ask();
}

void SentinelClient::begin_search() noexcept {
  failed_ = 0;
  search_why_.clear();
}

void SentinelClient::ask() {
  if (asked_ || giving_up_) return;  // a request is under way
  if (failed_ == sentinels_.size()) {
    if (!std::exchange(searching_, false)) return poll_soon();
    return attempt_failed(target_->shown, search_why_);
  }
  const RedisOptions& options = target_->options;
  if (sentinel_ == nullptr) {
    LinkOptions link = link_options(*target_);
    link.username = options.sentinel_username;
    link.password = options.sentinel_password;
    link.database = 0;
    link.only_master = false;
    sentinel_ = Link::connect(*this, sentinels_[next_], std::move(link), sentinel_counters_);
  }
  asked_ = true;
  const Time now = loop_->now();
  master_request_.deadline = now + std::max(options.connect_timeout, options.deadline);
  others_request_.deadline = master_request_.deadline;
  sentinel_->submit(others_request_, now);  // first, so that it ends first
  sentinel_->submit(master_request_, now);
}

void SentinelClient::on_others(const Answer& answer) {
  const bool is_list = answer.failure == Failure::kNone && answer.reply->type == Reply::kArray;
  if (!giving_up_ && is_list) learn_others(*answer.reply);
}

// Replaces the Sentinels that the options do not name by those of a list of names and values for
// each.
void SentinelClient::learn_others(const Reply& reply) {
  const ServerAddress asked = sentinels_[next_];
  const std::size_t seeds = target_->servers.size();
  sentinels_.resize(seeds);
  add_once(sentinels_, asked);  // it does not report itself
  for (const Reply& fields : reply) {
    const auto one = address_of(fields.field("ip"), fields.field("port"));
    if (one && sentinels_.size() < std::max(kMostSentinels, seeds + 1)) add_once(sentinels_, *one);
  }
  const auto at = std::find(sentinels_.begin(), sentinels_.end(), asked);
  next_ = static_cast<std::size_t>(at - sentinels_.begin());
}

void SentinelClient::on_master(const Answer& answer) {
  asked_ = false;
  if (giving_up_) return;
  if (answer.failure != Failure::kNone) return give_up(answer.text);
  const Reply& reply = *answer.reply;
  if (reply.type == Reply::kNil) {
    return give_up("it knows no master " + base::in_quotes(target_->master));
  }
  const bool is_pair = reply.type == Reply::kArray && reply.count == 2;
  const auto address = is_pair ? address_of(reply[0].string(), reply[1].string()) : std::nullopt;
  if (!address) return give_up("its answer is not an address");
  on_found(*address);
}

void SentinelClient::on_found(const ServerAddress& address) {
  poll_soon();
  const bool changed = master_ && *master_ != address;
  const bool searching = std::exchange(searching_, false);
  master_ = address;
  if (changed)
    emit(StoreEventKind::kTopologyChanged, address.to_string(), "reported by the Sentinels");
  if (searching || changed) switch_to(address, changed);
}

void SentinelClient::give_up(std::string_view why) {
  if (giving_up_) return;
  if (!search_why_.empty()) search_why_.append("; ");
  search_why_.append("Sentinel ").append(sentinels_[next_].to_string()).append(": ").append(why);
  next_ = (next_ + 1) % sentinels_.size();
  ++failed_;
  giving_up_ = true;
  pass_on_timer_->set(loop_->now());
}

void SentinelClient::pass_on() {
  sentinel_.reset();  // ends its requests while giving_up_ is set
  giving_up_ = false;
  if (searching_) return ask();
  poll_soon();
}

void SentinelClient::on_ready(Link& link) {
  if (&link != sentinel_.get()) MasterClient::on_ready(link);
}

bool SentinelClient::on_error(Link& link, Command& command, std::string_view error) {
  return &link != sentinel_.get() && MasterClient::on_error(link, command, error);
}

// If the server that a Sentinel has named cannot be used, for instance because it is no master,
// another Sentinel may name a better one.
void SentinelClient::on_ended(Link& link, std::string_view why, bool was_ready) {
  if (&link == sentinel_.get()) return give_up(why);
  const bool is_unusable = !was_ready && &link == this->link();
  if (is_unusable) give_up("it names a master that cannot be used");
  MasterClient::on_ended(link, why, was_ready);
}

void SentinelClient::poll_soon() { poll_timer_->set(loop_->now() + kPoll); }

void SentinelClient::poll() {
  if (searching_) return;
  begin_search();
  ask();
}

}  // namespace

std::unique_ptr<Client> make_sentinel_client(std::unique_ptr<EventLoop> loop,
                                             std::shared_ptr<const Target> target,
                                             StoreObserver* observer) {
  return std::make_unique<SentinelClient>(std::move(loop), std::move(target), observer);
}

std::unique_ptr<Client> make_client(boost::asio::io_context& loop,
                                    std::shared_ptr<const Target> target, StoreObserver* observer) {
  auto events = make_asio_event_loop(loop, target);
  switch (target->kind) {
    case Target::Kind::kSentinel:
      return make_sentinel_client(std::move(events), std::move(target), observer);
    case Target::Kind::kCluster:
      return make_cluster_client(std::move(events), std::move(target), observer);
    case Target::Kind::kStandalone: break;
  }
  return make_standalone_client(std::move(events), std::move(target), observer);
}

}  // namespace sluice::redis
