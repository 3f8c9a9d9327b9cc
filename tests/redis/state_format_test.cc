#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "sluice/permit_id.h"
#include "stores/redis/script/state_reader.h"
#include "tests/redis/script_test.h"

// docs/reference/state-format.md shows, byte by byte, the values in a real Redis.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;

// A number of bytes of a state, and their meaning.
struct Field {
  std::size_t size;
  const char* meaning;
};

struct Take {
  std::int64_t after_us;  // time of the first request
  std::uint64_t units;
};

struct Example {
  sluice::Limit limit;
  std::vector<Take> takes;
  std::vector<Field> fields;
};

std::vector<Field> joined(std::vector<Field> fields, const std::vector<Field>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

const std::vector<Field> kBucketFields = {
    {2, "kind: bucket, version 1"},    {7, "last change"},
    {6, "fraction of a unit, in 1/p"}, {4, "units spent"},
    {4, "checksum of the numbers"},    {4, "forgotten from, in 2^20 us"}};
const std::vector<Field> kIntervalFields = {
    {2, "kind: bucket, version 1"},      {7, "last change"},
    {6, "ticks since the last refill"},  {4, "units spent"},
    {4, "checksum of the numbers, odd"}, {4, "forgotten from"}};
const std::vector<Field> kWindowFields = {
    {2, "kind: fixed window, version 1"}, {7, "last change"},
    {6, "ticks since the window opened"}, {4, "units used"},
    {4, "checksum of the numbers"},       {4, "forgotten from"}};
const std::vector<Field> kSliceFields = {{2, "kind: slices, version 1"},
                                         {7, "last change"},
                                         {6, "period"},
                                         {2, "slices n"},
                                         {4, "forgotten from"},
                                         {4, "newest slice"},
                                         {4, "the slice before"},
                                         {4, "two before"}};

std::vector<Field> log_fields(const char* kind) {
  return {{2, kind},
          {7, "last change"},
          {4, "forgotten from"},
          {7, "until when the key is kept at least"},
          {2, "summaries there is room for"},
          {2, "summaries"},
          {4, "entries there is room for"},
          {4, "slot of the oldest entry"},
          {4, "entries"},
          {4, "running sum before the oldest"},
          {4, "running sum with the newest"},
          {6, "instant of the oldest, low 48 bits"},
          {6, "instant of the newest, low 48 bits"},
          {4, "running sum with the oldest"},
          {1, "blocks"},
          {1, "entries of the front block used up"},
          {1, "entries of the front block"},
          {1, "entries of the back block"}};
}
const std::vector<Field> kEntry = {{6, "an entry: its instant, low 48 bits"},
                                   {4, "  running sum with it"}};
const std::vector<Field> kPermitFields = {{2, "kind: permits, version 1"},
                                          {7, "last change"},
                                          {7, "first end of a lease"},
                                          {7, "last end of a lease"},
                                          {4, "units in flight"}};
const std::vector<Field> kPermit = {
    {7, "a permit: end of its lease"}, {2, "  its units"}, {12, "its name"}};
const std::vector<Field> kBudgetFields = {{2, "kind: budget, version 1"},
                                          {7, "last change"},
                                          {7, "units spent in the window of the last change"},
                                          {7, "units held"},
                                          {7, "latest end of a hold since none was open"},
                                          {7, "no hold ends before"},
                                          {4, "until when an id is known, in 2^20 us"},
                                          {4, "forgotten from"},
                                          {2, "open holds"},
                                          {2, "ended holds in the cells of open ones"},
                                          {4, "ended ids"},
                                          {2, "cells of open holds"},
                                          {4, "cells of ended ids"}};
const std::vector<Field> kIdFields = {{10, "an id: the first bytes of its name"},
                                      {6, "  its amount, low 48 bits"},
                                      {1, "  high bits of its amount, and its kind"},
                                      {7, "  the rest"}};
const std::vector<Field> kSummary = {{6, "a summary: its first instant, low 48 bits"},
                                     {6, "  its last instant"},
                                     {4, "  its units"}};

std::vector<Example> examples() {
  using sluice::concurrency, sluice::fixed_window, sluice::token_bucket;
  using sluice::sliding_window_counter, sluice::sliding_window_hybrid, sluice::sliding_window_log;
  return {
      {token_bucket(10).per(1min), {{0, 3}, {500'000, 1}}, kBucketFields},
      {token_bucket(10).per(1min).refilled_at_intervals(),
       {{0, 3}, {5'000'000, 1}},
       kIntervalFields},
      {fixed_window(10).per(1min), {{0, 3}, {2'000'000, 4}}, kWindowFields},
      {sliding_window_counter(10).per(1min).slices(6), {{0, 3}, {22'000'000, 1}}, kSliceFields},
      {sliding_window_log(10).per(1min),
       {{0, 3}, {1'500'000, 1}},
       joined(joined(log_fields("kind: log, version 1"), kEntry), kEntry)},
      {sliding_window_hybrid(10).per(1min).slices(6),
       {{0, 3}, {1'500'000, 1}, {22'000'000, 2}},
       joined(joined(log_fields("kind: hybrid, version 1"), kSummary), kEntry)},
      {concurrency(10).lease(1min),
       {{0, 3}, {1'500'000, 1}},
       joined(joined(kPermitFields, kPermit), kPermit)},
  };
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    std::array<char, 4> two;
    std::snprintf(two.data(), two.size(), "%02x ", static_cast<unsigned char>(c));
    text += two.data();
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string number_in(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return std::to_string(number);
}

// Returns a line for each field: bytes, meaning, number.
std::string lines_of(const std::vector<Field>& fields, std::string_view value) {
  std::string text;
  std::size_t at = 0;
  for (const Field& field : fields) {
    const std::string_view bytes = value.substr(std::min(at, value.size()), field.size);
    std::string line = hex_of(bytes);
    line.resize(std::max<std::size_t>(line.size() + 2, 22), ' ');
    line += field.meaning;
    if (at > 0 && field.size <= 8) line += ": " + number_in(bytes);
    text += line + "\n";
    at += field.size;
  }
  if (at != value.size()) text += "and " + hex_of(value.substr(std::min(at, value.size()))) + "\n";
  return text;
}

std::string summary_of(sluice::Algorithm algorithm, std::string_view value) {
  const auto state = sluice::redis::read_counter_state(algorithm, value);
  return "= " + (state ? state->summary : "not a state") + "\n";
}

std::string block_of(const Example& example, std::string_view key, std::string_view value) {
  return std::string(key) + "\n" + lines_of(example.fields, value) +
         summary_of(example.limit.algorithm(), value);
}

std::string page_text() {
  std::ifstream file(SLUICE_STATE_FORMAT_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  return page.str();
}

class StateFormat : public ScriptTest {};

TEST_F(StateFormat, IsTheSameAsInTheDocumentation) {
  const std::string page = page_text();
  ASSERT_NE(page, "") << SLUICE_STATE_FORMAT_PAGE;
  PlanStore store(redis_, "sluice:");
  for (const Example& example : examples()) {
    const std::string key = redis_key("sluice:", example.limit.algorithm(), "alice");
    redis_.run({"DEL", key});
    for (const Take& take : example.takes) {
      const sluice::PermitId permit({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
      const sluice::Charge charge{
          .key = "alice", .limit = example.limit, .cost = take.units, .permit = &permit};
      ASSERT_TRUE(store.apply_one(sluice::Verb::kTake, charge, instant(kStart + take.after_us)))
          << store.error();
    }
    const std::string block = block_of(example, key, redis_.text({"GET", key}));
    EXPECT_NE(page.find("```\n" + block), std::string::npos) << "the page lacks\n```\n"
                                                             << block << "```\n";
  }
}

TEST_F(StateFormat, OfABudgetIsTheSameAsInTheDocumentation) {
  const sluice::Limit limit = sluice::budget(10).per(1min);
  PlanStore store(redis_, "sluice:");
  const std::string key = redis_key("sluice:", limit.algorithm(), "alice");
  redis_.run({"DEL", key});
  const sluice::PermitId held({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const sluice::PermitId taken({17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28});
  const sluice::Charge hold{.key = "alice", .limit = limit, .cost = 3, .permit = &held};
  const sluice::Charge take{.key = "alice", .limit = limit, .cost = 2, .permit = &taken};
  ASSERT_TRUE(store.apply_one({sluice::Verb::kHold, 1min}, hold, instant(kStart)));
  ASSERT_TRUE(store.apply_one(sluice::Verb::kTake, take, instant(kStart + 1'500'000)));
  const std::string head = redis_.text({"HGET", key, "h"});
  const std::string block = key + "\nh\n" + lines_of(kBudgetFields, head) + "e0\n" +
                            lines_of(kIdFields, redis_.text({"HGET", key, "e0"})) + "o0\n" +
                            lines_of(kIdFields, redis_.text({"HGET", key, "o0"})) +
                            summary_of(limit.algorithm(), head);
  EXPECT_NE(page_text().find("```\n" + block), std::string::npos) << "the page lacks\n```\n"
                                                                  << block << "```\n";
}

TEST_F(StateFormat, ChargesOfOneInstantShareAnEntry) {
  for (const sluice::Limit& limit : {sluice::Limit(sluice::sliding_window_log(100).per(1min)),
                                     sluice::Limit(sluice::sliding_window_hybrid(100).per(1min))}) {
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(limiter_.try_acquire("key", limit, 2, instant(kStart + i / 10)));
    }
    const auto state = sluice::redis::read_counter_state(
        limit.algorithm(), redis_.text({"GET", redis_key(kPrefix, limit.algorithm(), "key")}));
    ASSERT_TRUE(state);
    EXPECT_EQ(state->summary, "60 units in 3 entries");
  }
}

// While a log grows, is full, and shrinks: at most 12 bytes per entry of a long log, plus room for
// a hundred entries if few are left.
TEST_F(StateFormat, OfALogGrowsByTwelveBytesForEachEntry) {
  const sluice::Limit limit = sluice::sliding_window_log(10'000).per(1min);
  const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
  const auto bytes = [&] { return number({"STRLEN", key}); };
  std::int64_t at = kStart;
  for (int entries = 1; entries <= 10'000; ++entries) {
    ASSERT_TRUE(limiter_.try_acquire("key", limit, 1, instant(++at))) << store_.error();
    EXPECT_LE(entries % 1000 == 0 ? bytes() : 0, 12 * entries + 500);
  }
  EXPECT_FALSE(limiter_.try_acquire("key", limit, 1, instant(at + 1)));
  const auto state =
      sluice::redis::read_counter_state(limit.algorithm(), redis_.text({"GET", key}));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->summary, "10000 units in 10000 entries");
  limiter_.refund("key", limit, 9900, instant(at + 2));
  ASSERT_TRUE(limiter_.try_acquire("key", limit, 1, instant(at + 3)));
  EXPECT_LE(bytes(), 384 + 10 * (4 * 101 + 100));
  ASSERT_TRUE(limiter_.try_acquire("key", limit, 1, instant(at + 120'000'000)));
  EXPECT_LE(bytes(), 200);
}

}  // namespace
}  // namespace sluice_redis
