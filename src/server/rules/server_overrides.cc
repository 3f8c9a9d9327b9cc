// The overrides of a server: a table that decisions read, and the place where changes are kept.
// With a memory store that is a file, which a successor shares. With Redis it is a hash, and a
// stream of the latest changes, which each server follows; one that has missed a change reads the
// hash again.

#include "server/rules/server_overrides.h"

#include <xxhash.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <exception>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "rules/override_text.h"
#include "server/net/fiber.h"
#include "server/rules/redis_rules.h"
#include "sluice/expected.h"
#include "sluice/overrides.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/target.h"

namespace sluice::server {

struct OverrideChange {
  std::uint64_t number = 0;
  std::string_view counter;
  std::string_view text;   // empty: it was removed
  std::string_view token;  // empty: an older version of the program has made it
};

// A change that a script has made.
struct OverrideMade {
  std::uint64_t number = 0;
  std::string token;
  std::string before;  // the token of the change before it; empty: none
};

namespace {

constexpr std::size_t kOverrideGroup = 1600;  // overrides in one call of change_overrides()

constexpr std::uint64_t kPage = 1000;

// ARGV: token, counter, text, most. Returns the number of the change, 0 if there was nothing to
// remove, -1 if there are too many; what was there before, or null; and the token of the change
// before it, or null.
constexpr std::string_view kChangeText = R"(local before = redis.call('HGET', KEYS[1], ARGV[2])
if ARGV[3] == '' then
  if not before then return {0, before} end
  redis.call('HDEL', KEYS[1], ARGV[2])
else
  if not before and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return {-1, before} end
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
if redis.call('HSETNX', KEYS[3], 'epoch', ARGV[1]) == 1 then redis.call('DEL', KEYS[2]) end
local number = redis.call('HINCRBY', KEYS[3], 'number', 1)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 100000, number .. '-0', 'c', ARGV[2], 't', ARGV[3],
  'n', ARGV[1])
local last = redis.call('HGET', KEYS[3], 'last')
redis.call('HSET', KEYS[3], 'last', ARGV[1])
return {number, before, last}
)";
constexpr redis::Script kChange{"change_override", kChangeText,
                                "19dcc960d93cb942a72572ae3ac4b4beddf9f71f"};

// ARGV: token, most, and counters with their texts. Returns the number of the last change, or -1 if
// there are too many; null; and the token of the change before the first, or null.
constexpr std::string_view kChangesText = R"(local count = (#ARGV - 2) / 2
local there = redis.call('HLEN', KEYS[1])
if there + count > tonumber(ARGV[2]) then
  for i = 3, #ARGV, 2 do there = there + 1 - redis.call('HEXISTS', KEYS[1], ARGV[i]) end
  if there > tonumber(ARGV[2]) then return -1 end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
if redis.call('HSETNX', KEYS[3], 'epoch', ARGV[1]) == 1 then redis.call('DEL', KEYS[2]) end
local number = redis.call('HINCRBY', KEYS[3], 'number', count) - count
for i = 3, #ARGV, 2 do
  number = number + 1
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', 100000, number .. '-0', 'c', ARGV[i], 't', ARGV[i + 1],
    'n', ARGV[1])
end
local last = redis.call('HGET', KEYS[3], 'last')
redis.call('HSET', KEYS[3], 'last', ARGV[1])
return {number, false, last}
)";
constexpr redis::Script kChanges{"change_overrides", kChangesText,
                                 "9ff181747dd9c76ee86b50de497fb9519888e9d0"};

// ARGV: counters with the texts of overrides that have ended. Removes those that still have that
// text. Returns how many have not ended by the clock of Redis.
constexpr std::string_view kRemoveText = R"(local time, early = redis.call('TIME'), 0
local now = time[1] * 1000000 + time[2]
for i = 1, #ARGV, 2 do
  local ends = tonumber(string.match(ARGV[i + 1], ' until=(%d+)$'))
  if ends and ends > now then
    early = early + 1
  elseif redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return early
)";
constexpr redis::Script kRemove{"remove_overrides", kRemoveText,
                                "e5c248fc4e2f6203b3d7114e499c839f031a3f1e"};

// [ID, [c, COUNTER, t, TEXT, n, TOKEN]]; older versions of the program write no token.
std::optional<OverrideChange> read_change(const redis::Reply& entry) {
  if (!entry.is_array_of(2) || !entry[1].is_array_of(4)) return std::nullopt;
  const std::string_view id = entry[0].string();
  const auto number = base::read_number<std::uint64_t>(id.substr(0, id.find('-')));
  if (!number) return std::nullopt;
  const redis::Reply& fields = entry[1];
  const auto token = fields.is_array_of(6) ? fields[5].string() : std::string_view();
  return OverrideChange{*number, fields[1].string(), fields[3].string(), token};
}

void fill_in_read_head(redis::Command& command, const OverrideKeys& keys) {
  begin_command(command, keys.all, {"HMGET", keys.head, "epoch", "number", "last"});
}

// From the known change on, whose token shows whether Redis still has it.
void fill_in_read_changes(redis::Command& command, const OverrideKeys& keys, std::uint64_t known) {
  const std::string first = std::to_string(known) + "-0";
  begin_command(command, keys.all,
                {"XRANGE", keys.changes, first, "+", "COUNT", std::to_string(kPage)});
}

void fill_in_scan(redis::Command& command, const OverrideKeys& keys, std::string_view cursor) {
  begin_command(command, keys.all, {"HSCAN", keys.all, cursor, "COUNT", std::to_string(kPage)});
}

// With an empty text: removes it.
void fill_in_change(redis::Command& command, const OverrideKeys& keys, std::string_view token,
                    std::string_view counter, std::string_view text, std::size_t most) {
  begin_command(command, keys.all, {"3", keys.all, keys.changes, keys.head, token, counter, text});
  command.script = &kChange;
  command.append(std::uint64_t{most});
}

// Sets at most 1000 of them in one step. Each has a text.
void fill_in_change_all(redis::Command& command, const OverrideKeys& keys, std::string_view token,
                        std::span<const OverrideChange> changes, std::size_t most) {
  begin_command(command, keys.all, {"3", keys.all, keys.changes, keys.head, token});
  command.script = &kChanges;
  command.append(std::uint64_t{most});
  for (const OverrideChange& change : changes) {
    command.append(change.counter);
    command.append(change.text);
  }
}

// Each read_* returns nothing for a reply that is none. What it returns borrows the reply.

std::optional<OverrideHead> read_head(const redis::Reply& reply) {
  if (!reply.is_array_of(3)) return std::nullopt;
  OverrideHead head{std::string(reply[0].string())};
  if (!head.epoch.empty()) {
    head.number = base::read_number<std::uint64_t>(reply[1].string()).value_or(0);
    head.last = reply[2].string();
  }
  return head;
}

std::optional<std::vector<OverrideChange>> read_changes(const redis::Reply& reply) {
  if (!reply.is_array_of(0)) return std::nullopt;
  std::vector<OverrideChange> changes;
  for (const redis::Reply& entry : reply) {
    const auto change = read_change(entry);
    if (!change) return std::nullopt;
    changes.push_back(*change);
  }
  return changes;
}

// Sets the cursor of the next page; "0": this is the last one.
std::optional<std::vector<OverrideChange>> read_page(const redis::Reply& reply,
                                                     std::string& cursor) {
  if (!reply.is_array_of(2) || !reply[1].is_array_of(0) || reply[0].string().empty()) return {};
  cursor = reply[0].string();
  std::vector<OverrideChange> entries;
  const redis::Reply& pairs = reply[1];
  for (std::size_t i = 0; i + 1 < pairs.count; i += 2) {
    entries.push_back({0, pairs[i].string(), pairs[i + 1].string(), {}});
  }
  return entries;
}

// A script call with this many changes takes Redis less than a millisecond.
constexpr std::size_t kChangesPerCall = 200;

// Of a change; that of the first is the epoch too.
std::string new_token() {
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

// Returns the change that a script has made.
Expected<OverrideMade> change_of(const redis::Answer& answer, const std::string& token) {
  if (answer.failure != redis::Failure::kNone) return Unexpected{why_not(answer)};
  const redis::Reply& all = *answer.reply;
  const redis::Reply& reply = all.is_array_of(2) ? all[0] : all;
  if (reply.type != redis::Reply::kInteger) {
    return Unexpected{"Redis answered something else; the change may have been made; repeat it"};
  }
  if (reply.integer < 0) return Unexpected{too_many()};
  return OverrideMade{static_cast<std::uint64_t>(reply.integer), token,
                      std::string(all.is_array_of(3) ? all[2].string() : std::string_view())};
}

Expected<bool> check(const redis::Client* client) {
  if (client != nullptr && net::current_fiber() != nullptr) return true;
  return Unexpected{"the server is not connected to Redis, and nothing is changed"};
}

// Changes the override of a counter in Redis, or removes it if the text is empty. Returns the
// change, whose number is 0 if there was nothing to remove, and sets `before` to the text of what
// was there. Waits, on a fiber of the client's loop; null is an error. Errors: why it was not
// changed, or may not be.
Expected<OverrideMade> change_override(redis::Client* client, const OverrideKeys& keys,
                                       std::string_view counter, std::string_view text,
                                       std::optional<std::string>& before) {
  if (const auto can = check(client); !can) return Unexpected{can.error()};
  net::FiberWait wait;
  const std::string token = new_token();
  Expected<OverrideMade> made = OverrideMade();
  redis::AskCommand command([&](const redis::Answer& answer) {
    made = change_of(answer, token);
    if (made && answer.reply->is_array_of(2) &&
        (*answer.reply)[1].type != redis::Reply::Type::kNil) {
      before = (*answer.reply)[1].string();
    }
    wait.finish();
  });
  fill_in_change(command, keys, token, counter, text, Overrides::kDefaultMost);
  client->submit(command);
  wait.wait();
  return made;
}

bool has_ended(const Override& given) { return given.until && *given.until <= SystemClock().now(); }

// Reads the text of what a change has replaced; an override that had ended is none. Errors: why it
// cannot be read.
Expected<ServerOverrides::Before> read_before(const std::optional<std::string>& text) {
  if (!text) return ServerOverrides::Before();
  const auto read = rules::parse_override(*text);
  if (read && has_ended(*read)) return ServerOverrides::Before();
  if (read) return ServerOverrides::Before(*read);
  return Unexpected{"the change was made, but what was there before cannot be read: " +
                    base::in_quotes(*text) + ": " + read.error()};
}

// Sets at most kOverrideGroup overrides in script calls that are sent together. Returns the change
// of each. After an error, some of them may be set.
Expected<std::vector<OverrideMade>> change_overrides(
    redis::Client* client, const OverrideKeys& keys,
    std::span<const Overrides::Page::Entry> entries) {
  if (const auto can = check(client); !can) return Unexpected{can.error()};
  std::vector<std::string> texts(entries.size());
  std::vector<OverrideChange> changes;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    rules::append_text(entries[i].given, texts[i]);
    changes.push_back({0, entries[i].counter, texts[i], {}});
  }
  net::FiberWait wait;
  std::deque<redis::AskCommand> calls;
  std::deque<Expected<OverrideMade>> answers;  // the last change of each call
  std::size_t pending = 0;
  const std::string token = new_token();
  for (std::size_t at = 0; at < changes.size(); at += kChangesPerCall) {
    const std::size_t count = std::min(kChangesPerCall, changes.size() - at);
    calls.emplace_back(
        [&, last = &answers.emplace_back(OverrideMade())](const redis::Answer& answer) {
          *last = change_of(answer, token);
          if (--pending == 0) wait.finish();
        });
    fill_in_change_all(calls.back(), keys, token, std::span(changes).subspan(at, count),
                       Overrides::kDefaultMost);
  }
  pending = calls.size();
  for (redis::AskCommand& call : calls) client->submit(call);
  if (!calls.empty()) wait.wait();
  std::vector<OverrideMade> made;
  std::string why;
  for (const auto& last : answers) {
    if (!last && why.empty()) why = last.error();
    if (!why.empty()) continue;
    const std::size_t count = std::min(kChangesPerCall, entries.size() - made.size());
    for (std::size_t i = count; i > 0; --i) {
      made.push_back({last->number - i + 1, token, i == count ? last->before : token});
    }
  }
  if (!why.empty()) return Unexpected{std::move(why)};
  return made;
}

constexpr std::size_t kMostEnded = 10 * kPage;
constexpr std::chrono::minutes kRemoveAgain{1};  // after an error

constexpr std::chrono::seconds kFirstAnswer{1};
constexpr std::chrono::seconds kLongestScan{30};
constexpr std::chrono::milliseconds kLook{5};  // between two tries to lock the file

std::uint64_t hash_of(std::string_view counter) noexcept {
  return XXH3_64bits(counter.data(), counter.size());
}

}  // namespace

RedisOverrides::RedisOverrides(std::shared_ptr<const redis::Target> target,
                               std::chrono::milliseconds every)
    : ServerOverrides({}),
      target_(std::move(target)),
      every_(every),
      keys_(target_->options.prefix) {}

RedisOverrides::~RedisOverrides() { stop(); }

void RedisOverrides::stop() noexcept {
  loop_ = nullptr;
  timer_.reset();
  client_.reset();  // ends the commands in progress
}

void RedisOverrides::start(boost::asio::io_context& loop) {
  loop_ = &loop;
  timer_ = std::make_unique<boost::asio::steady_timer>(loop);
  client_ = redis::make_client(loop, patient(*target_), nullptr);
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

void RedisOverrides::follow(boost::asio::io_context& loop, const OnTrouble& on_trouble,
                            const OnLost& on_lost) {
  on_trouble_ = on_trouble;
  on_lost_ = on_lost;
  state_ = State::kFine;
  start(loop);
}

void RedisOverrides::look(Step step) {
  remove_ended();
  step_ = step;
  switch (step) {
    case Step::kHead:
      asked_ = known();
      fill_in_read_head(look_, keys_);
      break;
    case Step::kChanges: fill_in_read_changes(look_, keys_, read_from_); break;
    case Step::kScan: fill_in_scan(look_, keys_, cursor_); break;
  }
  if (!looks_since_) looks_since_ = SystemClock().now();
  client_->submit(look_);
}

void RedisOverrides::wait() {
  timer_->expires_after(every_);
  timer_->async_wait([this](const boost::system::error_code& why) {
    if (!why) look(Step::kHead);
  });
}

// Without memory the process ends: nobody would notice that overrides are no longer followed.
void RedisOverrides::looked(const redis::Answer& answer) {
  if (loop_ == nullptr) return;
  const Step step = step_;
  const bool is_answered =
      answer.failure == redis::Failure::kNone || answer.failure == redis::Failure::kError;
  if (is_answered) looks_since_.reset();
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

bool RedisOverrides::see_head(const redis::Reply& reply) {
  auto head = read_head(reply);
  if (!head) return false;
  adopt_first(head->epoch);
  const OverrideHead known = this->known();
  // This server may have made changes since it asked.
  const auto replaces = [&](const OverrideHead& at) {
    return head->number == at.number && head->last != at.last;
  };
  const bool is_later = head->epoch == known.epoch && head->number >= asked_.number;
  if (is_later && (replaces(asked_) || replaces(known))) is_replaced_ = true;
  if (!is_synced_ || !is_later || is_replaced_ || has_lost_first(*head)) {
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

void RedisOverrides::look_for_changes(std::uint64_t known) {
  read_from_ = known;
  look(Step::kChanges);
}

bool RedisOverrides::see_changes(const redis::Reply& reply) {
  const auto changes = read_changes(reply);
  if (!changes) return false;
  for (const OverrideChange& change : *changes) {
    if (!apply_next(change)) {
      is_synced_ = false;
      break;
    }
  }
  const std::uint64_t number = known().number;
  if (is_synced_ && number == read_from_) {  // there are none
    is_synced_ = false;
    wait();
  } else if (is_synced_ && number < latest_) {
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
  static_cast<void>(has_moved());
  page_moves_.reset();
  look(Step::kScan);
}

// Whether another server may have answered than for the page before: it took more or fewer
// connections and redirects.
bool RedisOverrides::has_moved() {
  const RedisStoreStats stats = client_->stats();
  const std::uint64_t all = stats.connects + stats.redirects;
  const std::uint64_t more = all - std::exchange(moves_, all);
  const auto before = std::exchange(page_moves_, more);
  return before && *before != more;
}

bool RedisOverrides::see_page(const redis::Reply& reply) {
  const auto page = read_page(reply, cursor_);
  if (!page) return false;
  if (has_moved()) {  // a cursor is only of use to the server that has made it
    is_synced_ = false;
    wait();
    return true;
  }
  for (const OverrideChange& entry : *page) {
    apply(entry);
    seen_.push_back(hash_of(entry.counter));
  }
  if (cursor_ == "0") {
    finish_scan();
    look(Step::kHead);
  } else {
    look(Step::kScan);
  }
  return true;
}

// Removes what Redis no longer has. Without an epoch, with another one, with a number from before,
// or with another change of a known number, nobody has removed it: it is lost.
void RedisOverrides::finish_scan() {
  const std::string epoch = known().epoch;
  const bool has_other_data = std::exchange(is_replaced_, false) || scanned_.epoch.empty() ||
                              scanned_.number < asked_.number ||
                              (!epoch.empty() && epoch != scanned_.epoch);
  std::vector<Overrides::Page::Entry> lost;
  drop_ended(SystemClock().now());
  std::ranges::sort(seen_);
  for (std::optional<std::uint64_t> at = 0; at;) {
    Overrides::Page page = overrides_.list(*at, kPage);
    for (auto& entry : page.entries) {
      const bool is_there = std::ranges::binary_search(seen_, hash_of(entry.counter));
      if (!is_there && overrides_.unset(entry.counter)) lost.push_back(std::move(entry));
    }
    at = page.next;
  }
  std::vector<std::uint64_t>().swap(seen_);
  is_synced_ = was_read_ = is_read_or_not_ = true;
  {
    const std::lock_guard lock(mutex_);
    known_ = std::move(scanned_);
  }
  if (has_other_data && !lost.empty() && on_lost_) on_lost_(lost);
}

// Skips what another version of the program has written.
void RedisOverrides::apply(const OverrideChange& change) {
  if (change.text.empty()) {
    overrides_.unset(change.counter);
    return;
  }
  const auto given = rules::parse_override(change.text);
  if (!given) return;
  if (has_ended(*given)) {
    overrides_.unset(change.counter);
    add_ended(change.counter, std::string(change.text));
  } else {
    static_cast<void>(overrides_.set(change.counter, *given));
  }
}

void RedisOverrides::drop_ended(Instant now) {
  if (has_gone_back(now)) is_synced_ = false;
  for (const auto& entry : overrides_.take_ended(now, kMostEnded - ended_.size())) {
    std::string text;
    rules::append_text(entry.given, text);
    add_ended(entry.counter, std::move(text));
  }
}

// If there are too many, those of a scan stay in Redis until a later one.
void RedisOverrides::add_ended(std::string_view counter, std::string text) {
  if (target_->options.scripting && ended_.size() < kMostEnded) {
    ended_.emplace_back(counter, std::move(text));
  }
}

// Every server does that, so the others need not know of it.
void RedisOverrides::remove_ended() {
  if (ended_.empty() || removing_ > 0 || std::chrono::steady_clock::now() < remove_at_) return;
  removing_ = std::min(ended_.size(), std::size_t{kPage});
  begin_command(remove_, keys_.all, {"1", keys_.all});
  remove_.script = &kRemove;
  for (std::size_t i = 0; i < removing_; ++i) {
    remove_.append(ended_[i].first);
    remove_.append(ended_[i].second);
  }
  client_->submit(remove_);
}

// What Redis refuses to remove stays there until a later scan.
void RedisOverrides::removed(const redis::Answer& answer) {
  const auto count = static_cast<std::ptrdiff_t>(std::exchange(removing_, 0));
  if (answer.failure == redis::Failure::kNone && answer.reply->integer == 0) {
    ended_.erase(ended_.begin(), ended_.begin() + count);
    return;
  }
  if (answer.failure == redis::Failure::kError) ended_.clear();
  remove_at_ = std::chrono::steady_clock::now() + kRemoveAgain;
}

// Reports a change of the state. It is fine only after everything could be read: a part that can be
// read does not end the trouble with another.
void RedisOverrides::trouble(State state, std::string_view why) {
  if (state == State::kWrong) is_read_or_not_ = true;
  if (std::exchange(state_, state) != state && on_trouble_) on_trouble_(why);
}

// Returns false if changes before it are missing, or Redis has another one instead of the known
// one. Skips what this server has made since it asked.
bool RedisOverrides::apply_next(const OverrideChange& change) {
  const std::lock_guard lock(mutex_);
  if (change.number < known_.number) return true;
  if (change.number == known_.number) {
    is_replaced_ = !change.token.empty() && change.token != known_.last;
    return !is_replaced_;
  }
  if (change.number != known_.number + 1) return false;
  apply(change);
  known_.number = change.number;
  if (!change.token.empty()) known_.last = change.token;
  return true;
}

// The first change of all gives Redis an epoch. All changes are in the stream then, so a scan,
// whose end own changes would wait for, is not needed.
void RedisOverrides::adopt_first(std::string_view epoch) {
  const std::lock_guard lock(mutex_);
  if (is_synced_ && known_ == OverrideHead()) known_.epoch = epoch;
}

// Whether Redis, which has no epoch, has lost the first change of all: this server made it, and the
// follower has not seen it.
bool RedisOverrides::has_lost_first(const OverrideHead& head) {
  const std::lock_guard lock(mutex_);
  return std::exchange(has_first_, false) && head.epoch.empty();
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
// does not read a change that comes next after those that it knows.
void RedisOverrides::apply_own(std::uint64_t scans, const OverrideMade& made,
                               const std::function<void()>& change) {
  const std::lock_guard lock(mutex_);
  if (scans != scans_ || made.number <= known_.number) return;
  change();
  if (known_.epoch.empty()) {
    has_first_ = true;
  } else if (made.number == known_.number + 1 && made.before == known_.last) {
    known_.number = made.number;
    known_.last = made.token;
  }
}

Expected<ServerOverrides::Before> RedisOverrides::change(std::string_view counter,
                                                         const Override* given,
                                                         std::optional<redis::Client*> through) {
  if (given != nullptr && counter.size() > Overrides::kLongestKey) {
    if (const auto set = overrides_.set(counter, *given); !set) return Unexpected{set.error()};
    return Before();
  }
  std::string text;
  if (given != nullptr) rules::append_text(*given, text);
  const std::uint64_t known_scans = scans();
  const OverrideHead at = known();
  std::optional<std::string> before;
  const auto made = change_override(through.value_or(client_.get()), keys_, counter, text, before);
  if (!made) return Unexpected{made.error()};
  Expected<bool> set = true;
  apply_own(known_scans, *made, [&] {
    if (given == nullptr) {
      overrides_.unset(counter);
    } else {
      set = overrides_.set(counter, *given);
    }
  });
  if (!set) return Unexpected{set.error()};
  if (made->number == 0) {
    // Another server has removed it, and the follower may not have read that. If it has read
    // nothing meanwhile, it has yet to read a later change of this counter too.
    const std::lock_guard lock(mutex_);
    if (known_scans == scans_ && at == known_) overrides_.unset(counter);
  }
  return read_before(before);
}

Status RedisOverrides::set_all(Entries entries, bool) {
  for (std::size_t at = 0; at < entries.size(); at += kOverrideGroup) {
    const Entries group = entries.subspan(at, std::min(kOverrideGroup, entries.size() - at));
    const std::uint64_t before = scans();
    const auto made = change_overrides(client_.get(), keys_, group);
    if (!made) return Unexpected{made.error()};
    Expected<bool> set = true;
    for (std::size_t i = 0; i < group.size() && set; ++i) {
      apply_own(before, (*made)[i],
                [&] { set = overrides_.set(group[i].counter, group[i].given); });
    }
    if (!set) return Unexpected{set.error()};
  }
  return {};
}

Expected<std::unique_ptr<ServerOverrides>> ServerOverrides::open(std::string path,
                                                                 std::size_t most) {
  std::unique_ptr<ServerOverrides> made(new ServerOverrides(std::move(path), most));
  if (auto read = made->read_if_changed(); !read) return Unexpected{std::move(read.error())};
  return made;
}

Status ServerOverrides::save() {
  if (path_.empty()) return {};
  auto saved = write_overrides(path_, overrides_);
  if (saved) {
    known_ = look_at_file(path_);
    has_unsaved_ = false;
  }
  return saved;
}

Expected<bool> ServerOverrides::read_if_changed() {
  if (path_.empty() || has_unsaved_) return false;
  FileLook found = look_at_file(path_);
  if (found.error == ENOTDIR) found.error = ENOENT;  // there is no file either
  if (std::exchange(known_, found) == found) return false;
  auto read = read_overrides(path_, overrides_);
  if (read) overrides_.drop_ended(SystemClock().now());
  return read;
}

Expected<bool> ServerOverrides::reread() {
  const std::lock_guard lock(mutex_);
  return read_if_changed();
}

void ServerOverrides::drop_ended(Instant now) {
  overrides_.drop_ended(now);
  if (!has_gone_back(now)) return;
  const std::lock_guard lock(mutex_);
  known_ = {.path = path_, .error = ENOENT};
}

Status ServerOverrides::keep() {
  {
    const std::lock_guard lock(mutex_);
    saves_all_ = true;
    if (!has_unsaved_) return {};
  }
  const auto change = begin(kPatience);
  if (!change) return Unexpected{change.error()};
  return has_unsaved_ ? save() : Status();
}

Expected<std::optional<ServerOverrides::Change>> ServerOverrides::try_begin() {
  Change change{std::unique_lock(mutex_), {}};
  if (path_.empty()) return std::optional(std::move(change));
  auto taken = net::try_lock(path_);
  if (!taken) return Unexpected{std::move(taken.error())};
  if (!*taken) return std::optional<Change>();
  change.processes.emplace(std::move(**taken));
  if (auto read = read_if_changed(); !read) return Unexpected{std::move(read.error())};
  return std::optional(std::move(change));
}

Expected<ServerOverrides::Change> ServerOverrides::begin(std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + patience;;) {
    auto change = try_begin();
    if (!change) return Unexpected{std::move(change.error())};
    if (*change) return std::move(**change);
    if (Clock::now() >= end) break;
    std::this_thread::sleep_for(kLook);
  }
  return Unexpected{"nothing was changed, because another process has locked " + path_ +
                    ".lock; repeat the change, or give each server a file of its own"};
}

void ServerOverrides::put_back(std::string_view counter, const std::optional<Override>& before) {
  if (before) {
    static_cast<void>(overrides_.set(counter, *before));
  } else {
    overrides_.unset(counter);
  }
}

Expected<ServerOverrides::Before> ServerOverrides::change(std::string_view counter,
                                                          const Override* given,
                                                          std::optional<redis::Client*> through) {
  const auto right = begin(through ? std::chrono::milliseconds{0} : kPatience);
  if (!right) return Unexpected{right.error()};
  Before before = overrides_.find(counter);
  if (given == nullptr) {
    if (!overrides_.unset(counter)) return before;
  } else if (auto set = overrides_.set(counter, *given); !set) {
    return Unexpected{set.error()};
  }
  if (auto saved = save(); !saved) {
    put_back(counter, before);
    return Unexpected{saved.error()};
  }
  return before;
}

Status ServerOverrides::set_all(Entries entries, bool more) {
  const auto change = begin(kPatience);
  if (!change) return Unexpected{change.error()};
  std::vector<std::optional<Override>> before;
  before.reserve(entries.size());
  Status done;
  for (const auto& [counter, given] : entries) {
    auto there = overrides_.find(counter);
    if (const auto set = overrides_.set(counter, given); !set) {
      done = Unexpected{set.error()};
      break;
    }
    before.push_back(std::move(there));
  }
  const bool saves = saves_all_ || !more;
  if (done && saves) done = save();
  if (done) has_unsaved_ |= !saves;
  if (done) return {};
  for (std::size_t i = before.size(); i-- > 0;) put_back(entries[i].counter, before[i]);
  return done;
}

}  // namespace sluice::server
