#include "stores/redis/client/clients.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "core/quoted.h"
#include "stores/redis/client/command.h"

namespace sluice::redis {
namespace {

constexpr std::size_t kMost = 64;

std::string_view text_in(const redisReply& reply) noexcept {
  const bool text = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS;
  return text ? std::string_view(reply.str, reply.len) : std::string_view();
}

std::optional<ServerAddress> address_of(std::string_view host, std::string_view port) {
  ServerAddress out{.host = std::string(host), .port = 0};
  const auto result = std::from_chars(port.data(), port.data() + port.size(), out.port);
  const bool whole = result.ec == std::errc{} && result.ptr == port.data() + port.size();
  // A path would mean a Unix socket.
  if (!whole || out.port == 0 || host.empty() || host.starts_with('/')) return {};
  return out;
}

// One entry of SENTINEL SENTINELS: a list of names and values.
std::optional<ServerAddress> sentinel_of(const redisReply& fields) {
  if (fields.type != REDIS_REPLY_ARRAY) return {};
  std::string_view host;
  std::string_view port;
  for (std::size_t i = 0; i + 1 < fields.elements; i += 2) {
    const std::string_view name = text_in(*fields.element[i]);
    if (name == "ip") host = text_in(*fields.element[i + 1]);
    if (name == "port") port = text_in(*fields.element[i + 1]);
  }
  return address_of(host, port);
}

}  // namespace

Sentinels::Sentinels(std::vector<ServerAddress> seeds, std::string master)
    : all_(std::move(seeds)), seeds_(all_.size()), master_(std::move(master)) {}

void Sentinels::begin() {
  asked_ = 0;
  why_.clear();
}

const ServerAddress* Sentinels::to_ask() const noexcept {
  return asked_ < all_.size() ? &all_[next_] : nullptr;
}

void Sentinels::on_failed(std::string_view why) {
  if (!why_.empty()) why_.append("; ");
  why_.append("Sentinel ").append(all_[next_].to_string()).append(": ").append(why);
  next_ = (next_ + 1) % all_.size();
  ++asked_;
}

std::optional<ServerAddress> Sentinels::on_master(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_NIL) {
    on_failed("it knows no master " + core::in_quotes(master_));
    return {};
  }
  std::optional<ServerAddress> out;
  if (reply.type == REDIS_REPLY_ARRAY && reply.elements == 2) {
    out = address_of(text_in(*reply.element[0]), text_in(*reply.element[1]));
  }
  if (!out) on_failed("its answer is not an address");
  return out;
}

void Sentinels::on_others(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_ARRAY) return;
  const ServerAddress asked = all_[next_];
  all_.resize(seeds_);
  const auto learn = [this](const ServerAddress& one) {
    const bool known = std::find(all_.begin(), all_.end(), one) != all_.end();
    if (!known && all_.size() < std::max(kMost, seeds_ + 1)) all_.push_back(one);
  };
  learn(asked);  // it does not report itself
  for (std::size_t i = 0; i < reply.elements; ++i) {
    if (const auto one = sentinel_of(*reply.element[i])) learn(*one);
  }
  const auto at = std::find(all_.begin(), all_.end(), asked);
  next_ = static_cast<std::size_t>(at - all_.begin());
}

namespace {

// Errors after which this connection, or this server, is of no use any more.
constexpr std::array<std::string_view, 4> kLeaving = {"READONLY", "MASTERDOWN", "NOAUTH",
                                                      "WRONGPASS"};

bool says_leave(std::string_view error) noexcept {
  return std::any_of(kLeaving.begin(), kLeaving.end(),
                     [error](std::string_view one) { return error.starts_with(one); });
}

// Only the loop's thread writes.
template <typename T>
void change_count(std::atomic<T>& counter, T change) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
}

}  // namespace

MasterClient::MasterClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                           StoreObserver* observer)
    : loop_(std::move(loop)),
      target_(std::move(target)),
      observer_(observer),
      backoff_(target_->options.first_backoff, target_->options.longest_backoff),
      retry_timer_(loop_->make_timer([this] {
        if (link_ == nullptr) find_server();
      })),
      waiting_timer_(loop_->make_timer([this] { expire_waiting(); })),
      retired_timer_(loop_->make_timer([this] { retired_.reset(); })),
      leave_timer_(loop_->make_timer([this] { leave(); })),
      why_("not connected yet") {
  try_after(Backoff::Duration::zero());
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
  change_count(counters_.pending, std::size_t{1});
  refuse(command, why_);
}

void MasterClient::keep_waiting(Command& command) noexcept {
  change_count(counters_.pending, std::size_t{1});
  if (waiting_.size() >= target_->options.max_pending) {
    return refuse(command, "too many requests are pending");
  }
  waiting_.push_back(&command);
  if (waiting_.size() == 1) waiting_timer_->set(command.deadline);
}

void MasterClient::expire_waiting() {
  const Time now = loop_->now();
  while (!waiting_.empty() && waiting_.front()->deadline <= now) {
    refuse(*waiting_.pop_front(), "no connection by the deadline");
  }
  if (!waiting_.empty()) waiting_timer_->set(waiting_.front()->deadline);
}

void MasterClient::end_waiting(std::string_view why) noexcept {
  for (std::size_t left = waiting_.size(); left > 0; --left) refuse(*waiting_.pop_front(), why);
}

void MasterClient::refuse(Command& command, std::string_view why) noexcept {
  change_count(counters_.pending, ~std::size_t{0});
  change_count(counters_.errors, std::uint64_t{1});
  command.done({.failure = Failure::kUnavailable, .text = why});
}

RedisStoreStats MasterClient::stats() const noexcept {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  return {.requests = read(counters_.requests),
          .timeouts = read(counters_.timeouts),
          .errors = read(counters_.errors),
          .connects = read(counters_.connects),
          .scripts_sent = read(counters_.scripts_sent),
          .connected = read(counters_.connected),
          .pending = read(counters_.pending)};
}

// --- the link -------------------------------------------------------------------------------

void MasterClient::try_after(Backoff::Duration delay) { retry_timer_->set(loop_->now() + delay); }

void MasterClient::switch_to(const ServerAddress& address, bool hopeful) {
  retire_link();
  retry_timer_->stop();
  hopeful_ = hopeful_ || hopeful;
  link_ = std::make_unique<Link>(*loop_, target_, address, Link::Purpose::kServer,
                                 static_cast<Link::Owner&>(*this), counters_);
  waiting_timer_->stop();
  change_count(counters_.pending, ~waiting_.size() + 1);  // the link counts them again
  while (!waiting_.empty()) link_->submit(*waiting_.pop_front(), loop_->now());
}

void MasterClient::attempt_failed(std::string_view endpoint, std::string_view why) {
  hopeful_ = false;
  set_why(endpoint, why);
  emit(StoreEventKind::kConnectFailed, endpoint, why);
  end_waiting(why_);
  try_after(backoff_.after_failure(loop_->random()));
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
  ready_since_ = loop_->now();
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
  const auto delay = backoff_.after_loss(loop_->now() - ready_since_, loop_->random());
  hopeful_ = delay == Backoff::Duration::zero();
  emit(StoreEventKind::kConnectionLost, endpoint, why);
  try_after(delay);
}

bool MasterClient::on_error(Link& link, Command&, std::string_view error) {
  if (observer_ != nullptr) {
    emit(StoreEventKind::kRequestFailed, link.address().to_string(), shown(error));
  }
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

void MasterClient::on_script_sent(Link& link, const Script& script) {
  emit(StoreEventKind::kScriptLoaded, link.address().to_string(), script.name);
}

void MasterClient::emit(StoreEventKind kind, std::string_view endpoint,
                        std::string_view why) noexcept {
  if (observer_ != nullptr) observer_->on({.kind = kind, .endpoint = endpoint, .why = why});
}

namespace {

class StandaloneClient final : public MasterClient {
 public:
  using MasterClient::MasterClient;

 private:
  void find_server() override { switch_to(target()->servers.front(), false); }
};

}  // namespace

std::unique_ptr<Client> make_standalone_client(std::unique_ptr<EventLoop> loop,
                                               std::shared_ptr<const Target> target,
                                               StoreObserver* observer) {
  return std::make_unique<StandaloneClient>(std::move(loop), std::move(target), observer);
}

namespace {

// How often the client asks a Sentinel whether the master has changed.
constexpr std::chrono::seconds kPoll{1};

// A master client that asks Sentinels for the master's address, before it connects and once a
// second.
class SentinelClient final : public MasterClient {
 public:
  SentinelClient(std::unique_ptr<EventLoop> the_loop, std::shared_ptr<const Target> target,
                 StoreObserver* observer)
      : MasterClient(std::move(the_loop), std::move(target), observer),
        sentinels_(this->target()->servers, this->target()->master),
        poll_timer_(loop().make_timer([this] { poll(); })),
        pass_on_timer_(loop().make_timer([this] { pass_on(); })) {
    for (const std::string_view word : {"SENTINEL", "SENTINELS"}) others_request_.append(word);
    for (const std::string_view word : {"SENTINEL", "GET-MASTER-ADDR-BY-NAME"}) {
      master_request_.append(word);
    }
    others_request_.append(this->target()->master);
    master_request_.append(this->target()->master);
  }
  ~SentinelClient() override {
    giving_up_ = true;  // ignores the answers to the requests that end now
    sentinel_.reset();
  }

 private:
  struct SentinelRequest final : public Command {
    using Then = void (SentinelClient::*)(const Answer&);
    SentinelRequest(SentinelClient& client, Then then) : client_(client), then_(then) {
      repeatable = true;
    }
    void done(const Answer& answer) noexcept override { (client_.*then_)(answer); }

   private:
    SentinelClient& client_;
    Then then_;
  };

  // The owner of the link to a Sentinel; the client owns the one to the master.
  struct SentinelOwner final : public Link::Owner {
    explicit SentinelOwner(SentinelClient& the_client) : client(the_client) {}
    void on_ready(Link&) override {}
    void on_ended(Link&, std::string_view why, bool) override { client.give_up(why); }
    bool on_error(Link&, Command&, std::string_view) override { return false; }

    SentinelClient& client;
  };

  void find_server() override;
  void on_ended(Link& link, std::string_view why, bool was_ready) override;
  void ask();
  void on_others(const Answer& answer);
  void on_master(const Answer& answer);
  void on_found(const ServerAddress& address);
  // Drops this Sentinel. pass_on() then asks another one.
  void give_up(std::string_view why);
  void pass_on();
  void poll_soon();
  void poll();

  Sentinels sentinels_;
  SentinelOwner sentinel_owner_{*this};
  SentinelRequest others_request_{*this, &SentinelClient::on_others};
  SentinelRequest master_request_{*this, &SentinelClient::on_master};
  LinkCounters sentinel_counters_;
  std::unique_ptr<Link> sentinel_;
  std::optional<ServerAddress> master_;
  std::unique_ptr<Timer> poll_timer_;
  std::unique_ptr<Timer> pass_on_timer_;
  bool searching_ = false;  // find_server() has no result yet
  bool asked_ = false;      // the requests are under way
  bool giving_up_ = false;  // pass_on() is scheduled
};

void SentinelClient::find_server() {
  searching_ = true;
  sentinels_.begin();
  ask();
}

void SentinelClient::ask() {
  if (asked_ || giving_up_) return;  // a request is under way
  const ServerAddress* const address = sentinels_.to_ask();
  if (address == nullptr) {
    if (!std::exchange(searching_, false)) return poll_soon();
    return attempt_failed(target()->shown, sentinels_.why());
  }
  const RedisOptions& options = target()->options;
  if (sentinel_ == nullptr) {
    sentinel_ =
        std::make_unique<Link>(loop(), target(), *address, Link::Purpose::kSentinel,
                               static_cast<Link::Owner&>(sentinel_owner_), sentinel_counters_);
  }
  asked_ = true;
  const Time now = loop().now();
  master_request_.deadline = now + std::max(options.connect_timeout, options.deadline);
  others_request_.deadline = master_request_.deadline;
  sentinel_->submit(others_request_, now);  // first, so that it ends first
  sentinel_->submit(master_request_, now);
}

void SentinelClient::on_others(const Answer& answer) {
  if (!giving_up_ && answer.failure == Failure::kNone) sentinels_.on_others(*answer.reply);
}

void SentinelClient::on_master(const Answer& answer) {
  asked_ = false;
  if (giving_up_) return;
  if (answer.failure != Failure::kNone) return give_up(answer.text);
  if (const auto address = sentinels_.on_master(*answer.reply)) return on_found(*address);
  giving_up_ = true;
  pass_on_timer_->set(loop().now());
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
  sentinels_.on_failed(why);
  giving_up_ = true;
  pass_on_timer_->set(loop().now());
}

void SentinelClient::pass_on() {
  sentinel_.reset();  // ends its requests while giving_up_ is set
  giving_up_ = false;
  if (searching_) return ask();
  poll_soon();
}

// If the server that a Sentinel has named cannot be used, for instance because it is no master,
// another Sentinel may name a better one.
void SentinelClient::on_ended(Link& link, std::string_view why, bool was_ready) {
  const bool is_unusable = !was_ready && &link == this->link();
  if (is_unusable) give_up("it names a master that cannot be used");
  MasterClient::on_ended(link, why, was_ready);
}

void SentinelClient::poll_soon() { poll_timer_->set(loop().now() + kPoll); }

void SentinelClient::poll() {
  if (searching_) return;
  sentinels_.begin();
  ask();
}

}  // namespace

std::unique_ptr<Client> make_sentinel_client(std::unique_ptr<EventLoop> loop,
                                             std::shared_ptr<const Target> target,
                                             StoreObserver* observer) {
  return std::make_unique<SentinelClient>(std::move(loop), std::move(target), observer);
}

}  // namespace sluice::redis
