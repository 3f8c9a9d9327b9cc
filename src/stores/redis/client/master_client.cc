#include "stores/redis/client/master_client.h"

#include <algorithm>
#include <array>

#include "stores/redis/client/words.h"

namespace sluice::redis {
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

}  // namespace sluice::redis
