#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/api/resp/test_handler.h"

namespace sluice::server::resp {
namespace {

constexpr std::string_view kCounter = "default|header|user|header.x-user=7";

class OverrideCommands : public ::testing::Test {
 protected:
  // RL.OVERRIDE PART header user header.x-user 7 MORE...
  std::string ask(std::string_view part, const std::vector<std::string_view>& more = {}) {
    std::vector<std::string_view> words = {"RL.OVERRIDE",   part, "header", "user",
                                           "header.X-User", "7"};
    words.insert(words.end(), more.begin(), more.end());
    return handler_.ask(words);
  }
  std::optional<Override> found() const { return handler_.overrides->all().find(kCounter); }

  TestCommands handler_;
};

TEST_F(OverrideCommands, SetReplacesAndGetReturnsIt) {
  EXPECT_EQ(ask("GET"), "$-1\r\n");
  EXPECT_EQ(ask("SET", {"LIMIT", "100", "per", "2m", "BURST", "5", "UNTIL", "4102444800000"}),
            "+OK\r\n");
  EXPECT_EQ(ask("GET"),
            "*10\r\n$7\r\ncounter\r\n$35\r\ndefault|header|user|header.x-user=7\r\n$5\r\nlimit\r\n"
            ":100\r\n$3\r\nper\r\n$2\r\n2m\r\n$5\r\nburst\r\n:5\r\n$8\r\nuntil_ms\r\n"
            ":4102444800000\r\n");
  EXPECT_EQ(ask("SET", {"LIMIT", "Blocked"}), "+OK\r\n");
  EXPECT_EQ(*found(), (Override{.kind = Override::Kind::kBlocked}));
  EXPECT_NE(handler_.ask({"RL.CHECK", "header", "header.x-user", "7"}).find("blocked"),
            std::string::npos);
  EXPECT_EQ(ask("SET", {"LIMIT", "unlimited"}), "+OK\r\n");
  EXPECT_EQ(found()->kind, Override::Kind::kUnlimited);
}

TEST_F(OverrideCommands, UnsetReturnsWhetherThereWasOne) {
  EXPECT_EQ(ask("UNSET"), ":0\r\n");
  EXPECT_EQ(ask("SET", {"LIMIT", "9"}), "+OK\r\n");
  EXPECT_EQ(ask("UNSET"), ":1\r\n");
  EXPECT_FALSE(found());
}

TEST_F(OverrideCommands, ExplainWhatIsWrong) {
  EXPECT_EQ(ask("SET", {"PER", "1m"}),
            "-ERR expected one of LIMIT and PLAN after the attributes\r\n");
  EXPECT_EQ(ask("SET", {"PLAN", "pro", "LIMIT", "1"}),
            "-ERR expected one of LIMIT and PLAN after the attributes\r\n");
  EXPECT_EQ(ask("SET", {"LIMIT", "1", "LIMIT", "2"}), "-ERR LIMIT is given twice\r\n");
  EXPECT_EQ(ask("SET", {"LIMIT", "blocked", "PER", "1m"}),
            "-ERR PER and BURST are for numbers; expected LIMIT with a number\r\n");
  EXPECT_EQ(ask("SET", {"LIMIT", "many"}),
            "-ERR LIMIT is not an integer: 'many'; expected a whole number from 0 to "
            "9007199254740991\r\n");
  EXPECT_TRUE(ask("SET", {"LIMIT", "1", "UNTIL", "1"}).starts_with("-ERR UNTIL is out of range"));
  EXPECT_EQ(ask("SET", {"PLAN", "pro"}),
            "-ERR the rule 'header' has no plans; expected 'limit', 'blocked' or 'unlimited'\r\n");
  EXPECT_EQ(handler_.ask({"RL.OVERRIDE", "GET", "header", "usr", "header.x-user", "7"}),
            "-ERR the rule 'header' has no limit 'usr'; expected one of: user\r\n");
  EXPECT_EQ(handler_.ask({"RL.OVERRIDE", "SET", "header", "user", "LIMIT", "1"}),
            "-ERR an attribute of the key '{header.x-user}' of the limit 'user' is missing; "
            "expected all of them\r\n");
  EXPECT_EQ(handler_.ask({"RL.OVERRIDE", "SET", "header", "user", "header.x-user", "7", "ipp", "1",
                          "LIMIT", "1"}),
            "-ERR the key of the limit 'user' does not read the attribute 'ipp'; expected "
            "header.x-user\r\n");
  EXPECT_EQ(handler_.ask({"RL.OVERRIDE", "SET", "header", "user", "header.x-user", "7",
                          "header.X-User", "8", "LIMIT", "1"}),
            "-ERR the attribute 'header.x-user' is given twice\r\n");
  EXPECT_EQ(handler_.overrides->all().size(), 0u);
}

TEST_F(OverrideCommands, AnAttributeCanHaveTheNameOfAnOption) {
  EXPECT_EQ(
      handler_.ask({"RL.OVERRIDE", "SET", "plans", "each", "attribute.plan", "pro", "LIMIT", "9"}),
      "+OK\r\n");
  EXPECT_EQ(handler_.overrides->all().find("default|plans|each|plan=pro")->limit, 9U);
  EXPECT_EQ(handler_.ask({"RL.OVERRIDE", "UNSET", "plans", "each", "attribute.plan", "pro"}),
            ":1\r\n");
}

class Unreachable final : public ServerOverrides {
 public:
  Unreachable() : ServerOverrides({}) {}
  Expected<Before> change(std::string_view, const Override*,
                          std::optional<redis::Client*>) override {
    return Unexpected{"Redis did not answer; the change may have been made; repeat it"};
  }
};

TEST(OverrideCommandErrors, DoNotSayThatNothingHasChangedIfThatIsUnknown) {
  TestCommands handler({}, std::make_unique<Unreachable>());
  const std::string maybe =
      "-ERR Redis did not answer; the change may have been made; repeat it\r\n";
  EXPECT_EQ(
      handler.ask({"RL.OVERRIDE", "SET", "header", "user", "header.x-user", "7", "LIMIT", "1"}),
      maybe);
  EXPECT_EQ(handler.ask({"RL.OVERRIDE", "UNSET", "header", "user", "header.x-user", "7"}), maybe);
}

TEST(OverrideCommandRoles, AreForOperators) {
  TestCommands handler({{"default", Role::kCheck, "secret"}, {"ops", Role::kOperate, "secrets"}});
  handler.ask({"AUTH", "secret"});
  for (const std::string_view part : {"GET", "SET", "UNSET"}) {
    EXPECT_TRUE(
        handler
            .ask({"RL.OVERRIDE", part, "header", "user", "header.x-user", "7", "LIMIT", "blocked"})
            .starts_with("-NOPERM "))
        << part;
  }
  handler.ask({"AUTH", "ops", "secrets"});
  EXPECT_EQ(
      handler.ask({"RL.OVERRIDE", "SET", "header", "user", "header.x-user", "7", "LIMIT", "1"}),
      "+OK\r\n");
}

}  // namespace
}  // namespace sluice::server::resp
