#include "replay/replay.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRequests = 0;
constexpr std::size_t kDenied = 1;
const Instant kStart = std::chrono::sys_days{std::chrono::year{2016} / 2 / 20} + 5h;

// Each entry of `requests` is a bucket of one second, of which `denied` were denied.
struct Series {
  TimeSeries series{2};

  void add(Instant at, int requests, int denied) {
    series.advance(at);
    for (int i = 0; i < requests; ++i) series.add(kRequests);
    for (int i = 0; i < denied; ++i) series.add(kDenied);
  }
  std::string html(bool denied_only = false, std::string title = "Requests") const {
    return chart_html({.series = series,
                       .requests = kRequests,
                       .denied = kDenied,
                       .id = "c1",
                       .title = std::move(title),
                       .denied_only = denied_only});
  }
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

TEST(Chart, DescribesItselfInWords) {
  Series series;
  series.add(kStart, 3, 0);
  series.add(kStart + 1s, 1500, 20);
  const std::string html = series.html();
  EXPECT_TRUE(contains(html, "<title id=\"c1-t\">Requests</title>"));
  EXPECT_TRUE(contains(html,
                       "1,503 requests in steps of 1 s, 20 denied; the busiest step begins "
                       "2016-02-20 05:00:01 UTC with 1,500 requests."))
      << html;
}

TEST(Chart, ShowsTheNumbersOfEachColumn) {
  Series series;
  series.add(kStart, 4, 1);
  series.add(kStart + 2s, 2, 0);
  const std::string html = series.html();
  EXPECT_TRUE(contains(html, "2016-02-20 05:00:00 UTC, 1 s\n4 requests\n1 denied (25.0 %)"))
      << html;
  // An empty bucket has no column.
  EXPECT_FALSE(contains(html, "05:00:01 UTC, 1 s\n0 requests"));
}

TEST(Chart, EscapesItsTitle) {
  Series series;
  series.add(kStart, 1, 0);
  const std::string html = series.html(false, "<script>\"&");
  EXPECT_FALSE(contains(html, "<script>"));
  EXPECT_TRUE(contains(html, "&lt;script&gt;"));
}

TEST(Chart, ScalesToTheDenialsIfOnlyTheyAreDrawn) {
  Series series;
  series.add(kStart, 1000, 3);
  series.add(kStart + 1s, 1000, 0);
  const std::string all = series.html();
  const std::string denied = series.html(true);
  EXPECT_TRUE(contains(all, "class=\"allowed\""));
  EXPECT_FALSE(contains(denied, "class=\"allowed\""));
  EXPECT_TRUE(contains(all, ">1,000</span>"));
  EXPECT_FALSE(contains(denied, ">1,000</span>"));
  EXPECT_TRUE(contains(denied, ">3</span>"));
}

TEST(Chart, InterruptsAnAreaAtEmptyColumns) {
  Series series;
  series.add(kStart, 1, 0);
  series.add(kStart + 1s, 0, 0);
  series.add(kStart + 2s, 1, 0);
  series.add(kStart + 3s, 0, 0);
  const std::string html = series.html();
  // Two separate steps on a scale from 0 to 1, each a quarter of the width.
  EXPECT_TRUE(contains(html, "d=\"M0 100V0H250V100ZM500 100V0H750V100Z\"")) << html;
}

TEST(Chart, LabelsDaysAndMonthsByTheLengthOfTheSpan) {
  Series days;
  days.add(kStart, 1, 0);
  days.add(kStart + 24h * 6, 1, 0);
  EXPECT_TRUE(contains(days.html(), ">Feb 21, 2016</span>")) << days.html();

  Series months;
  months.add(kStart, 1, 0);
  months.add(kStart + 24h * 200, 1, 0);
  EXPECT_TRUE(contains(months.html(), ">Mar 2016</span>")) << months.html();
  EXPECT_TRUE(contains(months.html(), ">Apr</span>"));
}

}  // namespace
}  // namespace sluice::replay
