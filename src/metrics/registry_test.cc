#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "metrics/metrics.h"
#include "metrics/test_text.h"

namespace sluice::metrics {
namespace {

class RegistryTest : public ::testing::Test {
 protected:
  std::string value(const std::string& series) const { return value_of(registry_.text(), series); }

  Registry registry_;
};

TEST_F(RegistryTest, CallsFunctionsWhenItsTextIsRead) {
  double keys = 1;
  registry_.add("sluice_store_keys", "Counters in the store.", [&] { return keys; });
  registry_.add("sluice_store_evictions_total", "Counters evicted.", [] { return 2.0; });
  EXPECT_EQ(value("sluice_store_keys"), "1");
  keys = 1234567;
  const std::string text = registry_.text();
  EXPECT_EQ(value_of(text, "sluice_store_keys"), "1234567");
  EXPECT_EQ(value_of(text, "sluice_store_evictions_total"), "2");
  EXPECT_NE(text.find("# HELP sluice_store_keys Counters in the store.\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE sluice_store_keys gauge\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE sluice_store_evictions_total counter\n"), std::string::npos);
}

TEST_F(RegistryTest, RefusesNamesThatAreMalformedOrRepeated) {
  const auto value = [] { return 0.0; };
  const auto rows = [] { return std::vector<Registry::Row>(); };
  registry_.add("sluice_ready", "Ready.", value);
  EXPECT_THROW(registry_.add("sluice_ready", "Ready.", value), std::invalid_argument);
  EXPECT_THROW(registry_.add_rows("sluice_ready", "Ready.", {"a"}, rows), std::invalid_argument);
  for (const char* name : {"", "sluice ready", "9sluice", "sluice-ready", "__name"}) {
    EXPECT_THROW(registry_.add(name, "Ready.", value), std::invalid_argument) << name;
  }
  for (const char* label : {"a label", "9", "a-b", "__a"}) {
    EXPECT_THROW(registry_.add_rows("sluice_x_total", "X.", {label}, rows), std::invalid_argument)
        << label;
  }
  registry_.add_rows("sluice_x_total", "X.", {"label"},
                     [] { return std::vector<Registry::Row>{{{"x"}, 3}}; });
  EXPECT_EQ(value_of(registry_.text(), "sluice_x_total{label=\"x\"}"), "3")
      << "a refused name is not taken";
}

TEST_F(RegistryTest, ShowsTheRowsOfATableAsTheyAreNow) {
  std::vector<Registry::Row> rows;
  registry_.add_rows("sluice_rows_total", "Rows.", {"domain", "code"}, [&] { return rows; });
  EXPECT_EQ(registry_.text().find("sluice_rows_total{"), std::string::npos);
  rows = {{{"a", "OK"}, 1}, {{"a", "OVER_LIMIT"}, 2}, {{"", "OK"}, 3}};
  const std::string text = registry_.text();
  EXPECT_EQ(value_of(text, "sluice_rows_total{domain=\"a\",code=\"OK\"}"), "1");
  EXPECT_EQ(value_of(text, "sluice_rows_total{domain=\"a\",code=\"OVER_LIMIT\"}"), "2");
  EXPECT_EQ(value_of(text, "sluice_rows_total{domain=\"\",code=\"OK\"}"), "3");
  EXPECT_NE(text.find("# TYPE sluice_rows_total counter\n"), std::string::npos);
  rows = {{{"a", "OK"}, 5}};
  EXPECT_EQ(value("sluice_rows_total{domain=\"a\",code=\"OK\"}"), "5");
  EXPECT_EQ(value("sluice_rows_total{domain=\"a\",code=\"OVER_LIMIT\"}"), "absent");
}

TEST_F(RegistryTest, EscapesTheValuesOfLabels) {
  registry_.add_rows("sluice_odd_total", "Odd.", {"name"},
                     [] { return std::vector<Registry::Row>{{{"a\"b\\c\nd"}, 1}}; });
  EXPECT_EQ(value(R"(sluice_odd_total{name="a\"b\\c\nd"})"), "1");
}

TEST_F(RegistryTest, ShowsNumbersWithSixteenDigits) {
  double number = 0;
  registry_.add("sluice_x", "X.", [&] { return number; });
  const auto shown = [&](double of) {
    number = of;
    return value("sluice_x");
  };
  EXPECT_EQ(shown(0.1), "0.1");
  EXPECT_EQ(shown(1. / 3), "0.3333333333333333");
  EXPECT_EQ(shown(1764171704.13), "1764171704.13");
  EXPECT_EQ(shown(1e15), "1000000000000000");
  EXPECT_EQ(shown(1e16), "1e+16");
  EXPECT_EQ(shown(-2.5), "-2.5");
  EXPECT_EQ(shown(1e-7), "1e-07");
  EXPECT_EQ(shown(18446744073709551615.), "1.844674407370955e+19");
}

TEST_F(RegistryTest, ShowsAHistogramAsCountSumAndBuckets) {
  DurationCounts counts;
  counts.buckets[0] = 2;
  counts.buckets[3] = 1;
  counts.buckets[DurationCounts::kBounds] = 4;
  counts.sum_ns = 123'456'789;
  registry_.add_histogram("sluice_x_seconds", "X.", [&] { return counts; });
  const std::string text = registry_.text();
  const auto from = text.find("# HELP sluice_x_seconds");
  EXPECT_TRUE(
      text.substr(from).starts_with("# HELP sluice_x_seconds X.\n"
                                    "# TYPE sluice_x_seconds histogram\n"
                                    "sluice_x_seconds_count 7\n"
                                    "sluice_x_seconds_sum 0.123456789\n"
                                    "sluice_x_seconds_bucket{le=\"1e-06\"} 2\n"
                                    "sluice_x_seconds_bucket{le=\"2e-06\"} 2\n"
                                    "sluice_x_seconds_bucket{le=\"4e-06\"} 2\n"
                                    "sluice_x_seconds_bucket{le=\"8e-06\"} 3\n"))
      << text.substr(from, 400);
  EXPECT_EQ(value_of(text, "sluice_x_seconds_bucket{le=\"1.048576\"}"), "3");
  EXPECT_EQ(value_of(text, "sluice_x_seconds_bucket{le=\"+Inf\"}"), "7");
}

TEST_F(RegistryTest, DescribesEachMetricOnce) {
  registry_.make_recorder().add(Event::kAccepted);
  registry_.make_recorder().add(Event::kAccepted);
  std::istringstream lines(registry_.text());
  std::set<std::string> described;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    EXPECT_TRUE(described.insert(line.substr(7, line.rfind(' ') - 7)).second) << line;
  }
  EXPECT_TRUE(described.contains("sluice_connections_accepted_total"));
}

TEST_F(RegistryTest, ReportsTheVersion) {
  EXPECT_EQ(value("sluice_build_info{version=\"" SLUICE_VERSION "\"}"), "1");
}

TEST_F(RegistryTest, DescribesTheProcess) {
  const std::string text = registry_.text();
  const auto number = [&](const std::string& series) {
    return std::strtod(value_of(text, series).c_str(), nullptr);
  };
  EXPECT_GT(number("process_resident_memory_bytes"), 100'000);
  EXPECT_GT(number("process_virtual_memory_bytes"), number("process_resident_memory_bytes"));
  EXPECT_GE(number("process_max_fds"), number("process_open_fds"));
  EXPECT_NE(value_of(text, "process_cpu_seconds_total"), "absent");
  EXPECT_LE(number("process_start_time_seconds"), static_cast<double>(std::time(nullptr)) + 1);
  EXPECT_GT(number("process_start_time_seconds"), static_cast<double>(std::time(nullptr)) - 86400);
  EXPECT_EQ(value("process_start_time_seconds"), value_of(text, "process_start_time_seconds"));
}

TEST_F(RegistryTest, CountsDescriptorsEvenIfNoneIsFree) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int at_first = std::stoi(value("process_open_fds"));
  const rlimit few{static_cast<rlim_t>(at_first + 20), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> opened;
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY)) >= 0;) opened.push_back(fd);
  const std::string text = registry_.text();
  for (const int fd : opened) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_GT(opened.size(), 0U);
  EXPECT_EQ(value_of(text, "process_open_fds"),
            std::to_string(static_cast<std::size_t>(at_first) + opened.size()));
  EXPECT_EQ(value_of(text, "process_max_fds"), std::to_string(at_first + 20));
  EXPECT_NE(value_of(text, "process_resident_memory_bytes"), "absent");
}

}  // namespace
}  // namespace sluice::metrics
