#include <gtest/gtest.h>

#include <sys/stat.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/command.h"
#include "replay/test_logs.h"

namespace sluice::cli {
namespace {

using replay::line_at;

class SuggestCommand : public ::testing::Test {
 protected:
  int run_suggest(const std::vector<std::string>& arguments) {
    return run_sluice("suggest", arguments);
  }
  int run_sluice(const char* command, const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"sluice", command};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = run(static_cast<int>(argv.size()), argv.data());
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return status;
  }
  // Nine clients with a request, and one with five.
  std::string ten_clients() const {
    std::string text;
    for (int i = 0; i < 9; ++i) text += line_at(i, "10.0.0." + std::to_string(i), "GET /a");
    for (int i = 0; i < 5; ++i) text += line_at(10, "10.0.1.1", "GET /b");
    return files_.write("log", text);
  }

  replay::TemporaryFiles files_;
  std::string log_ = ten_clients();
  std::string out_;
  std::string err_;
};

TEST_F(SuggestCommand, PrintsTheSmallestLimits) {
  EXPECT_EQ(run_suggest({"--per", "1s", "--harm", "10%", "--rate", "10", "--json", log_}), 0);
  const auto json = boost::json::parse(out_);
  EXPECT_EQ(json.at("keys").to_number<int>(), 10);
  EXPECT_EQ(json.at("requests").to_number<int>(), 14);
  const auto& limits = json.at("suggestions").as_array();
  ASSERT_EQ(limits.size(), 3u);
  EXPECT_EQ(limits[0].at("algorithm").as_string(), "fixed_window");
  EXPECT_EQ(limits[0].at("limit").to_number<int>(), 1);
  EXPECT_EQ(limits[0].at("keys_denied").to_number<int>(), 1);
  EXPECT_EQ(limits[0].at("requests_denied").to_number<int>(), 4);
  EXPECT_EQ(run_suggest({"--harm", "9.9%", "--all", log_}), 0);
  EXPECT_NE(out_.find("fixed_window            5 per 1s"), std::string::npos) << out_;
  EXPECT_EQ(err_, "");
}

TEST_F(SuggestCommand, FailsIfALogIsOutOfOrderAndSaysSoInTheRules) {
  std::string ordered, reversed;
  for (int i = 0; i < 40; ++i) {
    ordered += line_at(i * 100, "a");
    reversed.insert(0, line_at(i * 100, "a"));
  }
  const std::string wrong = " of the requests are more than 10 s earlier than one before them";
  EXPECT_EQ(run_suggest({"--yaml", files_.write("reversed", reversed)}), 1);
  EXPECT_TRUE(out_.starts_with("# /")) << out_;
  EXPECT_NE(out_.substr(0, out_.find('\n')).find("reversed: 97.5 %" + wrong), std::string::npos);
  EXPECT_TRUE(RuleSet::parse(out_, "rules")) << out_;
  // A tenth of them, in the rules of --all, too.
  EXPECT_EQ(
      run_suggest({"--yaml", "--all", files_.write("late", ordered + ordered.substr(0, 300))}), 1);
  EXPECT_NE(out_.find(wrong), std::string::npos) << out_;
  EXPECT_EQ(run_suggest({"--json", files_.write("late", ordered + ordered.substr(0, 300))}), 1);
  EXPECT_NE(out_.find("\"note\":\"a log is not in order of time"), std::string::npos) << out_;
  EXPECT_NE(out_.find("\"warnings\":[\"" + files_.path("late") + ": 9.1 %" + wrong),
            std::string::npos)
      << out_;
  EXPECT_EQ(run_suggest({"--yaml", files_.write("skipped", ordered + std::string(50, '\n'))}), 0);
  EXPECT_NE(out_.find(": most lines are skipped, 50 of 90\n"), std::string::npos) << out_;
  EXPECT_EQ(run_suggest({"--yaml", files_.write("ordered", ordered)}), 0);
  EXPECT_TRUE(out_.starts_with("# Limits for past traffic")) << out_;
}

TEST_F(SuggestCommand, BeginsWithTheLimitToTake) {
  EXPECT_EQ(run_suggest({log_}), 0);
  EXPECT_TRUE(
      out_.starts_with("pages: 12 per 1m, burst 8: denies none of 14 requests of 10 clients\n"))
      << out_;
  EXPECT_EQ(out_.find("fixed_window"), std::string::npos);
  EXPECT_EQ(run_suggest({"--json", log_}), 0);
  const auto advice = boost::json::parse(out_).at("advice").at(0);
  EXPECT_EQ(advice.at("rule").as_string(), "pages");
  EXPECT_EQ(advice.at("keys_denied").to_number<int>(), 0);
}

TEST_F(SuggestCommand, CountsTheRequestsThatMatch) {
  EXPECT_EQ(run_suggest({"--match", "path=/a", "--harm", "0%", "--json", log_}), 0);
  const auto json = boost::json::parse(out_);
  EXPECT_EQ(json.at("keys").to_number<int>(), 9);
  EXPECT_EQ(json.at("unmatched").to_number<int>(), 5);
  EXPECT_EQ(run_suggest({"--key", "{header.x-user}", "--yaml", log_}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(
      err_,
      "sluice: none of 14 requests has the key {header.x-user}; expected --field "
      "header.x-user=remote_user, or a log of JSON lines with this value, or --key all, which "
      "counts all requests together\n");
  EXPECT_EQ(run_suggest({"--key", "{query.user}", log_}), 1);
  EXPECT_EQ(
      err_,
      "sluice: none of 14 requests has the key {query.user}; expected --key all, which counts "
      "all requests together\n");
  EXPECT_EQ(run_suggest({"--key", "{header.x-user|ip}", "--yaml", log_}), 0);
  EXPECT_EQ(err_,
            "sluice: warning: no request has header.x-user; all 14 were counted by ip; expected "
            "--field header.x-user=remote_user, or a log of JSON lines with this value\n");
  EXPECT_EQ(run_suggest({"--key", "all", "--json", log_}), 0) << err_;
  EXPECT_EQ(boost::json::parse(out_).at("keys").to_number<int>(), 1);
  EXPECT_EQ(run_suggest({"--harm", "1", log_}), 2);
  EXPECT_NE(err_.find("--harm 1: expected 0% to 100%, such as 1%\n"), std::string::npos) << err_;
  const std::string some =
      files_.write("some", "time,ip,header.x-user\n1455926400,a,u\n1455926401,a,\n");
  EXPECT_EQ(run_suggest({"--key", "{header.x-user}", "--json", some}), 0);
  EXPECT_EQ(boost::json::parse(out_).at("keyless").to_number<int>(), 1);
}

TEST_F(SuggestCommand, MatchesNormalizedPaths) {
  const std::string log =
      files_.write("paths", line_at(0, "10.0.0.1", "POST //xmlrpc.php") +
                                line_at(1, "10.0.0.1", "POST /%78mlrpc.php") +
                                line_at(2, "10.0.0.1", "POST /a/../xmlrpc.php"));
  EXPECT_EQ(run_suggest({"--match", "path=/xmlrpc.php", "--json", log}), 0);
  EXPECT_EQ(boost::json::parse(out_).at("requests").to_number<int>(), 3);
}

TEST_F(SuggestCommand, ExcludesRequestsAlsoFromItsRules) {
  EXPECT_EQ(run_suggest({"--exclude", "path=/b", "--exclude", "ip=10.0.0.0/32", "--exclude",
                         "ip=10.0.0.1/32", "--json", log_}),
            0);
  auto json = boost::json::parse(out_);
  EXPECT_EQ(json.at("keys").to_number<int>(), 7);
  EXPECT_EQ(json.at("unmatched").to_number<int>(), 7);
  const std::string match(json.at("advice").at(0).at("match").as_string());
  EXPECT_EQ(match, "not: { path: [\"/b\"], ip: [\"10.0.0.0/32\", \"10.0.0.1/32\"] }");
  EXPECT_EQ(run_suggest({"--match", "path=/a", "--match", "path=/b", "--exclude", "method=POST",
                         "--json", log_}),
            0);
  json = boost::json::parse(out_);
  EXPECT_EQ(json.at("requests").to_number<int>(), 14) << "one of the two paths";
}

TEST_F(SuggestCommand, NamesUnknownAttributesAndOperators) {
  const auto error_of = [&](const std::string& option, const std::string& text) {
    EXPECT_EQ(run_suggest({option, text, log_}), 2) << text;
    EXPECT_EQ(out_, "") << text;
    return err_;
  };
  EXPECT_NE(error_of("--match", "path!=/a/**").find("did you mean --exclude path=/a/**?"),
            std::string::npos)
      << err_;
  EXPECT_NE(error_of("--match", "path~=/a.*").find("did you mean --match path=~/a.*?"),
            std::string::npos)
      << err_;
  EXPECT_NE(error_of("--exclude", "path==/a").find("did you mean --exclude path=/a?"),
            std::string::npos)
      << err_;
  EXPECT_NE(error_of("--match", "paths=/a").find("there is no attribute paths"), std::string::npos)
      << err_;
  EXPECT_NE(err_.find("did you mean 'path'?"), std::string::npos) << err_;
  const std::string csv = files_.write("csv", "time,ip,x\n1455926400,a,/b\n");
  EXPECT_EQ(run_suggest({"--field", "paths=x", "--exclude", "paths=/a", csv}), 0) << err_;
}

TEST_F(SuggestCommand, WarnsOfOptionsThatDoNothing) {
  const auto warnings_of = [&](std::vector<std::string> arguments) {
    arguments.push_back(log_);
    EXPECT_EQ(run_suggest(arguments), 0) << err_;
    return err_;
  };
  EXPECT_EQ(warnings_of({"--exclude", "path=b"}),
            "sluice: warning: the path 'b' matches no request: paths begin with '/'; expected a "
            "pattern such as /login; did you mean '/b'?\n"
            "sluice: warning: --exclude path=b matches no request\n");
  EXPECT_EQ(warnings_of({"--exclude", "header.user-agent=bot", "--exclude", "path=/b"}),
            "sluice: warning: --exclude header.user-agent=bot matches no request; a pattern "
            "matches the whole value: did you mean '--exclude header.user-agent=*bot*'?\n");
  EXPECT_EQ(warnings_of({"--match", "path=/a", "--match", "path=/c"}),
            "sluice: warning: --match path=/c matches no request\n");
  EXPECT_EQ(warnings_of({"--exclude", "ip=10.9.0.0/16"}),
            "sluice: warning: --exclude ip=10.9.0.0/16 matches no request\n");
  EXPECT_EQ(warnings_of({"--key", "ip"}),
            "sluice: warning: the key 'ip' is the same for all requests; expected an attribute in "
            "braces; did you mean '{ip}'?\n");
  EXPECT_EQ(warnings_of({"--exclude", "path=/b", "--exclude", "ip=10.0.0.0/32", "--exclude",
                         "path=/**/b", "--key", "{header.user-agent}"}),
            "");
}

TEST_F(SuggestCommand, RefusesCostsThatItCannotCount) {
  const std::string csv = files_.write("csv", "time,ip,tokens\n1455926400,a,7\n");
  EXPECT_EQ(run_suggest({"--field", "costs.tokens=tokens", csv}), 2);
  EXPECT_EQ(err_,
            "sluice: --field costs.tokens=tokens: there are no limits yet; expected --field "
            "cost=tokens\n");
  EXPECT_EQ(run_suggest({"--field", "cost=tokns", "--yaml", csv}), 1);
  EXPECT_NE(err_.find("no column 'tokns'; expected one of: time, ip, tokens; did you mean"),
            std::string::npos)
      << err_;
  const std::string json = files_.write("json", R"({"ts":1,"ip":"a","tokens":7})"
                                                "\n");
  EXPECT_EQ(run_suggest({"--field", "cost=tokns", "--yaml", json}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_NE(err_.find("the logs have no field 'tokns'"), std::string::npos) << err_;
}

TEST_F(SuggestCommand, WarnsThatSeveralCostsAreNotAdded) {
  const std::string csv = files_.write("csv", "time,ip,in,out\n1455926400,a,700,90\n");
  const std::string warning =
      "--field cost has several sources, in, out: the first in a line that has a value counts, not "
      "their sum; expected one source, such as a column with the sum";
  EXPECT_EQ(run_suggest({"--field", "cost=in", "--field", "cost=out", csv}), 0);
  EXPECT_EQ(err_, "sluice: warning: " + warning + "\n");
  EXPECT_EQ(run_suggest({"--field", "cost=in", "--field", "cost=out", "--json", csv}), 0);
  EXPECT_EQ(boost::json::parse(out_).at("warnings"), boost::json::array{warning});
  EXPECT_EQ(run_suggest({"--field", "cost=in", "--field", "header.x-out=out", csv}), 0);
  EXPECT_EQ(err_, "");
}

TEST_F(SuggestCommand, SaysThatAPipeCannotBeReadAgainForASmallRoute) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += line_at(i, "10.0.0.1", "GET /a");
  text += line_at(100, "10.0.0.2", "GET /a.png");
  EXPECT_EQ(run_suggest({files_.write("one", text)}), 0);
  EXPECT_EQ(err_, "");
  const std::string pipe = files_.write("pipe", "");
  ASSERT_EQ(std::remove(pipe.c_str()), 0);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << text; });
  EXPECT_EQ(run_suggest({pipe}), 0);
  writer.join();
  EXPECT_EQ(err_,
            "sluice: a route is too small for a rule, and the rules of others match its requests, "
            "which their numbers leave out: standard input cannot be read twice; name a file\n");
}

TEST_F(SuggestCommand, FailsIfNoRequestMatches) {
  EXPECT_EQ(run_suggest({"--match", "path=/none", log_}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_NE(err_.find("none of 14 requests matches --match and --exclude"), std::string::npos)
      << err_;
}

TEST_F(SuggestCommand, FailsIfNothingCanBeRead) {
  EXPECT_EQ(run_suggest({"--yaml", files_.write("notes.md", "# Notes\n\nNo log.\n")}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_NE(err_.find("notes.md: no line could be read"), std::string::npos) << err_;
  EXPECT_EQ(run_suggest({"--yaml", files_.write("empty", "")}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_NE(err_.find("the logs have no request; there is nothing to suggest"), std::string::npos)
      << err_;
}

TEST_F(SuggestCommand, SaysThatALogIsCutOff) {
  const std::string whole = replay::gzip_stored(replay::TemporaryFiles::read(log_));
  const std::string page = files_.path("page.html");
  EXPECT_EQ(
      run_suggest({"--html", page, files_.write("cut.gz", whole.substr(0, whole.size() - 4))}), 1);
  EXPECT_NE(out_.find("note: some logs could not be read to the end"), std::string::npos) << out_;
  EXPECT_NE(replay::TemporaryFiles::read(page).find("Some logs could not be read to the end."),
            std::string::npos);
  EXPECT_EQ(run_suggest({"--json", files_.path("cut.gz")}), 1);
  EXPECT_EQ(boost::json::parse(out_).at("warnings"),
            boost::json::array{files_.path("cut.gz") +
                               ": the gzip data is cut off; what was read before it is counted"});
  EXPECT_EQ(run_suggest({log_}), 0);
  EXPECT_EQ(out_.find("note: "), std::string::npos);
  EXPECT_EQ(run_suggest({"--json", log_}), 0);
  EXPECT_EQ(boost::json::parse(out_).at("warnings"), boost::json::array{});
}

TEST_F(SuggestCommand, PrintsRulesThatCheckAccepts) {
  const auto check = [&](const std::vector<std::string>& options, const std::string& summary) {
    std::vector<std::string> arguments = {"--yaml", log_};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(run_suggest(arguments), 0);
    const std::string rules = files_.write("rules.yaml", out_);
    EXPECT_EQ(run_sluice("rules", {"check", "--strict", rules}), 0) << err_;
    EXPECT_EQ(out_, rules + ": ok, " + summary + "\n");
  };
  check({}, "1 rule, 1 limit");
  check({"--key", "{header.x-user|ip}", "--match", "path=/**"}, "1 rule, 1 limit");
  check({"--key", "{header.user-agent}"}, "1 rule, 1 limit");
  check({"--exclude", "path=/b"}, "1 rule, 1 limit");
  check({"--all", "--rate", "10", "--match", "path=/**"}, "9 rules, 9 limits");

  EXPECT_EQ(run_suggest({"--yaml", "--exclude", "header.user-agent=*bot*", log_}), 0);
  EXPECT_EQ(run_sluice("rules", {"check", files_.write("rules.yaml", out_)}), 0);
  EXPECT_NE(err_.find("avoids the rule 'pages' by sending header.user-agent"), std::string::npos)
      << "any client can say that it is the robot: " << err_;
}

TEST_F(SuggestCommand, PrintsRulesThatTakeTheCostOfARequest) {
  const std::string csv =
      files_.write("csv", "time,ip,tokens\n1455926400,a,700\n1455926401,a,90\n");
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--yaml"}, {"--yaml", "--all", "--rate", "10"}}) {
    std::vector<std::string> arguments = options;
    arguments.insert(arguments.end(), {"--field", "cost=tokens", csv});
    EXPECT_EQ(run_suggest(arguments), 0) << err_;
    EXPECT_NE(out_.find("cost: request }"), std::string::npos) << out_;
    EXPECT_NE(out_.find("in the header X-Sluice-Cost"), std::string::npos) << out_;
    const std::string rules = files_.write("rules.yaml", out_);
    EXPECT_EQ(run_sluice("rules", {"check", "--strict", rules}), 0) << err_;
    EXPECT_EQ(run_sluice("replay", {"--rules", rules, "--field", "cost=tokens", "--json", csv}), 0);
    const auto replayed = boost::json::parse(out_);
    EXPECT_FALSE(replayed.at("rules").as_array().empty());
    for (const auto& rule : replayed.at("rules").as_array()) {
      EXPECT_EQ(rule.at("denied").to_number<int>(), 0) << "would deny, in shadow mode";
    }
  }
  EXPECT_EQ(run_suggest({"--yaml", log_}), 0);
  EXPECT_EQ(out_.find("cost"), std::string::npos) << out_;
}

TEST_F(SuggestCommand, RefusesAFieldThatNothingReads) {
  const std::string csv = files_.write("csv", "time,ip,tokens\n1455926400,a,7\n");
  EXPECT_EQ(run_suggest({"--field", "cots=tokens", csv}), 2);
  EXPECT_NE(err_.find("nothing reads 'cots'"), std::string::npos) << err_;
  EXPECT_NE(err_.find("did you mean 'cost'?"), std::string::npos) << err_;
  EXPECT_EQ(run_suggest({"--field", "cots.tokens=tokens", csv}), 2);
  EXPECT_NE(err_.find("did you mean 'costs.'?"), std::string::npos) << err_;
  EXPECT_EQ(run_suggest({"--field", "team=tokens", "--key", "{team}", csv}), 0) << err_;
}

TEST_F(SuggestCommand, WarnsOfOptionsOfATableThatIsNotShown) {
  EXPECT_EQ(run_suggest({"--per", "5s", "--rate", "10", log_}), 0);
  EXPECT_EQ(err_,
            "sluice: warning: --per changes nothing without --all, --json or --html\n"
            "sluice: warning: --rate changes nothing without --all, --json or --html\n");
  EXPECT_EQ(run_suggest({"--per", "5s", "--rate", "10", "--all", log_}), 0);
  EXPECT_EQ(err_, "");
}

TEST_F(SuggestCommand, NamesTheOptionThatIsWrongOnce) {
  EXPECT_EQ(run_suggest({"--match", "method=post", log_}), 2);
  EXPECT_TRUE(err_.starts_with("sluice: --match method=post: ")) << err_;
  EXPECT_EQ(err_.find('\n'), err_.size() - 1) << err_;
  EXPECT_EQ(run_suggest({"--exclude", "path=~(", log_}), 2);
  EXPECT_TRUE(err_.starts_with("sluice: --exclude path=~(: ")) << err_;
  EXPECT_EQ(run_suggest({"--key", "{ip", log_}), 2);
  EXPECT_TRUE(err_.starts_with("sluice: --key {ip: ")) << err_;
}

TEST_F(SuggestCommand, IsAsWideAsTheTerminal) {
  const std::string agent =
      "Mozilla/5.0 (Windows NT 6.1) (compatible; SMTBot/1.0; +http://a.example)";
  std::string text;
  for (int i = 0; i < 200; ++i) text += line_at(i, "10.0.0.1", "GET /a", agent);
  const std::string log = files_.write("agents", text);
  ::setenv("COLUMNS", "80", 1);
  EXPECT_EQ(run_suggest({log}), 0);
  EXPECT_NE(out_.find("GET /a; status 200; SMTBot/1.0\n"), std::string::npos) << out_;
  ::setenv("COLUMNS", "120", 1);
  EXPECT_EQ(run_suggest({log}), 0);
  ::unsetenv("COLUMNS");
  EXPECT_NE(out_.find("GET /a; status 200; " + agent + "\n"), std::string::npos) << out_;
}

TEST_F(SuggestCommand, WritesAPage) {
  const std::string page = files_.path("page.html");
  EXPECT_EQ(run_suggest({"--html", page, "--rate", "10", log_}), 0);
  const std::string html = replay::TemporaryFiles::read(page);
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  EXPECT_NE(html.find("class=\"curve token_bucket\""), std::string::npos);
  EXPECT_EQ(run_suggest({"--html", log_, log_}), 2);
}

TEST_F(SuggestCommand, RefusesWrongArguments) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--key", "{ip"},   {"--match", "path"}, {"--match", "path=~("}, {"--per", "1x"},
      {"--per", ""},      {"--per", "1s,,1m"}, {"--per", "32d"},       {"--harm", "1"},
      {"--harm", "101%"}, {"--rate", "0"},     {"--rate", "1001"},     {"--json", "--yaml"}};
  for (std::vector<std::string> arguments : wrong) {
    arguments.push_back(log_);
    EXPECT_EQ(run_suggest(arguments), 2) << arguments[0] << " " << arguments[1];
    EXPECT_NE(err_, "");
  }
  EXPECT_EQ(run_suggest({files_.path("none")}), 1);
}

}  // namespace
}  // namespace sluice::cli
