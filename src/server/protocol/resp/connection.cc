#include "server/protocol/resp/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <utility>

#include "server/protocol/resp/reply.h"

namespace sluice::server::resp {
namespace {

using net::SteadyTime;

// Larger buffers are released when they are empty.
constexpr std::size_t kMostKept = std::size_t{4} << 10;
constexpr std::size_t kMostOutputKept = std::size_t{256} << 10;

// Without a timeout, TCP keepalive detects a peer that is gone.
constexpr int kFirstProbe = 300;  // seconds
constexpr int kProbeEvery = 100;
constexpr int kProbes = 3;

void set(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);
}

void set_keepalive(int descriptor) {
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kFirstProbe);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kProbeEvery);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

// Returns whether a request is a line of HTTP. In that case a web page made a browser send it, and
// the body would be read as commands. Redis closes the connection for the same two.
bool is_http(std::string_view command) {
  if (command.size() < 4 || command.size() > 5) return false;
  return sluice::same_word(command, "post") || sluice::same_word(command, "host:");
}

void release(std::string& text) {
  text.clear();
  if (text.capacity() > kMostKept) text.shrink_to_fit();
}

}  // namespace

Client SharedState::peer_of(const net::Accepted& accepted) const {
  const bool is_unix = accepted.family == AF_UNIX;
  if (!is_unix) set_keepalive(accepted.descriptor);
  Client client;
  client.id = last_id.fetch_add(1) + 1;
  client.peer = is_unix ? unix_path + ":0" : accepted.peer.text();
  client.connected = accepted.since;
  client.role = users.at_first();
  if (accepted.tls) client.of_certificate = users.find_certificate(accepted.certificate_names());
  client.user = client.of_certificate;
  if (client.user != nullptr) client.role = client.user->role;
  return client;
}

ConnectionState::ConnectionState(Client client, SharedState& shared, net::Act act, SteadyTime now)
    : StreamState(std::move(act), now),
      shared_(shared),
      client_(std::move(client)),
      reader_(shared.bounds.body_bytes) {
  enter(Phase::kIdle);
}

ConnectionState::~ConnectionState() { assert(phase_ != Phase::kAnswering); }

std::chrono::milliseconds ConnectionState::time_for(Phase phase) const {
  switch (phase) {
    case Phase::kIdle: return shared_.draining ? net::kDrainIdle : shared_.idle_timeout;
    case Phase::kRequest: return shared_.bounds.body_timeout;
    case Phase::kSending: return shared_.bounds.write_timeout;
    case Phase::kLingering: return net::kLingerTime;
    case Phase::kAnswering: break;
  }
  return std::chrono::milliseconds(0);
}

void ConnectionState::enter(Phase phase) {
  phase_ = phase;
  const auto time = time_for(phase);
  deadline_ = time.count() > 0 ? now_ + time : SteadyTime::max();
  // The time of a request starts with its first byte.
  if (phase == Phase::kRequest) deadline_ = request_due_ = std::min(request_due_, deadline_);
  // The time to log in is not prolonged by what a client sends before.
  login_due_ = client_.role == Role::kNobody
                   ? std::min(login_due_, now_ + shared_.bounds.header_timeout)
                   : SteadyTime::max();
  if (phase != Phase::kAnswering && phase != Phase::kLingering) {
    deadline_ = std::min(deadline_, login_due_);
  }
}

ConnectionState::Action ConnectionState::on_input(std::string_view bytes, SteadyTime now) {
  now_ = now;
  return phase_ == Phase::kLingering ? discard(bytes) : answer_input(bytes);
}

ConnectionState::Action ConnectionState::answer_input(std::string_view bytes) {
  if (shared_.handlers.waits() || !pending_.empty()) {
    pending_.append(bytes);
    return answer_pending();
  }
  const SteadyTime begun = std::max(now_, shared_.answered);
  const std::size_t done = answer_all(bytes, shared_.handlers.only(), begun);
  if (done < bytes.size()) pending_.assign(bytes.substr(done));
  return is_next_apart_ ? answer_apart() : Action::kSend;
}

ConnectionState::Action ConnectionState::answer_pending() {
  if (!shared_.handlers.waits()) {
    const SteadyTime begun = std::max(now_, shared_.answered);
    done_ = answer_all(pending_, shared_.handlers.only(), begun);
    if (is_next_apart_) {
      drop_answered();
      return answer_apart();
    }
  } else {
    enter(Phase::kAnswering);
    if (!shared_.handlers.submit(*this)) return Action::kWait;
    phase_ = Phase::kIdle;
  }
  drop_answered();
  return Action::kSend;
}

// The buffer with the replies so far belongs to all connections.
ConnectionState::Action ConnectionState::answer_apart() {
  is_next_apart_ = false;
  TextBuffer& shared = shared_.handlers.only().output;
  unsent_.append(shared.view());
  shared.clear();
  enter(Phase::kAnswering);
  if (!shared_.apart->submit(*this)) return Action::kWait;
  phase_ = Phase::kIdle;
  drop_answered();
  return Action::kSend;
}

void ConnectionState::work(Handler& handler) {
  done_ = answer_all(pending_, handler, shared_.clock.now());
  unsent_.append(handler.output.view());
  handler.output.clear();
}

void ConnectionState::resume() {
  now_ = shared_.answered;
  phase_ = Phase::kIdle;
  drop_answered();
  act_(Action::kSend);
}

void ConnectionState::drop_answered() {
  pending_.erase(0, done_);
  if (pending_.empty()) release(pending_);
}

// Answers the requests of `input` that are complete, until too many replies wait. Returns how many
// bytes they took.
std::size_t ConnectionState::answer_all(std::string_view input, Handler& handler,
                                        SteadyTime begun) {
  std::size_t done = 0;
  std::size_t requests = 0;
  paused_ = false;
  while (done < input.size() && !closing_) {
    paused_ = handler.output.size() + unsent_.size() >= net::kMostWaiting;
    if (paused_ || !answer_next(input.substr(done), handler)) break;
    if (closing_ && !client_.leaves) break;
    done += reader_.size();
    if (!handler.request.empty()) {
      ++requests;
      closing_ |= ++requests_ == shared_.bounds.requests_per_connection;
    }
    reader_.next();
  }
  if (done > 0) has_answered_ = true;
  shared_.answered = shared_.clock.now();
  shared_.recorder.observe_many(metrics::FrontEnd::kResp, requests, shared_.answered - begun);
  return closing_ ? input.size() : done;
}

// Returns false if the next request is not complete.
bool ConnectionState::answer_next(std::string_view input, Handler& handler) {
  const auto progress = reader_.read(input, client_.role != Role::kNobody);
  if (progress == RequestReader::Progress::kMore) return false;
  if (progress == RequestReader::Progress::kBad) {
    Reply(handler.output, client_.protocol).error("ERR " + reader_.why());
    refuse();
    return true;
  }
  reader_.arguments(input, handler.request);
  if (handler.request.empty()) return true;
  if (is_http(handler.request[0])) {
    refuse();
    return true;
  }
  if (phase_ != Phase::kAnswering && shared_.apart != nullptr && handler.waits()) {
    reader_.next();  // the other handler reads it again
    is_next_apart_ = true;
    return false;
  }
  handler.answer(client_);
  closing_ = client_.leaves;
  return true;
}

void ConnectionState::refuse() noexcept {
  shared_.recorder.add(metrics::Event::kBadRequest);
  closing_ = true;
}

std::string_view ConnectionState::output() const noexcept {
  if (shared_.handlers.waits() || !unsent_.empty()) return unsent_;
  return shared_.handlers.only().output.view();
}

ConnectionState::Action ConnectionState::on_sent(std::size_t size, bool broken) {
  const bool all = size == output().size();
  if (!shared_.handlers.waits() && unsent_.empty()) {
    TextBuffer& fresh = shared_.handlers.only().output;
    if (!all) unsent_.assign(fresh.view().substr(size));
    if (fresh.size() > kMostOutputKept) fresh = TextBuffer();
    fresh.clear();
  } else {
    unsent_.erase(0, size);
    if (unsent_.empty()) release(unsent_);
  }
  if (broken) return Action::kClose;
  if (all) return settle();
  if (size > 0 || phase_ != Phase::kSending) enter(Phase::kSending);
  return Action::kWaitToSend;
}

ConnectionState::Action ConnectionState::on_room(SteadyTime now) {
  now_ = now;
  return Action::kSend;
}

// Chooses the next action after everything is sent.
ConnectionState::Action ConnectionState::settle() {
  if (closing_) return linger();
  if (paused_) return answer_pending();
  const bool answered = std::exchange(has_answered_, false);
  if (shared_.draining && answered) return linger();
  if (answered) request_due_ = SteadyTime::max();
  enter(pending_.empty() ? Phase::kIdle : Phase::kRequest);
  return Action::kReceive;
}

// Ends the stream, and reads until the client has ended it too: otherwise the kernel would answer
// further input by a reset, which may overtake the reply.
ConnectionState::Action ConnectionState::linger() {
  release(pending_);
  enter(Phase::kLingering);
  return Action::kHalfClose;
}

ConnectionState::Action ConnectionState::on_expired(SteadyTime) {
  if (phase_ == Phase::kSending || phase_ == Phase::kRequest) {
    shared_.recorder.add(metrics::Event::kTimedOut);
  }
  return Action::kClose;
}

void ConnectionState::on_drain(SteadyTime now) {
  if (phase_ == Phase::kIdle) end_soon(now);
}

}  // namespace sluice::server::resp
