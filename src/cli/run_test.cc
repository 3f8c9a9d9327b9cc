#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "rules/schema.h"
#include "server/api/resp/command.h"
#include "server/config/schema.h"

namespace sluice::cli {
namespace {

struct Ended {
  int status;
  std::string out;
  std::string err;
};

Ended run_with(const std::vector<const char*>& arguments) {
  std::vector<const char*> argv = {"sluice"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int status = run(static_cast<int>(argv.size()), argv.data());
  Ended ended{status, ::testing::internal::GetCapturedStdout(), ""};
  ended.err = ::testing::internal::GetCapturedStderr();
  return ended;
}

TEST(Run, HelpsOnStdoutWithStatusZero) {
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"--help"},
                                             {"replay", "--help"},
                                             {"decide", "--help"},
                                             {"rules", "--help"},
                                             {"rules", "push", "--help"},
                                             {"rules", "show", "--help"},
                                             {"blocks", "--help"},
                                             {"blocks", "set", "--help"},
                                             {"overrides", "--help"},
                                             {"overrides", "set", "--help"},
                                             {"overrides", "import", "--help"},
                                             {"suggest", "--help"},
                                             {"keys", "--help"}}) {
    const Ended ended = run_with(arguments);
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.err, "");
    EXPECT_NE(ended.out.find("Usage:"), std::string::npos);
    EXPECT_NE(ended.out.find("sluice "), std::string::npos) << arguments[0];
  }
}

TEST(Run, ListsTheSubcommandsInItsHelp) {
  const std::string help = run_with({"--help"}).out;
  for (const char* name : {"blocks", "decide", "keys", "overrides", "replay", "rules", "suggest"}) {
    EXPECT_NE(help.find(std::string("\n  ") + name), std::string::npos) << help;
  }
}

TEST(Run, PrintsItsVersion) {
  const Ended ended = run_with({"--version"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_TRUE(ended.out.starts_with("sluice 0.")) << ended.out;
}

TEST(Run, AnswersWrongUsageWithTwoAndOneLine) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {},
           {"nonsense"},
           {"--nonsense"},
           {"decide", "--store", "nonsense"},
           {"decide", "--store", "http://a"},
           {"decide", "--store", "redis://a", "--prefix", "{a}"},
           {"keys"},
           {"keys", "--store", "memory"},
           {"keys", "--store", "redis://a", "--most", "0"},
           {"rules", "push", "--store", "redis://a"},
           {"rules", "push", "/nonexistent/rules.yaml"},
           {"rules", "push", "a", "--store", "redis://a", "--expect", "-1"},
           {"rules", "show"},
           {"rules", "show", "--store", "redis://a:b"},
           {"blocks"},
           {"blocks", "set", "login/ip", "a=1"},
           {"blocks", "set", "login/ip", "a=1", "--for", "1m", "--until", "x"},
           {"blocks", "unset", "login", "a=1"},
           {"overrides"},
           {"overrides", "set", "api/requests", "a=1"},
           {"overrides", "set", "api/requests", "a=1", "--limit", "1", "--blocked"},
           {"overrides", "set", "api/requests", "a=1", "--limit", "-1"},
           {"overrides", "set", "api/requests", "a", "--limit", "1"},
           {"overrides", "set", "api", "a=1", "--blocked"},
           {"overrides", "unset", "api/", "a=1"},
           {"overrides", "list", "--admin", "nonsense"},
           {"overrides", "import"},
           {"replay"},
           {"replay", "log"},
           {"replay", "--rules", "r"},
           {"replay", "--rules"},
           {"replay", "--rules", "r", "--json", "--html", "x", "log"},
           {"replay", "--rules", "r", "--max-keys", "0", "log"},
           {"replay", "--rules", "r", "--max-keys", "many", "log"},
           {"replay", "--rules", "r", "--nonsense", "log"}}) {
    const Ended ended = run_with(arguments);
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_TRUE(ended.err.starts_with("sluice: ")) << ended.err;
    EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << ended.err;
  }
}

TEST(Run, PrintsReferencesAndSchemas) {
  EXPECT_EQ(run_with({"docs", "rules"}).out, rules::schema::reference(rules::schema::file()));
  EXPECT_EQ(run_with({"docs", "rules", "--schema"}).out, rules::schema::json_schema());
  EXPECT_EQ(run_with({"docs", "config"}).out, rules::schema::reference(server::config::file()));
  EXPECT_EQ(run_with({"docs", "config", "--schema"}).out, server::config::json_schema());
  EXPECT_EQ(run_with({"docs", "commands"}).out, server::resp::commands_reference());
  EXPECT_EQ(run_with({"docs"}).out,
            "commands    The commands for Redis clients, as in docs/commands.md\n"
            "config      The keys of the server's configuration file, as in docs/config.md\n"
            "rules       The keys of rules files, as in docs/rules.md\n");
}

TEST(Run, NamesTheReferencesThatExist) {
  const Ended unknown = run_with({"docs", "rule"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.err,
            "sluice: docs: there is no reference called 'rule'; expected commands, config or "
            "rules; did you mean 'rules'?\n");
  EXPECT_EQ(run_with({"docs", "commands", "--schema"}).err,
            "sluice: docs: there is no schema called 'commands'; expected config or rules\n");
  EXPECT_EQ(run_with({"docs", "--schema"}).err,
            "sluice: docs: a schema needs a name; expected config or rules\n");
}

TEST(Run, SaysWhatACommandIsCalledNow) {
  const Ended ended = run_with({"rules", "schema"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.err, "sluice: this command is called `sluice docs rules --schema` now\n");
  EXPECT_EQ(run_with({"commands"}).err,
            "sluice: this command is called `sluice docs commands` now\n");
  EXPECT_EQ(run_with({"config", "docs"}).err,
            "sluice: this command is called `sluice docs config` now\n");
}

TEST(Run, NeverRepeatsAUrlThatMayHoldAPassword) {
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"keys", "--store", "redis://user:hunter2@a:b"},
                                             {"decide", "--store", "redis:user:hunter2@a"}}) {
    const Ended ended = run_with(arguments);
    EXPECT_NE(ended.status, 0);
    EXPECT_TRUE(ended.err.starts_with("sluice: ")) << ended.err;
    EXPECT_EQ(ended.err.find("hunter2"), std::string::npos) << ended.err;
  }
}

}  // namespace
}  // namespace sluice::cli
