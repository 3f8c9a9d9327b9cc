#pragma once

#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/store.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/target.h"
#include "stores/redis/client/test_command.h"
#include "stores/redis/client/test_event_loop.h"

namespace sluice::redis {

// A client on a TestEventLoop, the commands that were submitted, and the events it reported. It
// speaks RESP2, so that its handshake is CLIENT SETNAME.
class TestClient final : public StoreObserver {
 public:
  using Make = std::unique_ptr<Client> (*)(std::unique_ptr<EventLoop>,
                                           std::shared_ptr<const Target>, StoreObserver*);
  TestClient(Make make, RedisOptions options) {
    options.protocol = 2;
    auto its_loop = std::make_unique<TestEventLoop>();
    loop_ = its_loop.get();
    client = make(std::move(its_loop), make_target(options).value(), this);
  }
  ~TestClient() override { client.reset(); }

  TestEventLoop& loop() { return *loop_; }
  TestTransport& last() { return loop_->last(); }
  std::size_t connections() { return loop_->connections.size(); }
  // The newest connection to the server.
  TestTransport& to(std::string_view address) {
    for (std::size_t i = connections(); i-- > 0;) {
      if (loop_->connections[i]->address() == address) return *loop_->connections[i];
    }
    throw std::logic_error("no connection to " + std::string(address));
  }
  TestCommand& submit(std::initializer_list<std::string_view> words) {
    TestCommand& command = commands.emplace_back(words);
    client->submit(command);
    return command;
  }
  void on(const StoreEvent& event) noexcept override {
    events.push_back(std::string(to_string(event.kind)) + " " + std::string(event.endpoint) + " " +
                     std::string(event.why));
  }

  std::unique_ptr<Client> client;
  std::deque<TestCommand> commands;
  std::vector<std::string> events;

 private:
  TestEventLoop* loop_;
};

// Accepts a connection and its handshake.
inline void become_ready(TestTransport& connection) {
  connection.accept();
  connection.sent();
  connection.says("+OK\r\n");
}

}  // namespace sluice::redis
