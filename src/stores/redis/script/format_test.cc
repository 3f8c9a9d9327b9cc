#include "stores/redis/script/format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace sluice::redis {
namespace {

std::string content_of(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str(), "") << path;
  return text.str();
}

// The indented lines of format.h after its line that announces the contract.
std::string contract() {
  std::istringstream lines(content_of(SLUICE_FORMAT_HEADER));
  std::string text;
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("// The contract of a script")) continue;
  while (std::getline(lines, line) && line.starts_with("//")) {
    if (line.starts_with("//   ")) text += line.substr(5) + "\n";
  }
  return text;
}

// "verb (1), instant (7)"
template <typename T, std::size_t N>
std::string list_of(const Layout<T, N>& layout) {
  std::string text;
  for (const Field<T>& field : layout.fields()) {
    text += text.empty() ? "" : ", ";
    text += std::string(field.name) + " (" + std::to_string(field.size) + ")";
  }
  return text;
}

TEST(Contract, ListsTheNumbersOfEachRecord) {
  const std::string text = contract();
  for (const std::string& line :
       {"request: " + list_of(format::kRequest), "i: " + list_of(format::kFamily) + ",",
        "bucket     " + list_of(format::kBucketArgument),
        "interval   " + list_of(format::kIntervalArgument),
        "window     " + list_of(format::kFixedWindowArgument),
        "slices     " + list_of(format::kSlicesArgument),
        "log        " + list_of(format::kLogArgument), "take: " + list_of(format::kInstant),
        "reply        " + list_of(format::kInstant), "counter: " + list_of(format::kValueSize),
        "log        " + list_of(format::kLogReply)}) {
    EXPECT_NE((text + "\n").find(line), std::string::npos) << line;
  }
}

TEST(Contract, IsQuotedByTheFormatPage) {
  const std::string text = contract();
  ASSERT_NE(text, "");
  EXPECT_NE(content_of(SLUICE_STATE_FORMAT_PAGE).find("```\n" + text + "```\n"), std::string::npos)
      << text;
}

TEST(Layout, OfStoredValuesIsVersion1) {
  EXPECT_EQ(format::kFixedState.format(), "<I2I7I6I4I4I4");
  EXPECT_EQ(format::kFixedState.size(), 27u);
  EXPECT_EQ(format::kSlicesHead.format(), "<I2I7I6I2I4");
  EXPECT_EQ(format::kSlicesHead.size(), 21u);
  EXPECT_EQ(format::kLogHead.format(), "<I2I7I4I7I2I2I4I4I4I4I4I6I6I4I1I1I1I1");
  EXPECT_EQ(format::kLogHead.size(), 64u);
  EXPECT_EQ(format::kLogEntry.format(), "<I6I4");
  EXPECT_EQ(format::kSummary.format(), "<I6I6I4");
  EXPECT_EQ(format::kLongHeadSize, 384u);
  EXPECT_EQ(format::kWholeLogUnits, 102u);
}

TEST(Layout, WritesTheLeastSignificantByteFirstAndReadsItBack) {
  std::string bytes = "x";
  format::kLogEntry.append({.instant = 0x060504030201, .sum = 0xFFFEFDFC}, bytes);
  EXPECT_EQ(bytes, "x\x01\x02\x03\x04\x05\x06\xFC\xFD\xFE\xFF");
  std::string_view rest = std::string_view(bytes).substr(1);
  const format::LogEntry entry = format::kLogEntry.take(rest);
  EXPECT_EQ(entry.instant, 0x060504030201u);
  EXPECT_EQ(entry.sum, 0xFFFEFDFCu);
  EXPECT_EQ(rest, "");
}

}  // namespace
}  // namespace sluice::redis
