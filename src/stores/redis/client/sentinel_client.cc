#include <algorithm>
#include <optional>
#include <utility>

#include "stores/redis/client/clients.h"
#include "stores/redis/client/master_client.h"
#include "stores/redis/client/sentinels.h"

namespace sluice::redis {
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
