#include "server/api/envoy/rls_service.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::server {
namespace {

TEST(JsonSyntax, AcceptsJson) {
  for (const std::string_view text :
       {"{}", "[]", " null ",
        R"({"a":1,"b":[{"a":-1.5e3},{"a":true}],"c":{"a":"\u00e9\ud83d\ude00"}})",
        R"({"a":{"a":{"a":""}}})", "\"\xc3\xa9\""}) {
    EXPECT_EQ(find_json_mistake(text), "") << text;
  }
}

TEST(JsonSyntax, RefusesMalformedJson) {
  for (const std::string_view text :
       {"", " ", "{", "{}{}", "{'a':1}", "{a:1}", "[1,]", "{\"a\":1,}", "[01]", "[1] // one",
        "\"\xff\"", R"("\ud800")", R"("\x61")", "nan", "[\"\n\"]"}) {
    EXPECT_NE(find_json_mistake(text), "") << text;
  }
}

TEST(JsonSyntax, RefusesARepeatedMemberOfAnObject) {
  EXPECT_EQ(find_json_mistake(R"({"a":1,"b":{"a":1,"a":2}})"), "the member 'a' is repeated");
  EXPECT_EQ(find_json_mistake(R"({"hitsAddend":1,"hits_addend":2})"),
            "the member 'hits_addend' is repeated");
  EXPECT_EQ(find_json_mistake(R"([{"a":1},{"a":2}])"), "");
}

TEST(JsonSyntax, RefusesTooDeepNesting) {
  EXPECT_EQ(find_json_mistake(std::string(30, '[') + std::string(30, ']')), "");
  EXPECT_NE(find_json_mistake(std::string(1000000, '[')), "");
}

// The parser gets the text in one piece, so no part is read twice.
TEST(JsonSyntax, ReadsLongNamesInOnePiece) {
  const std::string name(100000, 'x');
  EXPECT_EQ(find_json_mistake("{\"" + name + "\":1,\"" + name + "y\":2}"), "");
  EXPECT_NE(find_json_mistake("{\"" + name + "\":1,\"" + name + "\":2}"), "");
}

}  // namespace
}  // namespace sluice::server
