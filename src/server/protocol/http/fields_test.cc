#include "server/protocol/http/fields.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::server::fields_test {
namespace {

using Fields = std::vector<http::Field>;

TEST(Header, NameIsCaseInsensitive) {
  Buffers buffers;
  const Fields fields{{"X-USER-Id", "7"}, {"Empty", ""}};
  EXPECT_EQ(find_header(fields, "x-user-id", buffers), "7");
  EXPECT_EQ(find_header(fields, "x-user-ic", buffers), std::nullopt);
  EXPECT_EQ(find_header(fields, "empty", buffers), "");
  EXPECT_FALSE(has_name({"x@", ""}, "x`"));  // differs in the bit of a letter's case
}

TEST(Header, JoinsSeveralFields) {
  Buffers buffers;
  const Fields fields{{"X", "a, b"}, {"Y", "1"},        {"x", ""},
                      {"X", "c"},    {"Cookie", "a=1"}, {"cookie", "b=2"}};
  const auto joined = find_header(fields, "x", buffers);
  EXPECT_EQ(find_header(fields, "cookie", buffers), "a=1; b=2");
  EXPECT_EQ(joined, "a, b, , c");
}

TEST(Header, OfOneFieldIsAViewOfTheRequest) {
  Buffers buffers;
  const Fields fields{{"X", "a"}};
  EXPECT_EQ(find_header(fields, "x", buffers)->data(), fields[0].value.data());
}

TEST(Cookie, IsTheFirstOfItsNameInAllFields) {
  const Fields fields{{"Cookie", "a=1; b=2"}, {"X", "d=5"}, {"COOKIE", "b=3;c=4"}};
  EXPECT_EQ(find_cookie(fields, "a"), "1");
  EXPECT_EQ(find_cookie(fields, "b"), "2");
  EXPECT_EQ(find_cookie(fields, "c"), "4");
  EXPECT_EQ(find_cookie(fields, "d"), std::nullopt);
  EXPECT_EQ(find_cookie(fields, "B"), std::nullopt);
}

TEST(Cookie, ValueIsAsItWasSentWithoutSurroundingSpaces) {
  const Fields fields{{"Cookie", " a = \"x y\" ;; b;c==%41+;\td=;e"}};
  EXPECT_EQ(find_cookie(fields, "a"), "\"x y\"");
  EXPECT_EQ(find_cookie(fields, "b"), std::nullopt);
  EXPECT_EQ(find_cookie(fields, "c"), "=%41+");
  EXPECT_EQ(find_cookie(fields, "d"), "");
}

TEST(Buffers, ReuseTheSameStringsAfterClear) {
  Buffers buffers;
  std::string& first = buffers.next();
  first = "text";
  std::string& second = buffers.next();
  EXPECT_NE(&first, &second);
  buffers.clear();
  EXPECT_EQ(&buffers.next(), &first);
  EXPECT_EQ(first, "");
}

}  // namespace
}  // namespace sluice::server::fields_test
