#include "server/protocol/http/connection_state.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "server/protocol/http/problem.h"
#include "server/protocol/http/response_writer.h"

namespace sluice::server::http {
namespace {

using net::SteadyTime;

// When this many bytes of responses wait, later requests are not answered.
constexpr std::size_t kMostWaiting = std::size_t{64} << 10;
// Larger buffers are released when they are empty.
constexpr std::size_t kMostKept = std::size_t{16} << 10;
// After the last response the connection reads and discards input for this long and this much, so
// that the client sees the response and not a reset.
constexpr auto kLingerTime = std::chrono::seconds(2);
constexpr std::size_t kLingerBytes = std::size_t{16} << 20;
// How long an idle connection stays open while the server drains.
constexpr auto kDrainIdle = std::chrono::seconds(1);

// Gives memory back that is not used any more.
void release(std::string& text) {
  if (text.capacity() > kMostKept && text.size() <= text.capacity() / 2) text.shrink_to_fit();
}

}  // namespace

void SharedState::tick() {
  const std::time_t now = clock.date();
  if (now == date_second_) return;
  date_second_ = now;
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  date.assign(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts));
}

ConnectionState::ConnectionState(std::string peer, SharedState& shared, Owner& owner,
                                 SteadyTime now, Role certificate_role)
    : shared_(shared),
      owner_(owner),
      peer_(std::move(peer)),
      certificate_role_(certificate_role),
      reader_({shared.bounds.header_bytes, shared.bounds.body_bytes}),
      now_(now) {
  enter(Phase::kIdle);
}

ConnectionState::~ConnectionState() {
  assert(phase_ != Phase::kAnswering);
  leave();
}

std::chrono::milliseconds ConnectionState::time_for(Phase phase) const {
  switch (phase) {
    case Phase::kIdle: return shared_.draining ? kDrainIdle : shared_.bounds.idle_timeout;
    case Phase::kHeader: return shared_.bounds.header_timeout;
    case Phase::kBody: return shared_.bounds.body_timeout;
    case Phase::kSending: return shared_.bounds.write_timeout;
    case Phase::kAnswering:
    case Phase::kReceiving:
    case Phase::kLingering: break;
  }
  return kLingerTime;
}

void ConnectionState::enter(Phase phase) {
  phase_ = phase;
  const bool has_deadline = phase != Phase::kAnswering && phase != Phase::kReceiving;
  deadline_ = has_deadline ? now_ + time_for(phase) : SteadyTime::max();
}

ConnectionState::Action ConnectionState::on_input(std::string_view bytes, SteadyTime now) {
  now_ = now;
  if (broken_) return Action::kClose;
  if (phase_ == Phase::kLingering || phase_ == Phase::kReceiving) {
    lingered_ += bytes.size();
    return lingered_ > kLingerBytes ? Action::kClose : Action::kReceive;
  }
  answer_input(bytes);
  return Action::kSend;
}

void ConnectionState::answer_input(std::string_view bytes) try {
  answered_ = now_;
  // A connection that may wait for an answer keeps the request, because the input buffer is shared.
  if (pending_.empty() && !shared_.handlers.waits()) {
    pending_.assign(bytes.substr(answer_all(bytes, 0)));
    return;
  }
  pending_.append(bytes);
  answer_pending(0);
} catch (const std::bad_alloc&) {
  fail();
}

void ConnectionState::answer_pending(std::size_t done) try {
  done_ = answer_all(pending_, done);
  if (phase_ == Phase::kAnswering) return;
  pending_.erase(0, done_);
  release(pending_);
} catch (const std::bad_alloc&) {
  fail();
}

// Without memory nothing more is answered: the next event closes. No request is being answered.
void ConnectionState::fail() noexcept {
  responses().clear();
  unsent_text_.reset();
  phase_ = Phase::kIdle;
  closing_ = broken_ = true;
  deadline_ = SteadyTime::min();
}

// Answers the complete requests after the first `done` bytes, until a request has to wait for its
// answer or too many responses wait. Returns how many bytes are done then.
std::size_t ConnectionState::answer_all(std::string_view input, std::size_t done) {
  paused_ = false;
  while (done < input.size() && !closing_) {
    paused_ = responses().size() >= kMostWaiting || unsent_text_ != nullptr;
    if (paused_ || !read_next(input.substr(done))) break;
    if (closing_) break;
    enter(Phase::kAnswering);
    if (!shared_.handlers.submit(*this)) return done;
    done += reader_.size();
    reader_.next();
    continued_ = false;
  }
  return closing_ ? input.size() : done;
}

// Returns whether the next request is complete or refused. A refused request closes the connection.
bool ConnectionState::read_next(std::string_view input) {
  const auto progress = reader_.read(input);
  if (progress == RequestReader::Progress::kBad) refuse(reader_.bad());
  if (progress != RequestReader::Progress::kMore) return true;
  if (reader_.has_header() && reader_.expects_continue() && !continued_) {
    responses().append("HTTP/1.1 100 Continue\r\n\r\n");
    continued_ = true;
  }
  return false;
}

void ConnectionState::work(Worker& worker) {
  worker.request = reader_.request();
  worker.request.peer = peer_;
  worker.request.certificate_role = certificate_role_;
  worker_ = &worker;
  try {
    worker.handler->handle(worker.request, worker.response);
  } catch (const std::bad_alloc&) {
    worker.response.clear();
    worker.response.status = 503;
    closing_ = true;
  }
  worker_ = nullptr;
}

bool ConnectionState::finish(Worker& worker) try {
  const Request& request = worker.request;
  const std::size_t most = shared_.bounds.requests_per_connection;
  const bool is_head = request.method == "HEAD";
  broadcast_ = is_head ? nullptr : worker.response.broadcast;
  if (broadcast_ != nullptr) broadcast_->add(*this);
  closing_ = closing_ || !request.keep_alive || shared_.draining || ++requests_ == most ||
             worker.response.broadcast != nullptr;
  const bool apart = worker.response.body.size() >= kMostWaiting && !is_head;
  if (apart) unsent_text_ = std::move(worker.response.shared_text);
  append_response(responses(), worker.response,
                  {request.version, !is_head && unsent_text_ == nullptr, !closing_, shared_.date});
  phase_ = Phase::kIdle;  // the time of the next phase starts now
  const SteadyTime before = std::exchange(answered_, shared_.clock.now());
  worker.handler->finished(request, worker.response, answered_ - before);
  return true;
} catch (const std::bad_alloc&) {
  fail();
  return true;
}

// Continues after a request that had to wait is answered.
void ConnectionState::resume() {
  now_ = answered_;
  if (broken_) return owner_.act(Action::kClose);
  const std::size_t done = done_ + reader_.size();
  reader_.next();
  continued_ = false;
  answer_pending(done);
  owner_.act(Action::kSend);
}

void ConnectionState::refuse(const BadRequest& why) {
  Response& response = shared_.refusal;
  response.clear();
  answer_problem(response, {why.status, why.detail});
  append_response(responses(), response, {.keep_alive = false, .date = shared_.date});
  shared_.recorder.add(why.status == 408 ? metrics::Event::kTimedOut : metrics::Event::kBadRequest);
  closing_ = true;
}

std::string_view ConnectionState::output() {
  if (unsent_text_ != nullptr && unsent_.empty() && shared_.output.empty()) {
    return std::string_view(*unsent_text_).substr(text_sent_);
  }
  if (unsent_.empty()) return shared_.output;
  unsent_.append(shared_.output);
  shared_.output.clear();
  return unsent_;
}

ConnectionState::Action ConnectionState::on_sent(std::size_t size, bool broken) {
  const Action next = take_sent(size, broken);
  if (next != Action::kSend) count_kept();
  return next;
}

ConnectionState::Action ConnectionState::take_sent(std::size_t size, bool broken) {
  const std::string_view out = output();
  const bool all = size == out.size();
  if (unsent_text_ != nullptr && unsent_.empty() && shared_.output.empty()) {
    text_sent_ += size;
    if (all) unsent_text_.reset();
  } else if (unsent_.empty()) {
    if (!all) unsent_.assign(out.substr(size));
    shared_.output.clear();
    text_sent_ = 0;
  } else {
    unsent_.erase(0, size);
    release(unsent_);
    text_sent_ = 0;
  }
  broken_ = broken_ || broken;
  if (phase_ == Phase::kAnswering) return Action::kWait;
  if (broken_) return Action::kClose;
  // What comes next is kept from now on.
  if (all && size > 0) shared_.kept.set(*this, 0, nullptr, now_);
  if (all) return unsent_text_ != nullptr ? Action::kSend : settle();
  // What a broadcast sends must be taken in time as a whole.
  const bool moves = size > 0 && broadcast_ == nullptr;
  if (moves || phase_ != Phase::kSending) enter(Phase::kSending);
  return Action::kWaitToSend;
}

ConnectionState::Action ConnectionState::on_room(SteadyTime now) {
  now_ = now;
  return broken_ ? Action::kClose : Action::kSend;
}

// Buffers that are empty are small.
void ConnectionState::count_kept() try {
  const auto bytes = [](const std::string& text) { return text.empty() ? 0 : text.capacity(); };
  shared_.kept.set(*this, bytes(pending_) + bytes(unsent_), unsent_text_, now_);
} catch (const std::bad_alloc&) {
  if (phase_ != Phase::kAnswering) fail();
}

// A request that waits is denied, and its client reads that. Otherwise the next event closes.
void ConnectionState::drop_kept() noexcept {
  shared_.recorder.add(metrics::Event::kTimedOut);
  if (phase_ == Phase::kAnswering) {
    if (worker_ != nullptr) worker_->handler->stop_waiting();
    return;
  }
  pending_ = std::string();
  unsent_ = std::string();
  unsent_text_.reset();
  broken_ = true;
  deadline_ = SteadyTime::min();
}

// Chooses the next action after everything is sent.
ConnectionState::Action ConnectionState::settle() {
  if (broadcast_ != nullptr) {
    enter(Phase::kReceiving);
    return Action::kReceive;
  }
  if (closing_) return linger();
  if (paused_) {
    answer_input({});
    return Action::kSend;
  }
  // Empty lines before a request are a part of it.
  const Phase next = pending_.empty()       ? Phase::kIdle
                     : reader_.has_header() ? Phase::kBody
                                            : Phase::kHeader;
  // The time of a phase starts with the phase.
  if (next == Phase::kIdle || next != phase_) enter(next);
  return Action::kReceive;
}

// Ends the stream, and reads until the client has ended it too: otherwise the kernel would answer
// further input by a reset, which may overtake the response.
ConnectionState::Action ConnectionState::linger() {
  enter(Phase::kLingering);
  return Action::kHalfClose;
}

ConnectionState::Action ConnectionState::on_expired(SteadyTime now) {
  now_ = now;
  if (broken_) return Action::kClose;
  if (phase_ != Phase::kHeader && phase_ != Phase::kBody) {
    if (phase_ == Phase::kSending) shared_.recorder.add(metrics::Event::kTimedOut);
    return Action::kClose;
  }
  refuse({408, phase_ == Phase::kHeader ? "the header of the request did not arrive in time"
                                        : "the body of the request did not arrive in time"});
  return Action::kSend;
}

void ConnectionState::receive(std::string_view bytes) {
  if (phase_ != Phase::kReceiving) return;  // the previous bytes are not sent yet
  now_ = shared_.clock.now();
  try {
    responses().append(bytes);
  } catch (const std::bad_alloc&) {
    fail();
  }
  owner_.act(Action::kSend);
}

void ConnectionState::end() {
  broadcast_ = nullptr;
  now_ = shared_.clock.now();
  if (phase_ == Phase::kReceiving) owner_.act(linger());
}

void ConnectionState::leave() noexcept {
  if (broadcast_ != nullptr) std::exchange(broadcast_, nullptr)->remove(*this);
  shared_.kept.set(*this, 0, nullptr, now_);
}

void ConnectionState::on_drain(SteadyTime now) {
  if (phase_ == Phase::kIdle) deadline_ = std::min(deadline_, now + kDrainIdle);
}

}  // namespace sluice::server::http
