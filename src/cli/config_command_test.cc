#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
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

TEST(ConfigCommand, AcceptsEnvoyFilesOfOneDomainThatTheServerMerges) {
  const std::string folder = ::testing::TempDir() + "sluice_config_check_envoy";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/a.yaml") << "domain: a\ndescriptors: [{ key: b }]\n";
  std::ofstream(folder + "/b.yaml") << "domain: a\ndescriptors: [{ key: c }]\n";
  for (const bool merges : {false, true}) {
    std::ofstream(folder + "/sluice.yaml") << "version: 1\nenvoy: { files: [a.yaml, b.yaml]"
                                           << (merges ? ", merge_domains: true }\n" : " }\n");
    const Outcome checked = run_config({"check", folder + "/sluice.yaml"});
    EXPECT_EQ(checked.status, merges ? 0 : 1) << checked.err;
  }
  std::filesystem::remove_all(folder);
}

TEST(ConfigCommand, ReportsKeysThatDoNotFitEachOther) {
  const Outcome wrong = run_config({"check", "-"}, "version: 1\nrules: redis\n");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.err,
            "-:1:1: error: rules in Redis need a store in Redis, but the store is memory; expected "
            "--store URL, or rules files\n");
}

TEST(ConfigCommand, ChecksTheFileOfTheCurrentFolder) {
  const auto before = std::filesystem::current_path();
  const std::string folder = ::testing::TempDir() + "sluice_config_check_here";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  const Outcome none = run_config({"check"});
  std::ofstream("sluice.yaml") << "version: 1\n";
  const Outcome found = run_config({"check"});
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.err, "sluice: there is no file sluice.yaml; expected FILE after config check\n");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.out, "sluice.yaml: ok\n");
}

TEST(ConfigCommand, ChecksTheFileOfTheOptionOrOfTheEnvironment) {
  const std::string named = ::testing::TempDir() + "sluice_config_named.yaml";
  const std::string wrong = ::testing::TempDir() + "sluice_config_wrong.yaml";
  std::ofstream(named) << "version: 1\n";
  std::ofstream(wrong) << "version: 2\n";
  EXPECT_EQ(run_config({"check", "--config", named}).out, named + ": ok\n");
  ::setenv("SLUICE_CONFIG", wrong.c_str(), 1);
  const Outcome of_variable = run_config({"check"});
  const Outcome of_option = run_config({"check", "--config", named});
  const Outcome of_file = run_config({"check", named});
  ::unsetenv("SLUICE_CONFIG");
  EXPECT_EQ(of_variable.status, 1);
  EXPECT_TRUE(of_variable.err.starts_with(wrong + ":1:")) << of_variable.err;
  EXPECT_EQ(of_option.out, named + ": ok\n");
  EXPECT_EQ(of_file.out, named + ": ok\n");
  std::filesystem::remove(named);
  std::filesystem::remove(wrong);
}

TEST(ConfigCommand, ReportsWhatTheServerCannotReadAtItsStart) {
  constexpr const char* kMissing = " cannot be read: No such file or directory";
  const auto errors_of = [](const std::string& yaml) {
    const Outcome outcome = run_config({"check", "-"}, "version: 1\n" + yaml + "\n");
    EXPECT_EQ(outcome.status, 1) << yaml;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"listen: { admin: '0.0.0.0:6075' }",
       "-:1:1: error: administration at 0.0.0.0:6075 needs a token because other machines can "
       "connect; set admin.token_file or admin.token_env in the configuration file, or listen on "
       "127.0.0.1\n"},
      {"listen: { resp: '[::]:6380' }", "RESP at [::]:6380 needs users with passwords"},
      {"admin: { token_file: /nowhere/a }", std::string("admin: token file /nowhere/a") + kMissing},
      {"clients: [{ name: a, token_file: /nowhere/a }]",
       std::string("clients: token file /nowhere/a") + kMissing},
      {"resp: { users: [{ name: a, password_file: /nowhere/a }] }",
       std::string("resp.users: password file /nowhere/a") + kMissing},
      {"store: redis://127.0.0.1\nredis: { password_file: /nowhere/a }",
       std::string("redis: password file /nowhere/a") + kMissing},
      {"store: rediss://127.0.0.1\nredis: { tls: { ca_file: /nowhere/ca } }", "/nowhere/ca"},
      {"store: quota://127.0.0.1:1\nupstream: { token_file: /nowhere/a }",
       std::string("upstream.token: token file /nowhere/a") + kMissing},
      {"store: quotas://127.0.0.1:1\nupstream: { ca_file: /nowhere/ca }", "/nowhere/ca"},
      {"http: { tls: { cert_file: /nowhere/a.crt, key_file: /nowhere/a.key } }",
       "http.tls: cannot use the certificate in /nowhere/a.crt"},
      {"otlp: { endpoint: 'https://127.0.0.1', ca_file: /nowhere/ca }", "/nowhere/ca"},
  };
  for (const auto& [yaml, text] : wrong) {
    EXPECT_NE(errors_of(yaml).find(text), std::string::npos) << errors_of(yaml);
  }
  // What no listener or store uses is not read.
  const Outcome unused =
      run_config({"check", "-"},
                 "version: 1\nlisten: { http: off }\nredis: { password_file: /nowhere/a }\n"
                 "http: { tls: { cert_file: /nowhere/a.crt, key_file: /nowhere/a.key } }\n");
  EXPECT_EQ(unused.status, 0) << unused.err;
}

TEST(ConfigCommand, NamesTheVariablesThatItDoesNotHave) {
  const std::string yaml =
      "version: 1\nstore: redis://127.0.0.1\nredis: { password_env: SLUICE_TEST_NOT_SET }\n"
      "listen: { admin: '0.0.0.0:6070' }\nadmin: { token_env: SLUICE_TEST_TOKEN }\n";
  ::setenv("SLUICE_TEST_TOKEN", "a token with spaces", 1);
  const Outcome wrong = run_config({"check", "-"}, yaml);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.err.find("SLUICE_TEST_TOKEN is not a token"), std::string::npos) << wrong.err;
  ::setenv("SLUICE_TEST_TOKEN", "token-of-the-administration", 1);
  const Outcome right = run_config({"check", "-"}, yaml);
  EXPECT_EQ(right.status, 0);
  EXPECT_EQ(right.out, "-: ok\n");
  EXPECT_EQ(right.err,
            "-:1:1: warning: redis: environment variable SLUICE_TEST_NOT_SET is not set here; "
            "expected it where the server starts\n");
  ::unsetenv("SLUICE_TEST_TOKEN");
}

}  // namespace
}  // namespace sluice::cli
