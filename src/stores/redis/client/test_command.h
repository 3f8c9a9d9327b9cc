#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "stores/redis/client/command.h"
#include "stores/redis/client/test_reply.h"

namespace sluice::redis {

// How a command ended: the reply, or "timeout: ...", "lost: ...", "unavailable: ...".
inline std::string described(const Answer& answer) {
  const auto with = [&](const char* name) { return name + std::string(answer.text); };
  switch (answer.failure) {
    case Failure::kNone:
    case Failure::kError: return described(*answer.reply);
    case Failure::kTimeout: return with("timeout: ");
    case Failure::kLost: return with("lost: ");
    case Failure::kUnavailable: return with("unavailable: ");
  }
  return "?";
}

// A command that records how it ended, and how often.
class TestCommand final : public Command {
 public:
  explicit TestCommand(std::initializer_list<std::string_view> words) : name(*words.begin()) {
    for (const std::string_view word : words) append(word);
  }
  TestCommand(const Script& its_script, std::initializer_list<std::string_view> words)
      : TestCommand(words) {
    script = &its_script;
  }
  void done(const Answer& answer) noexcept override {
    ++times;
    said = described(answer);
    if (then) then();
  }

  std::string name;  // the first word
  int times = 0;
  std::string said;
  std::function<void()> then;
};

}  // namespace sluice::redis
