#include "server/api/resp/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "server/api/resp/access_line.h"

namespace sluice::server::resp {
namespace {

using std::chrono::steady_clock;

// Replies that wait to be sent before the requests behind them are looked at.
constexpr std::size_t kMostWaiting = std::size_t{64} << 10;
// A buffer that has grown past this is given back when it is empty.
constexpr std::size_t kMostKept = std::size_t{4} << 10;
constexpr std::size_t kMostOutputKept = std::size_t{256} << 10;
// After a refusal: how long, and how much, is read and thrown away, so that the client sees the
// reply and not a reset.
constexpr auto kLingerTime = std::chrono::seconds(2);
constexpr std::uint32_t kLingerBytes = std::uint32_t{16} << 20;
// An idle connection is left open for so long while the server drains.
constexpr auto kDrainIdle = std::chrono::seconds(1);

// Whether a request is a line of HTTP's: a web page has made a browser send it, and its body would
// be taken for commands. Redis hangs up at the same two.
bool is_http(std::string_view command) {
  return same_word(command, "post") || same_word(command, "host:");
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

void release(std::string& text) {
  text.clear();
  if (text.capacity() > kMostKept) text.shrink_to_fit();
}

// Sends what it can of `bytes`, and counts it in `sent`. 0, or the error that ended it.
int send_some(int descriptor, std::string_view bytes, std::size_t& sent) {
  while (sent < bytes.size()) {
    const ssize_t n =
        ::send(descriptor, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

Connection::Connection(int descriptor, resp::Client client, Shared& shared, Owner& owner)
    : shared_(shared),
      owner_(owner),
      descriptor_(descriptor),
      client_(std::move(client)),
      reader_({.frame_bytes = shared.bounds.body_bytes}) {}

Connection::~Connection() {
  assert(phase_ != Phase::kDeciding);
  shared_.poller.remove(descriptor_, *this, waits_for_);
  ::close(descriptor_);
}

bool Connection::start(SteadyTime now) {
  now_ = now;
  enter(Phase::kIdle);
  if (shared_.poller.add(descriptor_, *this)) return true;
  waits_for_ = net::Poller::For::kNothing;
  return false;
}

void Connection::enter(Phase phase) {
  phase_ = phase;
  const Bounds& bounds = shared_.bounds;
  const auto time = [&]() -> std::chrono::milliseconds {
    switch (phase) {
      case Phase::kIdle:
        if (shared_.draining) return kDrainIdle;
        if (client_.role == Role::kNobody) return bounds.header_timeout;
        return shared_.idle_timeout;
      case Phase::kRequest: return bounds.body_timeout;
      case Phase::kWriting: return bounds.write_timeout;
      case Phase::kLingering: return kLingerTime;
      case Phase::kDeciding: break;
    }
    return std::chrono::milliseconds(0);
  }();
  deadline_ = time.count() > 0 ? now_ + time : SteadyTime::max();
}

void Connection::wait_for(net::Poller::For what) {
  if (std::exchange(waits_for_, what) != what) shared_.poller.change(descriptor_, *this, what);
}

void Connection::ready() {
  now_ = shared_.poller.now();
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kRequest: return receive();
    case Phase::kWriting: return go_on();
    case Phase::kLingering: return discard();
    case Phase::kDeciding: return wait_for(net::Poller::For::kNothing);  // what comes has to wait
  }
}

void Connection::receive() {
  std::string& room = shared_.input;
  const ssize_t got = ::recv(descriptor_, room.data(), room.size(), MSG_DONTWAIT);
  if (got > 0) return take({room.data(), static_cast<std::size_t>(got)});
  if (got < 0 && (would_block(errno) || errno == EINTR)) return;
  close();
}

void Connection::take(std::string_view bytes) {
  CommandHandler* const handler = shared_.behind.handler();
  if (handler == nullptr || !pending_.empty()) {
    pending_.append(bytes);
    answer_pending();
  } else {
    const std::size_t done = answer_all(bytes, *handler, std::max(now_, shared_.handled));
    if (done < bytes.size()) pending_.assign(bytes.substr(done));
  }
  if (phase_ != Phase::kDeciding) go_on();
}

// May have to wait for the answers: then worked() follows.
void Connection::answer_pending() {
  if (CommandHandler* const handler = shared_.behind.handler()) {
    return drop_answered(answer_all(pending_, *handler, std::max(now_, shared_.handled)));
  }
  enter(Phase::kDeciding);
  if (!shared_.behind.crew()->ask(*this)) return;
  phase_ = Phase::kIdle;
  drop_answered(done_);
}

void Connection::work(CommandHandler& handler) {
  done_ = answer_all(pending_, handler, steady_clock::now());
  unsent_.append(handler.output.view());
  handler.output.clear();
}

void Connection::worked() {
  now_ = shared_.handled;
  phase_ = Phase::kIdle;
  drop_answered(done_);
  go_on();
}

void Connection::drop_answered(std::size_t done) {
  pending_.erase(0, done);
  if (pending_.empty()) release(pending_);
}

// Answers the requests that are whole, until enough replies wait to be sent. How many bytes are
// done then.
std::size_t Connection::answer_all(std::string_view input, CommandHandler& handler,
                                   SteadyTime begun) {
  std::size_t done = 0;
  std::size_t requests = 0;
  paused_ = false;
  while (done < input.size() && !closing_) {
    paused_ = handler.output.size() + unsent_.size() >= kMostWaiting;
    if (paused_) break;
    const auto rest = input.substr(done);
    const auto progress = reader_.read(rest, client_.role != Role::kNobody);
    if (progress == RequestReader::Progress::kMore) break;
    if (progress == RequestReader::Progress::kBad) {
      Reply(handler.output, client_.protocol).error("ERR " + reader_.why());
      shared_.recorder.add(metrics::Event::kBadRequest);
      closing_ = true;
      break;
    }
    reader_.arguments(rest, handler.request);
    done += reader_.size();
    if (!handler.request.empty() && is_http(handler.request[0])) {
      shared_.recorder.add(metrics::Event::kBadRequest);
      closing_ = true;
      break;
    }
    if (!handler.request.empty()) {
      answer_one(handler);
      ++requests;
      closing_ = client_.leaves;
    }
    reader_.next();
  }
  shared_.handled = steady_clock::now();
  shared_.recorder.observe_many(metrics::FrontEnd::kResp, requests, shared_.handled - begun);
  return closing_ ? input.size() : done;
}

void Connection::answer_one(CommandHandler& handler) {
  if (!shared_.log.options().access) return handler.answer(client_);
  const std::size_t begin = handler.output.size();
  const auto begun = steady_clock::now();
  handler.outcome.reset();
  handler.answer(client_);
  log_access(shared_.log, {handler.request, handler.output.view().substr(begin), handler.outcome,
                           client_, steady_clock::now() - begun});
}

// Sends the replies, and goes on with requests that waited until these were sent.
void Connection::go_on() {
  for (;;) {
    const int why = flush();
    if (would_block(why)) return wait_for(net::Poller::For::kRoom);
    if (why != 0) return close();
    if (closing_) return linger();
    if (!paused_) break;
    answer_pending();
    if (phase_ == Phase::kDeciding) return;
  }
  if (shared_.draining && pending_.empty()) return linger();
  const Phase next = pending_.empty() ? Phase::kIdle : Phase::kRequest;
  // The time of a request runs from its first byte.
  if (next == Phase::kIdle || next != phase_) enter(next);
  wait_for(net::Poller::For::kInput);
}

// Sends what it can of the replies, those that waited first. 0, or the error.
int Connection::flush() {
  std::size_t sent = 0;
  int why = 0;
  CommandHandler* const handler = shared_.behind.handler();
  if (handler != nullptr && unsent_.empty()) {
    TextBuffer& fresh = handler->output;
    const std::string_view bytes = fresh.view();
    why = send_some(descriptor_, bytes, sent);
    if (sent < bytes.size()) unsent_.assign(bytes.substr(sent));
    if (bytes.size() > kMostOutputKept) fresh = TextBuffer();
    fresh.clear();
  } else {
    if (handler != nullptr) {
      unsent_.append(handler->output.view());
      handler->output.clear();
    }
    why = send_some(descriptor_, unsent_, sent);
    unsent_.erase(0, sent);
    if (unsent_.empty()) release(unsent_);
  }
  if (why != 0 && (sent > 0 || phase_ != Phase::kWriting)) enter(Phase::kWriting);
  return why;
}

// Half closes, and reads until the client has closed too: else what it still sends would be
// answered by a reset, which may overtake the reply.
void Connection::linger() {
  ::shutdown(descriptor_, SHUT_WR);
  release(pending_);
  enter(Phase::kLingering);
  wait_for(net::Poller::For::kInput);
}

void Connection::discard() {
  std::string& room = shared_.input;
  const ssize_t got = ::recv(descriptor_, room.data(), room.size(), MSG_DONTWAIT);
  if (got < 0 && (would_block(errno) || errno == EINTR)) return;
  if (got > 0) lingered_ += static_cast<std::uint32_t>(got);
  if (got <= 0 || lingered_ > kLingerBytes) close();
}

void Connection::tick(SteadyTime now) {
  if (now < deadline_ || phase_ == Phase::kDeciding) return;
  if (phase_ == Phase::kWriting || phase_ == Phase::kRequest) {
    shared_.recorder.add(metrics::Event::kTimedOut);
  }
  close();
}

void Connection::drain(SteadyTime now) {
  if (phase_ == Phase::kIdle) deadline_ = std::min(deadline_, now + kDrainIdle);
}

}  // namespace sluice::server::resp
