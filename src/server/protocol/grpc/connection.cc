// gRPC over HTTP/2. nghttp2 does HTTP/2; for unary calls gRPC adds a prefix of five bytes, two
// header fields and the trailers, which are here. grpc++ has threads and event loops of its own and
// takes several times the processor time (`./dev bench --only front_ends`). The messages of a
// request are on an arena of its loop.
#include "server/protocol/grpc/connection.h"

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

}  // namespace

ConnectionState::ConnectionState(Peer peer, SharedState& shared, net::Act act, SteadyTime now)
    : StreamState(std::move(act), now),
      shared_(shared),
      peer_(std::move(peer)),
      protocol_(
          shared, peer_.address, [this] { act_(Action::kSendSoon); }, peer_.certificate_role),
      started_(now),
      heard_(now),
      worked_(now),
      progress_(now) {}

ConnectionState::Action ConnectionState::on_input(std::string_view bytes, SteadyTime now) {
  if (phase_ == Phase::kLingering) return discard(bytes);
  heard_ = now;
  pinged_ = false;
  protocol_.take(bytes, now);
  return Action::kSend;
}

std::string_view ConnectionState::output() {
  std::string& out = shared_.output;
  out.clear();
  if (!unsent_.empty()) out.append(std::exchange(unsent_, {}));
  protocol_.write(out, kMostAtOnce);
  return out;
}

ConnectionState::Action ConnectionState::on_sent(std::size_t size, bool broken) {
  if (broken) return Action::kClose;
  const std::string& out = shared_.output;
  if (size < out.size()) {
    progress_ = shared_.clock.now();
    unsent_.assign(out, size);
    waits_for_room_ = true;
    return Action::kWaitToSend;
  }
  if (!out.empty()) return Action::kSend;
  if (phase_ == Phase::kLingering || !protocol_.ended()) return Action::kReceive;
  phase_ = Phase::kLingering;
  ending_ = shared_.clock.now();
  return Action::kHalfClose;
}

ConnectionState::Action ConnectionState::on_room(SteadyTime) {
  waits_for_room_ = false;
  return Action::kSend;
}

ConnectionState::Action ConnectionState::on_expired(SteadyTime now) {
  if (takes_too_long(now)) return Action::kClose;
  if (phase_ == Phase::kLingering) return Action::kReceive;
  protocol_.tick(now);
  check_age(now);
  return waits_for_room_ ? Action::kWaitToSend : Action::kSend;
}

// Returns whether the connection exceeded the timeout of its current phase.
bool ConnectionState::takes_too_long(SteadyTime now) {
  if (phase_ == Phase::kLingering) return now - ending_ >= net::kLingerTime;
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
    const bool old = shared_.max_age.count() > 0 && now - started_ >= shared_.max_age;
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

void ConnectionState::on_drain(SteadyTime now) {
  if (phase_ != Phase::kServing) return;
  begin_end(now);
  act_(Action::kSendSoon);
}

}  // namespace sluice::server::grpc
