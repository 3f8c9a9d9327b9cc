#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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

TEST(ConfigCommand, ReportsTheErrorsOfTheRulesThatItNames) {
  const std::string folder = ::testing::TempDir() + "sluice_config_check";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << text;
  };
  write("sluice.yaml", "version: 1\nrules: ruls.yaml\nenvoy: { files: [envoy.yaml] }\n");
  const Outcome missing = run_config({"check", folder + "/sluice.yaml"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.err.find(folder + "/ruls.yaml"), std::string::npos) << missing.err;
  EXPECT_NE(missing.err.find(folder + "/envoy.yaml"), std::string::npos) << missing.err;
  write("ruls.yaml", "version: 1\nrules: []\nlimt: 1\n");
  write("envoy.yaml",
        "domain: a\n"
        "descriptors: [{ key: b, rate_limit: { unit: hour, requests_per_unit: 1 } }]\n");
  const Outcome wrong = run_config({"check", folder + "/sluice.yaml"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_TRUE(wrong.err.starts_with(folder + "/ruls.yaml:3:1: error: ")) << wrong.err;
  write("ruls.yaml", "version: 1\nrules: []\n");
  const Outcome right = run_config({"check", folder + "/sluice.yaml"});
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_EQ(right.out, folder + "/sluice.yaml: ok\n");
  std::filesystem::remove_all(folder);
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
