#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "replay/test_logs.h"

namespace sluice::cli {
namespace {

using replay::gzip_stored;
using replay::line_at;

constexpr std::string_view kRules = R"(version: 1
domain: test
rules:
  - name: clients
    limits:
      - { name: client, key: "{ip}", algorithm: token_bucket, limit: 2, per: 1h }
)";

class ReplayCommand : public ::testing::Test {
 protected:
  int run_replay(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"sluice", "replay", "--rules", rules_.c_str()};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = run(static_cast<int>(argv.size()), argv.data());
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return status;
  }

  replay::TemporaryFiles files_;
  std::string rules_ = files_.write("rules.yaml", kRules);
  std::string three_ = line_at(0, "a") + line_at(1, "a") + line_at(2, "a");
  std::string log_ = files_.write("access.log", three_);
  std::string out_;
  std::string err_;
};

TEST_F(ReplayCommand, AppliesTheOverridesOfAFile) {
  const std::string file = files_.write(
      "overrides.txt", "sluice overrides 1\nlimit=3\ttest|clients|client|ip=a\nend 1\n");
  EXPECT_EQ(run_replay({"--overrides", file, log_}), 0);
  EXPECT_NE(out_.find("denied 0 of 3 requests"), std::string::npos) << out_;
  EXPECT_EQ(run_replay({"--overrides", file + ".none", log_}), 1);
  EXPECT_EQ(err_, "sluice: " + file + ".none: there is no such file\n");
  EXPECT_EQ(run_replay({"--overrides", log_, log_}), 1);
  EXPECT_EQ(err_, "sluice: " + log_ +
                      ":1: is no file of overrides; expected the line 'sluice overrides 1'\n");
}

TEST_F(ReplayCommand, PrintsASummaryWithoutColours) {
  EXPECT_EQ(run_replay({log_}), 0);
  EXPECT_NE(out_.find("denied 1 of 3 requests, 1 of 1 key\n"), std::string::npos) << out_;
  EXPECT_EQ(out_.find('\x1b'), std::string::npos);
  EXPECT_EQ(err_, "");
}

TEST_F(ReplayCommand, TakesWarningsForErrorsIfStrict) {
  EXPECT_EQ(run_replay({"--strict", log_}), 0);
  const std::string right = rules_;
  rules_ = files_.write("warned.yaml", std::string(kRules) + "    match: { path: login }\n");
  EXPECT_EQ(run_replay({log_}), 0);
  const std::string warning = err_;
  EXPECT_NE(warning.find("warning: the path 'login'"), std::string::npos) << warning;
  EXPECT_EQ(run_replay({"--strict", log_}), 1);
  EXPECT_EQ(err_, warning);
  EXPECT_EQ(out_, "");
  const std::string warned = std::exchange(rules_, right);
  EXPECT_EQ(run_replay({"--strict", "--against", warned, log_}), 1);
  EXPECT_EQ(out_, "");
}

TEST_F(ReplayCommand, RefusesRulesWithPermits) {
  rules_ = files_.write("permits.yaml",
                        "version: 1\nrules:\n  - name: a\n    limits: "
                        "[ { algorithm: concurrency, limit: 1, lease: 1s } ]\n");
  EXPECT_EQ(run_replay({log_}), 1);
  EXPECT_NE(err_.find("'concurrency' needs permits, which a replay does not hold: a log does not "
                      "say when a request ends; expected another algorithm"),
            std::string::npos)
      << err_;
}

TEST_F(ReplayCommand, SkipsLimitsWithPermitsNextToOthers) {
  rules_ = files_.write("mixed.yaml", std::string(kRules) +
                                          "      - { name: at once, key: \"{ip}\", algorithm: "
                                          "concurrency, limit: 1, lease: 1h }\n");
  const std::string costs =
      files_.write("csv", "time,ip,n\n1455926400,a,1\n1455926401,a,1\n1455926402,a,2\n");
  for (const std::vector<std::string>& log :
       {std::vector{log_}, {costs}, {"--field", "costs.client=n", costs}}) {
    std::vector<std::string> arguments = log;
    arguments.emplace_back("--json");
    EXPECT_EQ(run_replay(arguments), 0) << err_;
    const auto json = boost::json::parse(out_);
    const auto& limits = json.at("rules").at(0).at("limits");
    EXPECT_EQ(limits.at(0).at("denied").to_number<int>(), 1);
    EXPECT_EQ(limits.at(1).at("requests").to_number<int>(), 0);
    EXPECT_EQ(
        json.at("warnings"),
        boost::json::array{"rule clients, limit at once: 'concurrency' is skipped: a log does "
                           "not say when a request ends"});
  }
  EXPECT_EQ(run_replay({log_}), 0);
  EXPECT_NE(out_.find("limit at once: 'concurrency' is skipped"), std::string::npos) << out_;
}

TEST_F(ReplayCommand, PrintsOneJsonObject) {
  EXPECT_EQ(run_replay({"--json", log_, files_.write("2.gz", gzip_stored(three_))}), 0);
  const auto json = boost::json::parse(out_);
  EXPECT_EQ(json.at("lines").to_number<int>(), 6);
  EXPECT_EQ(json.at("late").to_number<int>(), 0);
  EXPECT_EQ(json.at("denied").to_number<int>(), 4);
  EXPECT_EQ(json.at("first").as_string(), "2016-02-20T00:00:00Z");
  EXPECT_EQ(json.at("last").as_string(), "2016-02-20T00:00:02Z");
  EXPECT_EQ(err_, "");
}

TEST_F(ReplayCommand, CountsLateLines) {
  EXPECT_EQ(run_replay({"--json", files_.write("late", line_at(9, "b") + three_)}), 0);
  EXPECT_EQ(boost::json::parse(out_).at("late").to_number<int>(), 3);
}

TEST_F(ReplayCommand, FailsIfRequestsAreOutOfOrder) {
  std::string ordered, reversed;
  for (int i = 0; i < 40; ++i) {
    ordered += line_at(i * 100, "a");
    reversed.insert(0, line_at(i * 100, "a"));
  }
  EXPECT_EQ(run_replay({files_.write("reversed", reversed)}), 1);
  EXPECT_NE(err_.find("97.5 % of the requests are more than 10 s earlier"), std::string::npos);
  EXPECT_NE(out_.find("40 lines of"), std::string::npos) << out_;
  EXPECT_EQ(run_replay({files_.write("late", ordered + ordered.substr(0, 300))}), 1);
  EXPECT_NE(err_.find("earlier than one before them"), std::string::npos) << "a tenth of them";
  EXPECT_NE(out_.find("/late: 9.1 % of the requests are more than 10 s"), std::string::npos)
      << out_;
  EXPECT_EQ(run_replay({"--html", log_, files_.write("ordered", ordered)}), 2);
  EXPECT_NE(err_.find("is no HTML page, and would be overwritten"), std::string::npos) << err_;
}

TEST_F(ReplayCommand, RefusesALogThatIsGivenTwice) {
  EXPECT_EQ(run_replay({log_, files_.directory() + "/./access.log"}), 2);
  EXPECT_NE(err_.find("/./access.log is given twice: its requests would count twice"),
            std::string::npos)
      << err_;
  EXPECT_EQ(run_replay({"/dev/null", "/dev/null", log_}), 0) << "as of <(zcat a) <(zcat b)";
}

TEST_F(ReplayCommand, WritesAPageAndTheSummary) {
  const std::string page = files_.path("page.html");
  EXPECT_EQ(run_replay({"--html", page, log_}), 0);
  EXPECT_TRUE(replay::TemporaryFiles::read(page).starts_with("<!DOCTYPE html>"));
  EXPECT_NE(out_.find("wrote the page " + page), std::string::npos);
}

TEST_F(ReplayCommand, FailsWhenThePageCannotBeWritten) {
  EXPECT_EQ(run_replay({"--html", files_.path("none/page.html"), log_}), 1);
  EXPECT_NE(err_.find("none/page.html: cannot write the page: No such file"), std::string::npos);
}

TEST_F(ReplayCommand, DoesNotWriteThePageOverItsInputs) {
  for (const std::string& input : {log_, rules_}) {
    EXPECT_EQ(run_replay({"--html", input, log_}), 2);
    EXPECT_NE(err_.find("is one of the inputs"), std::string::npos);
  }
  EXPECT_EQ(replay::TemporaryFiles::read(log_), three_);
}

TEST_F(ReplayCommand, ReportsTheReadablePartOfADamagedLogAndFails) {
  const std::string whole = gzip_stored(three_);
  const std::string cut = files_.write("cut.gz", whole.substr(0, whole.size() - 4));
  EXPECT_EQ(run_replay({"--json", cut}), 1);
  EXPECT_EQ(boost::json::parse(out_).at("lines").to_number<int>(), 3);
  const std::string problem =
      cut + ": the gzip data is cut off; what was read before it is counted";
  EXPECT_EQ(boost::json::parse(out_).at("warnings"), boost::json::array{problem});
  EXPECT_EQ(err_, "sluice: " + problem + "\n");
  const std::string page = files_.path("page.html");
  EXPECT_EQ(run_replay({"--html", page, cut}), 1);
  EXPECT_NE(out_.find("\n\nwarning: " + problem + "\n"), std::string::npos) << out_;
  EXPECT_NE(replay::TemporaryFiles::read(page).find("Warning: " + problem), std::string::npos);
}

TEST_F(ReplayCommand, FailsWithoutAReportWhenNoLogCanBeOpened) {
  for (const std::string& path : {files_.path("none"), files_.directory()}) {
    EXPECT_EQ(run_replay({"--json", path}), 1);
    EXPECT_EQ(out_, "");
    EXPECT_TRUE(err_.starts_with("sluice: " + path + ": ")) << err_;
  }
}

TEST_F(ReplayCommand, MapsTheFieldsOfALog) {
  const std::string csv = files_.write("csv", "when,who\n2016-02-20 00:00:00,1\n1455926401,1\n");
  EXPECT_EQ(run_replay({"--json", "--field", "time=when", "--field", "ip=who", csv}), 0);
  const auto json = boost::json::parse(out_);
  EXPECT_EQ(json.at("parsed").to_number<int>(), 2);
  EXPECT_EQ(json.at("formats").at(0).as_string(), "csv");
  EXPECT_EQ(json.at("rules").at(0).at("limits").at(0).at("keys").to_number<int>(), 1);
  EXPECT_EQ(run_replay({"--json", "--format", "json", csv}), 1);
  EXPECT_NE(err_.find("csv: no line could be read as JSON lines"), std::string::npos) << err_;
  for (const char* wrong : {"ip", "=ip", "ip="}) {
    EXPECT_EQ(run_replay({"--field", wrong, csv}), 2);
    EXPECT_NE(err_.find("expected NAME=SOURCE"), std::string::npos) << err_;
  }
  EXPECT_EQ(run_replay({"--format", "xml", csv}), 2);
}

TEST_F(ReplayCommand, RefusesAFieldThatTheLogsLack) {
  const std::string csv = files_.write("csv", "time,team,tokens\n1455926400,a,7\n");
  EXPECT_EQ(run_replay({"--field", "cost=tokns", csv}), 1);
  EXPECT_EQ(err_, "sluice: " + csv +
                      ": the log has no column 'tokns'; expected one of: time, team, tokens; did "
                      "you mean 'tokens'?\n");
  EXPECT_EQ(run_replay({"--field", "cost=team+tokens", csv}), 1);
  EXPECT_NE(err_.find("no column 'team+tokens'; expected one of"), std::string::npos) << err_;
  EXPECT_EQ(run_replay({"--field", "ip=Team", "--field", "ip=address", csv}), 0)
      << "one of two with the same meaning";

  const std::string json =
      files_.write("json", R"({"ts":1,"path":"/","usage":{"total":7},"user":null})"
                           "\n"
                           R"({"ts":2,"path":"/"})"
                           "\n");
  EXPECT_EQ(run_replay({"--json", "--field", "cost=usage.totl", json}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_,
            "sluice: the logs have no field 'usage.totl'; expected one of: ts, path, usage.total, "
            "user; did you mean 'usage.total'?\n");
  const std::string other = files_.write("other", R"({"ts":3,"path":"/","who":"b"})"
                                                  "\n");
  EXPECT_EQ(run_replay({json, other, "--field", "header.x-a=user", "--field", "header.x-b=who"}), 0)
      << "a field that some lines lack: " << err_;
}

TEST_F(ReplayCommand, ReadsSeveralLogsAfterAnOptionThatRepeats) {
  const std::string csv = files_.write("csv", "zeit,ip\n1455926400,a\n");
  const std::string other = files_.write("other", replay::TemporaryFiles::read(csv));
  EXPECT_EQ(run_replay({"--json", "--field", "time=zeit", csv, other}), 0) << err_;
  EXPECT_EQ(boost::json::parse(out_).at("parsed").to_number<int>(), 2);
}

TEST_F(ReplayCommand, SaysThatNoColumnIsTheTime) {
  const std::string csv = files_.write("csv", "zeit,team,tokens\n1455926400,a,7\n");
  EXPECT_EQ(run_replay({csv}), 1);
  EXPECT_EQ(err_, "sluice: " + csv +
                      ": no column is the time; expected --field time=COLUMN with one of: zeit, "
                      "team, tokens\n");
  EXPECT_EQ(run_replay({"--field", "time=zet", csv}), 1);
  EXPECT_EQ(err_, "sluice: " + csv +
                      ": the log has no column 'zet'; expected one of: zeit, team, tokens; did you "
                      "mean 'zeit'?\n");
  EXPECT_EQ(run_replay({"--field", "time=zeit", csv}), 0) << err_;
}

TEST_F(ReplayCommand, RefusesToNameFieldsOfALogWithoutThem) {
  const std::string lacks =
      "sluice: " + log_ +
      ": --field names fields of JSON and CSV logs, and the user of Common and Combined ones; the "
      "log has no field ";
  EXPECT_EQ(run_replay({"--field", "cost=tokens", log_}), 1);
  EXPECT_EQ(err_, lacks + "'tokens'; expected one of: remote_user\n");
  EXPECT_EQ(run_replay({"--field", "header.x-user=remote_usr", log_}), 1);
  EXPECT_EQ(err_, lacks +
                      "'remote_usr'; expected one of: remote_user; did you mean "
                      "'remote_user'?\n");
  for (const char* field : {"cost=remote_user", "ip=remote_user", "time=Remote_User"}) {
    EXPECT_EQ(run_replay({"--field", field, log_}), 1);
    EXPECT_EQ(err_, "sluice: " + log_ +
                        ": --field: the user of an access log can be an attribute that the log "
                        "lacks, such as header.x-user=remote_user\n");
  }
  const std::string envoy = files_.write(
      "envoy", R"([2026-11-23T10:00:00Z] "GET / HTTP/2" 200 - 0 0 1 1 "-" "-" "-" "-" "-")");
  EXPECT_EQ(run_replay({"--field", "header.x-user=remote_user", envoy}), 1);
  EXPECT_EQ(err_, "sluice: " + envoy +
                      ": --field names fields of JSON and CSV logs, and the format of this log is "
                      "Envoy's text format\n");
}

TEST_F(ReplayCommand, CountsByTheUserOfAnAccessLog) {
  files_.write("rules.yaml", R"(version: 1
rules:
  - name: users
    limits:
      - { name: user, key: "{header.x-user}", algorithm: token_bucket, limit: 1, per: 1h }
)");
  std::string text;
  for (const char* user : {"ann", "bob", "ann", "-"}) {
    std::string line = line_at(0, "10.0.0.1");
    text += line.replace(line.find("- ["), 1, user);
  }
  const std::string log = files_.write("users.log", text);
  for (const char* field : {"header.x-user=remote_user", "header.X-User=REMOTE_USER"}) {
    EXPECT_EQ(run_replay({"--json", "--field", field, log}), 0) << err_;
    const auto limit = boost::json::parse(out_).at("rules").at(0).at("limits").at(0);
    EXPECT_EQ(limit.at("requests").to_number<int>(), 3);
    EXPECT_EQ(limit.at("keys").to_number<int>(), 2);
    EXPECT_EQ(limit.at("denied").to_number<int>(), 1);
  }
  const std::string json = files_.write("json", R"({"ts":1,"path":"/","who":"eve"})"
                                                "\n");
  EXPECT_EQ(run_replay({"--json", "--field", "header.x-user=remote_user", "--field",
                        "header.x-user=who", json, log}),
            0)
      << err_;
  const auto limit = boost::json::parse(out_).at("rules").at(0).at("limits").at(0);
  EXPECT_EQ(limit.at("keys").to_number<int>(), 3);
}

TEST_F(ReplayCommand, RefusesTheCostOfALimitThatNoRuleHas) {
  const std::string csv = files_.write("csv", "time,tokens\n1455926400,7\n");
  EXPECT_EQ(run_replay({"--field", "costs.clients=tokens", csv}), 2);
  EXPECT_EQ(err_,
            "sluice: --field costs.clients=tokens: no rule has a limit 'clients'; expected one "
            "of: client; did you mean 'client'?\n");
  EXPECT_EQ(run_replay({"--field", "costs.client=tokens", csv}), 0) << err_;
}

TEST_F(ReplayCommand, FailsWithTheErrorsOfTheRules) {
  files_.write("rules.yaml", "version: 1\nrulez: []\n");
  EXPECT_EQ(run_replay({log_}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_NE(err_.find("rules.yaml:2:1: error: "), std::string::npos) << err_;
}

TEST_F(ReplayCommand, FailsWithoutARequest) {
  const std::string empty = files_.write("empty", "");
  EXPECT_EQ(run_replay({"--json", empty}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_, "sluice: " + empty +
                      ": is empty\nsluice: the logs have no request; there is nothing to decide\n");
  EXPECT_EQ(run_replay({"--json", empty, log_}), 0) << "a log that was just rotated";
}

TEST_F(ReplayCommand, WarnsIfMostLinesAreSkipped) {
  const std::string bad = "nonsense\n";
  const std::string half = files_.write("half", three_ + bad + bad + bad);
  EXPECT_EQ(run_replay({half}), 0);
  EXPECT_EQ(err_.find("most lines"), std::string::npos) << err_;
  const std::string most = files_.write("most", three_ + bad + bad + bad + bad);
  EXPECT_EQ(run_replay({most}), 0);
  EXPECT_TRUE(err_.ends_with(most + ": warning: most lines are skipped, 4 of 7\n")) << err_;
}

TEST_F(ReplayCommand, FailsWithoutAReportIfNoLineCanBeRead) {
  const std::string prose = files_.write("notes.md", "# Notes\n\nNo log.\n");
  EXPECT_EQ(run_replay({prose}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_NE(err_.find("notes.md: no line could be read as Common or Combined Log Format"),
            std::string::npos)
      << err_;
  EXPECT_EQ(run_replay({"--json", prose, log_}), 1) << "one of two";
  EXPECT_EQ(boost::json::parse(out_).at("parsed").to_number<int>(), 3);
}

TEST_F(ReplayCommand, ShowsTheFirstFiveLinesThatItSkips) {
  std::string text;
  for (int i = 0; i < 9; ++i) text += "\x1b[31mnonsense\n";
  EXPECT_EQ(run_replay({files_.write("log", text + three_ + three_ + three_)}), 0);
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 5);
  EXPECT_EQ(err_.find('\x1b'), std::string::npos);
  EXPECT_NE(err_.find("log:5: skipped: "), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
