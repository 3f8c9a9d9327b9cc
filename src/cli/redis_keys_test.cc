#include "cli/key_command.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

std::string read(std::string_view redis_key) {
  const auto name = read_slice_name(redis_key);
  if (!name) return "none";
  return (name->keyspace == Keyspace::kRules ? "rule " : "") +
         std::string(to_string(name->algorithm)) + " <" + name->tag + "> <" + name->key + "> " +
         name->period_us + "/" + name->slices + " " + name->slice;
}

TEST(SliceName, IsReadWithItsTagOrWithout) {
  EXPECT_EQ(read("F{a:b/c:1}!:60000000/1:29384"), "fixed_window <> <a:b/c:1> 60000000/1 29384");
  EXPECT_EQ(read("rF{a}!:1/1:5"), "rule fixed_window <> <a> 1/1 5");
  EXPECT_EQ(read("C{t}.a}b:1:60000000/6:7"), "sliding_window_counter <t> <a}b:1> 60000000/6 7");
  EXPECT_EQ(read("F{100%25 %7D}!:1/1:0"), "fixed_window <> <100% }> 1/1 0");
  EXPECT_EQ(read("F{%}!:1/1:0"), "fixed_window <> <> 1/1 0");
  EXPECT_EQ(read("F{t}.:1/1:0"), "fixed_window <t> <> 1/1 0");
}

TEST(SliceName, IsAbsentFromOtherKeys) {
  for (const std::string_view other :
       {"", "F", "F{", "F{}", "F{a}!", "F{a}!:1/1", "F{a}!:1/1:x", "F{a}!:1/:1", "F{a}!x:1/1:0",
        "F{a}?:1/1:0", "F{a:1/1:0", "f{}a", "F{a}:1/1:0", "T{a}!:1/1:0"}) {
    EXPECT_EQ(read(other), "none") << other;
  }
}

}  // namespace
}  // namespace sluice::cli
