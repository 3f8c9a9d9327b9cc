#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
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

// Returns the commands that a help page lists.
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> names;
  const std::string title = "\nSubcommands:\n";
  const std::size_t at = help.find(title);
  if (at == help.npos) return names;
  std::istringstream lines(help.substr(at + title.size()));
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    if (line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

// Checks the help of a command and of all commands below it. Returns how many these are.
std::size_t check_help(const std::vector<std::string>& words) {
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  arguments.push_back("--help");
  const Ended ended = run_with(arguments);
  std::string name = "sluice";
  for (const std::string& word : words) name += " " + word;
  EXPECT_EQ(ended.status, 0) << name;
  EXPECT_EQ(ended.err, "") << name;
  EXPECT_NE(ended.out.find("Usage: " + name), std::string::npos) << ended.out;
  const auto below = commands_in(ended.out);
  EXPECT_NE(ended.out.find("\nExit status: 0 "), std::string::npos) << name;
  EXPECT_NE(ended.out.find("\nExamples:\n  " + name), std::string::npos) << name;
  std::size_t count = 1;
  for (const std::string& word : below) {
    auto longer = words;
    longer.push_back(word);
    count += check_help(longer);
  }
  return count;
}

TEST(Run, DescribesEveryCommandWithItsExitStatusAndAnExample) { EXPECT_GT(check_help({}), 20U); }

TEST(Run, ListsTheSubcommandsInItsHelp) {
  const std::string help = run_with({"--help"}).out;
  for (const char* name : {"decide", "key", "replay", "rules", "suggest", "top"}) {
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
           {"help", "nonsense"},
           {"help", "rules", "nonsense"},
           {"help", "key", "nonsense"},
           {"help", "status", "nonsense"},
           {"--nonsense"},
           {"decide", "--store", "nonsense"},
           {"decide", "--store", "http://a"},
           {"decide", "--store", "redis://a", "--prefix", "{a}"},
           {"key", "dump"},
           {"key", "dump", "--store", "memory"},
           {"key", "dump", "--store", "quota://a:1"},
           {"decide", "--store", "quota://a:1"},
           {"ledger", "sum", "--store", "quota://a:1"},
           {"rules", "show", "--store", "quotas://a:1"},
           {"key", "dump", "--store", "redis://a", "--max", "0"},
           {"rules", "push", "--store", "redis://a"},
           {"rules", "push", "/nonexistent/rules.yaml"},
           {"rules", "push", "a", "--store", "redis://a", "--expect", "-1"},
           {"rules", "show", "--admin", "nonsense"},
           {"rules", "show", "--store", "redis://a:b"},
           {"key"},
           {"key", "--reset"},
           {"key", "api/requests", "list"},
           {"key", "api/requests", "a"},
           {"key", "api/", "a=1"},
           {"key", "/requests", "a=1", "--unset"},
           {"key", "api/requests", "a=1", "a=2"},
           {"key", "api/requests", "a=1", "--for", "1h"},
           {"key", "api/requests", "a=1", "--block", "1h", "--for", "1h"},
           {"key", "api/requests", "a=1", "--plan", "p", "--for", "1m", "--until", "x"},
           {"key", "api/requests", "a=1", "--set", "limit=1", "--block", "1m"},
           {"key", "api/requests", "a=1", "--set", "limit=-1"},
           {"key", "api/requests", "a=1", "--set", "limit=1,burts=2"},
           {"key", "api/requests", "a=1", "--counter", "c", "--unset"},
           {"key", "--counter", "c"},
           {"key", "list", "--admin", "nonsense"},
           {"key", "import"},
           {"init", "--gateway", "nginx", "--key", "header.X_Api_Key"},
           {"try", "rules.yaml", "GET /", "--cost", "-1"},
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

TEST(Run, RefusesAnEmptyValueOfAFlagButNotAnEmptyVariable) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {"status", "--admin", ""},
           {"key", "login", "ip=::1", "--block", "5m", "--admin", ""},
           {"key", "login", "ip=::1", "--block", ""},
           {"decide", "--store", ""},
           {"serve", "--store", ""},
           {"serve", "--http", ""},
           {"replay", "--rules", "r", "log", "--html", ""},
           {"suggest", "log", "--html", ""}}) {
    const Ended ended = run_with(arguments);
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.err.find(": it is empty; expected "), std::string::npos) << ended.err;
  }
  EXPECT_NE(run_with({"status", "--admin", ""}).err.find("--admin: it is empty; expected ADDR"),
            std::string::npos);
  ::setenv("SLUICE_STORE", "", 1);
  EXPECT_EQ(run_with({"key", "dump"}).err.find("empty"), std::string::npos);
  ::unsetenv("SLUICE_STORE");
  EXPECT_EQ(run_with({"suggest", "/nonexistent", "--key", ""}).err.find("empty"), std::string::npos)
      << "all requests count together";
}

TEST(Run, RefusesWhatIsNoNumberWhereARangeIsExpected) {
  for (const char* const value : {"nan", "-nan", "inf", "0"}) {
    EXPECT_EQ(run_with({"top", "--interval", value}).status, 2) << value;
    EXPECT_EQ(run_with({"status", "--timeout", value}).status, 2) << value;
  }
}

TEST(Run, PrintsReferencesAndSchemas) {
  EXPECT_EQ(run_with({"docs", "rules"}).out, rules::schema::reference(rules::schema::file()));
  EXPECT_EQ(run_with({"docs", "rules", "--schema"}).out, rules::schema::json_schema());
  EXPECT_EQ(run_with({"docs", "config"}).out, rules::schema::reference(server::config::file()));
  EXPECT_EQ(run_with({"docs", "config", "--schema"}).out, server::config::json_schema());
  EXPECT_EQ(run_with({"docs", "commands"}).out, server::resp::commands_reference());
  EXPECT_EQ(
      run_with({"docs"}).out,
      "commands    The commands for Redis clients, as in docs/reference/commands.md\n"
      "config      The keys of the server's configuration file, as in docs/reference/config.md\n"
      "openapi     The HTTP API and the administration as OpenAPI 3.1, as in "
      "docs/openapi.json\n"
      "rules       The keys of rules files, as in docs/reference/rules.md\n");
}

TEST(Run, NamesTheReferencesThatExist) {
  const Ended unknown = run_with({"docs", "rule"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.err,
            "sluice: docs: there is no reference called 'rule'; expected commands, config, "
            "openapi or rules; did you mean 'rules'?\n");
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
  EXPECT_EQ(error_of({"serve", "--port", "80"}),
            "sluice: serve: there is no option '--port'; did you mean --http HOST:PORT? See "
            "`sluice serve --help`\n");
  EXPECT_EQ(error_of({"top", "\x1b"}),
            "sluice: top: the argument '\\x1B' is one too many; see `sluice top --help`\n");
  EXPECT_EQ(error_of({"status", "127.0.0.1:6071"}),
            "sluice: status: the argument '127.0.0.1:6071' is one too many; did you mean --admin "
            "127.0.0.1:6071? See `sluice status --help`\n");
  EXPECT_EQ(
      error_of({"serve", "all.yaml"}),
      "sluice: serve: the argument 'all.yaml' is one too many; did you mean --rules all.yaml? "
      "See `sluice serve --help`\n");
  EXPECT_EQ(error_of({"serve", "a/sluice.yaml"}),
            "sluice: serve: the argument 'a/sluice.yaml' is one too many; did you mean --config "
            "a/sluice.yaml? See `sluice serve --help`\n");
  EXPECT_EQ(error_of({"serve", "rules"}),
            "sluice: serve: the argument 'rules' is one too many; see `sluice serve --help`\n");
  EXPECT_EQ(error_of({"check", "all.yaml"}),
            "sluice: there is no command 'check'; did you mean `sluice config check` or `sluice "
            "rules check`? See `sluice --help`\n");
  EXPECT_EQ(error_of({"rules", "diff"}),
            "sluice: rules diff: OLD is required: `sluice status` says how the active rules differ "
            "from the files of the server; see `sluice rules diff --help`\n");
  for (const char* command : {"history", "diff", "rollback"}) {
    EXPECT_EQ(
        error_of({"rules", command, "--admin", "a:1", "--admin", "b:2"}),
        "sluice: rules " + std::string(command) +
            ": --admin is given 2 times; expected it once: repeat the command for another "
            "server, unless they share these rules or overrides in Redis; see `sluice rules " +
            command + " --help`\n");
  }
  EXPECT_EQ(error_of({"rules", "history", "--max", "1", "--max", "2"}),
            "sluice: rules history: --max is given 2 times; expected it once; see `sluice rules "
            "history --help`\n");
  EXPECT_TRUE(error_of({"rules"}).starts_with(
      "sluice: rules: a command is missing; expected one of: push, "));
  EXPECT_EQ(error_of({"rules", "push", "--store", "redis://a"}),
            "sluice: rules push: FILE is required; see `sluice rules push --help`\n");
}

TEST(Run, NamesTheNewWordOfAnEarlierOne) {
  EXPECT_EQ(run_with({"rules", "schema"}).err,
            "sluice: 'rules schema' is now `sluice docs rules --schema`; see `sluice docs "
            "rules --help`\n");
  EXPECT_EQ(run_with({"keys", "--store", "redis://a"}).err,
            "sluice: 'keys' is now `sluice key dump`; see `sluice key dump --help`\n");
  EXPECT_EQ(run_with({"overrides", "set", "api/requests", "ip=1", "--limit", "5"}).err,
            "sluice: 'overrides set' is now `sluice key RULE/LIMIT NAME=VALUE --set limit=N`; see "
            "`sluice key --help`\n");
  EXPECT_EQ(run_with({"blocks"}).err,
            "sluice: 'blocks' is now `sluice key`; see `sluice key "
            "--help`\n");
  EXPECT_EQ(run_with({"top", "--by", "asked"}).err,
            "sluice: 'top --by' is now `sluice top --sort`; see `sluice top --help`\n");
  EXPECT_EQ(run_with({"top", "-n", "3"}).err,
            "sluice: 'top -n' is now `sluice top --reports`; see `sluice top --help`\n");
  EXPECT_EQ(run_with({"key", "export", "--rule", "api"}).err,
            "sluice: 'key export --rule' is now `sluice key export RULE`; see `sluice key export "
            "--help`\n");
  EXPECT_EQ(run_with({"replay", "--rules", "r", "--max-keys=5", "log"}).err,
            "sluice: 'replay --max-keys' is now `sluice replay --max`; see `sluice replay "
            "--help`\n");
  EXPECT_EQ(run_with({"manual"}).err, "sluice: 'manual' is now `man sluice`\n");
  EXPECT_EQ(run_with({"completion", "bash"}).err,
            "sluice: 'completion' is now `packaging/manual PROGRAM SHARE`\n");
}

TEST(Run, NamesTheVariableOfAWrongFlag) {
  ::setenv("SLUICE_ADMIN", "nonsense", 1);
  ::setenv("SLUICE_TIMEOUT", "0", 1);
  const std::string variable = " (--admin is the environment variable SLUICE_ADMIN)\n";
  EXPECT_TRUE(run_with({"status", "--timeout", "1"}).err.ends_with(variable));
  EXPECT_FALSE(run_with({"status", "--admin", "wrong", "--timeout", "1"}).err.ends_with(variable));
  EXPECT_NE(
      run_with({"status", "--admin", "127.0.0.1:0"})
          .err.find(" (--timeout is the environment variable SLUICE_TIMEOUT); see `sluice status"),
      std::string::npos);
  EXPECT_EQ(run_with({"status", "--help"}).status, 0);
  ::unsetenv("SLUICE_ADMIN");
  ::unsetenv("SLUICE_TIMEOUT");
}

TEST(Run, NeverRepeatsAUrlThatMayHoldAPassword) {
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"key", "dump", "--store", "redis://user:hunter2@a:b"},
                                             {"decide", "--store", "redis:user:hunter2@a"}}) {
    const Ended ended = run_with(arguments);
    EXPECT_NE(ended.status, 0);
    EXPECT_TRUE(ended.err.starts_with("sluice: ")) << ended.err;
    EXPECT_EQ(ended.err.find("hunter2"), std::string::npos) << ended.err;
  }
}

}  // namespace
}  // namespace sluice::cli
