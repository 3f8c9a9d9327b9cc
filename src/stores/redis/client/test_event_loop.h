#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/link.h"

namespace sluice::redis {

// A connection for tests: the test accepts or refuses it, reads what was sent, and sends the
// replies of the server.
class TestTransport final : public Transport {
 public:
  TestTransport(std::string address, Link& link) : address_(std::move(address)), link_(&link) {}

  void connect(std::chrono::milliseconds) override {}
  void flush() override {}
  void close() noexcept override { link_ = nullptr; }

  const std::string& address() const noexcept { return address_; }
  bool is_open() const noexcept { return link_ != nullptr; }
  void accept() { link_->on_connected(); }
  // Writes all output and returns it.
  std::string sent() {
    std::string all;
    for (std::string bytes; link_ != nullptr; all += bytes) {
      link_->take_output(bytes);
      if (bytes.empty()) break;
      link_->on_output(bytes.size());
    }
    return all;
  }
  void says(std::string_view bytes) {
    const auto kept = link_->shared_from_this();
    while (!bytes.empty() && link_ != nullptr) {
      const auto room = link_->room();
      const std::string_view part = bytes.substr(0, room.size());
      std::copy(part.begin(), part.end(), room.begin());
      bytes.remove_prefix(part.size());
      link_->on_input(part.size());
    }
  }
  void ends(const std::string& why = "the server closed the connection") {
    std::exchange(link_, nullptr)->on_closed(why);
  }

 private:
  std::string address_;
  Link* link_;
};

// An event loop whose clock and network are the test's. Its random numbers are all 0, so that a
// Reconnect waits its full time.
class TestEventLoop final : public EventLoop {
 public:
  Time now() const noexcept override { return now_; }
  std::uint64_t random() noexcept override { return 0; }
  std::unique_ptr<Timer> make_timer(std::function<void()> on_time) override {
    return std::make_unique<TestTimer>(*this, std::move(on_time));
  }
  std::shared_ptr<Transport> make_transport(const ServerAddress& address, Link& link) override {
    connections.push_back(std::make_shared<TestTransport>(address.to_string(), link));
    return connections.back();
  }

  // Moves the clock, and runs the timers that are due on the way, each at its time.
  void wait(Time::duration time) {
    const Time end = now_ + time;
    for (;;) {
      TestTimer* first = nullptr;
      for (TestTimer* one : timers_) {
        if (one->at <= end && (first == nullptr || one->at < first->at)) first = one;
      }
      if (first == nullptr) break;
      now_ = std::max(now_, first->at);
      first->at = Time::max();
      const auto on_time = first->on_time;  // the timer may be destroyed meanwhile
      on_time();
    }
    now_ = end;
  }
  // As wait() for no time: the rest of this turn.
  void turn() { wait(Time::duration::zero()); }

  TestTransport& last() { return *connections.back(); }
  std::vector<std::shared_ptr<TestTransport>> connections;  // all that were ever made

 private:
  struct TestTimer final : public Timer {
    TestTimer(TestEventLoop& its_loop, std::function<void()> function)
        : loop(its_loop), on_time(std::move(function)) {
      loop.timers_.push_back(this);
    }
    ~TestTimer() override { std::erase(loop.timers_, this); }
    void set(Time when) noexcept override { at = when; }
    void stop() noexcept override { at = Time::max(); }

    TestEventLoop& loop;
    std::function<void()> on_time;
    Time at = Time::max();
  };

  Time now_{std::chrono::hours{1}};
  std::vector<TestTimer*> timers_;
};

}  // namespace sluice::redis
