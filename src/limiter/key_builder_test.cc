#include "sluice/key_builder.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "sluice/guard_parts.h"

namespace sluice::key_builder_test {
namespace {

using namespace std::string_literals;

enum class Colour : std::uint8_t { kRed = 1, kBlue = 2 };

template <typename... Values>
std::string key_of(const Values&... values) {
  KeyBuilder key;
  (key.add(values), ...);
  return std::string(key.view());
}

TEST(KeyBuilder, WritesWhatItsGrammarSays) {
  EXPECT_EQ(key_of(42), "42;");
  EXPECT_EQ(key_of(-42), "-42;");
  EXPECT_EQ(key_of(true), "1;");
  EXPECT_EQ(key_of(Colour::kBlue), "2;");
  EXPECT_EQ(key_of("alice"), "5:alice");
  EXPECT_EQ(key_of("a\0b"s), "3:a\0b"s);
  EXPECT_EQ(key_of(""), "0:");
  EXPECT_EQ(key_of('x'), "1:x");
  EXPECT_EQ(key_of(std::optional(7)), "+7;");
  EXPECT_EQ(key_of(std::optional<int>()), "~");
  EXPECT_EQ(key_of(static_cast<const char*>(nullptr)), "~");
  EXPECT_EQ(key_of(std::tuple(1, "b"s)), "1;1:b");
  EXPECT_EQ(key_of(std::pair("a"s, 2)), "1:a2;");
}

TEST(KeyBuilder, MakesTheKeyOfItsArguments) {
  EXPECT_EQ(KeyBuilder("alice", 42).view(), "5:alice42;");
  EXPECT_EQ(KeyBuilder("alice").add(42).add_composed("1;").view(), "5:alice42;1;");
  EXPECT_EQ(KeyBuilder().view(), "");
}

TEST(KeyBuilder, HoldsTheExtremesOfIntegers) {
  EXPECT_EQ(key_of(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808;");
  EXPECT_EQ(key_of(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615;");
}

TEST(KeyBuilder, TellsEverySequenceOfHostileTextsFromEveryOther) {
  const std::vector<std::string> texts{
      "",  "a", "b",    "ab",   ":",   "1:", "1:a", "0:", ";",    "1;",     "-1",
      "~", "+", "+1:a", "a\0"s, "\0"s, "a:", "%",   "|",  "a1:b", "1:a1:b", "0:0:0:0:"};
  std::set<std::string> keys;
  std::size_t made = 0;
  for (const auto& a : texts) {
    keys.insert(key_of(a));
    keys.insert(key_of(a, 1));
    keys.insert(key_of(1, a));
    keys.insert(key_of(std::optional(a)));
    made += 4;
    for (const auto& b : texts) {
      keys.insert(key_of(a, b));
      keys.insert(key_of(a, std::optional(b)));
      keys.insert(key_of(a, std::optional<std::string>(), b));
      made += 3;
      for (const auto& c : texts) {
        keys.insert(key_of(a, b, c));
        ++made;
      }
    }
  }
  EXPECT_EQ(keys.size(), made);
}

TEST(KeyBuilder, TellsNestedAbsenceApart) {
  using Inner = std::optional<int>;
  EXPECT_NE(key_of(std::optional<Inner>()), key_of(std::optional<Inner>(Inner())));
}

TEST(KeyBuilder, GrowsBeyondItsPlaceAndKeepsEveryByte) {
  std::string expected;
  KeyBuilder key;
  for (int i = 0; i < 200; ++i) {
    const std::string text(static_cast<std::size_t>(i), static_cast<char>('a' + i % 26));
    key.add(text);
    expected += std::to_string(text.size()) + ":" + text;
  }
  EXPECT_EQ(key.view(), expected);
}

TEST(KeyBuilder, FillsItsPlaceToTheLastByteAndOneMore) {
  for (std::size_t size = 225; size < 265; ++size) {
    const std::string text(size, 'x');
    EXPECT_EQ(key_of(text, 'y'), std::to_string(size) + ":" + text + "1:y");
  }
}

struct Email {
  std::string address;
  const std::string& get() const { return address; }
};
struct Request {
  Email email;
  Email copy() const { return email; }
};

TEST(Path, FollowsMembersWithoutCopying) {
  const Request request{{"a@b"}};
  const auto address = path(&Request::email, &Email::address);
  static_assert(std::is_same_v<decltype(address(request)), const std::string&>);
  EXPECT_EQ(&address(request), &request.email.address);
}

TEST(Path, KeepsWhatItTakesOutOfATemporary) {
  const Request request{{"somebody.with.a.long.name@example.org"}};
  const auto by_member = path(&Request::copy, &Email::address);
  const auto by_function = path(&Request::copy, &Email::get);
  static_assert(std::is_same_v<decltype(by_member(request)), std::string>);
  static_assert(std::is_same_v<decltype(by_function(request)), std::string>);
  EXPECT_EQ(by_member(request), request.email.address);
  EXPECT_EQ(by_function(request), request.email.address);
}

TEST(KeyValue, IsWhatAKeyCanHoldAndNothingElse) {
  static_assert(KeyValue<int> && KeyValue<const std::string&> && KeyValue<std::string_view>);
  static_assert(KeyValue<Colour> && KeyValue<std::tuple<int, const std::string&>>);
  static_assert(KeyValue<std::optional<std::string>> && KeyValue<char[4]>);
  static_assert(!KeyValue<double> && !KeyValue<Email> && !KeyValue<std::nullptr_t>);
  static_assert(!KeyValue<std::tuple<int, double>> && !KeyValue<void*>);
}

}  // namespace
}  // namespace sluice::key_builder_test
