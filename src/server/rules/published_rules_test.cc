#include "server/rules/published_rules.h"

#include <gtest/gtest.h>

#include "stores/redis/client/test_reply.h"

namespace sluice::server {
namespace {

using redis::TestReply;

struct Sent : redis::Command {
  void done(const redis::Answer&) noexcept override {}
};

const std::vector<RulesText> kTexts{{"a.yaml", "version: 1\n"}, {"b", std::string("\0\r\n", 3)}};

PublishedRules published(std::uint64_t version, const std::vector<RulesText>& texts = kTexts) {
  auto rules = publish(version, "2026-11-21T07:48:59Z", texts);
  EXPECT_TRUE(rules);
  return *std::move(rules);
}

// Returns the reply of HGETALL after these rules were pushed: their fields as an array.
std::string stored(const PublishedRules& rules) {
  Sent sent;
  fill_in_overwrite(sent, "k", rules);
  const std::string head = "$4\r\nHSET\r\n$1\r\nk\r\n";
  EXPECT_EQ(sent.tail.substr(0, head.size()), head);
  return "*" + std::to_string(sent.elements - 2) + "\r\n" + sent.tail.substr(head.size());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& reply) {
  const TestReply read(reply);
  const auto rules = read_rules(*read);
  return rules ? "no error" : rules.error();
}

TEST(PublishedRules, ReadBackAsTheyWerePushed) {
  const PublishedRules pushed = published(7);
  const TestReply reply(stored(pushed));
  const auto rules = read_rules(*reply);
  ASSERT_TRUE(rules) << rules.error();
  ASSERT_TRUE(rules->has_value());
  EXPECT_EQ((*rules)->version, 7U);
  EXPECT_EQ((*rules)->id, pushed.id);
  EXPECT_EQ((*rules)->pushed_at, "2026-11-21T07:48:59Z");
  EXPECT_EQ((*rules)->texts, kTexts);
}

TEST(PublishedRules, AreKeptInAFileThatIsReadAsAWholeOrNotAtAll) {
  PublishedRules pushed = published(7);
  pushed.by = "anna at night";
  const std::string text = kept_text(pushed);
  const auto read = read_kept_text(text);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->id, pushed.id);
  EXPECT_EQ(read->version, 7U);
  EXPECT_EQ(read->pushed_at, pushed.pushed_at);
  EXPECT_EQ(read->by, "anna at night");
  EXPECT_EQ(read->texts, kTexts);
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(read_kept_text(std::string_view(text).substr(0, size))) << size;
  }
  EXPECT_FALSE(read_kept_text(replaced(text, "version: 1", "version: 2"))) << "the id differs";
  EXPECT_EQ(read_kept_text("rules:\n").error(), "it does not contain kept rules");
}

TEST(PublishedRules, HaveAnIdOfTheirVersionNamesAndTexts) {
  const std::string id = published(7).id;
  EXPECT_EQ(id.substr(0, 2), "7-");
  EXPECT_EQ(id.size(), 18U);
  EXPECT_EQ(published(7).id, id);
  EXPECT_EQ(published(8).id.substr(2), id.substr(2));
  EXPECT_NE(published(7, {kTexts[0]}).id, id);
  EXPECT_NE(published(7, {kTexts[1], kTexts[0]}).id, id);
  EXPECT_NE(published(7, {{"ab", "c"}}).id, published(7, {{"a", "bc"}}).id);
}

TEST(PublishedRules, AreAbsentWhereTheKeyIs) {
  const TestReply reply("*0\r\n");
  const auto rules = read_rules(*reply);
  ASSERT_TRUE(rules);
  EXPECT_FALSE(rules->has_value());
}

TEST(PublishedRules, SayWhatElseTheKeyHolds) {
  EXPECT_EQ(error_of("$1\r\nx\r\n"), "the reply is not a hash");
  EXPECT_EQ(error_of("*2\r\n$1\r\na\r\n$1\r\nb\r\n"), "a hash that does not contain rules");
  EXPECT_EQ(error_of("*2\r\n$6\r\nformat\r\n$1\r\n2\r\n"),
            "rules in format '2', which this version does not know");
  EXPECT_EQ(error_of("*2\r\n$6\r\nformat\r\n$1\r\n1\r\n"), "damaged rules");
}

TEST(PublishedRules, AreRefusedWhereTheyWereChangedByHand) {
  const std::string good = stored(published(7));
  EXPECT_EQ(error_of(good), "no error");
  const std::string by_hand = "damaged rules: something other than a push has changed them";
  EXPECT_EQ(error_of(replaced(good, "version: 1\n", "version: 2\n")), by_hand);
  EXPECT_EQ(error_of(replaced(good, "$1\r\n7\r\n", "$1\r\n8\r\n")), by_hand);
  EXPECT_EQ(error_of(replaced(good, "$2\r\nid", "$2\r\nxx")), by_hand);
  EXPECT_EQ(error_of(replaced(good, "name.1", "name.2")), "damaged rules: file 1 is missing");
  EXPECT_EQ(error_of(replaced(good, "files\r\n$1\r\n2", "files\r\n$1\r\n0")),
            "damaged rules: there are no rules to push; expected a rules file");
  EXPECT_EQ(error_of(replaced(good, "files\r\n$1\r\n2", "files\r\n$1\r\n-")), "damaged rules");
}

TEST(PublishedRules, AreBounded) {
  EXPECT_EQ(publish(1, "", {}).error(), "there are no rules to push; expected a rules file");
  const std::vector<RulesText> many(kMostPublishedFiles + 1, {"a", "b"});
  EXPECT_EQ(publish(1, "", many).error(), "257 rules files; expected at most 256");
  const std::vector<RulesText> long_one{{"a", std::string(kMostPublishedBytes, 'x')}};
  EXPECT_EQ(publish(1, "", long_one).error(), "16777217 bytes of rules; expected at most 16777216");
}

TEST(PublishedRules, ArePushedByOneScriptOnTheSlotOfTheirKey) {
  Sent sent;
  fill_in_push(sent, "sluice:rules", published(1, {{"a", "b"}}), "3-x");
  ASSERT_NE(sent.script, nullptr);
  EXPECT_EQ(sent.slot, redis::slot_of("sluice:rules"));
  EXPECT_EQ(sent.elements, 6U + 16U);
  const std::string head =
      "$1\r\n2\r\n$12\r\nsluice:rules\r\n$34\r\nsluice:rules:history{sluice:rules}\r\n"
      "$3\r\n3-x\r\n";
  EXPECT_EQ(sent.tail.substr(0, head.size()), head);
  fill_in_read_id(sent, "sluice:rules");
  EXPECT_EQ(sent.script, nullptr);
  EXPECT_EQ(sent.tail, "$4\r\nHGET\r\n$12\r\nsluice:rules\r\n$2\r\nid\r\n");
}

TEST(PublishedRules, SayWhetherAPushWasTaken) {
  EXPECT_TRUE(*read_pushed(*TestReply(":1\r\n")));
  EXPECT_FALSE(*read_pushed(*TestReply(":0\r\n")));
  EXPECT_FALSE(read_pushed(*TestReply("+OK\r\n")));
}

}  // namespace
}  // namespace sluice::server
