#include "cli/decide.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

// "WHERE KEY" of the first duplicate, or "none".
std::string duplicate_in(std::string_view text) {
  const auto found = find_duplicate_key(text);
  return found ? found->where + " " + found->key : "none";
}

TEST(JsonKeys, AcceptsUniqueKeys) {
  EXPECT_EQ(duplicate_in("{}"), "none");
  EXPECT_EQ(duplicate_in("[]"), "none");
  EXPECT_EQ(duplicate_in("1"), "none");
  EXPECT_EQ(duplicate_in(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]})"), "none");
}

TEST(JsonKeys, ReportsTheObjectWithARepeatedKey) {
  EXPECT_EQ(duplicate_in(R"({"a":1,"b":2,"a":3})"), " a");
  EXPECT_EQ(duplicate_in(R"({"a":{"b":1,"b":1}})"), "a b");
  EXPECT_EQ(duplicate_in(R"({"x":"s","c":[1,[2],{"d":{}},{"d":{"e":null,"e":true}}]})"),
            "c[3].d e");
  EXPECT_EQ(duplicate_in(R"([[{"a":1}],[0,{"a":1,"a":1}]])"), "[1][1] a");
}

TEST(JsonKeys, FindsTheFirstInTheOrderOfReading) {
  EXPECT_EQ(duplicate_in(R"({"a":{"b":1,"b":1},"a":1})"), "a b");
}

TEST(JsonKeys, KeysAreEqualByTheirCharactersNotTheirSpelling) {
  EXPECT_EQ(duplicate_in(R"({"cost":1,"c\u006fst":2})"), " cost");
  EXPECT_EQ(duplicate_in(R"({"a\u0000b":1,"a\u0000c":2})"), "none");
  EXPECT_EQ(duplicate_in(R"({"":1,"":2})"), " ");
}

TEST(JsonKeys, FindsNoneInInvalidJson) {
  for (const char* text : {"", "{", "{\"a\":1,", "{\"a\" 1}", "\xff"}) {
    EXPECT_EQ(duplicate_in(text), "none") << text;
  }
}

}  // namespace
}  // namespace sluice::cli
