#include "replay/text.h"

#include <gtest/gtest.h>

#include "base/civil_time.h"

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

TEST(HtmlText, CannotLeaveItsPlace) {
  EXPECT_EQ(html_text("<script>alert('x')</script>"),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
  EXPECT_EQ(html_text("a&b\"c"), "a&amp;b&quot;c");
  EXPECT_EQ(html_text("\0\xff"s), "\\x00\uFFFD");
}

TEST(Printable, ShowsControlsInsteadOfObeyingThem) {
  EXPECT_EQ(printable("\x1b[31mred\x7f\n"), "\\x1b[31mred\\x7f\\x0a");
  EXPECT_EQ(printable("\xc2\x9b"), "\\x9b");
  EXPECT_EQ(printable("é"), "é");
  EXPECT_EQ(printable("user\u202ecod\u2066.\u2069\u200f\u061c\u2028"),
            "user\\u202ecod\\u2066.\\u2069\\u200f\\u061c\\u2028");
}

TEST(Printable, CutsAtColumns) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcde…");
  EXPECT_EQ(printable("éééé", 3), "éé…");
  EXPECT_EQ(columns_of(printable(std::string(1000, '\x01'), 40)), 40u);
}

TEST(Grouped, PutsCommas) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(18446744073709551615u), "18,446,744,073,709,551,615");
}

TEST(Decimal, HasThatManyDigits) {
  EXPECT_EQ(decimal(1.25, 1), "1.2");
  EXPECT_EQ(decimal(1e15, 2), "1000000000000000.00");
  EXPECT_EQ(decimal(-0.5, 0), "-0");
}

TEST(Percent, NeverRoundsToNothingOrToAll) {
  EXPECT_EQ(percent(0, 0), "–");
  EXPECT_EQ(percent(0, 5), "0.0 %");
  EXPECT_EQ(percent(1, 1000000), "< 0.1 %");
  EXPECT_EQ(percent(999999, 1000000), "> 99.9 %");
  EXPECT_EQ(percent(1, 8), "12.5 %");
  EXPECT_EQ(percent(5, 5), "100.0 %");
}

TEST(DurationText, IsExact) {
  EXPECT_EQ(duration_text(0s), "0 s");
  EXPECT_EQ(duration_text(250ms), "250 ms");
  EXPECT_EQ(duration_text(45s), "45 s");
  EXPECT_EQ(duration_text(90s), "1 min 30 s");
  EXPECT_EQ(duration_text(3600s), "1 h");
  EXPECT_EQ(duration_text(3601s), "1 h 1 s");
  EXPECT_EQ(duration_text(1500ms), "1 s 500 ms");
  EXPECT_EQ(duration_text(std::chrono::days{1} + 5min + 1us), "1 d 5 min 1 µs");
}

TEST(RoughDurationText, LeavesOutTheSmallUnits) {
  EXPECT_EQ(rough_duration_text(std::chrono::days{149} + 11h + 5min), "149 d 11 h");
  EXPECT_EQ(rough_duration_text(3h + 5min + 7s), "3 h 5 min");
  EXPECT_EQ(rough_duration_text(59min + 7s + 9ms), "59 min 7 s");
}

TEST(BytesText, UsesDecimalUnits) {
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(36'172'897), "36.2 MB");
  EXPECT_EQ(bytes_text(999'999), "1.0 MB");
}

TEST(IsoTime, IsUtc) {
  const Instant at{std::chrono::seconds{1455944445}};
  EXPECT_EQ(base::to_rfc3339(at), "2016-02-20T05:00:45Z");
  EXPECT_EQ(plain_time(at), "2016-02-20 05:00:45");
}

TEST(Padding, CountsCharacters) {
  EXPECT_EQ(pad_left("é", 3), "  é");
  EXPECT_EQ(pad_right("é", 3), "é  ");
  EXPECT_EQ(pad_right("long", 2), "long");
}

}  // namespace
}  // namespace sluice::replay
