#include "server/rules/override_changes.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rules/override_text.h"
#include "server/net/fiber.h"
#include "stores/redis/store/operation.h"

namespace sluice::server {
namespace {

// A script call of so many changes takes Redis less than a millisecond.
constexpr std::size_t kChangesPerCall = 200;

std::string new_epoch() {
  std::random_device random;
  return std::to_string(std::uint64_t{random()} << 32 | random());
}

std::string too_many() {
  return "there are " + std::to_string(Overrides::kDefaultMost) +
         " overrides, as many as there may be; expected fewer";
}

// Returns the error of a script without the place in it.
std::string_view without_script(std::string_view error) {
  constexpr std::string_view kPlace = "@user_script:";
  if (error.starts_with("ERR Error running script")) {
    const std::size_t place = error.rfind(kPlace);
    const std::size_t end = place == error.npos ? place : error.find(": ", place + kPlace.size());
    if (end != error.npos) error.remove_prefix(end + 2);
  }
  return error.substr(0, error.find(" script: "));
}

std::string why_not(const redis::Answer& answer) {
  switch (answer.failure) {
    case redis::Failure::kUnavailable:
      return "Redis cannot be reached, and nothing is changed: " + std::string(answer.text);
    case redis::Failure::kError:
      return "Redis refused the change: " + std::string(without_script(answer.text));
    default: return "Redis did not answer; the change may have been made; repeat it";
  }
}

// A command that a fiber waits for.
class Change final : public redis::Command {
 public:
  Expected<std::int64_t> wait() {
    wait_.wait();
    if (!why_.empty()) return Unexpected{std::move(why_)};
    if (number_ < 0) return Unexpected{too_many()};
    return number_;
  }
  void done(const redis::Answer& answer) noexcept override {
    if (answer.failure != redis::Failure::kNone) {
      why_ = why_not(answer);
    } else if (answer.reply->type != REDIS_REPLY_INTEGER) {
      why_ = "Redis answered something else; the change may have been made; repeat it";
    } else {
      number_ = answer.reply->integer;
    }
    wait_.finish();
  }

 private:
  net::FiberWait wait_;
  std::string why_;
  std::int64_t number_ = 0;
};

Expected<bool> check(const redis::Client* client) {
  if (client != nullptr && net::current_fiber() != nullptr) return true;
  return Unexpected{"the server is not connected to Redis, and nothing is changed"};
}

}  // namespace

Expected<std::int64_t> change_override(redis::Client* client, const OverrideKeys& keys,
                                       std::string_view counter, std::string_view text) {
  if (const auto can = check(client); !can) return Unexpected{can.error()};
  Change command;
  fill_in_change(command, keys, new_epoch(), counter, text, Overrides::kDefaultMost);
  client->submit(command);
  return command.wait();
}

Expected<std::vector<std::uint64_t>> change_overrides(
    redis::Client* client, const OverrideKeys& keys,
    std::span<const Overrides::Page::Entry> entries) {
  if (const auto can = check(client); !can) return Unexpected{can.error()};
  std::vector<std::string> texts(entries.size());
  std::vector<OverrideChange> changes;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    rules::append_text(entries[i].given, texts[i]);
    changes.push_back({0, entries[i].counter, texts[i]});
  }
  std::deque<Change> calls;
  const std::string epoch = new_epoch();
  for (std::size_t at = 0; at < changes.size(); at += kChangesPerCall) {
    const std::size_t count = std::min(kChangesPerCall, changes.size() - at);
    fill_in_change_all(calls.emplace_back(), keys, epoch, std::span(changes).subspan(at, count),
                       Overrides::kDefaultMost);
  }
  for (Change& call : calls) client->submit(call);
  std::vector<std::uint64_t> numbers;
  std::string why;
  for (Change& call : calls) {
    const auto last = call.wait();
    if (!last && why.empty()) why = last.error();
    if (!why.empty()) continue;
    const std::size_t count = std::min(kChangesPerCall, entries.size() - numbers.size());
    for (std::size_t i = count; i > 0; --i)
      numbers.push_back(static_cast<std::uint64_t>(*last) - i + 1);
  }
  if (!why.empty()) return Unexpected{std::move(why)};
  return numbers;
}

}  // namespace sluice::server
