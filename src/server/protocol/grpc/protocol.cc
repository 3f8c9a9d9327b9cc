// HTTP/2 and gRPC on one connection, without I/O. nghttp2 reads and writes frames; this file keeps
// the streams, joins the messages of calls, and bounds the memory of a connection.

#include "server/protocol/grpc/protocol.h"

#include <nghttp2/nghttp2.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SLUICE_SEES_EACH_BLOCK 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SLUICE_SEES_EACH_BLOCK 1
#endif

namespace sluice::server::grpc {
namespace {

#ifdef SLUICE_SEES_EACH_BLOCK
constexpr bool kOwn = false;
#else
constexpr bool kOwn = true;
#endif

constexpr std::size_t kChunk = std::size_t{64} << 10;
// The layout of a slot: five pages for the session and the buffer that follows it, one for the
// table.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kTable = 5 * kPage;
constexpr std::size_t kSlot = 6 * kPage;
constexpr std::size_t kSlots = 42;  // slots of a region
// The sizes that identify the parts of a session.
constexpr std::size_t kLeastSession = 2000;
constexpr std::size_t kMostSession = 3800;
constexpr std::size_t kLeastRoom = std::size_t{16} << 10;

Memory& memory_of(void* user) { return *static_cast<Memory*>(user); }

}  // namespace

// Precedes each block. The head of a slot's table is always zero, because nothing writes there.
struct alignas(std::max_align_t) Memory::Head {
  enum Kind : std::uint32_t { kTableOfSlot, kSession, kRoom, kSmall, kHeap };
  Kind kind;
  std::uint32_t size;   // of the block; of a small block: the index of its list
  std::uint32_t where;  // of a buffer: its place in the slot
  std::uint32_t parts;  // of a session: how many parts of its slot are in use

  static Head& of(void* block) noexcept { return *(static_cast<Head*>(block) - 1); }
  void* block() noexcept { return this + 1; }
};

Memory::Memory() : interface_{this, nullptr, nullptr, nullptr, nullptr} {
  interface_.malloc = [](std::size_t size, void* user) { return memory_of(user).allocate(size); };
  interface_.free = [](void* block, void* user) { memory_of(user).release(block); };
  interface_.calloc = [](std::size_t count, std::size_t size, void* user) -> void* {
    std::size_t all = 0;
    if (__builtin_mul_overflow(count, size, &all)) return nullptr;
    return memory_of(user).allocate_zeros(all);
  };
  interface_.realloc = [](void* block, std::size_t size, void* user) {
    return memory_of(user).reallocate(block, size);
  };
}

Memory::~Memory() = default;

nghttp2_mem* Memory::get() noexcept { return kOwn ? &interface_ : nullptr; }

void* Memory::allocate(std::size_t size) noexcept {
  size = std::max<std::size_t>(size, 1);  // a free block must have room for a pointer
  if (size <= kMostSmall - sizeof(Head)) return take_small((size + sizeof(Head) - 1) / kStep);
  if (void* const part = take_part(size, false)) return part;
  return take_from_heap(size);
}

void* Memory::allocate_zeros(std::size_t size) noexcept {
  if (void* const part = take_part(size, true)) return part;
  void* const block = allocate(size);
  if (block != nullptr) std::memset(block, 0, size);
  return block;
}

void* Memory::take_small(std::size_t place) noexcept {
  if (void* const block = free_[place]) {
    std::memcpy(static_cast<void*>(&free_[place]), block, sizeof(void*));
    return block;
  }
  const std::size_t size = (place + 1) * kStep;
  if (left_ < size) {
    auto* const chunk = new (std::nothrow) std::byte[kChunk];
    if (chunk == nullptr) return nullptr;
    try {
      chunks_.emplace_back(chunk);
    } catch (const std::bad_alloc&) {
      delete[] chunk;
      return nullptr;
    }
    next_ = chunk;
    left_ = kChunk;
  }
  Head* const head = new (next_) Head{Head::kSmall, static_cast<std::uint32_t>(place), 0, 0};
  next_ += size;
  left_ -= size;
  return head->block();
}

void* Memory::take_from_heap(std::size_t size) noexcept {
  if (size > UINT32_MAX - sizeof(Head)) return nullptr;
  void* const at = std::malloc(size + sizeof(Head));
  if (at == nullptr) return nullptr;
  return (new (at) Head{Head::kHeap, static_cast<std::uint32_t>(size), 0, 0})->block();
}

// Returns a block for a part of the session that is being created, or null if there is no such
// session. A slot is all zeros when it is taken.
void* Memory::take_part(std::size_t size, bool zeros) noexcept {
  if (zeros && size >= kLeastSession && size <= kMostSession) return take_slot(size);
  if (young_ == nullptr) return nullptr;
  auto& session = *reinterpret_cast<Head*>(young_);
  if (zeros && size == kPage && session.where == 0) {
    session.where = 1;
    ++session.parts;
    return young_ + kTable;
  }
  const std::size_t where =
      sizeof(Head) + (session.size + sizeof(Head) - 1) / sizeof(Head) * sizeof(Head);
  if (zeros || size < kLeastRoom || where + sizeof(Head) + size > kTable - sizeof(Head)) {
    return nullptr;
  }
  ++session.parts;
  std::byte* const at = young_ + where;
  young_ = nullptr;
  return (new (at) Head{Head::kRoom, static_cast<std::uint32_t>(size),
                        static_cast<std::uint32_t>(where), 0})
      ->block();
}

void* Memory::take_slot(std::size_t size) noexcept {
  std::byte* const slot = new_slot();
  if (slot == nullptr) return nullptr;
  young_ = slot;
  return (new (slot) Head{Head::kSession, static_cast<std::uint32_t>(size), 0, 1})->block();
}

std::byte* Memory::new_slot() noexcept {
  if (slots_.empty()) {
    void* const at = ::mmap(nullptr, kSlots * kSlot, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    ::madvise(at, kSlots * kSlot, MADV_NOHUGEPAGE);  // huge pages would occupy unused memory
    std::unique_ptr<void, void (*)(void*)> own(at,
                                               [](void* all) { ::munmap(all, kSlots * kSlot); });
    try {
      slots_.reserve((regions_.size() + 1) * kSlots);
      regions_.push_back(std::move(own));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    for (std::size_t i = kSlots; i > 0; --i) {
      slots_.push_back(static_cast<std::byte*>(at) + (i - 1) * kSlot);
    }
  }
  std::byte* const slot = slots_.back();
  slots_.pop_back();
  return slot;
}

void Memory::drop_part(std::byte* slot) noexcept {
  if (--reinterpret_cast<Head*>(slot)->parts > 0) return;
  if (slot == young_) young_ = nullptr;
  if (::madvise(slot, kSlot, MADV_DONTNEED) != 0) std::memset(slot, 0, kSlot);  // it is locked
  slots_.push_back(slot);
}

void Memory::release(void* block) noexcept {
  if (block == nullptr) return;
  Head& head = Head::of(block);
  auto* const at = reinterpret_cast<std::byte*>(&head);
  switch (head.kind) {
    case Head::kSmall:
      std::memcpy(block, static_cast<const void*>(&free_[head.size]), sizeof(void*));
      free_[head.size] = block;
      return;
    case Head::kHeap: return std::free(at);
    case Head::kSession: return drop_part(at);
    case Head::kRoom: return drop_part(at - head.where);
    case Head::kTableOfSlot: return drop_part(static_cast<std::byte*>(block) - kTable);
  }
}

void* Memory::reallocate(void* block, std::size_t size) noexcept {
  if (block == nullptr) return allocate(size);
  const Head& head = Head::of(block);
  std::size_t room = head.size;
  if (head.kind == Head::kSmall) room = (head.size + 1) * kStep - sizeof(Head);
  if (head.kind == Head::kTableOfSlot) room = kPage;
  if (size <= room) return block;
  void* const larger = allocate(size);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, block, room);
  release(block);
  return larger;
}

void Memory::idle(nghttp2_session* session) noexcept {
  if (!kOwn) return;
  Head& head = Head::of(session);
  if (head.kind != Head::kSession || head.where == 0) return;
  std::byte* const table = reinterpret_cast<std::byte*>(&head) + kTable;
  // A page of zeros reads as zeros after it has been given back, too.
  if (*table == std::byte{0} && std::memcmp(table, table + 1, kPage - 1) == 0) {
    ::madvise(table, kPage, MADV_DONTNEED);
  }
}

namespace {

// A buffer that is larger than this is released. If there are more than kMostWarm unused streams,
// all buffers of further ones are released.
constexpr std::size_t kMostKept = std::size_t{4} << 10;
constexpr std::size_t kMostWarm = 2048;

void release(std::string& text, std::size_t most) {
  text.clear();
  if (text.capacity() > most) text = std::string();
}

}  // namespace

bool Stream::finish(Handler& handler) {
  in_work = false;
  if (protocol != nullptr) {
    protocol->answered(*this, handler);
  } else {
    home->give_back(*this);
  }
  return false;
}

void Stream::dropped() {
  in_work = false;
  if (protocol == nullptr) home->give_back(*this);
}

std::size_t Stream::read(char* to, std::size_t room) {
  const std::size_t size = out.copy(to, room, out_done);
  const bool was = full();
  out_done += size;
  if (was && !full()) protocol->drained_ = true;
  // A stream may send for ever, so what was sent does not stay.
  if (!ended && 2 * out_done >= out.size()) {
    out.erase(0, std::exchange(out_done, 0));
    if (out.empty()) release(out, kMostKept);
    count();
  }
  return size;
}

void Stream::drop_done() {
  if (2 * in_done < in.size()) return;
  buffered -= in_done;
  protocol->shared_.buffered -= in_done;
  in.erase(0, std::exchange(in_done, 0));
  if (!in.empty()) return;
  release(in, kMostKept);
  release(inflated, kMostKept);
}

void Stream::count() {
  protocol->shared_.buffered += out.size() - counted;
  counted = out.size();
}

void Stream::clear(std::size_t most_kept) {
  static_cast<StreamState&>(*this) = {};
  for (std::string* buffer : {&in, &inflated, &out, &text, &peer, &authorization, &traceparent})
    release(*buffer, most_kept);
}

Stream& Streams::take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Stream>());
    free_.reserve(all_.size());
    free_.push_back(all_.back().get());
    all_.back()->home = this;
  }
  Stream& stream = *free_.back();
  free_.pop_back();
  return stream;
}

void Streams::give_back(Stream& stream) {
  stream.clear(free_.size() < kMostWarm ? kMostKept : 0);
  free_.push_back(&stream);
}

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
    // A stream whose messages wait holds back its own window only, not that of the connection.
    check_memory(nghttp2_session_consume_connection(session, size));
    Stream* const of = stream(session, id, user);
    if (of == nullptr) return 0;
    of->unconsumed += size;
    if (!of->ended) protocol_of(user).on_data(*of, view(bytes, size));
    protocol_of(user).consume(*of);
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
  nghttp2_option_set_no_auto_window_update(option, 1);  // see consume()
  // nghttp2's bound on resets is off: Protocol counts them by their cost, because resets of
  // complete calls are the client's deadlines.
  constexpr std::uint64_t kAny = 1U << 30;
  nghttp2_option_set_stream_reset_rate_limit(option, kAny, kAny);
  nghttp2_session* session = nullptr;
  check_memory(nghttp2_session_server_new3(&session, calls, &protocol, option,
                                           protocol.shared_.memory->get()));
  return session;
}

Protocol::Protocol(SharedState& shared, std::string_view peer, std::function<void()> has_output,
                   Role certificate_role)
    : shared_(shared),
      has_output_(std::move(has_output)),
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
    if (size == 0 && std::exchange(drained_, false)) {
      deliver_held();
      continue;
    }
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
    if (stream->whole || stream->used) busy_ = true;
    check(*stream);
  }
}

// Ends a call that has timed out.
void Protocol::check(Stream& stream) {
  const auto& bounds = shared_.bounds;
  const bool full = stream.full();
  if (stream.ended) {
    stream.receiver.reset();
    if (now_ - stream.began < bounds.write_timeout) return;
    shared_.recorder.add(metrics::Event::kTimedOut);
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL);
    stream.began = SteadyTime::max() - bounds.write_timeout;  // only once
    return;
  }
  if (std::exchange(stream.was_full, full) != full) stream.began = now_;
  if (now_ >= stream.deadline) {
    end(stream, Code::kDeadlineExceeded, "the deadline of the call has passed");
  } else if (full && now_ - stream.began >= bounds.write_timeout) {
    shared_.recorder.add(metrics::Event::kTimedOut);
    end(stream, Code::kResourceExhausted, "the client does not read its messages");
  } else if (!full && late(stream)) {
    shared_.recorder.add(metrics::Event::kTimedOut);
    end(stream, Code::kDeadlineExceeded, "the call did not arrive in time");
  } else if (stream.receiver) {
    stream.receiver->on_tick();
  }
}

// Returns whether the rest of the message takes too long to arrive.
bool Protocol::late(const Stream& stream) const {
  if (stream.whole || !stream.opened) return false;
  if (stream.receiver && stream.in.empty()) return false;
  return now_ - stream.began >= shared_.bounds.body_timeout;
}

// Returns whether the rest of a header or of a frame takes too long to arrive. Until it is
// complete, HTTP/2 allows nothing else on the connection.
bool Protocol::stalled() const {
  if (!has_preface_ || !frames_.is_partial()) return false;
  const Bounds& bounds = shared_.bounds;
  const auto most = frames_.is_in_data() ? bounds.body_timeout : bounds.header_timeout;
  return now_ - frames_.partial_since() >= most;
}

void Protocol::ping() {
  if (session_ != nullptr) nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}

void Protocol::notice() {
  if (session_ == nullptr) return;
  nghttp2_submit_shutdown_notice(session_);
  noticed_ = true;
  for (Stream* stream = first_; stream != nullptr; stream = stream->next) {
    if (stream->receiver && !stream->ended) stream->receiver->on_drain();
  }
}

void Protocol::finish() {
  if (session_ == nullptr) {
    broken_ = true;
    return;
  }
  for (Stream* stream = first_; stream != nullptr; stream = stream->next) {
    if (!stream->receiver) continue;
    end(*stream, Code::kUnavailable, "the server ends the connection; open the stream again");
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
  shared_.buffered -= std::exchange(stream.counted, 0);
  stream.ended = true;  // for the destructor that follows
  stream.receiver.reset();
  stream.protocol = nullptr;
  if (!stream.in_work) shared_.streams.give_back(stream);
}

// Continues streams whose messages waited until the client read more.
void Protocol::deliver_held() {
  for (Stream* stream = first_; stream != nullptr; stream = stream->next) {
    if (!stream->receiver || stream->full()) continue;
    deliver(*stream);
    consume(*stream);
  }
}

// Gives the client new room in the stream, in larger steps, unless its messages wait.
void Protocol::consume(Stream& stream) {
  if (stream.unconsumed < kStreamWindow / 4 || stream.full()) return;
  check_memory(
      nghttp2_session_consume_stream(session_, stream.id, std::exchange(stream.unconsumed, 0)));
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
