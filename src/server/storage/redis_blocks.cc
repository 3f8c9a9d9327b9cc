#include "server/storage/redis_blocks.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/net/fiber.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/state_reader.h"

namespace sluice::server {
namespace {

using Steady = std::chrono::steady_clock;
using Slot = std::optional<std::uint16_t>;

constexpr std::chrono::seconds kLongest{5};
constexpr std::size_t kAtOnce = 100;  // commands under way

std::string_view text_of(const redisReply& reply) noexcept {
  const bool has_text = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS;
  return has_text ? std::string_view(reply.str, reply.len) : std::string_view();
}

// A command that a fiber waits for.
class Ask final : public redis::Command {
 public:
  using See = std::function<void(const redisReply&)>;

  Ask(Slot in_slot, std::initializer_list<std::string_view> words, See see) : see_(std::move(see)) {
    slot = in_slot;
    repeatable = true;
    for (const std::string_view word : words) append(word);
  }
  Expected<bool> wait() {
    wait_.wait();
    if (!why_.empty()) return Unexpected{std::move(why_)};
    return true;
  }
  void done(const redis::Answer& answer) noexcept override {
    if (answer.failure == redis::Failure::kNone) {
      see_(*answer.reply);
    } else {
      why_ = answer.text.empty() ? "Redis did not answer" : answer.text;
    }
    wait_.finish();
  }

 private:
  const See see_;
  net::FiberWait wait_;
  std::string why_;
};

// Returns one slot of each master of a cluster, by which the client finds it.
std::vector<Slot> slots_of_masters(const redisReply& ranges) {
  std::vector<Slot> slots;
  std::set<std::pair<std::string_view, long long>> masters;
  for (std::size_t i = 0; i < ranges.elements; ++i) {
    const redisReply& range = *ranges.element[i];
    if (range.type != REDIS_REPLY_ARRAY || range.elements < 3) continue;
    const redisReply& master = *range.element[2];
    if (master.type != REDIS_REPLY_ARRAY || master.elements < 2) continue;
    if (!masters.emplace(text_of(*master.element[0]), master.element[1]->integer).second) continue;
    slots.emplace_back(static_cast<std::uint16_t>(range.element[0]->integer));
  }
  return slots;
}

// A pattern that matches the text itself.
std::string literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

class Search {
 public:
  Search(redis::Client& client, const redis::Target& target, std::size_t most)
      : client_(client), prefix_(target.options.prefix), most_(most) {}

  Expected<HeldBlocks> find(bool is_cluster) {
    std::vector<Slot> slots{Slot{}};
    if (is_cluster) {
      Ask ask({}, {"CLUSTER", "SLOTS"}, [&](const redisReply& r) { slots = slots_of_masters(r); });
      if (auto asked = run(ask); !asked) return Unexpected{std::move(asked.error())};
    }
    for (const Slot slot : slots) {
      if (auto scanned = scan(slot); !scanned) return Unexpected{std::move(scanned.error())};
    }
    return std::move(found_);
  }

 private:
  Expected<bool> run(Ask& ask) {
    client_.submit(ask);
    return ask.wait();
  }
  bool is_enough() const { return found_.more || Steady::now() > end_; }

  Expected<bool> scan(Slot slot) {
    const std::string pattern = literal(prefix_) + redis::format::kOfBlocks + "*";
    std::string cursor = "0";
    do {
      if (is_enough()) {
        found_.more = true;
        return true;
      }
      std::vector<std::string> keys;
      Ask ask(slot, {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, [&](const redisReply& r) {
        cursor = "0";
        if (r.type != REDIS_REPLY_ARRAY || r.elements != 2) return;
        cursor = text_of(*r.element[0]);
        const redisReply& list = *r.element[1];
        for (std::size_t i = 0; i < list.elements; ++i)
          keys.emplace_back(text_of(*list.element[i]));
      });
      if (auto asked = run(ask); !asked) return asked;
      if (auto got = read(keys); !got) return got;
    } while (cursor != "0");
    return true;
  }

  Expected<bool> read(std::span<const std::string> keys) {
    Expected<bool> got = true;
    while (got && !keys.empty()) {
      const std::size_t count = std::min(keys.size(), kAtOnce);
      got = read_at_once(keys.first(count));
      keys = keys.subspan(count);
    }
    return got;
  }

  Expected<bool> read_at_once(std::span<const std::string> keys) {
    std::deque<Ask> asks;
    for (const std::string& key : keys) {
      auto name = redis::read_block_name(std::string_view(key).substr(prefix_.size()));
      if (!name || name->keyspace != Keyspace::kRules) continue;
      const auto see = [this, name = std::move(*name)](const redisReply& r) {
        see_block(name, text_of(r));
      };
      client_.submit(asks.emplace_back(redis::slot_of(key),
                                       std::initializer_list<std::string_view>{"GET", key}, see));
    }
    Expected<bool> all = true;
    for (Ask& ask : asks) {
      if (auto got = ask.wait(); !got) all = std::move(got);
    }
    return all;
  }

  void see_block(const redis::CounterName& name, std::string_view value) {
    const auto until = redis::read_block_end(value);
    if (!until || *until <= now_ || !seen_.insert(name.tag + '\0' + name.key).second) return;
    if (found_.blocks.size() == most_) {
      found_.more = true;
    } else {
      found_.blocks.push_back({name.key, name.tag, *until});
    }
  }

  redis::Client& client_;
  const std::string prefix_;
  const std::size_t most_;
  const Steady::time_point end_ = Steady::now() + kLongest;
  const Instant now_ = SystemClock().now();
  HeldBlocks found_;
  std::set<std::string> seen_;  // SCAN may return a key twice
};

}  // namespace

Expected<HeldBlocks> find_blocks(redis::Client& client, const redis::Target& target,
                                 std::size_t most) {
  return Search(client, target, most).find(target.kind == redis::Target::Kind::kCluster);
}

}  // namespace sluice::server
