#include "base/csv.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::base {
namespace {

// The fields in brackets, and the fault at the end.
std::string fields_of(std::string_view line, char separator = ',') {
  CsvFields fields(line, separator);
  std::string out;
  for (std::string_view field; fields.next(field);) {
    out += "[" + (fields.doubled() ? undoubled(field) : std::string(field)) + "]";
  }
  if (fields.error().empty()) return out;
  return out + (fields.error().starts_with("a quote is not closed; ") ? " open" : " text");
}

TEST(Csv, TakesFieldByField) {
  EXPECT_EQ(fields_of(""), "[]");
  EXPECT_EQ(fields_of("a,,b,"), "[a][][b][]");
  EXPECT_EQ(fields_of("a;b,c", ';'), "[a][b,c]");
  EXPECT_EQ(fields_of("\"a,b\",\"\",\"c \"\"d\"\"\",e\"f"), "[a,b][][c \"d\"][e\"f]");
}

TEST(Csv, StopsAtAFault) {
  EXPECT_EQ(fields_of("a,\"b"), "[a] open");
  EXPECT_EQ(fields_of("\""), " open");
  EXPECT_EQ(fields_of("\"a\"\""), " open");
  EXPECT_EQ(fields_of("a,\"b\"c,d"), "[a] text");
}

TEST(Csv, WritesWhatItReads) {
  for (const std::string text : {"", "a b", "a,b", "\"", "a\"b\"", "é"}) {
    std::string line;
    append_csv_field(line, text);
    EXPECT_EQ(fields_of(line), "[" + text + "]");
  }
}

}  // namespace
}  // namespace sluice::base
