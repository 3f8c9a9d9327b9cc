#include "stores/redis/client/link.h"

#include <boost/asio/defer.hpp>
#include <chrono>
#include <utility>

#include "stores/redis/client/link_machine.h"
#include "stores/redis/client/socket.h"
#include "stores/redis/client/target.h"
#include "stores/redis/client/timers.h"

namespace sluice::redis {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
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

class Link::Impl final : public Socket::User {
 public:
  Impl(asio::io_context& loop, std::shared_ptr<const Target> target, ServerAddress address,
       Purpose purpose, Owner& owner, LinkCounters* counters, Link& link)
      : loop_(loop),
        target_(std::move(target)),
        address_(std::move(address)),
        owner_(&owner),
        link_(link),
        counters_(counters != nullptr ? *counters : own_counters_),
        machine_(machine_options(*target_, purpose)),
        timer_(loop),
        socket_(std::make_shared<Socket>(loop, target_, address_, *this)) {}

  void start() { socket_->connect(target_->options.connect_timeout); }
  // Ends the process if there is no memory to send anything.
  void submit(Command& command, bool asking) noexcept;  // NOLINT(bugprone-exception-escape)
  // Ends the connection without calling the owner.
  void close() noexcept;

  const LinkMachine& machine() const noexcept { return machine_; }
  const ServerAddress& address() const noexcept { return address_; }

  void on_connected() override;
  std::span<char> room() override { return machine_.room(); }
  void on_input(std::size_t bytes) override;
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
  void flush();
  void on_timer();

  asio::io_context& loop_;
  std::shared_ptr<const Target> target_;
  ServerAddress address_;
  Owner* owner_;  // null: it is not called any more
  Link& link_;
  LinkCounters own_counters_;
  LinkCounters& counters_;

  LinkMachine machine_;
  asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, asio::io_context::executor_type>
      timer_;
  Clock::time_point timer_at_ = Clock::time_point::max();
  std::shared_ptr<Socket> socket_;
  std::string output_;  // what the socket writes
  bool flush_is_coming_ = false;
};

// --- events -----------------------------------------------------------------------------------

// NOLINTNEXTLINE(bugprone-exception-escape)
void Link::Impl::submit(Command& command, bool asking) noexcept {
  add(counters_.pending, std::size_t{1});
  const std::string_view refusal = machine_.submit(command, asking, Clock::now());
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
  machine_.on_connected(Clock::now());
  socket_->read();
  execute();
}

void Link::Impl::on_input(std::size_t bytes) {
  machine_.on_input(bytes, Clock::now());
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
  timer_at_ = Clock::time_point::max();
  machine_.on_timer(Clock::now());
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
  stop_timer(timer_);
  socket_->close();
}

// Sets the timer, and sends once for all commands of this turn of the loop.
void Link::Impl::settle() {
  if (machine_.wake_at() < timer_at_) {
    timer_at_ = machine_.wake_at();
    set_timer(timer_, timer_at_);
    timer_.async_wait([self = self()](const boost::system::error_code& error) {
      if (!error) self->on_timer();
    });
  }
  if (flush_is_coming_ || socket_->writing() || !machine_.has_output()) return;
  flush_is_coming_ = true;
  asio::defer(loop_, [self = self()] {
    self->flush_is_coming_ = false;
    self->flush();
  });
}

void Link::Impl::flush() {
  if (socket_->writing() || !machine_.has_output()) return;
  machine_.take_output(output_);
  socket_->write(output_);
}

// --- Link -----------------------------------------------------------------------------------

Link::Link(asio::io_context& loop, std::shared_ptr<const Target> target, ServerAddress address,
           Purpose purpose, Owner& owner, LinkCounters* counters)
    : impl_(std::make_shared<Impl>(loop, std::move(target), std::move(address), purpose, owner,
                                   counters, *this)) {
  impl_->start();
}

Link::~Link() { impl_->close(); }

// NOLINTNEXTLINE(bugprone-exception-escape)
void Link::submit(Command& command, bool asking) noexcept { impl_->submit(command, asking); }
bool Link::ready() const noexcept { return impl_->machine().is_ready(); }
std::size_t Link::pending() const noexcept { return impl_->machine().pending(); }
const ServerAddress& Link::address() const noexcept { return impl_->address(); }

}  // namespace sluice::redis
