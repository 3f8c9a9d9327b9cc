#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace sluice::base {
namespace {

TEST(JsonWriter, PutsCommasWhereTheyBelong) {
  JsonWriter json;
  json.begin_object().key("a").begin_array().end_array().member("b", true).key("c").begin_array();
  json.value(std::uint64_t{1}).value("x").begin_object().end_object().end_array();
  json.key("d").begin_object().member("e", false).end_object().end_object();
  EXPECT_EQ(json.view(), R"({"a":[],"b":true,"c":[1,"x",{}],"d":{"e":false}})");
}

TEST(JsonWriter, WritesValuesAndIndents) {
  JsonWriter json;
  json.begin_object().array("a", std::vector<std::string_view>{"x", "{\\\":,"});
  json.array("b", std::vector<std::uint64_t>{}).end_object();
  EXPECT_EQ(indented(json.view()),
            "{\n  \"a\": [\n    \"x\",\n    \"{\\\\\\\":,\"\n  ],\n  \"b\": []\n}\n");
}

TEST(JsonWriter, EscapesTextAndReplacesInvalidUtf8) {
  JsonWriter json;
  json.value("\"\\\n\xE4\xB8\xAD\xFFx\xE4\xB8");
  EXPECT_EQ(json.view(), "\"\\\"\\\\\\u000A\xE4\xB8\xAD\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonString, IsValidForAnyBytes) {
  EXPECT_EQ(json_string("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(json_string(std::string_view("\0\x1f\n", 3)), R"("\u0000\u001F\u000A")");
  EXPECT_EQ(json_string("é€😀"), "\"é€😀\"");
  EXPECT_EQ(json_string("\xff"), "\"\uFFFD\"");
  EXPECT_EQ(json_string("a\xc3"), "\"a\uFFFD\"");
  EXPECT_EQ(json_string("\xed\xa0\x80"), "\"\uFFFD\uFFFD\uFFFD\"");  // a surrogate
  EXPECT_EQ(json_string("\xc0\xaf"), "\"\uFFFD\uFFFD\"");            // overlong
  EXPECT_EQ(json_string("\xf4\x90\x80\x80"), "\"\uFFFD\uFFFD\uFFFD\uFFFD\"");
}

TEST(JsonWriter, WritesNineDigitsOfANumber) {
  JsonWriter json;
  json.begin_array().value(0.001).value(0.0).value(1.0).value(1.0 / 3).end_array();
  EXPECT_EQ(json.view(), "[0.001,0,1,0.333333333]");
}

TEST(JsonWriter, WritesInstantsAsRfc3339) {
  const auto written = [](Duration since) {
    JsonWriter json;
    return std::string(json.value(Instant{since}).view());
  };
  EXPECT_EQ(written(Duration{0}), "\"1970-01-01T00:00:00.000000Z\"");
  EXPECT_EQ(written(std::chrono::seconds{1709251199} + Duration{5}),
            "\"2024-02-29T23:59:59.000005Z\"");
}

}  // namespace
}  // namespace sluice::base
