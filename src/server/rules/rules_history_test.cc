#include "server/rules/published_rules.h"

#include <gtest/gtest.h>

#include <string_view>

#include "stores/redis/client/test_reply.h"

namespace sluice::server::rules_history_test {
namespace {

using redis::TestReply;

// The reply to HGET.
TestReply reply_with(std::string_view value) { return TestReply(redis::bulk(value)); }

PublishedRules published(std::uint64_t version) {
  auto rules = publish(version, "2026-11-21T07:48:59Z", {{"a.yaml", "x: 1\n"}, {"", "\n:"}});
  EXPECT_TRUE(rules);
  rules->by = "ann@host (rollback to version 7)";
  return *std::move(rules);
}

TEST(RulesHistory, HasAKeyInTheSlotOfTheRulesThatBeginsWithTheirs) {
  EXPECT_EQ(history_key("sluice:rules"), "sluice:rules:history{sluice:rules}");
  EXPECT_EQ(history_key("{shop}:rules"), "{shop}:rules:history");
  EXPECT_EQ(history_key("a}b"), "");
  for (const char* key : {"sluice:rules", "{shop}:rules", "x{", "x{}y"}) {
    const std::string history = history_key(key);
    EXPECT_TRUE(history.empty() || redis::slot_of(history) == redis::slot_of(key)) << key;
  }
}

TEST(RulesHistory, ReadsBackItsEntries) {
  const PublishedRules second = published(2);
  const auto pushes = read_history(*reply_with(entry_of(second) + "\n" + entry_of(published(1))));
  ASSERT_TRUE(pushes) << pushes.error();
  ASSERT_EQ(pushes->size(), 2U);
  const PastPush& latest = pushes->front();
  EXPECT_EQ(latest.id, second.id);
  EXPECT_EQ(latest.version, 2U);
  EXPECT_EQ(latest.pushed_at, "2026-11-21T07:48:59Z");
  EXPECT_EQ(latest.files, 2U);
  EXPECT_EQ(latest.bytes, encode_texts(second.texts).size());
  EXPECT_EQ(latest.by, "ann@host (rollback to version 7)");
  EXPECT_EQ(pushes->back().version, 1U);
  EXPECT_TRUE(read_history(*TestReply("$-1\r\n"))->empty());
  EXPECT_TRUE(read_history(*reply_with("x y"))->empty()) << "no push has written this line";
}

TEST(RulesHistory, ReadsBackTheRulesOfAPush) {
  const PublishedRules rules = published(2);
  const PastPush push = read_history(*reply_with(entry_of(rules)))->front();
  const std::string kept = encode_texts(rules.texts);
  EXPECT_EQ(*read_past(*reply_with(kept), push), rules.texts);
  EXPECT_EQ(read_past(*TestReply("$-1\r\n"), push).error(), "the rules are no longer there");
  EXPECT_EQ(read_past(*reply_with(kept.substr(0, kept.size() - 1)), push).error(), "damaged rules");
  EXPECT_EQ(read_past(*reply_with("1:a1:b"), push).error(),
            "damaged rules: something other than a push has changed them");
}

}  // namespace
}  // namespace sluice::server::rules_history_test
