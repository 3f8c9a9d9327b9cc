#include "stores/redis/client/link.h"

#include <algorithm>
#include <boost/asio/defer.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "stores/redis/client/handshake.h"
#include "stores/redis/client/pipeline.h"
#include "stores/redis/client/reply_reader.h"
#include "stores/redis/client/socket.h"
#include "stores/redis/client/target.h"
#include "stores/redis/client/timers.h"
#include "stores/redis/client/words.h"

namespace sluice::redis {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kReadSize = 16 << 10;
// How late a deadline may be noticed, so that those of one moment are noticed together.
constexpr auto kDeadlineGrain = std::chrono::microseconds{500};

// There is one writer, so that no locked instruction is needed.
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

// Nothing answered for so long, with requests under way: the server is stalled, or gone.
milliseconds longest_silence(const RedisOptions& options) {
  return std::max(milliseconds{1'000}, 3 * options.deadline);
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
        handshake_(handshake_options(*target_, purpose)),
        pipeline_(target_->options.max_pending),
        timer_(loop),
        socket_(std::make_shared<Socket>(loop, target_, address_, *this)) {}

  void start() { socket_->connect(target_->options.connect_timeout); }
  // Where there is no memory to send anything, the process ends.
  void submit(Command& command, bool asking) noexcept;  // NOLINT(bugprone-exception-escape)
  // Without a word to the owner.
  void close() noexcept;

  bool ready() const noexcept { return phase_ == Phase::kReady; }
  const Pipeline& pipeline() const noexcept { return pipeline_; }
  std::uint64_t scripts_sent() const noexcept { return scripts_sent_.load(); }
  std::uint64_t timeouts() const noexcept { return timeouts_.load(); }
  const ServerAddress& address() const noexcept { return address_; }

  void on_connected() override;
  std::span<char> room() override { return reader_.prepare(kReadSize); }
  void on_input(std::size_t bytes) override;
  void on_output(std::size_t bytes) override;
  void on_closed(const std::string& why) override { end(why); }

 private:
  enum class Phase : std::uint8_t { kConnecting, kHandshake, kReady, kEnded };

  std::shared_ptr<Impl> self() { return std::static_pointer_cast<Impl>(shared_from_this()); }
  void on_handshake_step(Handshake::Step step);
  void continue_handshake();
  void become_ready();
  void answer_commands();
  void on_server_error(Command& command, const redisReply& reply);
  void on_script_sent(const Script& script);
  void finish(Command& command, const Answer& answer) noexcept;
  void finish_all(const std::vector<Pipeline::Ended>& ended, std::string_view why) noexcept;

  void flush_soon();
  void flush();
  void wake_by(Clock::time_point at);
  void on_timer();
  void expire(Clock::time_point now);
  void end(const std::string& why);
  void shut(std::string_view why) noexcept;

  asio::io_context& loop_;
  std::shared_ptr<const Target> target_;
  ServerAddress address_;
  Owner* owner_;
  Link& link_;
  LinkCounters own_counters_;
  LinkCounters& counters_;
  std::atomic<std::uint64_t> scripts_sent_{0};
  std::atomic<std::uint64_t> timeouts_{0};

  Phase phase_ = Phase::kConnecting;
  Handshake handshake_;
  Pipeline pipeline_;
  ReplyReader reader_;
  asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, asio::io_context::executor_type>
      timer_;
  bool timer_set_ = false;
  Clock::time_point timer_at_ = {};
  Clock::time_point last_heard_ = {};  // or began to wait for something
  std::shared_ptr<Socket> socket_;
  std::string output_;
  bool flush_is_coming_ = false;
  std::vector<Pipeline::Ended> ended_;
};

// NOLINTNEXTLINE(bugprone-exception-escape)
void Link::Impl::submit(Command& command, bool asking) noexcept {
  add(counters_.pending, std::size_t{1});
  if (phase_ == Phase::kEnded) {
    return finish(command, {.failure = Failure::kUnavailable, .text = "the connection has ended"});
  }
  const bool was_idle = pipeline_.in_flight() == 0;
  if (!pipeline_.submit(command, asking)) {
    return finish(command,
                  {.failure = Failure::kUnavailable, .text = "too many requests are under way"});
  }
  add(counters_.requests, std::uint64_t{1});
  if (was_idle) last_heard_ = Clock::now();
  if (!timer_set_ || command.deadline < timer_at_) wake_by(command.deadline);
  if (phase_ == Phase::kReady) flush_soon();
}

void Link::Impl::close() noexcept {
  if (phase_ == Phase::kEnded) return;
  shut("the connection is closed");
}

// --- from connecting to ready ---------------------------------------------------------------

void Link::Impl::on_connected() {
  phase_ = Phase::kHandshake;
  last_heard_ = Clock::now();
  wake_by(last_heard_ + target_->options.connect_timeout);
  socket_->read();
  on_handshake_step(handshake_.begin());
}

void Link::Impl::on_handshake_step(Handshake::Step step) {
  switch (step) {
    case Handshake::Step::kSend: output_ = handshake_.output(); return socket_->write(output_);
    case Handshake::Step::kReady: return become_ready();
    case Handshake::Step::kFailed: return end(handshake_.why());
  }
}

void Link::Impl::continue_handshake() {
  while (phase_ == Phase::kHandshake) {
    switch (reader_.next()) {
      case ReplyReader::Progress::kMore: return;
      case ReplyReader::Progress::kBad: return end(std::string(reader_.why()));
      case ReplyReader::Progress::kReply: on_handshake_step(handshake_.on_reply(reader_.reply()));
    }
  }
}

void Link::Impl::become_ready() {
  phase_ = Phase::kReady;
  add(counters_.connects, std::uint64_t{1});
  add(counters_.connected, std::size_t{1});
  pipeline_.open();
  if (pipeline_.has_output()) flush_soon();
  owner_->on_ready(link_);
}

// --- commands -------------------------------------------------------------------------------

void Link::Impl::on_input(std::size_t bytes) {
  const auto kept = self();
  reader_.commit(bytes);
  last_heard_ = Clock::now();
  continue_handshake();
  answer_commands();
}

void Link::Impl::answer_commands() {
  while (phase_ == Phase::kReady) {
    const Pipeline::Event event = pipeline_.next(reader_);
    switch (event.kind) {
      case Pipeline::Kind::kNothing: return;
      case Pipeline::Kind::kBroken: return end(shown(event.why));
      case Pipeline::Kind::kAnswer: finish(*event.command, {.reply = event.reply}); break;
      case Pipeline::Kind::kError: on_server_error(*event.command, *event.reply); break;
      case Pipeline::Kind::kScript: on_script_sent(*event.command->script); break;
    }
    if (phase_ == Phase::kReady && pipeline_.has_output()) flush_soon();
  }
}

void Link::Impl::on_server_error(Command& command, const redisReply& reply) {
  const std::string_view text(reply.str, reply.len);
  if (owner_->on_error(link_, command, text)) {
    add(counters_.pending, ~std::size_t{0});
    return;
  }
  finish(command, {.failure = Failure::kError, .text = text, .reply = &reply});
}

void Link::Impl::on_script_sent(const Script& script) {
  add(counters_.scripts_sent, std::uint64_t{1});
  add(scripts_sent_, std::uint64_t{1});
  owner_->on_script_sent(link_, script);
}

void Link::Impl::finish(Command& command, const Answer& answer) noexcept {
  add(counters_.pending, ~std::size_t{0});
  if (answer.failure == Failure::kTimeout) {
    add(counters_.timeouts, std::uint64_t{1});
    add(timeouts_, std::uint64_t{1});
  } else if (answer.failure != Failure::kNone) {
    add(counters_.errors, std::uint64_t{1});
  }
  command.done(answer);
}

void Link::Impl::finish_all(const std::vector<Pipeline::Ended>& ended,
                            std::string_view why) noexcept {
  for (const Pipeline::Ended& one : ended) {
    finish(*one.command,
           {.failure = one.sent ? Failure::kLost : Failure::kUnavailable, .text = why});
  }
}

// --- output ---------------------------------------------------------------------------------

// Once for all that is submitted in this turn of the loop.
void Link::Impl::flush_soon() {
  if (flush_is_coming_ || socket_->writing()) return;
  flush_is_coming_ = true;
  asio::defer(loop_, [self = self()] {
    self->flush_is_coming_ = false;
    self->flush();
  });
}

void Link::Impl::flush() {
  if (phase_ != Phase::kReady || socket_->writing() || !pipeline_.has_output()) return;
  pipeline_.take_output(output_);
  socket_->write(output_);
}

void Link::Impl::on_output(std::size_t bytes) {
  if (phase_ != Phase::kReady) return;
  pipeline_.handed(bytes);
  if (!socket_->writing() && pipeline_.has_output()) flush_soon();
}

// --- time -----------------------------------------------------------------------------------

void Link::Impl::wake_by(Clock::time_point at) {
  if (timer_set_ && timer_at_ <= at) return;
  timer_set_ = true;
  timer_at_ = at;
  set_timer(timer_, at);
  timer_.async_wait([self = self()](const boost::system::error_code& error) {
    if (!error && self->phase_ != Phase::kEnded) self->on_timer();
  });
}

void Link::Impl::on_timer() {
  timer_set_ = false;
  const Clock::time_point now = Clock::now();
  expire(now);
  if (phase_ == Phase::kEnded) return;
  std::optional<Clock::time_point> next = pipeline_.next_deadline();
  std::optional<Clock::time_point> silent_at;
  if (phase_ == Phase::kHandshake) silent_at = last_heard_ + target_->options.connect_timeout;
  if (pipeline_.in_flight() > 0) silent_at = last_heard_ + longest_silence(target_->options);
  if (silent_at && now >= *silent_at) {
    const auto silence = std::chrono::duration_cast<milliseconds>(now - last_heard_);
    return end("the server has not answered for " + std::to_string(silence.count()) + " ms");
  }
  if (silent_at) next = next ? std::min(*next, *silent_at) : silent_at;
  if (next) wake_by(std::max(*next, now + kDeadlineGrain));
}

void Link::Impl::expire(Clock::time_point now) {
  std::vector<Pipeline::Ended> ended;
  ended.swap(ended_);  // its capacity; done() may come back here
  ended.clear();
  pipeline_.expire(now, ended);
  for (const Pipeline::Ended& one : ended) {
    finish(*one.command,
           one.sent ? Answer{.failure = Failure::kTimeout, .text = "no answer by the deadline"}
                    : Answer{.failure = Failure::kUnavailable, .text = "not sent by the deadline"});
  }
  ended_.swap(ended);
}

// --- the end --------------------------------------------------------------------------------

// Afterwards this may be gone, if nobody holds it.
void Link::Impl::end(const std::string& why) {
  if (phase_ == Phase::kEnded) return;
  const auto kept = self();
  const bool was_ready = phase_ == Phase::kReady;
  shut(why);
  owner_->on_ended(link_, why, was_ready);
}

void Link::Impl::shut(std::string_view why) noexcept {
  if (phase_ == Phase::kReady) add(counters_.connected, ~std::size_t{0});
  std::vector<Pipeline::Ended> ended;
  pipeline_.abandon(ended);
  phase_ = Phase::kEnded;
  stop_timer(timer_);
  socket_->close();
  finish_all(ended, why);
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
bool Link::ready() const noexcept { return impl_->ready(); }
std::size_t Link::pending() const noexcept { return impl_->pipeline().live(); }
std::uint64_t Link::scripts_sent() const noexcept { return impl_->scripts_sent(); }
std::uint64_t Link::timeouts() const noexcept { return impl_->timeouts(); }
const ServerAddress& Link::address() const noexcept { return impl_->address(); }

}  // namespace sluice::redis
