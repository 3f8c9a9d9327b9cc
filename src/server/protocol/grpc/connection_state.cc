#include "server/protocol/grpc/connection_state.h"

#include <utility>

namespace sluice::server::grpc {
namespace {

// The most bytes of output that are made before they are sent. At most one frame more is kept for a
// client that does not read.
constexpr std::size_t kMostAtOnce = std::size_t{64} << 10;
// The time between the notice of the end and the last accepted call.
constexpr auto kNotice = std::chrono::milliseconds(500);
// How long a client with open calls may stay silent after a PING.
constexpr auto kSignOfLife = std::chrono::seconds(20);
// After the end, the connection reads and discards input for this long and this much, so that the
// client sees the reason and not a reset.
constexpr auto kLingerTime = std::chrono::seconds(2);
constexpr std::size_t kLingerBytes = std::size_t{16} << 20;

}  // namespace

ConnectionState::ConnectionState(std::string peer, SharedState& shared, Owner& owner,
                                 SteadyTime now, Role certificate_role)
    : shared_(shared),
      peer_(std::move(peer)),
      protocol_(shared, peer_, owner, certificate_role),
      started_(now),
      heard_(now),
      worked_(now),
      progress_(now) {}

ConnectionState::Action ConnectionState::on_input(std::string_view bytes) {
  if (lingers()) {
    lingered_ += bytes.size();
    return lingered_ > kLingerBytes ? Action::kClose : Action::kReceive;
  }
  pinged_ = false;
  protocol_.take(bytes, heard_);
  return Action::kSend;
}

ConnectionState::Action ConnectionState::on_output() const {
  if (lingers()) return Action::kReceive;
  return waits_for_room_ ? Action::kWaitToSend : Action::kSend;
}

std::string_view ConnectionState::output() {
  std::string& out = shared_.output;
  out.clear();
  if (!unsent_.empty()) out.append(std::exchange(unsent_, {}));
  protocol_.write(out, kMostAtOnce);
  return out;
}

ConnectionState::Action ConnectionState::on_sent(std::size_t size) {
  const std::string& out = shared_.output;
  if (size < out.size()) {
    progress_ = shared_.clock.now();
    unsent_.assign(out, size);
    waits_for_room_ = true;
    return Action::kWaitToSend;
  }
  if (!out.empty()) return Action::kSend;
  if (!protocol_.ended()) return Action::kReceive;
  phase_ = Phase::kLingering;
  ending_ = shared_.clock.now();
  return Action::kHalfClose;
}

ConnectionState::Action ConnectionState::on_room() {
  waits_for_room_ = false;
  return on_output();
}

ConnectionState::Action ConnectionState::on_tick(SteadyTime now) {
  if (expired(now)) return Action::kClose;
  if (!lingers()) {
    protocol_.tick(now);
    check_age(now);
  }
  return on_output();
}

// Returns whether the connection exceeded the timeout of its current phase.
bool ConnectionState::expired(SteadyTime now) {
  if (lingers()) return now - ending_ >= kLingerTime;
  const Bounds& bounds = shared_.bounds;
  const bool unread = waits_for_room_ && now - progress_ >= bounds.write_timeout;
  const bool silent = !protocol_.has_preface() && now - started_ >= bounds.header_timeout;
  if (unread || silent) shared_.recorder.add(metrics::Event::kTimedOut);
  const bool gone = pinged_ && now - heard_ >= bounds.idle_timeout + kSignOfLife;
  return unread || silent || gone;
}

// Ends a connection that is old or idle, and sends a PING if a client with open calls is silent.
void ConnectionState::check_age(SteadyTime now) {
  const Bounds& bounds = shared_.bounds;
  if (protocol_.busy() || protocol_.calls() != calls_) worked_ = now;
  calls_ = protocol_.calls();
  if (phase_ == Phase::kServing) {
    const std::size_t most = bounds.requests_per_connection;
    const bool old = shared_.ages.most.count() > 0 && now - started_ >= shared_.ages.most;
    if (old || now - worked_ >= bounds.idle_timeout || (most > 0 && calls_ >= most)) {
      return begin_end(now);
    }
    if (!pinged_ && protocol_.open_streams() > 0 && now - heard_ >= bounds.idle_timeout) {
      pinged_ = true;
      protocol_.ping();
    }
  } else if (phase_ == Phase::kNoticed && now - ending_ >= kNotice) {
    phase_ = Phase::kFinished;
    protocol_.finish();
  }
}

void ConnectionState::begin_end(SteadyTime now) {
  phase_ = Phase::kNoticed;
  ending_ = now;
  protocol_.notice();
}

ConnectionState::Action ConnectionState::on_drain(SteadyTime now) {
  if (phase_ == Phase::kServing) begin_end(now);
  return on_output();
}

}  // namespace sluice::server::grpc
