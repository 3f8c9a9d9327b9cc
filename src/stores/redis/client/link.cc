#include "stores/redis/client/link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "stores/redis/client/link_machine.h"
#include "stores/redis/client/target.h"

namespace sluice::redis {
namespace {

using Action = LinkMachine::Action;
using std::chrono::milliseconds;

// Only the loop's thread writes, so that no locked instruction is needed.
template <typename T>
void add(std::atomic<T>& counter, T change) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
}

Handshake::Options handshake_options(const Target& target, Link::Purpose purpose) {
  const RedisOptions& options = target.options;
  if (purpose == Link::Purpose::kSentinel) {
    return {.username = options.sentinel_username,
            .password = options.sentinel_password,
            .protocol = options.protocol};
  }
  return {.username = options.username,
          .password = options.password,
          .protocol = options.protocol,
          .database = target.database,
          .only_master = target.kind == Target::Kind::kSentinel};
}

LinkMachine::Options machine_options(const Target& target, Link::Purpose purpose) {
  const RedisOptions& options = target.options;
  return {.handshake = handshake_options(target, purpose),
          .max_pending = options.max_pending,
          .connect_timeout = options.connect_timeout,
          .longest_silence = std::max(milliseconds{1'000}, 3 * options.deadline)};
}

}  // namespace

class Link::Impl final : public Transport::User {
 public:
  Impl(EventLoop& loop, const Target& target, ServerAddress address, Purpose purpose, Owner& owner,
       LinkCounters& counters, Link& link)
      : loop_(loop),
        address_(std::move(address)),
        owner_(&owner),
        link_(link),
        counters_(counters),
        machine_(machine_options(target, purpose)),
        timer_(loop.make_timer([this] { on_timer(); })),
        transport_(loop.make_transport(address_, *this)) {}

  void start(milliseconds timeout) { transport_->connect(timeout); }
  void submit(Command& command, Time now, bool asking) noexcept;
  // Ends the connection without calling the owner.
  void close() noexcept;

  const LinkMachine& machine() const noexcept { return machine_; }
  const ServerAddress& address() const noexcept { return address_; }

  void on_connected() override;
  std::span<char> room() override { return machine_.room(); }
  void on_input(std::size_t bytes) override;
  void take_output(std::string& bytes) override { machine_.take_output(bytes); }
  void on_output(std::size_t bytes) override;
  void on_closed(const std::string& why) override;

 private:
  std::shared_ptr<Impl> self() { return std::static_pointer_cast<Impl>(shared_from_this()); }
  void execute();
  void on_ready();
  void finish(Command& command, const Answer& answer) noexcept;
  void on_server_error(const Action& action);
  void close_socket() noexcept;
  void settle();
  void on_timer();

  EventLoop& loop_;
  ServerAddress address_;
  Owner* owner_;  // null: it is not called any more
  Link& link_;
  LinkCounters& counters_;

  LinkMachine machine_;
  std::unique_ptr<Timer> timer_;
  Time timer_at_ = Time::max();
  std::shared_ptr<Transport> transport_;
};

// --- events -----------------------------------------------------------------------------------

// NOLINTNEXTLINE(bugprone-exception-escape)
void Link::Impl::submit(Command& command, Time now, bool asking) noexcept {
  add(counters_.pending, std::size_t{1});
  const std::string_view refusal = machine_.submit(command, asking, now);
  if (!refusal.empty()) {
    return finish(command, {.failure = Failure::kUnavailable, .text = refusal});
  }
  add(counters_.requests, std::uint64_t{1});
  settle();
}

void Link::Impl::close() noexcept {
  owner_ = nullptr;
  machine_.on_closed("the connection is closed");
  execute();
}

void Link::Impl::on_connected() {
  machine_.on_connected(loop_.now());
  execute();
}

void Link::Impl::on_input(std::size_t bytes) {
  machine_.on_input(bytes, loop_.now());
  execute();
}

void Link::Impl::on_output(std::size_t bytes) {
  machine_.on_output(bytes);
  settle();
}

void Link::Impl::on_closed(const std::string& why) {
  machine_.on_closed(why);
  execute();
}

void Link::Impl::on_timer() {
  timer_at_ = Time::max();
  machine_.on_timer(loop_.now());
  execute();
}

// --- actions ----------------------------------------------------------------------------------

void Link::Impl::execute() {
  const auto kept = self();  // the owner may destroy the link
  for (;;) {
    const Action action = machine_.next();
    switch (action.kind) {
      case Action::Kind::kNothing: return settle();
      case Action::Kind::kReady: on_ready(); break;
      case Action::Kind::kFinish: finish(*action.command, action.answer); break;
      case Action::Kind::kError: on_server_error(action); break;
      case Action::Kind::kScriptSent:
        add(counters_.scripts_sent, std::uint64_t{1});
        owner_->on_script_sent(link_, *action.command->script);
        break;
      case Action::Kind::kClose: close_socket(); break;
      case Action::Kind::kEnded:
        if (owner_ != nullptr) owner_->on_ended(link_, machine_.why(), machine_.was_ready());
        return;
    }
  }
}

void Link::Impl::on_ready() {
  add(counters_.connects, std::uint64_t{1});
  add(counters_.connected, std::size_t{1});
  owner_->on_ready(link_);
}

void Link::Impl::on_server_error(const Action& action) {
  if (!owner_->on_error(link_, *action.command, action.answer.text)) {
    return finish(*action.command, action.answer);
  }
  add(counters_.pending, ~std::size_t{0});
}

void Link::Impl::finish(Command& command, const Answer& answer) noexcept {
  add(counters_.pending, ~std::size_t{0});
  if (answer.failure == Failure::kTimeout) {
    add(counters_.timeouts, std::uint64_t{1});
  } else if (answer.failure != Failure::kNone) {
    add(counters_.errors, std::uint64_t{1});
  }
  command.done(answer);
}

void Link::Impl::close_socket() noexcept {
  if (machine_.was_ready()) add(counters_.connected, ~std::size_t{0});
  timer_->stop();
  transport_->close();
}

void Link::Impl::settle() {
  if (machine_.wake_at() < timer_at_) {
    timer_at_ = machine_.wake_at();
    timer_->set(timer_at_);
  }
  if (machine_.has_output()) transport_->flush();
}

// --- Link -------------------------------------------------------------------------------------

Link::Link(EventLoop& loop, std::shared_ptr<const Target> target, ServerAddress address,
           Purpose purpose, Owner& owner, LinkCounters& counters)
    : impl_(std::make_shared<Impl>(loop, *target, std::move(address), purpose, owner, counters,
                                   *this)) {
  impl_->start(target->options.connect_timeout);
}

Link::~Link() { impl_->close(); }

// NOLINTNEXTLINE(bugprone-exception-escape)
void Link::submit(Command& command, Time now, bool asking) noexcept {
  impl_->submit(command, now, asking);
}
bool Link::ready() const noexcept { return impl_->machine().is_ready(); }
std::size_t Link::pending() const noexcept { return impl_->machine().pending(); }
const ServerAddress& Link::address() const noexcept { return impl_->address(); }

}  // namespace sluice::redis
