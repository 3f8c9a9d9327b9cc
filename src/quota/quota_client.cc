// A client of a quota service: a thread with one connection, on which one gRPC stream reports the
// use of buckets and receives assignments. nghttp2 reads and writes the frames.

#include "sluice/quota_client.h"

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <exception>
#include <random>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/client_tls.h"
#include "base/lookups.h"
#include "quota/quota_buckets.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Socket = asio::generic::stream_protocol::socket;

constexpr std::string_view kPath =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";
constexpr milliseconds kFirstBackoff{100}, kLongestBackoff{5'000}, kConnectTimeout{5'000};
// A connection that has been silent for so long is asked for a sign of life, and ended.
constexpr milliseconds kSilent{10'000}, kDead{20'000};
constexpr std::size_t kMostMessage = std::size_t{16} << 20;
constexpr std::size_t kPrefixBytes = 5;

// Returns the host of HOST:PORT, without brackets.
std::string host_of(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

// The thread, its connection and the buckets. All but buckets(): the thread only.
class QuotaClient::Impl {
 public:
  explicit Impl(QuotaOptions options);
  ~Impl();

  Buckets& buckets() noexcept { return buckets_; }

 private:
  class Link;

  void connect();
  void opened();
  void took_message() noexcept { backoff_ = kFirstBackoff; }
  void ended(const std::string& why);
  void tick();
  void report_soon();  // any thread
  void report(bool all);
  void prepare_tls();

  const QuotaOptions options_;
  asio::io_context loop_{1};
  std::shared_ptr<ssl::context> tls_ = std::make_shared<ssl::context>(ssl::context::tls_client);
  base::Lookups lookups_{loop_};
  asio::steady_timer ticks_{loop_}, retry_{loop_};
  std::shared_ptr<Link> link_;  // null between two connections
  milliseconds backoff_ = kFirstBackoff;
  std::minstd_rand random_{std::random_device{}()};
  std::atomic<bool> will_report_{false};
  Buckets buckets_;
  std::thread thread_;
};

// One connection with its stream.
class QuotaClient::Impl::Link : public std::enable_shared_from_this<Link> {
 public:
  Link(Impl& owner) : owner_(owner), socket_(owner.loop_, *owner.tls_), timer_(owner.loop_) {}
  ~Link() { nghttp2_session_del(session_); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void open();
  void close();
  // Adds a message to the stream.
  void send(std::string_view message);
  void tick(steady_clock::time_point now);
  bool is_open() const noexcept { return is_open_; }
  bool has_unsent() const noexcept { return !unsent_.empty(); }

 private:
  void connected();
  void begin();
  void submit();
  void read();
  void write();
  void on_data(std::string_view bytes);
  void on_header(std::string_view name, std::string_view value);
  void fail(const std::string& why);
  template <typename F>
  auto bind(const F& then) {
    return [self = this->shared_from_this(), then](error_code why, auto&&... rest) {
      if (self->is_closed_) return;
      if (why) return self->fail(why.message());
      then(rest...);
    };
  }
  static Link& of(void* user) { return *static_cast<Link*>(user); }

  Impl& owner_;
  ssl::stream<Socket> socket_;
  asio::steady_timer timer_;
  nghttp2_session* session_ = nullptr;
  std::int32_t stream_ = 0;
  std::string unsent_, writing_, in_, status_, status_text_;
  std::size_t sent_ = 0;  // bytes of `unsent_`
  std::array<char, 16'384> input_{};
  steady_clock::time_point heard_{}, read_{};  // something came, and the service read the reports
  bool is_open_ = false, is_closed_ = false, is_writing_ = false, was_pinged_ = false;
};

void QuotaClient::Impl::Link::open() {
  const std::string& address = owner_.options_.address;
  timer_.expires_after(kConnectTimeout);
  timer_.async_wait([self = shared_from_this()](error_code why) {
    if (!why && !self->is_closed_) self->fail("no connection within 5 s");
  });
  const auto next = bind([this](const auto&...) { connected(); });
  if (address.starts_with("unix:")) {
    const asio::local::stream_protocol::endpoint at(address.substr(5));
    return socket_.next_layer().async_connect(at, next);
  }
  owner_.lookups_.find(
      host_of(address), address.substr(address.rfind(':') + 1), bind([this, next](auto& found) {
        const std::vector<asio::generic::stream_protocol::endpoint> all(found.begin(), found.end());
        asio::async_connect(socket_.next_layer(), all, next);
      }));
}

void QuotaClient::Impl::Link::connected() {
  if (!owner_.options_.tls) return begin();
  const std::string host = host_of(owner_.options_.address);
  SSL& session = *socket_.native_handle();
  if (!base::expect_server(session, host, true)) return fail("no certificate is for " + host);
  socket_.async_handshake(ssl::stream_base::client, [self = shared_from_this()](error_code why) {
    if (self->is_closed_) return;
    if (why) return self->fail(base::why_tls_failed(*self->socket_.native_handle(), why));
    self->begin();
  });
}

void QuotaClient::Impl::Link::begin() {
  timer_.cancel();
  nghttp2_session_callbacks* calls = nullptr;
  if (nghttp2_session_callbacks_new(&calls) != 0) return fail("no memory");
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      calls, [](nghttp2_session*, std::uint8_t, std::int32_t, const std::uint8_t* data,
                std::size_t size, void* user) {
        of(user).on_data({reinterpret_cast<const char*>(data), size});
        return 0;
      });
  nghttp2_session_callbacks_set_on_header_callback(
      calls,
      [](nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name, std::size_t name_size,
         const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* user) {
        of(user).on_header({reinterpret_cast<const char*>(name), name_size},
                           {reinterpret_cast<const char*>(value), value_size});
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      calls, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        Link& link = of(user);
        const bool is_refused = !link.status_.empty() || !link.status_text_.empty();
        if (frame->hd.type == NGHTTP2_HEADERS && !is_refused) link.owner_.buckets_.accepted();
        return 0;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      calls, [](nghttp2_session*, std::int32_t, std::uint32_t error, void* user) {
        Link& link = of(user);
        link.fail(link.status_.empty()
                      ? "the stream was reset (HTTP/2 error " + std::to_string(error) + ")"
                      : "the service ended the stream: grpc-status " + link.status_ + " " +
                            link.status_text_);
        return 0;
      });
  const int made = nghttp2_session_client_new(&session_, calls, this);
  nghttp2_session_callbacks_del(calls);
  if (made != 0) return fail("no memory");
  submit();
  if (is_closed_) return;
  is_open_ = true;
  heard_ = steady_clock::now();
  owner_.opened();
  read();
  write();
}

void QuotaClient::Impl::Link::submit() {
  const std::string authorization = "Bearer " + owner_.options_.token;
  std::vector<nghttp2_nv> fields;
  const auto add = [&](std::string_view name, std::string_view value) {
    const auto bytes = [](std::string_view text) {
      return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
    };
    fields.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  };
  add(":method", "POST");
  add(":scheme", owner_.options_.tls ? "https" : "http");
  add(":path", kPath);
  add(":authority", owner_.options_.address);
  add("te", "trailers");
  add("content-type", "application/grpc");
  if (!owner_.options_.token.empty()) add("authorization", authorization);
  nghttp2_data_provider source{};
  source.source.ptr = this;
  source.read_callback = [](nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t room,
                            std::uint32_t*, nghttp2_data_source* from, void*) -> ssize_t {
    Link& link = of(from->ptr);
    if (!link.has_unsent()) return NGHTTP2_ERR_DEFERRED;
    const std::size_t size = link.unsent_.copy(reinterpret_cast<char*>(to), room, link.sent_);
    link.sent_ += size;
    link.read_ = steady_clock::now();
    if (link.sent_ == link.unsent_.size()) {
      link.unsent_.clear();
      link.sent_ = 0;
    }
    return static_cast<ssize_t>(size);
  };
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  stream_ =
      nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &source, nullptr);
  if (stream_ < 0) fail(nghttp2_strerror(stream_));
}

void QuotaClient::Impl::Link::send(std::string_view message) {
  if (!has_unsent()) read_ = steady_clock::now();
  const auto size = static_cast<std::uint32_t>(message.size());
  unsent_.push_back('\0');
  for (int shift = 24; shift >= 0; shift -= 8) unsent_.push_back(static_cast<char>(size >> shift));
  unsent_.append(message);
  nghttp2_session_resume_data(session_, stream_);
  write();
}

void QuotaClient::Impl::Link::read() {
  const auto then = bind([this](std::size_t size) {
    heard_ = steady_clock::now();
    was_pinged_ = false;
    const auto used = nghttp2_session_mem_recv(
        session_, reinterpret_cast<const std::uint8_t*>(input_.data()), size);
    if (is_closed_) return;
    if (used < 0) return fail(nghttp2_strerror(static_cast<int>(used)));
    write();
    read();
  });
  if (owner_.options_.tls) return socket_.async_read_some(asio::buffer(input_), then);
  socket_.next_layer().async_read_some(asio::buffer(input_), then);
}

void QuotaClient::Impl::Link::write() {
  if (is_writing_ || is_closed_) return;
  writing_.clear();
  const std::uint8_t* data = nullptr;
  while (writing_.size() < input_.size()) {
    const auto size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) return fail(nghttp2_strerror(static_cast<int>(size)));
    if (size == 0) break;
    writing_.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
  }
  if (writing_.empty()) {
    if (nghttp2_session_want_read(session_) == 0) fail("the service ended the connection");
    return;
  }
  is_writing_ = true;
  const auto then = bind([this](std::size_t) {
    is_writing_ = false;
    write();
  });
  if (owner_.options_.tls) return asio::async_write(socket_, asio::buffer(writing_), then);
  asio::async_write(socket_.next_layer(), asio::buffer(writing_), then);
}

void QuotaClient::Impl::Link::on_header(std::string_view name, std::string_view value) {
  if (name == ":status" && value != "200") status_text_ = "HTTP status " + std::string(value);
  if (name == "grpc-status") status_ = value;
  if (name == "grpc-message") status_text_ = value;
}

void QuotaClient::Impl::Link::on_data(std::string_view bytes) {
  in_.append(bytes);
  std::size_t at = 0;
  while (!is_closed_ && in_.size() - at >= kPrefixBytes) {
    std::size_t size = 0;
    for (std::size_t i = 1; i < kPrefixBytes; ++i) {
      size = size << 8 | static_cast<unsigned char>(in_[at + i]);
    }
    if (in_[at] != 0 || size > kMostMessage)
      return fail("the service sent a message that is compressed or too large");
    if (in_.size() - at - kPrefixBytes < size) break;
    owner_.took_message();
    owner_.buckets_.take({in_.data() + at + kPrefixBytes, size});
    at += kPrefixBytes + size;
  }
  in_.erase(0, at);
}

void QuotaClient::Impl::Link::tick(steady_clock::time_point now) {
  if (!is_open_) return;
  if (has_unsent() && now - read_ > kDead) return fail("the service does not read the reports");
  if (now - heard_ < kSilent) return;
  if (now - heard_ > kDead) return fail("the service was silent for 20 s");
  if (!std::exchange(was_pinged_, true)) {
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
    write();
  }
}

// nghttp2 may be on the stack, so the object lives on until the loop has returned.
void QuotaClient::Impl::Link::fail(const std::string& why) {
  if (is_closed_) return;
  close();
  asio::post(owner_.loop_, [self = shared_from_this(), why] { self->owner_.ended(why); });
}

void QuotaClient::Impl::Link::close() {
  is_closed_ = true;
  is_open_ = false;
  error_code ignored;
  timer_.cancel();
  socket_.next_layer().close(ignored);
}

QuotaClient::Impl::Impl(QuotaOptions options)
    : options_(std::move(options)), buckets_(options_, [this] { report_soon(); }) {
  const auto refuse = [](const std::string& what) { throw std::invalid_argument(what); };
  const std::string& address = options_.address;
  const bool is_path = address.starts_with("unix:/");
  const std::size_t colon = address.rfind(':');
  if (!is_path && (colon == address.npos || colon == 0 || colon + 1 == address.size())) {
    refuse("QuotaOptions::address is \"" + address + "\"; expected HOST:PORT or unix:/PATH");
  }
  if (is_path && options_.tls) refuse("QuotaOptions::tls: a Unix socket has no TLS");
  if (options_.domain.empty()) refuse("QuotaOptions::domain is empty; expected that of the rules");
  if (options_.report_every < milliseconds(10) || options_.report_every > milliseconds(60'000)) {
    refuse("QuotaOptions::report_every must be 10ms to 60s");
  }
  if (options_.tls_cert_file.empty() != options_.tls_key_file.empty()) {
    refuse("QuotaOptions::tls_cert_file and tls_key_file belong together; one is empty");
  }
  if (options_.tls) prepare_tls();
  thread_ = std::thread([this] {
    connect();
    tick();
    loop_.run();
  });
}

QuotaClient::Impl::~Impl() {
  try {
    asio::post(loop_, [this] {
      if (link_) link_->close();
      loop_.stop();
    });
    thread_.join();
  } catch (const std::exception&) {
    std::abort();  // no memory for the message that ends the thread, which uses this object
  }
}

void QuotaClient::Impl::prepare_tls() {
  auto tls = base::make_tls({options_.tls_ca_file, options_.tls_cert_file, options_.tls_key_file});
  if (!tls) throw std::runtime_error(tls.error());
  tls_ = std::move(*tls);
  constexpr unsigned char kH2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(tls_->native_handle(), kH2, sizeof kH2);
}

void QuotaClient::Impl::connect() {
  link_ = std::make_shared<Link>(*this);
  link_->open();
}

void QuotaClient::Impl::opened() {
  buckets_.opened();
  report(true);
}

void QuotaClient::Impl::ended(const std::string& why) {
  link_.reset();
  buckets_.ended(why);
  // A random part, so that the clients of a service that begins do not come at once.
  const auto half = backoff_.count() / 2;
  retry_.expires_after(milliseconds(half + static_cast<std::int64_t>(random_()) % (half + 1)));
  backoff_ = std::min(2 * backoff_, kLongestBackoff);
  retry_.async_wait([this](error_code no) {
    if (!no) connect();
  });
}

void QuotaClient::Impl::tick() {
  ticks_.expires_after(options_.report_every);
  ticks_.async_wait([this](error_code no) {
    if (no) return;
    if (link_) link_->tick(steady_clock::now());
    report(true);
    tick();
  });
}

// Reports buckets that are used for the first time, many of them together.
void QuotaClient::Impl::report_soon() {
  if (will_report_.exchange(true)) return;
  asio::post(loop_, [this] {
    will_report_ = false;
    report(false);
  });
}

void QuotaClient::Impl::report(bool all) {
  if (!link_ || !link_->is_open()) return;
  if (all && link_->has_unsent()) return;  // until the one before is sent
  for (const std::string& message : buckets_.report(all)) {
    if (link_) link_->send(message);
  }
}

QuotaClient::QuotaClient(QuotaOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
QuotaClient::~QuotaClient() = default;

QuotaBucket& QuotaClient::bucket(const std::map<std::string, std::string>& attributes) {
  return *impl_->buckets().bucket(attributes, true);
}

std::shared_ptr<QuotaBucket> QuotaClient::share_bucket(
    const std::map<std::string, std::string>& attributes, bool adds) {
  return impl_->buckets().bucket(attributes, false, adds);
}

QuotaClient::Stats QuotaClient::stats() const { return impl_->buckets().stats(); }

}  // namespace sluice
