#include "cli/key_command.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

namespace sluice::cli::override_lines_test {
namespace {

constexpr bool kJsonLines = false;
constexpr bool kCsv = true;

Expected<std::vector<OverridePart>> read(const std::string& text, bool is_csv,
                                         std::size_t part_bytes = 1000) {
  std::istringstream in(text);
  return read_override_lines(in, "f.csv", is_csv, part_bytes);
}

std::string error_of(const std::string& text, bool is_csv = kCsv) {
  const auto parts = read(text, is_csv);
  return parts ? "none" : parts.error();
}

TEST(OverrideLines, KeepsTheLinesOfAFileInParts) {
  const auto parts = read("\xEF\xBB\xBF{\"a\":1}\r\n\n{\"b\":2}\n{\"c\":3}", kJsonLines, 17);
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 2U);
  EXPECT_EQ((*parts)[0].body, "{\"a\":1}\n{\"b\":2}\n");
  EXPECT_EQ((*parts)[0].lines, (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ((*parts)[1].lines, (std::vector<std::uint32_t>{4}));
}

TEST(OverrideLines, RefusesAFileWithoutOverrides) {
  const std::string none = "f.csv: there are no overrides; expected at least one";
  EXPECT_EQ(error_of(""), none);
  EXPECT_EQ(error_of("\n\n", kJsonLines), none);
  EXPECT_EQ(error_of("counter,limit\n"), none);
}

TEST(OverrideLines, AnAttributeCanHaveTheNameOfAColumn) {
  const auto parts = read("rule,limit_name,attribute.plan,plan\na,b,gold,pro\n", kCsv);
  ASSERT_TRUE(parts) << parts.error();
  EXPECT_EQ(parts->at(0).body,
            R"({"rule":"a","limit_name":"b","plan":"pro","attributes":{"plan":"gold"}})"
            "\n");
}

TEST(OverrideLines, ReadsCsvWithAttributes) {
  const auto parts = read(
      "rule,limit_name,header.x-customer,limit,per,blocked\r\n"
      "api,requests,\"a,\"\"b\"\"\",100,1m,false\r\n"
      "api,requests,7,,,true\r\n",
      kCsv);
  ASSERT_TRUE(parts) << parts.error();
  EXPECT_EQ(parts->at(0).body, R"({"rule":"api","limit_name":"requests","limit":100,"per":"1m",)"
                               R"("attributes":{"header.x-customer":"a,\"b\""}})"
                               "\n"
                               R"({"rule":"api","limit_name":"requests","blocked":true,)"
                               R"("attributes":{"header.x-customer":"7"}})"
                               "\n");
  EXPECT_EQ(parts->at(0).lines, (std::vector<std::uint32_t>{2, 3}));
}

TEST(OverrideLines, ReadsTheCsvThatItWrites) {
  const std::string object = R"({"counter":"default|a|b|c=1,\"2","limit":5,"per":"1m"})";
  std::string csv = csv_header();
  append_csv(boost::json::parse(object).as_object(), csv);
  append_csv(boost::json::parse(R"({"counter":"d","blocked":true})").as_object(), csv);
  EXPECT_EQ(csv,
            "counter,limit,per,burst,plan,blocked,unlimited,until\n"
            "\"default|a|b|c=1,\"\"2\",5,1m,,,,,\n"
            "d,,,,,true,,\n");
  EXPECT_EQ(read(csv, kCsv)->at(0).body,
            object + "\n" + R"({"counter":"d","blocked":true})" + "\n");
}

TEST(OverrideLines, SaysWhichLineIsWrong) {
  EXPECT_EQ(error_of("limit,per\n"),
            "f.csv:1: the first line names no counter; expected the column counter, or the columns "
            "rule, limit_name and those of attributes");
  EXPECT_EQ(error_of("counter,limit,limit\n"),
            "f.csv:1: the column 'limit' is there twice; expected it once");
  EXPECT_EQ(error_of("rule,limit_name,ip,attribute.ip\n"),
            "f.csv:1: the column 'attribute.ip' is there twice; expected it once");
  EXPECT_EQ(error_of("counter,,limit\n"),
            "f.csv:1: a column has no name; expected one in the first line");
  const std::string head = "counter,limit,blocked\n";
  EXPECT_EQ(error_of(head + "a,1,\n\nb,1\n"),
            "f.csv:4: the line has 2 fields; expected 3 as in the first line");
  EXPECT_EQ(error_of(head + "a,1.5,\n"),
            "f.csv:2: 'limit' is '1.5'; expected a whole number from 0 to 9007199254740991");
  EXPECT_EQ(error_of(head + "a,,yes\n"),
            "f.csv:2: 'blocked' is 'yes'; expected true, false or nothing");
  EXPECT_EQ(error_of(head + "\"a,1,\n"),
            "f.csv:2: a quote is not closed; expected \" at the end of the field");
  EXPECT_EQ(error_of(head + "\"a\"b,1,\n"),
            "f.csv:2: text follows a closed quote; expected a comma, or \"\" for a quote");
  EXPECT_EQ(error_of(head + "\xff,1,\n"), "f.csv:2: 'counter' is not UTF-8; expected UTF-8");
  EXPECT_EQ(error_of(std::string(70'000, 'x'), kJsonLines),
            "f.csv:1: the line has 70000 bytes; expected at most 65536");
}

TEST(OverrideLines, RefusesMoreThanAServerCanHave) {
  std::string text;
  for (int i = 0; i < 2'000'001; ++i) text += "x\n";
  EXPECT_EQ(error_of(text, kJsonLines),
            "f.csv:2000001: more overrides than a server can have; expected at most 2000000");
}

}  // namespace
}  // namespace sluice::cli::override_lines_test
