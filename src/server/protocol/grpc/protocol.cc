#include "server/protocol/grpc/protocol.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace sluice::server::grpc {
namespace {

// The budget of frames that carry no work: PING, SETTINGS, unknown types, DATA of a few bytes or
// for finished calls, resets of incomplete calls. A client may send kMostFrames of them at once;
// each tick and each call replenish the budget.
constexpr int kMostFrames = 2000;
constexpr int kFramesPerTick = 125;
// DATA in smaller pieces, except for the last piece of a call, carries no work either.
constexpr std::size_t kSmallData = 64;
// Concurrent calls of all connections of a loop. Each takes memory until its reply is read.
constexpr std::size_t kMostCalls = std::size_t{64} << 10;
// The number of ticks without input after which a connection counts as idle.
constexpr int kIdleTicks = 4;
constexpr std::int32_t kStreamWindow = 256 << 10;
constexpr std::int32_t kConnectionWindow = 1 << 20;
// The cost of a header that exceeds its bound, in frames.
constexpr int kOversizeHeaderCost = 4;
constexpr std::size_t kFieldOverhead = 32;  // of each field, as HTTP/2 counts it

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::string_view kNotHttp1 =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 60\r\n"
    "Connection: close\r\n\r\n"
    "This is a gRPC listener: it speaks HTTP/2, not this version\n";

void check_memory(int result) {
  if (result == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
}

Protocol& protocol_of(void* user) { return *static_cast<Protocol*>(user); }

std::string_view view(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}
std::string_view view(nghttp2_rcbuf* buffer) {
  const nghttp2_vec bytes = nghttp2_rcbuf_get_buf(buffer);
  return view(bytes.base, bytes.len);
}

}  // namespace

// The callbacks of nghttp2.
struct Callbacks {
  static Stream* stream(nghttp2_session* session, std::int32_t id, void* user) {
    Stream*& recent = protocol_of(user).recent_;  // successive callbacks often have the same stream
    if (recent != nullptr && recent->id == id) return recent;
    auto* const found = static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
    if (found != nullptr) recent = found;
    return found;
  }

  static int begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    protocol_of(user).earn(1);
    Stream* const made = protocol_of(user).open(frame->hd.stream_id);
    if (made == nullptr) {
      return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                       NGHTTP2_REFUSED_STREAM);
    }
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, made);
  }

  static int header(nghttp2_session* session, const nghttp2_frame* frame, nghttp2_rcbuf* name,
                    nghttp2_rcbuf* value, std::uint8_t, void* user) {
    Stream* const of = stream(session, frame->hd.stream_id, user);
    if (of == nullptr) return 0;
    if (protocol_of(user).on_header(*of, view(name), view(value))) return 0;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  static bool brings_enough(const nghttp2_frame& data) {
    return data.hd.length >= kSmallData + data.data.padlen ||
           (data.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  }

  static int frame_received(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    Protocol& protocol = protocol_of(user);
    if (frame->hd.type == NGHTTP2_SETTINGS) protocol.has_preface_ = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA &&
        frame->hd.type != NGHTTP2_RST_STREAM) {
      return 0;
    }
    Stream* const of = stream(session, frame->hd.stream_id, user);
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
      if (of != nullptr && of->whole) protocol.earn(1);
      return 0;
    }
    if (of == nullptr) return 0;
    if (frame->hd.type == NGHTTP2_DATA && brings_enough(*frame)) protocol.earn(1);
    of->whole = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      protocol.opened(*of);
    }
    if (of->whole && !of->ended) protocol.on_whole(*of);
    return 0;
  }

  static int data(nghttp2_session* session, std::uint8_t, std::int32_t id,
                  const std::uint8_t* bytes, std::size_t size, void* user) {
    Stream* const of = stream(session, id, user);
    if (of != nullptr && !of->ended) protocol_of(user).on_data(*of, view(bytes, size));
    return 0;
  }

  static int frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    const Stream* const of = stream(session, frame->hd.stream_id, user);
    if (of == nullptr || of->whole) return 0;
    // The reply was complete before the call was. The rest of the call is not needed.
    return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, of->id, NGHTTP2_NO_ERROR);
  }

  static int invalid_frame(nghttp2_session*, const nghttp2_frame*, int, void* user) {
    protocol_of(user).shared_.recorder.add(metrics::Event::kBadRequest);
    protocol_of(user).spend(1);
    return 0;
  }

  static int stream_closed(nghttp2_session* session, std::int32_t id, std::uint32_t, void* user) {
    if (Stream* const of = stream(session, id, user)) protocol_of(user).close(*of);
    return 0;
  }

  static nghttp2_session* make(Protocol& protocol);
};

nghttp2_session* Callbacks::make(Protocol& protocol) {
  nghttp2_session_callbacks* calls = nullptr;
  nghttp2_option* option = nullptr;
  check_memory(nghttp2_session_callbacks_new(&calls));
  const std::unique_ptr<nghttp2_session_callbacks, decltype(&nghttp2_session_callbacks_del)> own(
      calls, nghttp2_session_callbacks_del);
  check_memory(nghttp2_option_new(&option));
  const std::unique_ptr<nghttp2_option, decltype(&nghttp2_option_del)> own_option(
      option, nghttp2_option_del);
  nghttp2_session_callbacks_set_on_begin_headers_callback(calls, begin_headers);
  nghttp2_session_callbacks_set_on_header_callback2(calls, header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(calls, frame_received);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, data);
  nghttp2_session_callbacks_set_on_frame_send_callback(calls, frame_sent);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, invalid_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(calls, stream_closed);
  nghttp2_option_set_no_closed_streams(option, 1);
  // nghttp2's bound on resets is off: Protocol counts them by their cost, because resets of
  // complete calls are the client's deadlines.
  constexpr std::uint64_t kAny = 1U << 30;
  nghttp2_option_set_stream_reset_rate_limit(option, kAny, kAny);
  nghttp2_session* session = nullptr;
  check_memory(nghttp2_session_server_new3(&session, calls, &protocol, option,
                                           protocol.shared_.memory->get()));
  return session;
}

Protocol::Protocol(ProtocolShared& shared, std::string_view peer, Owner& owner,
                   Role certificate_role)
    : shared_(shared),
      owner_(owner),
      peer_(peer),
      certificate_role_(certificate_role),
      frame_budget_(kMostFrames) {}

Protocol::~Protocol() {
  while (first_ != nullptr) close(*first_);
  nghttp2_session_del(session_);
}

// Returns false if the bytes are not HTTP/2.
bool Protocol::begin(std::string_view bytes) {
  if (bytes.substr(0, kPreface.size()) != kPreface.substr(0, bytes.size())) {
    raw_ = kNotHttp1;
    return false;
  }
  session_ = Callbacks::make(*this);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, static_cast<std::uint32_t>(shared_.most_streams)},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       static_cast<std::uint32_t>(shared_.bounds.header_bytes)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  check_memory(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)));
  check_memory(
      nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow));
  return true;
}

bool Protocol::take(std::string_view bytes, SteadyTime now) {
  if (broken_) return false;
  now_ = now;
  idle_ticks_ = 0;
  if (session_ == nullptr && !begin(bytes)) {
    shared_.recorder.add(metrics::Event::kBadRequest);
    broken_ = true;
    return false;
  }
  // Each frame costs one when it arrives. nghttp2 reports the useful frames later, and these earn
  // their cost back.
  spend(frames_.take(bytes, now));
  inside_ = true;
  const auto taken = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  inside_ = false;
  if (taken < 0) {
    shared_.recorder.add(metrics::Event::kBadRequest);
    nghttp2_session_terminate_session(session_, taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC
                                                    ? NGHTTP2_PROTOCOL_ERROR
                                                    : NGHTTP2_ENHANCE_YOUR_CALM);
    broken_ = true;
  } else if (frame_budget_ < 0 && !std::exchange(terminated_, true)) {
    shared_.recorder.add(metrics::Event::kBadRequest);
    nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
  }
  return !broken_;
}

void Protocol::write(std::string& out, std::size_t most) {
  out.append(std::exchange(raw_, {}));
  if (session_ == nullptr) return;
  inside_ = true;
  while (out.size() < most) {
    const std::uint8_t* bytes = nullptr;
    const auto size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) broken_ = true;
    if (size <= 0) break;
    out.append(view(bytes, static_cast<std::size_t>(size)));
  }
  inside_ = false;
}

bool Protocol::ended() const {
  if (session_ == nullptr || broken_) return broken_;
  return nghttp2_session_want_write(session_) == 0 && nghttp2_session_want_read(session_) == 0;
}

// take() checks the budget after it has processed all bytes that came together.
void Protocol::spend(int cost) { frame_budget_ -= cost; }

void Protocol::earn(int gain) { frame_budget_ = std::min(frame_budget_ + gain, kMostFrames); }

void Protocol::tick(SteadyTime now) {
  now_ = now;
  if (idle_ticks_ <= kIdleTicks && ++idle_ticks_ == kIdleTicks && open_ == 0 &&
      session_ != nullptr) {
    Memory::idle(session_);
  }
  earn(kFramesPerTick);
  if (stalled() && !std::exchange(terminated_, true)) {
    shared_.recorder.add(metrics::Event::kTimedOut);
    nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
  }
  busy_ = false;
  for (Stream* stream = first_; stream != nullptr; stream = stream->next) {
    if (stream->whole) busy_ = true;
    check(*stream);
  }
}

// Ends a call that has timed out.
void Protocol::check(Stream& stream) {
  const auto& bounds = shared_.bounds;
  if (stream.ended) {
    if (now_ - stream.began < bounds.write_timeout) return;
    shared_.recorder.add(metrics::Event::kTimedOut);
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL);
    stream.began = SteadyTime::max() - bounds.write_timeout;  // only once
  } else if (now_ >= stream.deadline) {
    end(stream, Code::kDeadlineExceeded, "the deadline of the call has passed");
  } else if (late(stream)) {
    shared_.recorder.add(metrics::Event::kTimedOut);
    end(stream, Code::kDeadlineExceeded, "the call did not arrive in time");
  } else if (stream.method == Method::kHealthWatch && stream.begun) {
    report_health(stream);
  }
}

// Returns whether the rest of the message takes too long to arrive.
bool Protocol::late(const Stream& stream) const {
  if (stream.whole || !stream.opened) return false;
  if (stream.method == Method::kReflection && stream.in.empty()) return false;
  return now_ - stream.began >= shared_.bounds.body_timeout;
}

// Returns whether the rest of a header or of a frame takes too long to arrive. Until it is
// complete, HTTP/2 allows nothing else on the connection.
bool Protocol::stalled() const {
  const auto partial = frames_.partial();
  if (!has_preface_ || partial == FrameScanner::Partial::kNothing) return false;
  const auto most = partial == FrameScanner::Partial::kData ? shared_.bounds.body_timeout
                                                            : shared_.bounds.header_timeout;
  return now_ - frames_.partial_since() >= most;
}

void Protocol::ping() {
  if (session_ != nullptr) nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}

void Protocol::notice() {
  if (session_ != nullptr) nghttp2_submit_shutdown_notice(session_);
}

void Protocol::finish() {
  if (session_ == nullptr) {
    broken_ = true;
    return;
  }
  for (Stream* stream = first_; stream != nullptr; stream = stream->next) {
    const bool endless =
        stream->method == Method::kHealthWatch || stream->method == Method::kReflection;
    if (endless && !stream->ended) end(*stream, Code::kUnavailable, "the server is shutting down");
  }
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

Stream* Protocol::open(std::int32_t id) {
  if (open_ >= shared_.most_streams || shared_.streams.in_use() >= kMostCalls) return nullptr;
  Stream& stream = shared_.streams.take();
  stream.protocol = this;
  stream.id = id;
  stream.began = now_;
  stream.previous = nullptr;
  stream.next = first_;
  if (first_ != nullptr) first_->previous = &stream;
  first_ = &stream;
  ++open_;
  return &stream;
}

void Protocol::close(Stream& stream) {
  (stream.previous != nullptr ? stream.previous->next : first_) = stream.next;
  if (stream.next != nullptr) stream.next->previous = stream.previous;
  --open_;
  if (recent_ == &stream) recent_ = nullptr;
  forget_input(stream);
  shared_.buffered -= std::exchange(stream.unread, 0);
  stream.protocol = nullptr;
  if (!stream.in_work) shared_.streams.give_back(stream);
}

// Returns false if the stream must be reset.
bool Protocol::on_header(Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size() + kFieldOverhead;
  if (stream.header_bytes > shared_.bounds.header_bytes) {
    spend(kOversizeHeaderCost);
    return false;
  }
  switch (name.size()) {
    case 5:
      if (name == ":path") find(stream, value);
      break;
    case 7:
      if (name == ":method") stream.is_post = value == "POST";
      break;
    default: on_grpc_header(stream, name, value);
  }
  return true;
}

}  // namespace sluice::server::grpc
