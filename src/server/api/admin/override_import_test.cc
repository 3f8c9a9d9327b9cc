#include <gtest/gtest.h>

#include <fstream>

#include "server/api/admin/test_endpoint.h"

namespace sluice::server::override_import_test {
namespace {

constexpr const char* kRules = R"(
version: 1
domain: "a|b"
plans:
  free: { requests: { limit: 2, per: 1m } }
  pro: { requests: { limit: 5, per: 1m } }
rules:
  - name: api
    plan: { from: "{header.x-plan}", default: free }
    limits: [ { name: requests, key: "{header.x-customer}", algorithm: token_bucket } ]
  - name: all
    limits: [ { name: every, algorithm: fixed_window, limit: 1, per: 1s } ]
  - name: net
    limits: [ { name: near, key: "{ip/24/64}at", algorithm: gcra, limit: 1, per: 1s } ]
)";
constexpr const char* kSeven = "a%7Cb|api|requests|header.x-customer=7";

class OverrideImport : public TestAdmin {
 protected:
  OverrideImport() {
    open({kRules});
    start();
  }
  void start() {
    auto opened = ServerOverrides::open(file_);
    ASSERT_TRUE(opened) << opened.error();
    overrides_ = std::move(*opened);
    reopen();
  }
  Answered post(const std::string& body, const char* query = "") {
    return call("POST", std::string("/v1/overrides") + query, {}, body);
  }
  bool is_written() const { return std::ifstream(file_).is_open(); }

  const std::string file_ = folder_ / "overrides.txt";
};

TEST_F(OverrideImport, SetsCountersAndAttributes) {
  const Answered answered = post(
      R"({"counter":"a%7Cb|api|requests|header.x-customer=7","limit":9})"
      "\n\r\n"
      R"({"rule":"api","limit_name":"requests","attributes":{"header.x-customer":"8"},"plan":"pro"})"
      "\r\n"
      R"({"counter":"a%7Cb|all|every","blocked":true,"until":"2100-01-01T00:00:00Z"})"
      "\n"
      R"({"counter":"a%7Cb|all|every","blocked":true,"until":"2001-01-01T00:00:00Z"})");
  EXPECT_EQ(answered.body, "{\"count\":4,\"ended\":1,\"new\":3,\"room\":2000000}\n");
  EXPECT_EQ(overrides_->all().find(kSeven)->limit, 9U);
  EXPECT_EQ(overrides_->all().find("a%7Cb|api|requests|header.x-customer=8")->plan, "pro");
  EXPECT_EQ(overrides_->all().find("a%7Cb|all|every")->kind, Override::Kind::kBlocked);
  EXPECT_EQ(done_.back(), "overrides set: 3 by 127.0.0.1");
  start();
  EXPECT_EQ(overrides_->all().size(), 3U);
}

TEST_F(OverrideImport, ChecksWithoutAChange) {
  const std::string line = R"({"counter":")" + std::string(kSeven) + R"(","limit":9})";
  EXPECT_EQ(post(line, "?dry_run=true").status, 200);
  EXPECT_EQ(post(line, "?dry_run=0").status, 400);
  EXPECT_EQ(overrides_->all().size(), 0U);
}

TEST_F(OverrideImport, WritesTheFileAfterTheLastPart) {
  const std::string line = R"({"counter":")" + std::string(kSeven) + R"(","limit":9})";
  EXPECT_EQ(post(line, "?more=true").status, 200);
  EXPECT_EQ(overrides_->all().size(), 1U);
  EXPECT_FALSE(is_written());
  EXPECT_EQ(post("").status, 200);
  start();
  EXPECT_EQ(overrides_->all().size(), 1U);
}

TEST_F(OverrideImport, AppliesNothingIfALineIsWrong) {
  const std::string good = R"({"counter":")" + std::string(kSeven) + R"(","limit":9})";
  const auto wrong = [&](const std::string& line) {
    const Answered answered = post(good + "\n\n" + line + "\n" + good);
    EXPECT_EQ(answered.status, 400) << answered.body;
    EXPECT_EQ(answered.json().at("line").as_int64(), 3) << answered.body;
    return answered.detail();
  };
  EXPECT_EQ(wrong("x"),
            "the line is not a JSON object; expected {\"counter\":\"...\",\"limit\":100}");
  EXPECT_EQ(wrong(R"({"counter":"a%7Cb|api|requests|x=1","limits":9})"),
            "unknown member 'limits'; expected counter, or rule, limit_name and attributes, and "
            "limit, plan, blocked or unlimited, and per, burst, for or until");
  const std::string names =
      "the line does not name one counter; expected counter, or rule, limit_name and attributes";
  EXPECT_EQ(wrong(R"({"limit":9})"), names);
  EXPECT_EQ(wrong(R"({"rule":"api","limit":9})"), names);
  EXPECT_EQ(wrong(R"({"counter":"a%7Cb|all|every","rule":"all","limit":9})"), names);
  EXPECT_EQ(wrong(R"({"counter":"a%7Cb|apo|requests|x=1","limit":9})"),
            "there is no rule 'apo'; expected one of: api, all or net");
  EXPECT_EQ(wrong(R"({"counter":"a%7Cb|api|request|x=1","limit":9})"),
            "the rule 'api' has no limit 'request'; expected one of: requests");
  EXPECT_EQ(wrong(R"({"counter":"a|api|requests|x=1","limit":9})"),
            "the rule 'api' is not of the domain 'a'; expected 'a|b'");
  EXPECT_EQ(wrong(R"({"counter":"a%7Cb|api|requests|header.x-customer=7","plan":"gold"})"),
            "there is no plan 'gold'; expected one of: free or pro");
  EXPECT_EQ(wrong(R"({"rule":"api","limit_name":"requests","attributes":{},"limit":9})"),
            "an attribute of the key '{header.x-customer}' of the limit 'requests' is missing; "
            "expected all of them");
  EXPECT_EQ(wrong(R"({"counter":"a%7Cb|all|every","limit":1,"limit":9})"),
            "the member 'limit' is given twice; expected it once");
  EXPECT_EQ(wrong(R"({"counter":"a%7Cb|all|every","limit":1,"per":"1s","lease":"2s"})"),
            "'per' and 'lease' mean the same; expected one of them");
  EXPECT_EQ(wrong(R"({"counter":"a%7Cb|all|every","limit":1,"lease":"2s"})"),
            "'lease' is for 'concurrency'; expected 'per'");
  EXPECT_EQ(overrides_->all().size(), 0U);
}

TEST_F(OverrideImport, ABlockOfAKeyLeavesItsOverride) {
  open({R"(version: 1
rules:
  - name: login
    limits:
      - { name: address, key: "{ip}", algorithm: gcra, limit: 1, per: 1m,
          block: { after: 1, within: 10m, for: 15m } }
)"});
  start();
  const auto line = [](const std::string& address, const std::string& terms) {
    return R"({"counter":"default|login|address|ip=)" + address + "\"," + terms + "}\n";
  };
  const std::string blocked = R"("blocked":true,"for":"15m")";
  const Answered answered = post(line("192.0.2.1", R"("limit":500)") + line("192.0.2.1", blocked) +
                                 line("192.0.2.2", blocked));
  EXPECT_EQ(answered.body, "{\"count\":3,\"ended\":0,\"new\":2,\"room\":2000000}\n");
  EXPECT_EQ(overrides_->all().find("default|login|address|ip=192.0.2.1")->limit, 500U);
  EXPECT_EQ(overrides_->all().find("default|login|address|ip=192.0.2.2")->kind,
            Override::Kind::kBlocked)
      << "it had no other override";
  EXPECT_EQ(done_.back(), "overrides set: 2, keys blocked: 1 by 127.0.0.1");
  const auto blocks = get("/v1/blocks").json().at("blocks").as_array();
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(blocks[0].at("counter"), "default|login|address|ip=192.0.2.1");
  // The override is of an earlier part; without an end, no store keeps a block.
  EXPECT_EQ(post(line("192.0.2.1", blocked)).status, 200);
  EXPECT_EQ(overrides_->all().find("default|login|address|ip=192.0.2.1")->limit, 500U);
  EXPECT_EQ(post(line("192.0.2.1", R"("blocked":true)")).status, 200);
  EXPECT_EQ(overrides_->all().find("default|login|address|ip=192.0.2.1")->kind,
            Override::Kind::kBlocked);
}

TEST_F(OverrideImport, IsRefusedIfThereWouldBeTooMany) {
  overrides_ = std::move(ServerOverrides::open(file_, 2).value());
  reopen();
  std::string lines;
  for (int i = 0; i < 3; ++i) {
    lines += R"({"rule":"api","limit_name":"requests","attributes":{"header.x-customer":")" +
             std::to_string(i) + "\"},\"limit\":9}\n";
  }
  for (const char* query : {"", "?more=true", "?dry_run=true"}) {
    const Answered answered = post(lines, query);
    EXPECT_EQ(answered.status, 409);
    EXPECT_EQ(answered.detail(),
              "there are 0 overrides and 3 new ones; expected at most 2 together");
  }
  EXPECT_EQ(overrides_->all().size(), 0U);
  const std::size_t two = lines.find('\n', lines.find('\n') + 1) + 1;
  EXPECT_EQ(post(lines.substr(0, two)).status, 200);
  EXPECT_EQ(post(lines.substr(0, two)).status, 200) << "they are there already";
  EXPECT_EQ(post(lines.substr(two)).detail(),
            "there are 2 overrides and 1 new ones; expected at most 2 together");
}

TEST_F(OverrideImport, RefusesCountersThatNoRequestHas) {
  const auto wrong = [&](const std::string& counter) {
    return post(R"({"counter":")" + counter + R"(","limit":9})").detail();
  };
  const std::string expected = "the counter does not have the key of its limit; expected '";
  const std::string requests = expected + "a%7Cb|api|requests|header.x-customer=VALUE'";
  EXPECT_EQ(wrong("a%7Cb|api|requests"), requests);
  EXPECT_EQ(wrong("a%7Cb|api|requests|x=1"), requests);
  EXPECT_EQ(wrong("a%7Cb|api|requests|header.x-customer="), requests);
  EXPECT_EQ(wrong("a%7Cb|api|requests|header.x-customer=1|ip=::1"),
            expected + "a%7Cb|api|requests|header.x-customer=1'");
  EXPECT_EQ(wrong("a%7Cb|all|every|ip=::1"), expected + "a%7Cb|all|every'");
  EXPECT_EQ(wrong("a%7Cb|net|near|ip/24/64=192.0.2.7/24"),
            expected + "a%7Cb|net|near|ip/24/64=192.0.2.0/24|at'");
  EXPECT_EQ(wrong("a%7Cb|api|requests|header.x-customer=50%"),
            "'%' in the counter is not an escape; expected %25 for %");
  EXPECT_EQ(wrong("a%7Cb|api"),
            "the counter names no limit; expected DOMAIN|RULE|LIMIT and the parts of its key");
  EXPECT_EQ(overrides_->all().size(), 0U);
}

TEST_F(OverrideImport, RemovesEscapesThatRequestsDoNotHave) {
  EXPECT_EQ(post(R"({"counter":"a%7Cb|%61pi|requests|header.x%2Dcustomer=%37","limit":9})").status,
            200);
  EXPECT_EQ(overrides_->all().find(kSeven)->limit, 9U);
  const std::string near = "a%7Cb|net|near|ip/24/64=2001:db8::/64|at";
  EXPECT_EQ(post(R"({"counter":")" + near + R"(","limit":9})").body.substr(0, 10), "{\"count\":1");
  EXPECT_TRUE(overrides_->all().find(near));
}

TEST_F(OverrideImport, NamesAttributesThatTheKeyDoesNotRead) {
  const auto wrong = [&](const std::string& attributes) {
    return post(R"({"rule":"api","limit_name":"requests","attributes":{)" + attributes + "}}");
  };
  const std::string unread =
      "the key of the limit 'requests' does not read the attribute 'header.x-custmer'; expected "
      "header.x-customer; did you mean 'header.x-customer'?";
  const Answered answered = wrong(R"("header.X-Custmer":"7")");
  EXPECT_EQ(answered.detail(), unread);
  EXPECT_EQ(answered.json().at("attribute").as_string(), "header.x-custmer");
  EXPECT_TRUE(wrong(R"("header.x-customer":"7","ip":"::1")")
                  .detail()
                  .starts_with("the override says nothing; "))
      << "another rule reads it";
  EXPECT_EQ(wrong(R"("header.x-customer":"7","header.X-Customer":"8")").detail(),
            "the attribute 'header.x-customer' is given twice; expected it once");
  EXPECT_EQ(wrong(R"("header.x-customer":"7")").detail().substr(0, 27),
            "the override says nothing; ");
  EXPECT_EQ(post(R"({"rule":"api","limit_name":"requests","attributes":)"
                 R"({"header.x-customer":"7"},"per":"1h"})")
                .detail(),
            "the override lacks 'limit'; expected it with these numbers");
}

TEST_F(OverrideImport, CountsARepeatedCounterOnce) {
  const std::string line = R"({"counter":")" + std::string(kSeven) + R"(","limit":9})";
  EXPECT_EQ(post(line + "\n" + line).json().at("new").as_int64(), 1);
}

TEST_F(OverrideImport, LeavesOutWhatIsOfUnknownRulesIfAsked) {
  const std::string good = R"({"counter":")" + std::string(kSeven) + R"(","limit":9})";
  const std::string lines = good + "\n" + R"({"counter":"a%7Cb|old|l|ip=::1","limit":9})" + "\n" +
                            R"({"rule":"api","limit_name":"old","limit":9})" + "\n" +
                            R"({"counter":"a|api|requests|header.x-customer=7","limit":9})";
  const Answered refused = post(lines);
  EXPECT_EQ(refused.detail(), "there is no rule 'old'; expected one of: api, all or net");
  EXPECT_TRUE(refused.json().at("unknown").as_bool());
  EXPECT_EQ(post(lines, "?skip_unknown=true").body,
            "{\"count\":4,\"ended\":0,\"new\":1,\"room\":2000000,\"unknown\":3,"
            "\"unknown_lines\":[2,3,4]}\n");
  EXPECT_EQ(overrides_->all().size(), 1U);
  EXPECT_EQ(post("x", "?skip_unknown=true").status, 400);
}

TEST_F(OverrideImport, TakesBackKeysThatAreNotUtf8) {
  const std::string counter = "a%7Cb|api|requests|header.x-customer=\xFF%25";
  ASSERT_TRUE(overrides_->set(counter, {.limit = 9}));
  const std::string listed = get("/v1/overrides").body;
  const std::string line = R"({"counter":"a%7Cb|api|requests|header.x-customer=%FF%25","limit":9})";
  EXPECT_NE(listed.find(line), listed.npos) << listed;
  EXPECT_EQ(post(line).json().at("new").as_int64(), 0);
  EXPECT_EQ(overrides_->all().size(), 1U);
}

TEST_F(OverrideImport, ChangesNothingIfTheFileCannotBeWritten) {
  overrides_ = std::move(ServerOverrides::open(folder_ / "none/overrides.txt").value());
  reopen();
  EXPECT_EQ(post(R"({"counter":"a%7Cb|all|every","limit":9})").status, 503);
  EXPECT_EQ(overrides_->all().size(), 0U);
}

}  // namespace
}  // namespace sluice::server::override_import_test
