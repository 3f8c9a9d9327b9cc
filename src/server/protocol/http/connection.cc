// HTTP/1.1 on one connection. The state of the connection turns bytes into requests and answers
// into bytes without I/O: it keeps the order of pipelined requests, counts what clients have not
// read (KeptBytes), and says what the connection waits for next. net::Connection adds the socket.

#include "server/protocol/http/connection.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/status.hpp>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <ostream>  // Beast does not include it
#include <utility>

#include "base/quoted.h"
#include "server/protocol/http/fields.h"

namespace sluice::server::http {

void KeptBytes::set(Holder& holder, std::size_t bytes,
                    const std::shared_ptr<const std::string>& text, net::SteadyTime now) {
  if (bytes == 0 && text == nullptr) {
    if (holder.is_listed_) forget(holder);
    return;
  }
  if (!holder.is_listed_) {
    holders_.push_back(&holder);
    holder.is_listed_ = true;
    holder.place_ = holders_.size() - 1;
    holder.since_ = now;
  }
  total_ += bytes;
  total_ -= holder.bytes_;
  holder.bytes_ = bytes;
  if (text != holder.text_) {
    release_text(holder);
    if (text != nullptr && ++texts_[text.get()] == 1) total_ += text->size();
    holder.text_ = text;
  }
  while (total_ > most_ && holders_.size() > 1) drop(now);
}

void KeptBytes::release_text(Holder& holder) noexcept {
  if (holder.text_ == nullptr) return;
  const auto found = texts_.find(holder.text_.get());
  if (--found->second == 0) {
    total_ -= holder.text_->size();
    texts_.erase(found);
  }
  holder.text_.reset();
}

void KeptBytes::forget(Holder& holder) noexcept {
  release_text(holder);
  total_ -= holder.bytes_;
  holder.bytes_ = 0;
  holders_[holder.place_] = holders_.back();
  holders_[holder.place_]->place_ = holder.place_;
  holders_.pop_back();
  holder.is_listed_ = false;
}

void KeptBytes::drop(net::SteadyTime now) {
  const auto costs = [now](const Holder* holder) {
    const std::size_t bytes = holder->bytes_ + (holder->text_ ? holder->text_->size() : 0);
    const auto since = std::min(holder->since_, now);  // a holder may have read the clock earlier
    const auto time = std::chrono::floor<std::chrono::milliseconds>(now - since).count();
    return std::uint64_t{bytes} * static_cast<std::uint64_t>(time + 1);
  };
  Holder& dearest =
      **std::max_element(holders_.begin(), holders_.end(),
                         [&](const Holder* a, const Holder* b) { return costs(a) < costs(b); });
  forget(dearest);
  dearest.drop_kept();
}

namespace {

namespace beast_http = boost::beast::http;
using beast_http::error;
using boost::beast::error_code;
using boost::beast::string_view;

std::string_view view(string_view text) noexcept { return {text.data(), text.size()}; }

// Moves a part of one message to its place in another one with the same bytes.
void move(std::string_view& part, const char* from, const char* to) noexcept {
  if (!part.empty()) part = {to + (part.data() - from), part.size()};
}

// `line`: the first line of the request, which is not read yet, and what follows.
Problem bad_request(const error_code& why, std::string_view line = {}) {
  switch (static_cast<error>(why.value())) {
    case error::header_limit: return {431, "the header of the request is too long"};
    case error::body_limit: return {413, "the body of the request is too long"};
    case error::bad_version:
      line = line.substr(0, line.find('\n'));
      if (line.ends_with("HTTP/1.1") || line.ends_with("HTTP/1.0")) {
        return {400, "the first line ends with LF; expected CR LF"};
      }
      return {505, "expected HTTP/1.1 or HTTP/1.0"};
    case error::bad_method: return {400, "the method is not a token"};
    case error::bad_target: return {400, "the target of the request contains an invalid byte"};
    case error::bad_field: return {400, "the name of a field is not a token"};
    case error::bad_value: return {400, "the value of a field is not valid"};
    case error::bad_content_length:
      return {400, "Content-Length is not a number, or is combined with Transfer-Encoding"};
    case error::multiple_content_length: return {400, "several Content-Length fields differ"};
    case error::bad_transfer_encoding:
      return {400, "Transfer-Encoding is repeated, or is combined with Content-Length"};
    case error::bad_chunk:
    case error::bad_chunk_extension: return {400, "a chunk of the body is not valid"};
    default: return {400, "this is not HTTP/1.1"};
  }
}

constexpr std::size_t kLastChunkBytes = 5;
// The most bytes of chunk headers and trailers. More count as an attack.
constexpr std::size_t kMostChunkBytes = std::size_t{64} << 10;

}  // namespace

// Beast's parser of one message. It records in the reader what it finds.
class RequestReader::Parser final : public beast_http::basic_parser<true> {
 public:
  explicit Parser(RequestReader& reader) : reader_(reader) {
    eager(true);
    header_limit(static_cast<std::uint32_t>(reader.bounds_.header_bytes));
    body_limit(reader.bounds_.body_bytes);
  }

 private:
  void refuse(int status, std::string_view detail, error_code& why) {
    reader_.bad_ = {status, detail};
    why = make_error_code(error::bad_value);
  }

  void on_request_impl(beast_http::verb, string_view method, string_view target, int version,
                       error_code&) override {
    reader_.request_.method = view(method);
    reader_.request_.target = view(target);
    reader_.request_.version = version;
  }
  void on_field_impl(beast_http::field field, string_view name, string_view value,
                     error_code& why) override {
    if (is_header_done()) return;  // a trailer field
    if (is_folded(view(name), view(value))) {
      return refuse(400, "a field is folded over several lines", why);
    }
    // Beast bounds the first line and the fields separately.
    const auto end = static_cast<std::size_t>(value.data() + value.size() - message().data());
    if (end > reader_.bounds_.header_bytes) {
      why = make_error_code(error::header_limit);
      return;
    }
    check_field(field, view(value), why);
    reader_.fields_.push_back({view(name), view(value)});
  }
  // Beast joins the lines of a value elsewhere, but only if there is text on the first one.
  bool is_folded(std::string_view name, std::string_view value) const noexcept {
    const std::string_view whole = message();
    if (value.data() < whole.data() || value.data() > whole.data() + whole.size()) return true;
    const char* const name_end = name.data() + name.size();
    return std::find(name_end, value.data(), '\n') != value.data();
  }
  void check_field(beast_http::field field, std::string_view value, error_code& why) {
    if (field == beast_http::field::host) {
      if (has_host_) return refuse(400, "the field Host is repeated", why);
      has_host_ = true;
    } else if (field == beast_http::field::transfer_encoding) {
      if (reader_.request_.version < 11) return refuse(400, "Transfer-Encoding in HTTP/1.0", why);
      if (!is_same_name(value, "chunked"))
        return refuse(501, "the only Transfer-Encoding here is chunked", why);
    } else if (field == beast_http::field::expect) {
      if (!is_same_name(value, "100-continue"))
        return refuse(417, "the only Expect here is 100-continue", why);
      reader_.expects_ = reader_.request_.version == 11;
    }
  }
  void on_header_impl(error_code& why) override {
    if (reader_.request_.version == 11 && !has_host_) refuse(400, "the field Host is missing", why);
  }
  std::size_t on_body_impl(string_view body, error_code&) override {
    std::string_view& whole = reader_.request_.body;
    whole = {whole.empty() ? body.data() : whole.data(), whole.size() + body.size()};
    return body.size();
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    reader_.chunks_.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  std::string_view message() const noexcept { return reader_.message_; }

  RequestReader& reader_;
  bool has_host_ = false;
};

RequestReader::RequestReader(const Bounds& bounds)
    : bounds_(bounds), parser_(std::make_unique<Parser>(*this)) {}
RequestReader::~RequestReader() = default;

void RequestReader::next() {
  message_ = {};
  at_ = 0;
  fields_.clear();
  chunks_.clear();
  request_ = {};
  expects_ = false;
  bad_ = {};
  std::destroy_at(parser_.get());  // a parser reads one message
  std::construct_at(parser_.get(), *this);
}

// The bytes may have moved. The previous ones may not exist any more.
void RequestReader::follow(std::string_view message) noexcept {
  const char* const from = std::exchange(message_, message).data();
  const char* const to = message.data();
  if (from == to) return;
  move(request_.method, from, to);
  move(request_.target, from, to);
  move(request_.body, from, to);
  for (Field& field : fields_) {
    move(field.name, from, to);
    move(field.value, from, to);
  }
}

RequestReader::Progress RequestReader::refuse(const Problem& why) {
  bad_ = why;
  return Progress::kBad;
}

RequestReader::Progress RequestReader::read(std::string_view message) {
  follow(message);
  // Empty lines before a request are skipped (RFC 9112, 2.2); they count as a part of it.
  while (at_ + 1 < message.size() && !parser_->got_some() && message[at_] == '\r' &&
         message[at_ + 1] == '\n') {
    at_ += 2;
  }
  const std::string_view rest = message.substr(at_);
  if (rest.empty() || (rest == "\r" && !parser_->got_some())) return more();
  // Beast asserts that it gets the last chunk, "0\r\n\r\n" or longer, in one piece. Every chunked
  // body ends with it, so that many bytes always arrive.
  const bool is_chunked = parser_->is_header_done() && parser_->chunked();
  if (is_chunked && rest.size() < kLastChunkBytes) return more();
  error_code why;
  at_ += parser_->put({rest.data(), rest.size()}, why);
  if (why == error::need_more) return more();
  if (why) return bad_.detail.empty() ? refuse(bad_request(why, rest)) : Progress::kBad;
  if (!parser_->is_done()) return more();
  request_.keep_alive = parser_->keep_alive();
  request_.fields = fields_;
  if (parser_->chunked()) request_.body = chunks_;
  return Progress::kReady;
}

// The parser bounds only its unparsed input. This bounds the whole message.
RequestReader::Progress RequestReader::more() {
  const std::size_t size = message_.size();
  if (!has_header()) {
    return size >= bounds_.header_bytes ? refuse(bad_request(error::header_limit))
                                        : Progress::kMore;
  }
  const bool too_long = size - at_ > bounds_.header_bytes ||
                        size > bounds_.header_bytes + 2 * bounds_.body_bytes + kMostChunkBytes;
  if (parser_->chunked() && too_long) return refuse({413, "the chunks of the body are too small"});
  return Progress::kMore;
}

bool RequestReader::has_header() const noexcept { return parser_->is_header_done(); }

namespace {

using namespace std::string_view_literals;

// Appends the beginning of a response up to its date. The usual one is one piece.
void append_status(std::string& out, int status) {
  if (status == 200) {
    out.append("HTTP/1.1 200 OK\r\nDate: "sv);
    return;
  }
  base::append_number(out.append("HTTP/1.1 "sv), static_cast<std::size_t>(status));
  out.append(" "sv).append(reason_phrase(status)).append("\r\nDate: "sv);
}

void append_length(std::string& out, std::size_t length) {
  constexpr std::string_view kName = "\r\nContent-Length: ";
  char line[kName.size() + 20 + 2];
  kName.copy(line, kName.size());
  char* end = base::write_number(line + kName.size(), length);
  *end++ = '\r';
  *end++ = '\n';
  out.append(line, end);
}

}  // namespace

void append_head(std::string& out, const Response& response, std::string_view date, bool keep_alive,
                 int version) {
  append_status(out, response.status);
  out.append(date);
  if (!response.content_type.empty()) {
    out.append("\r\nContent-Type: "sv).append(response.content_type);
  }
  if (response.broadcast == nullptr) {
    append_length(out, response.body.size());
  } else {
    out.append("\r\n"sv);
  }
  if (!keep_alive) {
    out.append("Connection: close\r\n"sv);
  } else if (version < 11) {
    out.append("Connection: keep-alive\r\n"sv);
  }
  out.append(response.fields).append("\r\n"sv);
}

namespace {

using net::SteadyTime;

// Larger buffers are released when they are empty.
constexpr std::size_t kMostKept = std::size_t{16} << 10;

// Gives memory back that is not used any more.
void release(std::string& text) {
  if (text.capacity() > kMostKept && text.size() <= text.capacity() / 2) text.shrink_to_fit();
}

}  // namespace

void SharedState::tick() {
  const std::time_t now = clock.date();
  if (now == date_second) return;
  date_second = now;
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  date.assign(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts));
}

ConnectionState::ConnectionState(Peer peer, SharedState& shared, net::Act act, SteadyTime now)
    : StreamState(std::move(act), now),
      shared_(shared),
      peer_(std::move(peer)),
      reader_(shared.bounds) {
  enter(Phase::kIdle);
}

ConnectionState::~ConnectionState() {
  assert(phase_ != Phase::kAnswering);
  leave();
}

std::chrono::milliseconds ConnectionState::time_for(Phase phase) const {
  switch (phase) {
    case Phase::kIdle: return shared_.draining ? net::kDrainIdle : shared_.bounds.idle_timeout;
    case Phase::kHeader: return shared_.bounds.header_timeout;
    case Phase::kBody: return shared_.bounds.body_timeout;
    case Phase::kSending: return shared_.bounds.write_timeout;
    case Phase::kAnswering:
    case Phase::kReceiving:
    case Phase::kLingering: break;
  }
  return net::kLingerTime;
}

void ConnectionState::enter(Phase phase) {
  phase_ = phase;
  const bool has_deadline = phase != Phase::kAnswering && phase != Phase::kReceiving;
  deadline_ = has_deadline ? now_ + time_for(phase) : SteadyTime::max();
}

ConnectionState::Action ConnectionState::on_input(std::string_view bytes, SteadyTime now) {
  now_ = now;
  if (broken_) return Action::kClose;
  if (phase_ == Phase::kLingering || phase_ == Phase::kReceiving) return discard(bytes);
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
    paused_ = responses().size() >= net::kMostWaiting || unsent_text_ != nullptr;
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

void ConnectionState::work(Handler& handler) {
  Request& request = reader_.request();
  request.peer = peer_.address;
  request.certificate_role = peer_.certificate_role;
  request.descriptor = peer_.descriptor;
  handler_ = &handler;
  try {
    handler.handle(request, handler.response);
  } catch (const std::bad_alloc&) {
    handler.response.clear();
    handler.response.status = 503;
    closing_ = true;
  }
  handler_ = nullptr;
}

bool ConnectionState::finish(Handler& handler) try {
  const Request& request = reader_.request();
  const std::size_t most = shared_.bounds.requests_per_connection;
  const bool is_head = request.method == "HEAD";
  broadcast_ = is_head ? nullptr : handler.response.broadcast;
  if (broadcast_ != nullptr) broadcast_->add(*this);
  closing_ = closing_ || !request.keep_alive || shared_.draining || ++requests_ == most ||
             handler.response.broadcast != nullptr || handler.response.closes;
  const bool apart = handler.response.body.size() >= net::kMostWaiting && !is_head;
  if (apart) unsent_text_ = std::move(handler.response.shared_text);
  append_head(responses(), handler.response, shared_.date, !closing_, request.version);
  if (!is_head && unsent_text_ == nullptr) responses().append(handler.response.body);
  phase_ = Phase::kIdle;  // the time of the next phase starts now
  shared_.answered = shared_.clock.now();
  const SteadyTime before = std::exchange(answered_, shared_.answered);
  handler.finished(request, handler.response, answered_ - before);
  return true;
} catch (const std::bad_alloc&) {
  fail();
  return true;
}

// Continues after a request that had to wait is answered.
void ConnectionState::resume() {
  now_ = answered_;
  if (broken_) return act_(Action::kClose);
  const std::size_t done = done_ + reader_.size();
  reader_.next();
  continued_ = false;
  answer_pending(done);
  act_(Action::kSend);
}

void ConnectionState::refuse(const Problem& why) {
  Response& response = shared_.refusal;
  response.clear();
  answer_problem(response, why);
  append_head(responses(), response, shared_.date, false);
  responses().append(response.body);
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

// A request that waits for units is denied, and its client reads that; a worker needs its bytes
// until then. A request that waits for a worker closes when its turn comes. Otherwise the next
// event closes.
void ConnectionState::drop_kept() noexcept {
  shared_.recorder.add(metrics::Event::kTimedOut);
  if (handler_ != nullptr) return handler_->stop_waiting();
  pending_ = std::string();
  unsent_ = std::string();
  unsent_text_.reset();
  broken_ = true;
  if (phase_ != Phase::kAnswering) deadline_ = SteadyTime::min();
}

void ConnectionState::dropped() {
  phase_ = Phase::kIdle;
  act_(Action::kClose);
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
  act_(Action::kSend);
}

void ConnectionState::end() {
  broadcast_ = nullptr;
  now_ = shared_.clock.now();
  if (phase_ == Phase::kReceiving) act_(linger());
}

void ConnectionState::leave() noexcept {
  if (broadcast_ != nullptr) std::exchange(broadcast_, nullptr)->remove(*this);
  shared_.kept.set(*this, 0, nullptr, now_);
}

void ConnectionState::on_drain(SteadyTime now) {
  if (phase_ == Phase::kIdle) end_soon(now);
}

}  // namespace sluice::server::http
