// HTTP/2 and gRPC: any input, split at any place, is answered within bounds and leaves no state
// after the connection.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/protocol/grpc/protocol.h"

namespace {

using namespace sluice::server;

void check(bool holds) {
  if (!holds) std::abort();
}

class Echo final : public grpc::Handler {
 public:
  void handle(const grpc::Call& call, grpc::Reply& reply) override {
    check(call.message.size() <= 4096);
    if (call.message.starts_with('!')) return reply.fail(grpc::Code::kInternal, call.message);
    reply.bytes = call.message;
  }
  void finished(const grpc::Call&, const grpc::Reply&, std::chrono::nanoseconds) override {}
};

// Sends each message back. The first byte says whether the stream ends.
class EchoStream final : public grpc::StreamIn {
 public:
  EchoStream(grpc::StreamOut& out, int& open) : out_(out), open_(open) { ++open_; }
  ~EchoStream() override {
    --open_;
    check(!out_.send("too late"));
  }
  void on_message(std::string_view message) override {
    check(message.size() <= 4096);
    out_.send(message);
    if (message.starts_with('!')) out_.end(grpc::Code::kInternal, message);
    check(out_.unread() <= (std::size_t{256} << 10) + 4096 + 5);
  }
  void on_half_close() override { out_.end(grpc::Code::kOk, {}); }
  void on_tick() override { out_.send("tick"); }

 private:
  grpc::StreamOut& out_;
  int& open_;
};

constexpr std::string_view kGreeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

}  // namespace

// The first byte sets how many bytes arrive at a time, and whether the client sends its preface.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes;
  if ((data[0] & 1U) != 0) bytes = kGreeting;
  bytes.append(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t step = data[0] < 2 ? bytes.size() : data[0];

  const Bounds bounds{.header_bytes = 1024, .body_bytes = 4096};
  static sluice::metrics::Registry registry;
  static sluice::metrics::Recorder& recorder = registry.make_recorder();
  const sluice::server::net::Readiness serving{true};
  grpc::Handlers handlers([] { return std::make_unique<Echo>(); }, {});
  grpc::SharedState shared{{.bounds = bounds,
                            .paths = {"/a.B/C"},
                            .stream_paths = {"/a.B/S"},
                            .most_streams = 8,
                            .serving = serving},
                           handlers,
                           recorder,
                           sluice::server::net::LoopClock::system()};
  int open = 0;
  shared.open_stream = [&open](const grpc::Call&, grpc::StreamOut& out) {
    return std::make_unique<EchoStream>(out, open);
  };
  grpc::SteadyTime now{std::chrono::hours(1)};
  {
    // The handler never waits, and only ticks and finish() have output of their own.
    bool ticks = false;
    grpc::Protocol protocol(shared, "192.0.2.1", [&ticks] { check(ticks); });
    std::string out;
    for (std::size_t done = 0; done < bytes.size() && !protocol.ended(); done += step) {
      const std::string part = bytes.substr(done, step);
      const bool goes_on = protocol.take(part, now);
      out.clear();
      protocol.write(out, std::size_t{1} << 20);
      check(out.size() <= (std::size_t{1} << 20) + 20'000);
      check(protocol.open_streams() <= 8);
      check(goes_on || protocol.ended());
      now += std::chrono::seconds(1);
      ticks = true;
      protocol.tick(now);
      ticks = false;
    }
    ticks = true;
    protocol.notice();
    protocol.tick(now + std::chrono::minutes(1));
    protocol.finish();
    protocol.write(out, std::size_t{1} << 20);
  }
  check(open == 0 && shared.streams.in_use() == 0 && shared.buffered == 0);
  return 0;
}
