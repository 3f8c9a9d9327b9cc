#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/client.h"
#include "stores/redis/client/test_reply.h"
#include "stores/redis/store/loop_store.h"

namespace sluice::redis {

// A client whose server is the test: keeps the commands until the test answers them, in order.
class AnsweredClient final : public Client {
 public:
  void submit(Command& command) noexcept override { commands_.push_back(&command); }
  bool ready() const noexcept override { return true; }
  std::string why() const override { return {}; }
  RedisStoreStats stats() const noexcept override { return {}; }

  // The command that is next: `GET key`, or of a script its arguments.
  std::string next() const {
    if (commands_.empty()) return {};
    const Command& command = *commands_.front();
    const TestReply words("*" + std::to_string(command.elements) + "\r\n" + command.tail);
    std::string out;
    for (std::size_t i = 0; i < (*words).count; ++i) {
      const Reply& word = (*words)[i];
      out.append(i == 0 ? "" : " ").append(word.text);
    }
    return out;
  }
  std::size_t waiting() const { return commands_.size(); }
  // Answers the next command. Returns whether the command accepted the reply.
  bool answer(std::string_view resp) {
    Command& command = take();
    const TestReply reply(resp);
    const bool is_error = (*reply).type == Reply::kError;
    if (!is_error && !command.expects(*reply)) return false;
    Answer answer{.reply = &*reply};
    if (is_error) {
      answer.failure = Failure::kError;
      answer.text = (*reply).text;
    }
    command.done(answer);
    return true;
  }
  void fail(Failure failure) { take().done({.failure = failure, .text = "failed"}); }

 private:
  Command& take() {
    Command& command = *commands_.front();
    commands_.pop_front();
    return command;
  }

  std::deque<Command*> commands_;
};

// One operation, its answers, and how often it has finished.
class TestRequest final {
 public:
  TestRequest(Operation& operation, std::vector<Charge> charges, Verb verb = Verb::kTake,
              std::optional<Instant> now = {})
      : each(charges.size()), operation_(operation), charges_(std::move(charges)) {
    is_prepared = operation_.prepare({verb, charges_, now, each});
  }
  void start(Client& client) {
    operation_.start(client, [this] { ++times_finished; });
  }
  const Decision& decision() const { return operation_.decision(); }

  std::vector<Decision> each;
  bool is_prepared = false;
  int times_finished = 0;

 private:
  Operation& operation_;
  std::vector<Charge> charges_;
};

}  // namespace sluice::redis
