#include "stores/redis/client/link_machine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "stores/redis/client/words.h"

namespace sluice::redis {
namespace {

using Action = LinkMachine::Action;
using Kind = Action::Kind;
using std::chrono::milliseconds;

// How late a deadline may be noticed, so that deadlines close to each other share a timer.
constexpr auto kDeadlineGrain = std::chrono::microseconds{500};

}  // namespace

LinkMachine::LinkMachine(Options options)
    : options_(std::move(options)),
      handshake_(options_.handshake),
      pipeline_(options_.max_pending) {}

std::string_view LinkMachine::submit(Command& command, bool asking, Time now) {
  if (has_ended()) return "the connection has ended";
  const bool was_idle = pipeline_.in_flight() == 0;
  if (!pipeline_.submit(command, asking)) return "too many requests are pending";
  if (was_idle) last_heard_ = now;
  wake_by(command.deadline);
  return {};
}

// --- events -----------------------------------------------------------------------------------

void LinkMachine::on_connected(Time now) {
  phase_ = Phase::kHandshake;
  last_heard_ = now;
  wake_by(now + options_.connect_timeout);
  take(handshake_.begin());
}

void LinkMachine::on_input(std::size_t bytes, Time now) {
  reader_.commit(bytes);
  last_heard_ = now;
}

void LinkMachine::on_output(std::size_t bytes) noexcept {
  const std::size_t of_greeting = std::min(bytes, greeting_unsent_);
  greeting_unsent_ -= of_greeting;
  pipeline_.handed(bytes - of_greeting);
}

void LinkMachine::on_timer(Time now) {
  wake_at_ = Time::max();
  if (has_ended()) return;
  pipeline_.expire(now, ended_);
  expired_ = ended_.size();
  if (const auto deadline = pipeline_.next_deadline()) wake_by(*deadline);
  std::optional<Time> silent_at;
  if (phase_ == Phase::kHandshake) silent_at = last_heard_ + options_.connect_timeout;
  if (pipeline_.in_flight() > 0) silent_at = last_heard_ + options_.longest_silence;
  if (silent_at && now >= *silent_at) {
    const auto silence = std::chrono::duration_cast<milliseconds>(now - last_heard_);
    return shut("the server has not answered for " + std::to_string(silence.count()) + " ms");
  }
  if (silent_at) wake_by(*silent_at);
  if (wake_at_ != Time::max()) wake_at_ = std::max(wake_at_, now + kDeadlineGrain);
}

void LinkMachine::on_closed(std::string_view why) {
  if (!has_ended()) shut(why);
}

void LinkMachine::shut(std::string_view why) {
  was_ready_ = is_ready();
  why_ = why;
  phase_ = Phase::kClosing;
  wake_at_ = Time::max();
  greeting_.clear();
  pipeline_.abandon(ended_);
}

// --- actions ----------------------------------------------------------------------------------

Action LinkMachine::next() {
  if (phase_ == Phase::kClosing && !std::exchange(is_closed_, true)) return {Kind::kClose};
  if (finished_ < ended_.size()) return finish_next();
  ended_.clear();
  finished_ = expired_ = 0;
  switch (phase_) {
    case Phase::kHandshake: return continue_handshake();
    case Phase::kReady: return answer_commands();
    case Phase::kClosing: phase_ = Phase::kEnded; return {Kind::kEnded};
    case Phase::kConnecting:
    case Phase::kEnded: break;
  }
  return {};
}

Action LinkMachine::finish_next() noexcept {
  const bool has_expired = finished_ < expired_;
  const Pipeline::Ended& one = ended_[finished_++];
  Answer answer;
  if (has_expired) {
    answer.failure = one.sent ? Failure::kTimeout : Failure::kUnavailable;
    answer.text = one.sent ? "no answer by the deadline" : "not sent by the deadline";
  } else {
    answer.failure = one.sent ? Failure::kLost : Failure::kUnavailable;
    answer.text = why_;
  }
  return {Kind::kFinish, one.command, answer};
}

Action LinkMachine::continue_handshake() {
  while (phase_ == Phase::kHandshake) {
    switch (reader_.next()) {
      case ReplyReader::Progress::kMore: return {};
      case ReplyReader::Progress::kBad: shut(reader_.why()); break;
      case ReplyReader::Progress::kReply: take(handshake_.on_reply(reader_.reply()));
    }
  }
  return is_ready() ? Action{Kind::kReady} : next();
}

void LinkMachine::take(Handshake::Step step) {
  switch (step) {
    case Handshake::Step::kSend: greeting_ = handshake_.output(); return;
    case Handshake::Step::kFailed: return shut(handshake_.why());
    case Handshake::Step::kReady: break;
  }
  phase_ = Phase::kReady;
  pipeline_.open();
}

Action LinkMachine::answer_commands() {
  const Pipeline::Event event = pipeline_.next(reader_);
  switch (event.kind) {
    case Pipeline::Kind::kNothing: break;
    case Pipeline::Kind::kBroken: shut(shown(event.why)); return next();
    case Pipeline::Kind::kScript: return {Kind::kScriptSent, event.command};
    case Pipeline::Kind::kAnswer: return {Kind::kFinish, event.command, {.reply = event.reply}};
    case Pipeline::Kind::kError: {
      const std::string_view text(event.reply->str, event.reply->len);
      return {Kind::kError,
              event.command,
              {.failure = Failure::kError, .text = text, .reply = event.reply}};
    }
  }
  return {};
}

void LinkMachine::take_output(std::string& bytes) {
  if (greeting_.empty()) return pipeline_.take_output(bytes);
  bytes.clear();
  bytes.swap(greeting_);
  greeting_unsent_ += bytes.size();
}

}  // namespace sluice::redis
