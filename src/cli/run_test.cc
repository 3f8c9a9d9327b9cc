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
           {"keys", "--store", "redis://a", "--max", "0"},
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
           {"replay", "--rules", "r", "--max", "0", "log"},
           {"replay", "--rules", "r", "--max", "many", "log"},
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

TEST(Run, SaysWhichWordWasMeantAndWhichHelpDescribesIt) {
  const auto error_of = [](const std::vector<const char*>& arguments) {
    const Ended ended = run_with(arguments);
    EXPECT_EQ(ended.status, 2);
    return ended.err;
  };
  EXPECT_EQ(error_of({"serv"}),
            "sluice: there is no command 'serv'; did you mean 'serve'? See `sluice --help`\n");
  EXPECT_EQ(error_of({"rule", "check", "a"}),
            "sluice: there is no command 'rule'; did you mean 'rules'? See `sluice --help`\n");
  EXPECT_EQ(error_of({"rules", "chek", "a"}),
            "sluice: rules: there is no command 'chek'; did you mean 'check'? See `sluice rules "
            "--help`\n");
  EXPECT_EQ(error_of({"rules", "entirely-else"}),
            "sluice: rules: there is no command 'entirely-else'; see `sluice rules --help`\n");
  EXPECT_EQ(error_of({"rules", "check", "a", "--strickt"}),
            "sluice: rules check: there is no option '--strickt'; did you mean '--strict'? See "
            "`sluice rules check --help`\n");
  EXPECT_EQ(error_of({"top", "--intervall=3", "x"}),
            "sluice: top: there is no option '--intervall'; did you mean '--interval'? See "
            "`sluice top --help`\n");
  EXPECT_EQ(error_of({"top", "\x1b"}),
            "sluice: top: the argument '\\x1B' is one too many; see `sluice top --help`\n");
  EXPECT_TRUE(error_of({"rules"}).starts_with(
      "sluice: rules: a command is missing; expected one of: push, "));
  EXPECT_EQ(error_of({"rules", "push", "--store", "redis://a"}),
            "sluice: rules push: FILE is required; see `sluice rules push --help`\n");
}

TEST(Run, NamesTheNewWordOfAnEarlierOne) {
  EXPECT_EQ(run_with({"rules", "schema"}).err,
            "sluice: rules: 'rules schema' is now `sluice docs rules --schema`; see `sluice rules "
            "--help`\n");
  EXPECT_EQ(run_with({"top", "--by", "asked"}).err,
            "sluice: top: 'top --by' is now `sluice top --sort`; see `sluice top --help`\n");
  EXPECT_EQ(run_with({"replay", "--rules", "r", "--max-keys=5", "log"}).err,
            "sluice: replay: 'replay --max-keys' is now `sluice replay --max`; see `sluice replay "
            "--help`\n");
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
