#include <algorithm>
#include <array>
#include <functional>

#include "tests/redis/script_test.h"
#include "tests/support/random_cases.h"

// Values under a counter's key that are not its state. The request is refused, the value stays.
namespace sluice_redis {
namespace {

using sluice::Decision;
using sluice::Reason;
using sluice::testing::random_cases;
using sluice_property::Dice;

// Every kind of request for one counter.
std::vector<std::function<Decision(sluice::Limiter&, const sluice::Limit&)>> every_request() {
  const sluice::Instant now = instant(1700000100000000);
  return {
      [=](auto& l, const auto& limit) { return l.try_acquire("key", limit, 1, now); },
      [=](auto& l, const auto& limit) { return l.try_acquire("key", limit, 0, now); },
      [=](auto& l, const auto& limit) { return l.try_acquire("key", limit, 1000, now); },
      [=](auto& l, const auto& limit) { return l.try_acquire("key", limit, 1); },
      [=](auto& l, const auto& limit) { return l.peek("key", limit, 1, now); },
      [=](auto& l, const auto& limit) { return l.refund("key", limit, 1, now); },
      [=](auto& l, const auto& limit) { return l.refund("key", limit, 1); },
      [=](auto& l, const auto& limit) { return l.reset("key", limit); },
  };
}

class ForeignValue : public ScriptTest {
 protected:
  // Checks that a foreign value is refused for every request and stays unchanged.
  void expect_refused(const std::string& key, const sluice::Limit& limit) {
    const std::string value = dump(key);
    const std::int64_t expires = number({"PEXPIRETIME", key});
    ASSERT_NE(value, "");
    for (const auto& request : every_request()) {
      EXPECT_EQ(request(limiter_, limit).reason, Reason::kForeignValue) << store_.error();
      EXPECT_EQ(dump(key), value);
    }
    EXPECT_EQ(number({"PEXPIRETIME", key}), expires);
  }

  // Checks that the value is refused and unchanged, or is a valid state and used for a decision.
  void expect_refused_or_decided(const std::string& key, const sluice::Limit& limit,
                                 const std::string& bytes) {
    for (const auto& request : every_request()) {
      redis_.run({"SET", key, bytes, "EX", "86400"});
      const Decision decision = request(limiter_, limit);
      if (decision.reason == Reason::kForeignValue) {
        EXPECT_EQ(redis_.text({"GET", key}), bytes);
      } else {
        expect_sane(decision, limit, bytes);
      }
    }
  }

  void expect_sane(const Decision& decision, const sluice::Limit& limit, const std::string& bytes) {
    const std::string text = ::testing::PrintToString(bytes) + " under " +
                             std::string(to_string(limit.algorithm())) + ": " +
                             std::string(to_string(decision.reason)) + " " + store_.error();
    const bool is_decided = decision.reason == Reason::kOk || decision.reason == Reason::kLimited ||
                            decision.reason == Reason::kNever;
    EXPECT_TRUE(is_decided) << text;
    EXPECT_EQ(decision.capacity, limit.capacity()) << text;
    EXPECT_LE(decision.remaining, limit.capacity()) << text;
    EXPECT_GE(decision.reset_after.count(), 0) << text;
    EXPECT_EQ(decision.retry_after.has_value(), decision.reason == Reason::kLimited) << text;
    if (decision.retry_after) {
      EXPECT_GT(decision.retry_after->count(), 0) << text;
      EXPECT_LT(decision.retry_after->count(), std::int64_t{1} << 54) << text;
    }
  }

  // Returns the state of a counter that has been used for a while.
  std::string used_state(Dice& dice, const sluice::Limit& limit) {
    const std::int64_t per = limit.period().count();
    std::int64_t at = kStart;
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    redis_.run({"DEL", key});
    for (std::uint64_t i = 1 + dice.below(12); i > 0; --i) {
      at += dice.between(0, per / 4);
      static_cast<void>(limiter_.try_acquire("key", limit, 1 + dice.below(3), instant(at)));
      EXPECT_EQ(store_.error(), "");
    }
    return redis_.text({"GET", key});
  }

  const std::vector<sluice::Limit> kinds_ = every_kind(10, std::chrono::hours{1});
};

std::string random_bytes(Dice& dice, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(dice.below(256));
  return bytes;
}

TEST_F(ForeignValue, OfAnotherTypeIsRefusedAndNotChanged) {
  for (const sluice::Limit& limit : kinds_) {
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    redis_.run({"RPUSH", key, "a", "b"});
    expect_refused(key, limit);
    redis_.run({"DEL", key});
    redis_.run({"HSET", key, "a", "b"});
    expect_refused(key, limit);
    redis_.run({"DEL", key});
    redis_.run({"SADD", key, "a"});
    expect_refused(key, limit);
    redis_.run({"DEL", key});
    redis_.run({"ZADD", key, "1", "a"});
    expect_refused(key, limit);
    redis_.run({"DEL", key});
    redis_.run({"XADD", key, "*", "a", "b"});
    expect_refused(key, limit);
    redis_.run({"DEL", key});
  }
}

TEST_F(ForeignValue, OfTextIsRefusedAndNotChanged) {
  for (const sluice::Limit& limit : kinds_) {
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    for (const std::string& text :
         {std::string(), std::string("0"), std::string("42"), std::string("1700000000"),
          std::string("{\"tokens\":3}"), std::string("hello, world"), std::string(28, 'x'),
          std::string(100'000, '\xFF'), std::string("\xC1"), std::string(1'000'000, 'A')}) {
      redis_.run({"SET", key, text, "EX", "1000"});
      expect_refused(key, limit);
    }
    redis_.run({"DEL", key});
  }
}

TEST_F(ForeignValue, IsNamedInTheErrorWithoutControlCharacters) {
  const sluice::Limit limit = sluice::token_bucket(5).per(std::chrono::seconds{1});
  const std::string name = "bell\a\x1b[31m\r\n" + std::string(1000, 'k');
  redis_.run({"SET", redis_key(kPrefix, limit.algorithm(), name), "5"});
  EXPECT_EQ(limiter_.try_acquire(name, limit).reason, Reason::kForeignValue);
  EXPECT_NE(store_.error().find("bell"), std::string::npos) << store_.error();
  EXPECT_LT(store_.error().size(), 400u);
  for (const char c : store_.error()) {
    EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << store_.error();
  }
}

TEST_F(ForeignValue, StateOfAnotherAlgorithmIsRefused) {
  Dice dice(3);
  const auto family = [](const sluice::Limit& limit) {
    switch (limit.algorithm()) {
      case sluice::Algorithm::kLeakyBucket:
      case sluice::Algorithm::kGcra: return sluice::Algorithm::kTokenBucket;
      default: return limit.algorithm();
    }
  };
  for (const sluice::Limit& one : kinds_) {
    const std::string state = used_state(dice, one);
    limiter_.reset("key", one);
    for (const sluice::Limit& other : kinds_) {
      if (family(one) == family(other)) continue;
      const std::string key = redis_key(kPrefix, other.algorithm(), "key");
      redis_.run({"SET", key, state});
      expect_refused(key, other);
      redis_.run({"DEL", key});
    }
  }
}

TEST_F(ForeignValue, OfRandomBytesIsRefusedOrUsed) {
  Dice dice(4);
  for (const sluice::Limit& limit : kinds_) {
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    const std::string state = used_state(dice, limit);
    for (std::size_t i = 0; i < random_cases(20, 60); ++i) {
      std::string bytes = random_bytes(dice, dice.below(dice.chance(20) ? 500 : 48));
      if (dice.chance(70)) bytes.insert(0, state, 0, 2);
      if (dice.chance(40)) bytes.resize(state.size(), '\0');
      expect_refused_or_decided(key, limit, bytes);
    }
  }
}

std::string damaged(Dice& dice, std::string bytes) {
  switch (dice.below(5)) {
    case 0: bytes.resize(dice.below(bytes.size())); break;
    case 1: bytes += random_bytes(dice, 1 + dice.below(20)); break;
    case 2: bytes[dice.below(bytes.size())] = static_cast<char>(dice.below(256)); break;
    case 3:
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(dice.below(bytes.size())), bytes.end(),
                dice.any_of({'\0', '\xFF'}));
      break;
    default: bytes[dice.below(bytes.size())] ^= static_cast<char>(1 << dice.below(8)); break;
  }
  return bytes;
}

TEST_F(ForeignValue, OfADamagedStateIsRefusedOrUsed) {
  Dice dice(5);
  for (const sluice::Limit& limit : kinds_) {
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    for (int i = 0; i < 12; ++i) {
      const std::string state = used_state(dice, limit);
      for (int j = 0; j < 12; ++j) expect_refused_or_decided(key, limit, damaged(dice, state));
    }
  }
}

// Each byte with extreme values: no number in a state makes a script misbehave.
TEST_F(ForeignValue, OfAStateWithAnyByteReplacedIsRefusedOrUsed) {
  Dice dice(6);
  for (const sluice::Limit& limit : kinds_) {
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    const std::string state = used_state(dice, limit);
    for (std::size_t i = 0; i < state.size(); ++i) {
      for (const char c : {'\0', '\x01', '\x7f', '\x80', '\xFF'}) {
        std::string bytes = state;
        bytes[i] = c;
        expect_refused_or_decided(key, limit, bytes);
      }
    }
  }
}

// Logs of over a kilobyte have a longer header and are read in parts.
TEST_F(ForeignValue, OfADamagedLongLogIsRefusedOrUsed) {
  Dice dice(10);
  for (const sluice::Limit& limit :
       {sluice::Limit(sluice::sliding_window_log(300).per(std::chrono::seconds{400})),
        sluice::Limit(sluice::sliding_window_hybrid(300).per(std::chrono::seconds{400}))}) {
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    redis_.run({"DEL", key});
    for (std::int64_t i = 0; i < 330; ++i) {
      static_cast<void>(limiter_.try_acquire("key", limit, 1, instant(kStart + i * 1'000'000)));
      ASSERT_EQ(store_.error(), "");
    }
    const std::string state = redis_.text({"GET", key});
    for (std::size_t i = 0; i < 400; ++i) {
      std::string bytes = state;
      const std::size_t at = dice.chance(50) ? dice.below(64) : dice.below(bytes.size());
      bytes[at] = dice.any_of({'\0', '\x01', '\x10', '\x7F', '\xFF',
                               bytes[dice.below(std::min<std::size_t>(384, bytes.size()))]});
      if (dice.chance(10)) bytes.resize(dice.below(bytes.size()));
      expect_refused_or_decided(key, limit, bytes);
    }
  }
}

// The scripts do not write to a ring whose position is far after the value's end.
TEST_F(ForeignValue, OfALongLogWithAWrongRingIsRefusedOrUsed) {
  const sluice::Limit limit = sluice::sliding_window_log(400).per(std::chrono::hours{2});
  const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
  for (std::int64_t i = 0; i < 160; ++i) {
    ASSERT_TRUE(limiter_.try_acquire("key", limit, 1, instant(kStart + i * 500'000)));
    const std::string state = redis_.text({"GET", key});
    for (std::size_t at = 24; i >= 120 && at < 32; ++at) {
      std::string bytes = state;
      bytes[at] = '\x10';  // the ring's size, or the position of its oldest entry
      bytes[27] = '\x20';
      expect_refused_or_decided(key, limit, bytes);
      EXPECT_LT(number({"STRLEN", key}), 10'000);
    }
    redis_.run({"SET", key, state});
  }
}

TEST_F(ForeignValue, OfOneCounterRefusesTheWholeRequest) {
  for (std::size_t foreign = 0; foreign < kinds_.size(); ++foreign) {
    redis_.run({"FLUSHALL"});
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kinds_.size(); ++i) names.push_back("key" + std::to_string(i));
    std::vector<sluice::Charge> charges;
    for (std::size_t i = 0; i < kinds_.size(); ++i) charges.push_back({names[i], kinds_[i], 1});
    const std::string key = redis_key(kPrefix, kinds_[foreign].algorithm(), names[foreign]);
    redis_.run({"SET", key, "not a counter"});
    std::vector<Decision> each(charges.size());
    for (const sluice::Verb verb :
         {sluice::Verb::kTake, sluice::Verb::kRefund, sluice::Verb::kPeek, sluice::Verb::kReset}) {
      const Decision decision = limiter_.apply(verb, charges, each, instant(kStart));
      EXPECT_EQ(decision.reason, Reason::kForeignValue) << store_.error();
    }
    EXPECT_EQ(number({"DBSIZE"}), 1);
    EXPECT_EQ(redis_.text({"GET", key}), "not a counter");
  }
}

TEST_F(ForeignValue, OfOneCounterPreventsTheResetOfTheOthers) {
  const sluice::Limit bucket = sluice::token_bucket(5).per(std::chrono::hours{1});
  const sluice::Limit window = sluice::fixed_window(5).per(std::chrono::hours{1});
  ASSERT_TRUE(limiter_.try_acquire("key", bucket, 3, instant(kStart)));
  redis_.run({"SET", redis_key(kPrefix, window.algorithm(), "key"), "not a counter"});
  const std::array<sluice::Charge, 2> charges = {{{"key", bucket, 1}, {"key", window, 1}}};
  std::array<Decision, 2> each;
  EXPECT_EQ(limiter_.apply(sluice::Verb::kReset, charges, each).reason, Reason::kForeignValue);
  EXPECT_EQ(limiter_.peek("key", bucket, 0, instant(kStart)).remaining, 2u);
}

// Sliding counts and logs of all sizes. None may keep the server busy for as long as 250 million
// steps of a script, about a second; ten million are measured, so the bound holds at any speed.
TEST_F(ForeignValue, NeverBlocksTheServerForASecond) {
  redis_.run({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
  redis_.run({"EVAL", "for i = 1, 1e7 do end", "0"});
  const std::int64_t measured =
      (*redis_.run({"SLOWLOG", "GET", "1"}))[0][2].integer;  // microseconds
  ASSERT_GT(measured, 0);
  redis_.run({"CONFIG", "SET", "slowlog-log-slower-than", std::to_string(25 * measured)});
  redis_.run({"SLOWLOG", "RESET"});
  Dice dice(9);
  for (const sluice::Limit& limit : kinds_) {
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    const std::string state = used_state(dice, limit);
    for (const std::size_t size : {std::size_t{4096}, std::size_t{12} * 100'000}) {
      std::string bytes = state.substr(0, std::min<std::size_t>(state.size(), 40));
      bytes += random_bytes(dice, size - bytes.size());
      expect_refused_or_decided(key, limit, bytes);
      std::string zeros = state;
      zeros.resize(size, '\0');
      expect_refused_or_decided(key, limit, zeros);
    }
  }
  EXPECT_EQ(number({"SLOWLOG", "LEN"}), 0);
}

}  // namespace
}  // namespace sluice_redis
