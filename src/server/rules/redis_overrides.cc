#include "server/rules/redis_overrides.h"

#include <hiredis/hiredis.h>
#include <xxhash.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <utility>

#include "rules/override_text.h"
#include "server/rules/override_changes.h"
#include "server/rules/redis_rules.h"
#include "stores/redis/client/target.h"
#include "stores/redis/store/operation.h"

namespace sluice::server {
namespace {

constexpr std::chrono::seconds kFirstAnswer{1};
constexpr std::chrono::seconds kLongestScan{30};

std::uint64_t hash_of(std::string_view counter) noexcept {
  return XXH3_64bits(counter.data(), counter.size());
}

}  // namespace

struct RedisOverrides::Timer : boost::asio::steady_timer {
  using boost::asio::steady_timer::steady_timer;
};

RedisOverrides::RedisOverrides(RedisOverridesSource source)
    : ServerOverrides({}), source_(std::move(source)), keys_(source_.target->options.prefix) {}

RedisOverrides::~RedisOverrides() { stop(); }

void RedisOverrides::stop() noexcept {
  loop_ = nullptr;
  timer_.reset();
  client_.reset();  // ends the commands in progress
}

void RedisOverrides::start(boost::asio::io_context& loop) {
  loop_ = &loop;
  timer_ = std::make_unique<Timer>(loop);
  client_ = redis::make_client(loop, patient(*source_.target), nullptr);
  look(Step::kHead);
}

void RedisOverrides::read_all() {
  boost::asio::io_context loop{1};
  start(loop);
  const auto run_until = [&](const bool& condition, std::chrono::seconds at_most) {
    const auto end = std::chrono::steady_clock::now() + at_most;
    while (!condition && std::chrono::steady_clock::now() < end) loop.run_one_until(end);
  };
  run_until(has_answered_, kFirstAnswer);
  if (has_answered_) run_until(is_read_or_not_, kLongestScan);
  stop();
}

void RedisOverrides::follow(boost::asio::io_context& loop, const OnTrouble& on_trouble) {
  on_trouble_ = on_trouble;
  state_ = State::kFine;
  start(loop);
}

void RedisOverrides::look(Step step) {
  step_ = step;
  switch (step) {
    case Step::kHead:
      asked_ = known().number;
      fill_in_read_head(look_, keys_);
      break;
    case Step::kChanges: fill_in_read_changes(look_, keys_, after_); break;
    case Step::kScan: fill_in_scan(look_, keys_, cursor_); break;
  }
  client_->submit(look_);
}

void RedisOverrides::wait() {
  timer_->expires_after(source_.every);
  timer_->async_wait([this](const boost::system::error_code& why) {
    if (!why) look(Step::kHead);
  });
}

void RedisOverrides::Look::done(const redis::Answer& answer) noexcept try {
  overrides_.looked(answer);
} catch (const std::exception&) {
  std::terminate();  // out of memory: nobody would notice that overrides are no longer followed
}

void RedisOverrides::looked(const redis::Answer& answer) {
  if (loop_ == nullptr) return;
  const Step step = step_;
  if (answer.failure == redis::Failure::kError) {
    has_answered_ = true;
    trouble(State::kWrong, read_key(step) + ": " + std::string(answer.text));
  } else if (answer.failure != redis::Failure::kNone) {
    trouble(State::kUnreachable, answer.text);
  } else {
    has_answered_ = true;
    const bool is_right = step == Step::kHead      ? see_head(*answer.reply)
                          : step == Step::kChanges ? see_changes(*answer.reply)
                                                   : see_page(*answer.reply);
    if (is_right) return;
    trouble(State::kWrong, read_key(step) + " holds something else");
  }
  wait();
}

// Names the key that the step reads, and what it should hold.
std::string RedisOverrides::read_key(Step step) const {
  switch (step) {
    case Step::kHead: return keys_.head + " (a hash)";
    case Step::kChanges: return keys_.changes + " (a stream)";
    case Step::kScan: break;
  }
  return keys_.all + " (a hash)";
}

// Each see_* returns whether the reply was right, after it has begun the next step.

bool RedisOverrides::see_head(const redisReply& reply) {
  auto head = read_head(reply);
  if (!head) return false;
  const OverrideHead known = this->known();
  // This server may have made changes since it asked.
  const bool is_later = head->epoch == known.epoch && head->number >= asked_;
  if (!is_synced_ || !is_later) {
    scan(std::move(*head));
  } else if (head->number > known.number) {
    latest_ = head->number;
    look_for_changes(known.number);
  } else {
    trouble(State::kFine, {});
    wait();
  }
  return true;
}

void RedisOverrides::look_for_changes(std::uint64_t after) {
  after_ = after;
  look(Step::kChanges);
}

bool RedisOverrides::see_changes(const redisReply& reply) {
  const auto changes = read_changes(reply);
  if (!changes) return false;
  if (changes->empty()) {
    is_synced_ = false;
    wait();
    return true;
  }
  for (const OverrideChange& change : *changes) {
    if (!apply_next(change)) {
      is_synced_ = false;
      break;
    }
  }
  const std::uint64_t number = known().number;
  if (is_synced_ && number < latest_) {
    look_for_changes(number);
  } else {
    look(Step::kHead);
  }
  return true;
}

void RedisOverrides::scan(OverrideHead head) {
  scanned_ = std::move(head);
  {
    const std::lock_guard lock(mutex_);
    ++scans_;
  }
  cursor_ = "0";
  seen_.clear();
  look(Step::kScan);
}

bool RedisOverrides::see_page(const redisReply& reply) {
  auto page = read_scan(reply);
  if (!page) return false;
  for (const OverrideChange& entry : page->entries) {
    apply(entry);
    seen_.push_back(hash_of(entry.counter));
  }
  cursor_ = std::move(page->cursor);
  if (cursor_ == "0") {
    finish_scan();
    look(Step::kHead);
  } else {
    look(Step::kScan);
  }
  return true;
}

// Removes what Redis no longer has.
void RedisOverrides::finish_scan() {
  constexpr std::size_t kPage = 1000;
  std::sort(seen_.begin(), seen_.end());
  for (std::optional<std::uint64_t> at = 0; at;) {
    const Overrides::Page page = overrides_.list(*at, kPage);
    for (const auto& entry : page.entries) {
      if (!std::binary_search(seen_.begin(), seen_.end(), hash_of(entry.counter))) {
        overrides_.unset(entry.counter);
      }
    }
    at = page.next;
  }
  std::vector<std::uint64_t>().swap(seen_);
  is_synced_ = is_read_or_not_ = true;
  const std::lock_guard lock(mutex_);
  known_ = std::move(scanned_);
}

// Skips what another version of the program has written.
void RedisOverrides::apply(const OverrideChange& change) {
  if (change.text.empty()) {
    overrides_.unset(change.counter);
    return;
  }
  const auto given = rules::parse_override(change.text);
  if (!given) return;
  const bool has_ended = given->until && *given->until <= SystemClock().now();
  if (has_ended) {
    overrides_.unset(change.counter);
  } else {
    static_cast<void>(overrides_.set(change.counter, *given));
  }
}

// Reports a change of the state. It is fine only after everything could be read: a part that can be
// read does not end the trouble with another.
void RedisOverrides::trouble(State state, std::string_view why) {
  if (state == State::kWrong) is_read_or_not_ = true;
  if (std::exchange(state_, state) != state && on_trouble_) on_trouble_(why);
}

Expected<bool> RedisOverrides::set(std::string_view counter, const Override& given) {
  return set_through(client_.get(), counter, given);
}

Expected<bool> RedisOverrides::unset(std::string_view counter) {
  return unset_through(client_.get(), counter);
}

// Returns false if changes before it are missing. Skips what this server has made since it asked.
bool RedisOverrides::apply_next(const OverrideChange& change) {
  const std::lock_guard lock(mutex_);
  if (change.number <= known_.number) return true;
  if (change.number != known_.number + 1) return false;
  apply(change);
  known_.number = change.number;
  return true;
}

OverrideHead RedisOverrides::known() const {
  const std::lock_guard lock(mutex_);
  return known_;
}

std::uint64_t RedisOverrides::scans() const {
  const std::lock_guard lock(mutex_);
  return scans_;
}

// Makes a change that Redis has made, unless the follower has read it already: a change with a
// greater number, which it has read too, would be lost for good. `scans` was read before the change
// was sent: a scan that began since reads it, or the follower does after the scan. The follower
// does not read a change that comes next after those that it knows. Returns what `change` does, or
// false.
bool RedisOverrides::apply_own(std::uint64_t scans, std::uint64_t number,
                               const std::function<bool()>& change) {
  const std::lock_guard lock(mutex_);
  if (scans != scans_ || number <= known_.number) return false;
  const bool result = change();
  if (number == known_.number + 1) known_.number = number;
  return result;
}

Expected<bool> RedisOverrides::set_through(redis::Client* client, std::string_view counter,
                                           const Override& given) {
  if (counter.size() > Overrides::kLongestKey) return overrides_.set(counter, given);
  std::string text;
  rules::append_text(given, text);
  const std::uint64_t before = scans();
  const auto number = change_override(client, keys_, counter, text);
  if (!number) return Unexpected{number.error()};
  Expected<bool> is_new = false;
  apply_own(before, static_cast<std::uint64_t>(*number), [&] {
    is_new = overrides_.set(counter, given);
    return true;
  });
  return is_new;
}

Expected<bool> RedisOverrides::unset_through(redis::Client* client, std::string_view counter) {
  const std::uint64_t before = scans();
  const auto number = change_override(client, keys_, counter, {});
  if (!number) return Unexpected{number.error()};
  apply_own(before, static_cast<std::uint64_t>(*number), [&] { return overrides_.unset(counter); });
  return *number > 0;
}

Expected<bool> RedisOverrides::set_all(Entries entries, bool) {
  for (std::size_t at = 0; at < entries.size(); at += kOverrideGroup) {
    const Entries group = entries.subspan(at, std::min(kOverrideGroup, entries.size() - at));
    const std::uint64_t before = scans();
    const auto numbers = change_overrides(client_.get(), keys_, group);
    if (!numbers) return Unexpected{numbers.error()};
    Expected<bool> set = true;
    for (std::size_t i = 0; i < group.size() && set; ++i) {
      apply_own(before, (*numbers)[i], [&] {
        set = overrides_.set(group[i].counter, group[i].given);
        return true;
      });
    }
    if (!set) return set;
  }
  return true;
}

}  // namespace sluice::server
