#include "base/utf8.h"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(Utf8, IsValidInEveryLength) {
  EXPECT_EQ(find_invalid_utf8("a é 中 😀 \xF4\x8F\xBF\xBF \xED\x9F\xBF"), std::string_view::npos);
}

TEST(Utf8, IsCheckedAfterAnyNumberOfAsciiBytes) {
  for (std::size_t before = 0; before < 20; ++before) {
    const std::string text = std::string(before, 'a') + "\xC3\xA4";
    EXPECT_EQ(find_invalid_utf8(text + std::string(9, 'b')), std::string::npos) << before;
    EXPECT_EQ(find_invalid_utf8(text + "bcd\xFF" + std::string(9, 'b')), before + 5) << before;
    EXPECT_EQ(find_invalid_utf8(std::string(before, 'a') + "\xA4"), before) << before;
  }
}

TEST(Utf8, IsRefusedAtItsFirstByte) {
  const char* const broken[] = {"ab\xFF",
                                "ab\x80",
                                "ab\xC3",
                                "ab\xC0\xAF",
                                "ab\xE0\x80\x80",
                                "ab\xE4\xB8",
                                "ab\xED\xA0\x80",
                                "ab\xF0\x80\x80\x80",
                                "ab\xF4\x90\x80\x80",
                                "ab\xF5\x80\x80\x80",
                                "ab\xC3("};
  for (const char* text : broken) EXPECT_EQ(find_invalid_utf8(text), 2u) << text;
}

TEST(Utf8, ReplacesEachByteThatIsNotIt) {
  EXPECT_EQ(as_utf8("é"), "é");
  EXPECT_EQ(as_utf8("a\xE4\xB8z"), "a\uFFFD\uFFFDz");
  EXPECT_EQ(as_utf8("\xFF", "?"), "?");
}

}  // namespace
}  // namespace sluice::base
