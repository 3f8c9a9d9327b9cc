#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/rule_differences.h"

namespace sluice::cli {
namespace {

// Runs `rules ...` or `try ...` with its streams caught, in a folder of its own.
class RulesCommand : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
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
    std::vector<const char*> argv = {"sluice"};
    if (arguments.empty() || arguments.front() != "try") argv.push_back("rules");
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
  EXPECT_EQ(out_, path + ": ok, 1 rule, 1 limit\n");
  EXPECT_EQ(err_, "");
}

TEST_F(RulesCommand, SaysAllErrorsOfEveryFileAndFails) {
  const std::string right = file("right.yaml", kRight);
  const std::string wrong = file("wrong.yaml", kWrong);
  EXPECT_EQ(run({"check", wrong, right}), 1);
  EXPECT_EQ(out_, right + ": ok, 1 rule, 1 limit\n");
  EXPECT_EQ(err_,
            wrong +
                ":1:1: error: file lacks 'rules'; expected 'rules:' with a list of rules, "
                "each starting with '- '\n" +
                wrong + ":1:10: error: 'version' is '2'; expected 1\n" + wrong +
                ":2:1: error: unknown key 'rule'; expected one of: version, domain, defaults, "
                "trusted, plans, prices, rules; did you mean 'rules'?\n");
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
  EXPECT_EQ(out_, path + ": ok, 1 rule, 1 limit\n");
  EXPECT_EQ(err_, warning);
  EXPECT_EQ(run({"check", "--strict", path}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_, warning);
  const std::string right = file("right.yaml", kRight);
  EXPECT_EQ(run({"check", "--strict", right}), 0);
}

TEST_F(RulesCommand, ChecksTheFilesOfADirectoryAsOneSet) {
  const std::string one = file("set/1.yaml", kRight);
  const std::string two = file("set/2.yaml", kRight);
  const std::string folder = one.substr(0, one.rfind('/'));
  EXPECT_EQ(run({"check", one, two}), 0) << "each by itself";
  EXPECT_EQ(out_, one + ": ok, 1 rule, 1 limit\n" + two + ": ok, 1 rule, 1 limit\n");
  EXPECT_EQ(run({"check", folder}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_.find(two + ":3:13: error: duplicate rule 'a'"), 0U) << err_;
  file("set/2.yaml",
       "version: 1\nrules:\n  - { name: b, limits: [ { algorithm: gcra, limit: 1, per: 1s } ] }\n");
  const std::string never = two + ":3:13: warning: the rule 'b' is never reached";
  EXPECT_EQ(run({"check", "--strict", folder}), 1);
  EXPECT_EQ(err_.find(never), 0U) << err_;
  EXPECT_EQ(run({"check", folder}), 0);
  EXPECT_EQ(out_, folder + ": ok, 2 rules, 2 limits\n");
}

TEST_F(RulesCommand, PrintsWarningsNextToErrors) {
  const std::string path = file("both.yaml",
                                "version: 1\nrules:\n  - name: a\n    match: { path: login }\n"
                                "    limits: [ { algorithm: gcra, limit: 0.5, per: 1s } ]\n"
                                "  - { name: b, limits: [ { algorithm: gcra, limit: 1 } ] }\n");
  EXPECT_EQ(run({"check", path}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_NE(err_.find(":5:41: error: 'limit' is '0.5'; expected a whole number from 0 to "
                      "9007199254740991, in plain digits; 0.5 per second is 'limit: 1, per: "
                      "2s'\n"),
            std::string::npos)
      << err_;
  EXPECT_NE(err_.find(":4:20: warning: the path 'login' matches no request"), std::string::npos)
      << err_;
  EXPECT_EQ(err_.find("never reached"), std::string::npos) << "of wrong rules, this is not known";
}

TEST_F(RulesCommand, WarnsAboutALogThatDoesNotFitIntoMemory) {
  const std::string path =
      file("log.yaml",
           "version: 1\nrules:\n  - name: a\n    limits:\n"
           "      - { algorithm: sliding_window_log, limit: 1000, per: 1s }\n"
           "      - { algorithm: sliding_window_log, per: 1h, limit: 9000000 }\n");
  EXPECT_EQ(run({"check", path}), 0);
  EXPECT_EQ(out_, path + ": ok, 1 rule, 2 limits\n");
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
  EXPECT_EQ(run({"check", "--max-log-bytes", "-1", path}), 2);
}

TEST_F(RulesCommand, FailsForAMissingFile) {
  EXPECT_EQ(run({"check", "/nonexistent/rules.yaml"}), 1);
  EXPECT_EQ(err_,
            "/nonexistent/rules.yaml:1:1: error: cannot be opened: No such file or directory; "
            "expected a rules file or a directory of rules files\n");
}

TEST_F(RulesCommand, ReadsTheStandardInput) {
  EXPECT_EQ(run({"check", "-"}, kRight), 0);
  EXPECT_EQ(out_, "-: ok, 1 rule, 1 limit\n");
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

TEST_F(RulesCommand, AChangeForATimeWithoutEffectIsNoDifference) {
  const std::vector<server::RulesText> texts{{"a.yaml", kRight}};
  server::TemporaryChange change{
      .rule = "a", .key = "limit", .value = "9", .until = {}, .limit = "a/0"};
  EXPECT_EQ(compare_texts(texts, texts_with(texts, {change})).size(), 1U);
  change.has_effect = false;
  EXPECT_TRUE(compare_texts(texts, texts_with(texts, {change})).empty());
}

TEST_F(RulesCommand, ComparesOnlyRulesThatAreRight) {
  const std::string right = file("right.yaml", kRight);
  const std::string wrong = file("wrong.yaml", "version: 1\nrules: 7\n");
  EXPECT_EQ(run({"diff", right, wrong}), 2);
  EXPECT_EQ(err_.find(wrong + ":2:8: error: "), 0U) << err_;
  EXPECT_NE(err_.find("sluice: rules diff: the rules of '" + wrong + "' are wrong\n"),
            std::string::npos);
  const std::string nowhere = "unix:" + right + ".sock";
  EXPECT_EQ(run({"diff", right, "--admin", nowhere}), 2);
  EXPECT_EQ(run({"diff", right, "redis"}), 2);
}

TEST_F(RulesCommand, NeedsSomethingToDo) {
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"check"}), 2);
  EXPECT_EQ(run({"chekc", "x"}), 2);
}

constexpr const char* kTried = R"(version: 1
rules:
  - name: search
    match: { path: /search }
    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]
  - name: sign-in
    match: { path: [/login, /sign-in], method: POST }
    limits:
      - { name: address, key: "{ip}", algorithm: fixed_window, limit: 2, per: 1m }
      - { name: account, key: "{header.x-user}", algorithm: gcra, limit: 1, per: 10s, burst: 4 }
    reject: { status: 430, body: "later" }
  - name: rest
    limits: [ { algorithm: gcra, limit: 100, per: 1s } ]
)";

TEST_F(RulesCommand, TriesRequestsAndSaysWhy) {
  const std::string path = file("tried.yaml", kTried);
  ASSERT_EQ(run({"try", path, "POST //login?a=1 ip=192.0.2.1", "-n", "3", "--every", "10s", "--at",
                 "2026-11-26T00:00:00Z"}),
            0)
      << err_;
  EXPECT_EQ(out_, R"(rule search: does not match, path is '/login' and must be '/search'
rule sign-in: matches; rules after it are not tried
limit sign-in/address: 2 per 1m (fixed_window), key '192.0.2.1'
limit sign-in/account: skipped, because the request lacks header.x-user of its key

1  +0 s  allowed  ok; address 1 of 2 left
2  +10 s  allowed  ok; address 0 of 2 left
3  +20 s  denied  limited, again after 40 s; address 0 of 2 left

HTTP status 430
RateLimit-Policy: "address";q=2;w=60
RateLimit: "address";r=0;t=40
X-RateLimit-Limit: 2
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 40
Retry-After: 40
Content-Type: text/plain; charset=utf-8

later
)");
  EXPECT_NE(err_.find(path + ":10:31: warning: a client avoids the limit 'account'"),
            std::string::npos)
      << err_;
}

TEST_F(RulesCommand, TryWarnsAboutAttributesThatNoRuleReadsButNotAboutTheRequestLine) {
  const std::string path = file("tried.yaml",
                                "version: 1\nrules:\n  - name: all\n    limits: [{ key: '{ip}', "
                                "algorithm: gcra, limit: 1, per: 1s }]\n");
  EXPECT_EQ(run({"try", path, "GET /a ip=192.0.2.1 ipp=1"}), 0);
  EXPECT_EQ(err_, "sluice: no rule reads the attribute 'ipp'; did you mean 'ip'?\n");
}

TEST_F(RulesCommand, TryTakesTheWordsOfARequestOneByOne) {
  const std::string path = file("tried.yaml", kTried);
  EXPECT_EQ(run({"try", path, "GET", "/sign-in", "ip=192.0.2.1", "X-User=a b", "hosst=x"}), 0);
  EXPECT_NE(out_.find("rule sign-in: does not match, method is 'GET' and must be 'POST'\n"
                      "rule rest: matches\nlimit rest/0: 100 per 1s (gcra)\n"),
            std::string::npos)
      << out_;
  EXPECT_NE(
      err_.find("sluice: no rule reads the attribute 'X-User'; did you mean 'header.x-user'?\n"),
      std::string::npos)
      << err_;
  EXPECT_EQ(run({"try", path, "header.X-User=7", "path=/login", "method=POST"}), 0);
  EXPECT_NE(out_.find("limit sign-in/account: 1 per 10s, burst 4 (gcra), key '7'\n"),
            std::string::npos)
      << out_;
}

TEST_F(RulesCommand, TryRefusesWhatIsNoRequest) {
  const std::string path = file("tried.yaml", kTried);
  EXPECT_EQ(run({"try", path, "login"}), 2);
  EXPECT_EQ(err_,
            "sluice: try: 'login' is no part of a request; expected a method such as POST, a path "
            "such as /login, or NAME=VALUE such as ip=192.0.2.1\n");
  EXPECT_EQ(run({"try", path, "GET /a path=/b"}), 2);
  EXPECT_EQ(err_, "sluice: try: the request has path twice; expected it once\n");
  EXPECT_EQ(run({"try", path, "GET /a ip=192.0.2.1/24"}), 2);
  EXPECT_EQ(err_,
            "sluice: try: '192.0.2.1/24' is a network, and a request has one address; expected an "
            "address such as 192.0.2.1, or a rule with `match: { ip: 192.0.2.1/24 }` and `action: "
            "deny`\n");
  EXPECT_EQ(run({"try", path, "GET /a ip=192.0.2.256"}), 2);
  EXPECT_EQ(err_, "sluice: try: '192.0.2.256' is not an address; expected one such as 192.0.2.1\n");
  EXPECT_EQ(run({"try", path, "GET /a ip=unknown"}), 0) << err_;
  EXPECT_EQ(run({"try", path, "GET /a", "--at", "noon"}), 2);
  EXPECT_EQ(run({"try", path, "GET /a", "--every", "1x"}), 2);
  EXPECT_EQ(run({"try", path, "GET /a", "-n", "0"}), 2);
  EXPECT_EQ(run({"try", path}), 2);
  EXPECT_EQ(err_.rfind("sluice: try: expected RULES and REQUEST, such as rules.yaml ", 0), 0U);
  EXPECT_EQ(run({"try", path, "GET /a", "--consume"}), 2);
  EXPECT_EQ(run({"try", "--server", "127.0.0.1:8080", "GET /a"}), 2);
  EXPECT_EQ(err_,
            "sluice: try: --server takes no address; expected that of the administration after "
            "--admin, such as --admin 127.0.0.1:6070, instead of '127.0.0.1:8080'\n");
  EXPECT_EQ(run({"try", "--server", "GET /a", "--every", "1s"}), 2);
  EXPECT_EQ(run({"try", "--server", "GET /a", "-n", "2"}), 2);
  EXPECT_EQ(
      err_,
      "sluice: try: -n needs --consume: without it each request is answered like the first\n");
  EXPECT_EQ(run({"try", file("wrong.yaml", kWrong), "GET /a"}), 1);
}

TEST_F(RulesCommand, ConvertsNothingThatWouldNotLoad) {
  const std::string envoy =
      file("envoy.yaml", "domain: d\ndescriptors:\n  - { key: a, value: " + std::string(5000, 'x') +
                             ", rate_limit: { unit: day, requests_per_unit: "
                             "1 } }\n");
  EXPECT_EQ(run({"convert", envoy}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_NE(err_.find("the rules of " + envoy + ":12:12: error: 'a' is the text 'xxx"),
            std::string::npos)
      << err_;
}

}  // namespace
}  // namespace sluice::cli
