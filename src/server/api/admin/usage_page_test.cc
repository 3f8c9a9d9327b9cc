#include <gtest/gtest.h>

#include "server/api/admin/test_endpoint.h"

namespace sluice::server {
namespace {

using std::chrono_literals::operator""h;

class UsagePage : public TestAdmin {
 protected:
  UsagePage() {
    read_ledger_ = [this](const LedgerReplay::See& see) {
      if (!failure_.empty()) return Status(Unexpected{failure_});
      for (const LedgerLine& line : lines_) see(line);
      return Status();
    };
    open({R"(version: 1
rules:
  - name: llm
    limits: [{ name: team, key: "{ip}", algorithm: budget, limit: 9, per: never }]
)"});
  }
  void spend(const std::string& limit, const std::string& key, std::int64_t units,
             Duration after = {}) {
    lines_.push_back(
        {.at = kDay + after, .rule = "llm", .limit = limit, .key = key, .spent = units});
  }

  static constexpr Instant kDay{std::chrono::sys_days{std::chrono::year{2026} / 11 / 1}};
  std::vector<LedgerLine> lines_;
  std::string failure_;
};

TEST_F(UsagePage, AddsUpByCounterTheLargestFirst) {
  spend("team", "a", 10);
  spend("team", "b", 30);
  spend("team", "a", 40);
  spend("team", "a", -5);
  spend("org", "o", 0);
  EXPECT_EQ(get("/v1/usage").body,
            R"({"usage":[{"rule":"llm","limit":"team","key":"a","spent":45},)"
            R"({"rule":"llm","limit":"team","key":"b","spent":30}],"total":75,"more":false})"
            "\n");
  EXPECT_EQ(get("/v1/usage?count=1").json().at("usage").as_array().size(), 1U);
  EXPECT_TRUE(get("/v1/usage?count=1").json().at("more").as_bool());
  EXPECT_EQ(get("/v1/usage?count=1").json().at("total"), 75);
}

TEST_F(UsagePage, IsOfARuleALimitAndATime) {
  spend("team", "a", 1);
  spend("org", "o", 2, 1h);
  spend("team", "a", 4, 24h);
  const auto total = [&](const std::string& query) {
    return get("/v1/usage?" + query).json().at("total").to_number<std::int64_t>();
  };
  EXPECT_EQ(total("rule=llm"), 7);
  EXPECT_EQ(total("rule=llm&limit=org"), 2) << "of earlier rules";
  EXPECT_EQ(total("rule=llm&limit=team"), 5);
  EXPECT_EQ(total("from=2026-11-02"), 4);
  EXPECT_EQ(total("to=2026-11-02"), 3) << "without the end";
  EXPECT_EQ(total("from=2026-11-01T01:00:00Z&to=2026-11-01T01:00:01Z"), 2);
  EXPECT_EQ(get("/v1/usage?from=2026-11-02").json().at("from"), "2026-11-02T00:00:00.000000Z");
}

TEST_F(UsagePage, SaysThatEntriesAreMissing) {
  spend("team", "a", 1, 24h);
  EXPECT_FALSE(get("/v1/usage").json().as_object().contains("gap"));
  lines_.push_back({.at = kDay + 24h, .kind = "gap", .rule = "llm", .limit = "team"});
  EXPECT_TRUE(get("/v1/usage")
                  .body.ends_with(R"("more":false,"gap":true})"
                                  "\n"));
  EXPECT_TRUE(
      get("/v1/usage?rule=llm&limit=team&from=2026-11-01").json().as_object().contains("gap"));
  spend("org", "o", 1);
  EXPECT_FALSE(get("/v1/usage?limit=org").json().as_object().contains("gap"));
  EXPECT_FALSE(get("/v1/usage?from=2026-11-02").json().as_object().contains("gap"))
      << "they are before";
  lines_[1] = {.at = kDay, .kind = "gap"};
  EXPECT_TRUE(get("/v1/usage?limit=org").json().as_object().contains("gap")) << "of all";
}

TEST_F(UsagePage, SaysWhatIsWrong) {
  EXPECT_EQ(get("/v1/usage?from=today").status, 400);
  EXPECT_EQ(get("/v1/usage?from=today").detail(),
            "'from' is 'today'; expected an instant such as 2026-11-01T12:00:00Z, or a day such as "
            "2026-11-01");
  EXPECT_EQ(get("/v1/usage?to=2200-01-01").detail(),
            "'to' is '2200-01-01'; expected an instant from 1970 to 2112");
  EXPECT_EQ(get("/v1/usage?count=0").status, 400);
  EXPECT_EQ(get("/v1/usage?ruel=llm").status, 400);
  EXPECT_EQ(get("/v1/usage?ruel=llm").detail(),
            "'ruel' is no parameter of GET /v1/usage; expected from, to, rule, limit or count; did "
            "you mean 'rule'?");
  EXPECT_EQ(get("/v1/usage?%72ule=llm&&").status, 200);
  EXPECT_EQ(get("/v1/usage?rule=lm").status, 404);
  EXPECT_EQ(get("/v1/usage?rule=lm").detail(),
            "there is no rule 'lm', and the ledger has none; expected one of: llm; did you mean "
            "'llm'?");
  EXPECT_EQ(
      get("/v1/usage?rule=llm&limit=tam").detail(),
      "rule 'llm' has no limit 'tam', and the ledger has none; expected one of: team; did you "
      "mean 'team'?");
  EXPECT_EQ(get("/v1/usage?limit=tam").status, 404);
  EXPECT_EQ(get("/v1/usage?rule=llm&limit=team").status, 200);
  failure_ = "ledger.jsonl cannot be read: Permission denied";
  EXPECT_EQ(get("/v1/usage").status, 409);
  EXPECT_EQ(get("/v1/usage").detail(), failure_);
  EXPECT_EQ(call("DELETE", "/v1/usage").status, 405);
}

}  // namespace
}  // namespace sluice::server
