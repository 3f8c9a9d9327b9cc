#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/redis_store.h"
#include "stores/redis/client/clients.h"
#include "stores/redis/client/target.h"
#include "tests/support/wait_until.h"

// A client of Redis on its own loop, for tests.
namespace sluice_redis {

using sluice::redis::Answer;
using sluice::redis::Command;
using sluice::redis::Failure;

// Returns a reply as text: "PONG", "7", "nil", "[a b]".
inline std::string words_of(const sluice::redis::Reply& reply) {
  switch (reply.type) {
    case sluice::redis::Reply::kInteger: return std::to_string(reply.integer);
    case sluice::redis::Reply::kNil: return "nil";
    case sluice::redis::Reply::kArray: break;
    default: return std::string(reply.text);
  }
  std::string out = "[";
  for (std::size_t i = 0; i < reply.count; ++i) {
    out.append(i == 0 ? "" : " ").append(words_of(reply[i]));
  }
  return out + "]";
}

// A command that records how it ended, and how often.
class Ask : public Command {
 public:
  Ask() = default;
  Ask(std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) append(word);
  }
  Ask(const sluice::redis::Script& text, std::initializer_list<std::string_view> words)
      : Ask(words) {
    script = &text;
  }
  void done(const Answer& answer) noexcept override {
    ++times;
    failure = answer.failure;
    said = answer.reply != nullptr ? words_of(*answer.reply) : std::string(answer.text);
    if (then) then();
  }

  int times = 0;
  Failure failure = Failure::kNone;
  std::string said;
  std::function<void()> then;
};

class Probe : public sluice::StoreObserver {
 public:
  explicit Probe(const sluice::RedisOptions& options) {
    auto target = sluice::redis::make_target(options);
    if (!target) throw std::runtime_error(target.error());
    const bool sentinel = (*target)->kind == sluice::redis::Target::Kind::kSentinel;
    auto events_of_loop = sluice::redis::make_asio_event_loop(loop, *target);
    client = sentinel ? make_sentinel_client(std::move(events_of_loop), *target, this)
                      : make_standalone_client(std::move(events_of_loop), *target, this);
  }
  ~Probe() override { client.reset(); }

  // Runs the loop until the condition holds: see wait_until().
  void run_until(const std::string& what, const std::function<bool()>& holds) {
    sluice::testing::wait_until(what, holds, [this] { turn(); });
  }
  void run_until_ready() {
    run_until("the client is ready", [this] { return client->ready(); });
  }
  void run_until_saw(std::string_view part) {
    run_until("there is an event " + std::string(part), [&] { return saw(part); });
  }
  // Sends what was submitted: a few bytes need no wait for the socket.
  void send() { loop.poll(); }
  // Submits all commands in one turn and runs until each has ended.
  void ask_all(std::vector<Ask>& asks) {
    for (Ask& one : asks) client->submit(one);
    run_until("all commands have ended", [&] {
      return std::all_of(asks.begin(), asks.end(), [](const Ask& one) { return one.times > 0; });
    });
  }
  // Returns "PONG", or "error: ...", "timeout: ...", "lost: ...", "unavailable: ...".
  std::string ask(std::initializer_list<std::string_view> words) {
    Ask one(words);
    return ask(one);
  }
  std::string ask(Ask& one) {
    client->submit(one);
    run_until("the command has ended", [&] { return one.times > 0; });
    return name_of(one.failure) + one.said;
  }
  // Repeats the command until it is answered. Returns the answer.
  std::string ask_until_answered(std::initializer_list<std::string_view> words) {
    std::string answer;
    run_until("the command is answered", [&] {
      Ask one(words);
      answer = ask(one);
      return one.failure == Failure::kNone;
    });
    return answer;
  }
  bool saw(std::string_view part) const {
    return std::any_of(events.begin(), events.end(),
                       [part](const std::string& one) { return one.find(part) != one.npos; });
  }

  void on(const sluice::StoreEvent& event) noexcept override {
    events.push_back(std::string(to_string(event.kind)) + " " + std::string(event.endpoint) + " " +
                     std::string(event.why));
  }

  void turn() { loop.run_one_for(std::chrono::milliseconds{10}); }

  static std::string name_of(Failure failure) {
    switch (failure) {
      case Failure::kNone: return "";
      case Failure::kError: return "error: ";
      case Failure::kTimeout: return "timeout: ";
      case Failure::kLost: return "lost: ";
      case Failure::kUnavailable: return "unavailable: ";
    }
    return "?";
  }

  boost::asio::io_context loop{1};
  std::vector<std::string> events;
  std::unique_ptr<sluice::redis::Client> client;
};

// Returns a port of 127.0.0.1 that is free now. Another process may take it: use on_free_port().
inline std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = ::bind(fd, generic, size) == 0 && getsockname(fd, generic, &size) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("there is no free port");
  return ntohs(address.sin_port);
}

// Returns what `make` makes of a free port. Tries other ports if it throws, because another process
// may have taken the port meanwhile.
template <typename Make>
auto on_free_port(Make make) {
  for (int attempt = 0;; ++attempt) {
    try {
      return make(free_port());
    } catch (const std::runtime_error&) {
      if (attempt == 4) throw;
    }
  }
}

}  // namespace sluice_redis
