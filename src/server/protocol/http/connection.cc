#include "server/protocol/http/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cassert>
#include <utility>

#include "server/protocol/http/problem.h"
#include "server/protocol/http/response_writer.h"

namespace sluice::server::http {
namespace {

using boost::system::error_code;
using std::chrono::steady_clock;

// Answers that wait to be sent before the requests behind them are looked at.
constexpr std::size_t kMostWaiting = std::size_t{64} << 10;
// A buffer that has grown past this is given back when it is empty.
constexpr std::size_t kMostKept = std::size_t{16} << 10;
// After a refusal: how long, and how much, is read and thrown away, so that the client sees the
// answer and not a reset.
constexpr auto kLingerTime = std::chrono::seconds(2);
constexpr std::size_t kLingerBytes = std::size_t{16} << 20;
// An idle connection is left open for so long while the server drains.
constexpr auto kDrainIdle = std::chrono::seconds(1);

bool would_block(const error_code& why) { return why == boost::asio::error::would_block; }

void release(std::string& text) {
  text.clear();
  if (text.capacity() > kMostKept) text.shrink_to_fit();
}

}  // namespace

Connection::Connection(Socket socket, std::string peer, Shared& shared, Owner& owner)
    : socket_(std::move(socket)),
      peer_(std::move(peer)),
      shared_(shared),
      owner_(owner),
      reader_({shared.bounds.header_bytes, shared.bounds.body_bytes}) {}

Connection::~Connection() { assert(phase_ != Phase::kDeciding); }

void Connection::start(SteadyTime now) {
  now_ = now;
  socket_.non_blocking(true);
  enter(Phase::kIdle);
  wait_for_input();
}

void Connection::enter(Phase phase) {
  phase_ = phase;
  if (phase == Phase::kDeciding) {
    deadline_ = SteadyTime::max();
    return;
  }
  const auto time = [&]() -> std::chrono::milliseconds {
    switch (phase) {
      case Phase::kIdle: return shared_.draining ? kDrainIdle : shared_.bounds.idle_timeout;
      case Phase::kHeader: return shared_.bounds.header_timeout;
      case Phase::kBody: return shared_.bounds.body_timeout;
      case Phase::kWriting: return shared_.bounds.write_timeout;
      case Phase::kDeciding:
      case Phase::kLingering: break;
    }
    return kLingerTime;
  }();
  deadline_ = now_ + time;
}

// What the connection is at, after what was read: a phase's time runs from its beginning.
void Connection::settle_phase() {
  const Phase next = !reader_.started()     ? Phase::kIdle
                     : reader_.has_header() ? Phase::kBody
                                            : Phase::kHeader;
  if (next == Phase::kIdle || next != phase_) enter(next);
}

void Connection::wait_for_input() {
  socket_.async_wait(Socket::wait_read, [this](const error_code& why) {
    now_ = steady_clock::now();
    if (expired_) return expire();
    if (why) return close();
    on_input();
  });
}

void Connection::on_input() {
  error_code why;
  const std::size_t size = socket_.read_some(boost::asio::buffer(shared_.input), why);
  if (would_block(why)) return wait_for_input();
  if (why) return close();
  if (phase_ == Phase::kLingering) {
    lingered_ += size;
    return lingered_ > kLingerBytes ? close() : wait_for_input();
  }
  take({shared_.input.data(), size});
  proceed();
}

void Connection::take(std::string_view bytes) {
  handled_ = now_;
  // Whoever may wait for an answer keeps the request itself, as the loop's buffer goes to others.
  if (pending_.empty() && shared_.behind.workers() == nullptr) {
    pending_.assign(bytes.substr(answer_all(bytes, 0)));
    return;
  }
  pending_.append(bytes);
  answer_pending(0);
}

void Connection::answer_pending(std::size_t done) {
  done_ = answer_all(pending_, done);
  if (phase_ == Phase::kDeciding) return;
  pending_.erase(0, done_);
  if (pending_.empty()) release(pending_);
}

// Answers the requests after the first `done` bytes that are whole, until one has to wait for its
// answer or enough answers wait to be sent. How many bytes are done then.
std::size_t Connection::answer_all(std::string_view input, std::size_t done) {
  paused_ = false;
  while (done < input.size() && !closing_) {
    paused_ = output().size() >= kMostWaiting;
    if (paused_) break;
    const auto progress = reader_.read(input.substr(done));
    if (progress == RequestReader::Progress::kBad) {
      refuse(reader_.bad());
      return input.size();
    }
    if (progress == RequestReader::Progress::kMore) {
      if (reader_.has_header() && reader_.expects_continue() && !continued_) {
        output().append("HTTP/1.1 100 Continue\r\n\r\n");
        continued_ = true;
      }
      break;
    }
    if (!answer(reader_.request())) return done;
    done += reader_.size();
    reader_.next();
    continued_ = false;
  }
  return closing_ ? input.size() : done;
}

// False where the answer has to be waited for: go_on() follows.
bool Connection::answer(Request request) {
  request.peer = peer_;
  if (Workers* const workers = shared_.behind.workers()) {
    enter(Phase::kDeciding);
    return workers->ask(*this, request);
  }
  Handler& handler = *shared_.behind.handler();
  shared_.response.clear();
  handler.handle(request, shared_.response);
  answered(request, shared_.response, handler);
  return true;
}

void Connection::answered(const Request& request, const Response& response, Handler& handler) {
  const std::size_t most = shared_.bounds.requests_per_connection;
  closing_ = !request.keep_alive || shared_.draining || ++requests_ == most;
  append_response(output(), response,
                  {request.version, request.method == "HEAD", !closing_, shared_.date});
  phase_ = Phase::kIdle;  // the time of what comes next begins with it
  const SteadyTime before = std::exchange(handled_, steady_clock::now());
  handler.finished(request, response, handled_ - before);
}

// The request that had to wait has its answer.
void Connection::go_on() {
  now_ = handled_;
  if (broken_) return close();
  const std::size_t done = done_ + reader_.size();
  reader_.next();
  continued_ = false;
  answer_pending(done);
  proceed();
}

void Connection::refuse(const BadRequest& why) {
  Response& response = shared_.response;
  response.clear();
  append_problem(response.text, {.status = why.status, .detail = why.detail});
  response.answer_text(why.status, kProblemType);
  append_response(output(), response, {.keep_alive = false, .date = shared_.date});
  shared_.recorder.add(why.status == 408 ? metrics::Event::kTimedOut : metrics::Event::kBadRequest);
  closing_ = true;
}

// Sends the answers, and goes on with requests that waited until these were sent.
void Connection::proceed() {
  for (;;) {
    const error_code why = flush();
    if (phase_ == Phase::kDeciding) {
      broken_ = why && !would_block(why);
      return;
    }
    if (would_block(why)) return wait_for_room();
    if (why) return close();
    if (closing_) return linger();
    if (!paused_) break;
    take({});
  }
  settle_phase();
  wait_for_input();
}

// Sends what it can of the answers, those that waited first.
error_code Connection::flush() {
  std::string& fresh = shared_.output;
  if (!unsent_.empty()) unsent_.append(fresh);
  std::string& out = unsent_.empty() ? fresh : unsent_;
  std::size_t sent = 0;
  error_code why;
  while (sent < out.size() && !why) {
    sent += socket_.write_some(boost::asio::buffer(out.data() + sent, out.size() - sent), why);
  }
  if (&out == &fresh && sent < out.size()) {
    unsent_.assign(out, sent);
  } else if (&out == &unsent_) {
    unsent_.erase(0, sent);
    if (unsent_.empty()) release(unsent_);
  }
  fresh.clear();
  const bool deciding = phase_ == Phase::kDeciding;
  if (why && !deciding && (sent > 0 || phase_ != Phase::kWriting)) enter(Phase::kWriting);
  return why;
}

void Connection::wait_for_room() {
  socket_.async_wait(Socket::wait_write, [this](const error_code& why) {
    now_ = steady_clock::now();
    if (expired_) return expire();
    if (why) return close();
    proceed();
  });
}

// Half closes, and reads until the client has closed too: else what it still sends would be
// answered by a reset, which may overtake the answer.
void Connection::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  enter(Phase::kLingering);
  wait_for_input();
}

void Connection::tick(SteadyTime now) {
  if (now < deadline_ || expired_) return;
  expired_ = true;
  socket_.cancel();  // goes on in expire()
}

void Connection::drain(SteadyTime now) {
  if (phase_ == Phase::kIdle) deadline_ = std::min(deadline_, now + kDrainIdle);
}

void Connection::expire() {
  expired_ = false;
  if (phase_ != Phase::kHeader && phase_ != Phase::kBody) {
    if (phase_ == Phase::kWriting) shared_.recorder.add(metrics::Event::kTimedOut);
    return close();
  }
  refuse({408, phase_ == Phase::kHeader ? "the header of the request did not arrive in time"
                                        : "the body of the request did not arrive in time"});
  proceed();
}

void Connection::close() {
  owner_.closed(*this);  // destroys it
}

}  // namespace sluice::server::http
