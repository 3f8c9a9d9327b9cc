#include <gtest/gtest.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"

namespace sluice::cli {
namespace {

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

Outcome run_config(const std::vector<std::string>& arguments, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  auto* const old_in = std::cin.rdbuf(in.rdbuf());
  auto* const old_out = std::cout.rdbuf(out.rdbuf());
  auto* const old_err = std::cerr.rdbuf(err.rdbuf());
  std::vector<const char*> argv = {"sluice", "config"};
  for (const std::string& one : arguments) argv.push_back(one.c_str());
  const int status = run(static_cast<int>(argv.size()), argv.data());
  std::cin.rdbuf(old_in);
  std::cin.clear();
  std::cout.rdbuf(old_out);
  std::cerr.rdbuf(old_err);
  return {status, out.str(), err.str()};
}

TEST(ConfigCommand, ReportsWhetherAFileIsValid) {
  const Outcome right = run_config({"check", "-"}, "version: 1\n");
  EXPECT_EQ(right.status, 0);
  EXPECT_EQ(right.out, "-: ok\n");
  const Outcome wrong = run_config({"check", "-"}, "version: 2\nthreads: x\n");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.out, "");
  EXPECT_EQ(wrong.err,
            "-:1:10: error: 'version' is '2'; expected 1\n"
            "-:2:10: error: 'threads' is 'x'; expected a whole number from 0 to 1024, in plain "
            "digits\n");
  EXPECT_EQ(run_config({"check", "/nonexistent/sluice.yaml"}).status, 1);
  EXPECT_EQ(run_config({}).status, 2);
}

TEST(ConfigCommand, ReportsKeysThatDoNotFitEachOther) {
  const Outcome wrong = run_config({"check", "-"}, "version: 1\nrules: redis\n");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.err,
            "-:1:1: error: rules in Redis need a store in Redis, but the store is memory; expected "
            "--store URL, or rules files\n");
}

}  // namespace
}  // namespace sluice::cli
