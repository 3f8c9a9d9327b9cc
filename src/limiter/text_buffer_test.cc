#include "limiter/text_buffer.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

std::string json(std::string_view text) {
  TextBuffer buffer;
  buffer.put_json(text);
  return std::string(buffer.view());
}

std::string field(std::string_view text, char also = '%') {
  TextBuffer buffer;
  buffer.put_field_text(text, also);
  return std::string(buffer.view());
}

TEST(TextBuffer, PutsOneAfterTheOther) {
  TextBuffer buffer;
  buffer.put("a=");
  buffer.put_number(18446744073709551615u);
  buffer.put(';');
  buffer.put_text("b");
  buffer.put_text({});
  EXPECT_EQ(buffer.view(), "a=18446744073709551615;b");
  buffer.shorten(2);
  EXPECT_EQ(buffer.view(), "a=");
  buffer.clear();
  EXPECT_EQ(buffer.view(), "");
}

TEST(TextBuffer, GrowsWithoutLosingAnything) {
  TextBuffer buffer;
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    buffer.put_text("0123456789");
    expected += "0123456789";
  }
  EXPECT_EQ(buffer.view(), expected);
}

TEST(TextBuffer, WritesJsonStrings) {
  EXPECT_EQ(json(""), "\"\"");
  EXPECT_EQ(json("用户 é"), "\"用户 é\"");
  EXPECT_EQ(json("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(json(std::string_view("\0\n\x1f", 3)), "\"\\u0000\\u000A\\u001F\"");
}

TEST(TextBuffer, WritesTextOfFieldsInAscii) {
  EXPECT_EQ(field("user a~"), "user a~");
  EXPECT_EQ(field("a\"b\\c"), "a\\\"b\\\\c");
  EXPECT_EQ(field("用\n\x7f"), "%E7%94%A8%0A%7F");
  EXPECT_EQ(field("100%"), "100%25");
  EXPECT_EQ(field("a/b"), "a/b");
  EXPECT_EQ(field("a/b%", '/'), "a%2Fb%25");
}

}  // namespace
}  // namespace sluice
