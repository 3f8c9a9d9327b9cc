#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "rules/schema.h"

namespace sluice::cli {
namespace {

// Runs `rules ...` with its streams caught, in a folder of its own.
class RulesCommand : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  int run(const std::vector<std::string>& arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    auto* const old_in = std::cin.rdbuf(in.rdbuf());
    auto* const old_out = std::cout.rdbuf(out.rdbuf());
    auto* const old_err = std::cerr.rdbuf(err.rdbuf());
    const int status = parse(arguments);
    std::cin.rdbuf(old_in);
    std::cin.clear();
    std::cout.rdbuf(old_out);
    std::cerr.rdbuf(old_err);
    out_ = out.str();
    err_ = err.str();
    return status;
  }

  std::string out_;
  std::string err_;

 private:
  static int parse(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"sluice", "rules"};
    for (const std::string& one : arguments) argv.push_back(one.c_str());
    return sluice::cli::run(static_cast<int>(argv.size()), argv.data());
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("sluice-rules-command-test-" + std::to_string(::getpid()));
};

constexpr const char* kRight =
    "version: 1\nrules:\n  - { name: a, limits: [ { algorithm: gcra, limit: 1, per: 1s } ] }\n";
constexpr const char* kWrong = "version: 2\nrule: []\n";

TEST_F(RulesCommand, SaysThatAFileIsRight) {
  const std::string path = file("right.yaml", kRight);
  EXPECT_EQ(run({"check", path}), 0);
  EXPECT_EQ(out_, path + ": ok, 1 rules, 1 limits\n");
  EXPECT_EQ(err_, "");
}

TEST_F(RulesCommand, SaysAllErrorsOfEveryFileAndFails) {
  const std::string right = file("right.yaml", kRight);
  const std::string wrong = file("wrong.yaml", kWrong);
  EXPECT_EQ(run({"check", wrong, right}), 1);
  EXPECT_EQ(out_, right + ": ok, 1 rules, 1 limits\n");
  EXPECT_EQ(err_,
            wrong +
                ":1:1: error: file lacks 'rules'; expected 'rules:' with a list of rules, "
                "each starting with '- '\n" +
                wrong + ":1:10: error: 'version' is '2'; expected 1\n" + wrong +
                ":2:1: error: unknown key 'rule'; expected one of: version, domain, defaults, "
                "trusted, plans, rules; did you mean 'rules'?\n");
}

TEST_F(RulesCommand, StrictChecksFailForWarnings) {
  const std::string path = file("vain.yaml",
                                "version: 1\nrules:\n  - name: a\n    match: { path: login }\n"
                                "    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n");
  const std::string warning = path +
                              ":4:20: warning: the path 'login' matches no request: paths begin "
                              "with '/'; expected a pattern such as /login; did you mean "
                              "'/login'?\n";
  EXPECT_EQ(run({"check", path}), 0);
  EXPECT_EQ(out_, path + ": ok, 1 rules, 1 limits\n");
  EXPECT_EQ(err_, warning);
  EXPECT_EQ(run({"check", "--strict", path}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_, warning);
  const std::string right = file("right.yaml", kRight);
  EXPECT_EQ(run({"check", "--strict", right}), 0);
}

TEST_F(RulesCommand, WarnsAboutALogThatDoesNotFitIntoMemory) {
  const std::string path =
      file("log.yaml",
           "version: 1\nrules:\n  - name: a\n    limits:\n"
           "      - { algorithm: sliding_window_log, limit: 1000, per: 1s }\n"
           "      - { algorithm: sliding_window_log, per: 1h, limit: 9000000 }\n");
  EXPECT_EQ(run({"check", path}), 0);
  EXPECT_EQ(out_, path + ": ok, 1 rules, 2 limits\n");
  EXPECT_EQ(err_,
            path +
                ":6:58: warning: a log of 9000000 units can need 252000092 bytes, and "
                "max_log_bytes allows 134217728 for one; a longer log counts by slices, which "
                "is stricter; expected fewer units, 'sliding_window_counter', or "
                "max_log_bytes of at least 504000184\n");
  EXPECT_EQ(run({"check", "--max-log-bytes", "504000184", path}), 0);
  EXPECT_EQ(err_, "");
  EXPECT_EQ(run({"check", "--max-log-bytes", "0", path}), 0);
  EXPECT_EQ(err_, "");
  EXPECT_EQ(run({"check", "--max-log-bytes", "40000", path}), 0);
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 2);
}

TEST_F(RulesCommand, FailsForAMissingFile) {
  EXPECT_EQ(run({"check", "/nonexistent/rules.yaml"}), 1);
  EXPECT_EQ(err_.substr(0, 38), "/nonexistent/rules.yaml:1:1: error: th");
}

TEST_F(RulesCommand, ReadsTheStandardInput) {
  EXPECT_EQ(run({"check", "-"}, kRight), 0);
  EXPECT_EQ(out_, "-: ok, 1 rules, 1 limits\n");
  EXPECT_EQ(run({"check", "-"}, kWrong), 1);
  EXPECT_EQ(run({"check", "-"}, std::string(5 << 20, '#')), 1);
  EXPECT_EQ(err_, "-:1:1: error: the file has over 4 MiB; expected at most 4194304 bytes\n");
}

TEST_F(RulesCommand, ComparesRules) {
  const std::string old = file("old.yaml", kRight);
  const std::string same = file("same.yaml", std::string("# a comment\n") + kRight);
  const std::string now =
      file("new.yaml",
           "version: 1\nrules:\n"
           "  - { name: a, limits: [ { algorithm: gcra, limit: 2, per: 1s, "
           "burst: 3 } ] }\n"
           "  - { name: b, limits: [ { algorithm: gcra, limit: 1, per: 1s } ] }\n");
  EXPECT_EQ(run({"diff", old, same}), 0);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(run({"diff", old, now}), 1);
  EXPECT_EQ(out_,
            "~ rule a, limit a/0: burst 0 -> 3\n"
            "~ rule a, limit a/0: limit 1 -> 2\n"
            "+ rule b\n");
  EXPECT_EQ(run({"diff", "-", old, "--json"}, kRight), 0);
  EXPECT_EQ(out_, "{\"equal\":true,\"differences\":[]}\n");
  EXPECT_EQ(run({"diff", now, old, "--json"}), 1);
  EXPECT_EQ(
      out_,
      "{\"equal\":false,\"differences\":["
      "{\"change\":\"changed\",\"rule\":\"a\",\"limit\":\"a/"
      "0\",\"key\":\"burst\",\"old\":\"3\",\"new\":\"0\"},"
      "{\"change\":\"changed\",\"rule\":\"a\",\"limit\":\"a/0\",\"key\":\"limit\",\"old\":\"2\","
      "\"new\":\"1\"},"
      "{\"change\":\"removed\",\"rule\":\"b\"}]}\n");
}

TEST_F(RulesCommand, ComparesOnlyRulesThatAreRight) {
  const std::string right = file("right.yaml", kRight);
  const std::string wrong = file("wrong.yaml", "version: 1\nrules: 7\n");
  EXPECT_EQ(run({"diff", right, wrong}), 2);
  EXPECT_EQ(err_.find(wrong + ":2:8: error: "), 0U) << err_;
  EXPECT_NE(err_.find("sluice: rules diff: the rules of '" + wrong + "' are wrong\n"),
            std::string::npos);
  EXPECT_EQ(run({"diff", right}), 2);
  EXPECT_EQ(run({"diff", right, "redis"}), 2);
}

TEST_F(RulesCommand, NeedsSomethingToDo) {
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"check"}), 2);
  EXPECT_EQ(run({"chekc", "x"}), 2);
}

TEST_F(RulesCommand, PrintsSchemaAndReference) {
  EXPECT_EQ(run({"schema"}), 0);
  EXPECT_EQ(out_, rules::schema::json_schema());
  EXPECT_EQ(run({"docs"}), 0);
  EXPECT_EQ(out_, rules::schema::reference(rules::schema::file()));
}

}  // namespace
}  // namespace sluice::cli
