#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "rules/rule_set.h"
#include "sluice/attributes.h"
#include "sluice/rule_set.h"

namespace sluice::match_test {
namespace {

namespace fs = std::filesystem;

std::string lines_of(const std::vector<RuleError>& errors) {
  std::string out;
  for (const RuleError& error : errors) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

std::string yaml_of(const std::string& match) {
  return "version: 1\nrules:\n  - name: r\n    match: " + match + "\n    action: deny\n";
}

// Returns every error of a rule with this `match`, which begins in line 4, column 12, or "ok".
std::string errors_of(const std::string& match) {
  const auto rules = RuleSet::parse(yaml_of(match), "f");
  return rules ? "ok" : lines_of(rules.error());
}

bool matches(const RuleSet& rules, const Attributes& attributes) {
  const RuleSet::Impl& impl = rules.impl();
  rules::AttributeValues values;
  values.begin(impl.attributes, attributes);
  return impl.compiled.front().matches(values);
}

bool matches(const std::string& match, const Attributes& attributes) {
  const auto rules = RuleSet::parse(yaml_of(match), "f");
  if (!rules) throw std::invalid_argument(lines_of(rules.error()));
  return matches(*rules, attributes);
}

TEST(Match, UnderstandsNetworksOfIp) {
  const std::string match = "{ ip: [10.0.0.0/8, '2001:db8::/32', 192.0.2.1, 'unix:*'] }";
  for (const char* ip : {"10.1.2.3", "::ffff:10.1.2.3", "2001:db8::5", "192.0.2.1", "unix:a"}) {
    EXPECT_TRUE(matches(match, {{"ip", ip}})) << ip;
  }
  for (const char* ip : {"11.0.0.1", "2001:db9::", "192.0.2.2", "", "10.0.0.0/8"}) {
    EXPECT_FALSE(matches(match, {{"ip", ip}})) << ip;
  }
  EXPECT_FALSE(matches(match, {{"path", "10.1.2.3"}}));
  EXPECT_TRUE(matches("{ ip: 10.* }", {{"ip", "10.1.2.3"}}));
  EXPECT_TRUE(matches("{ ip: unknown }", {{"ip", "unknown"}}));
}

TEST(Match, UnderstandsNetworksOfAnAttributeThatIsSaidToBeAnAddress) {
  const std::string match = "{ header.X-Client: { network: [10.0.0.0/8, '::1'] } }";
  EXPECT_TRUE(matches(match, {{"header.x-client", "10.1.2.3"}}));
  EXPECT_TRUE(matches(match, {{"header.x-client", "0::1"}}));
  EXPECT_FALSE(matches(match, {{"header.x-client", "11.1.2.3"}}));
  EXPECT_FALSE(matches(match, {{"header.x-client", "10.1.2.3 "}}));
  EXPECT_TRUE(matches("{ a: [x, { network: 10.0.0.0/8 }] }", {{"a", "x"}}));
  EXPECT_TRUE(matches("{ a: [x, { network: 10.0.0.0/8 }] }", {{"a", "10.0.0.1"}}));
}

TEST(Match, RefusesNetworksWhereTextIsCompared) {
  EXPECT_EQ(
      errors_of("{ header.x: 10.0.0.0/8 }"),
      "f:4:24: error: '10.0.0.0/8' is a network, and 'header.x' is compared as text; expected "
      "{ network: 10.0.0.0/8 } if 'header.x' is an address, or '~10\\.0\\.0\\.0/8' for this "
      "text");
  EXPECT_EQ(errors_of("{ path: ['/a', '2001:db8::/32'] }").substr(0, 68),
            "f:4:27: error: '2001:db8::/32' is a network, and 'path' is compared ");
  EXPECT_EQ(errors_of("{ header.x: '~10\\.0\\.0\\.0/8' }"), "ok");
  EXPECT_EQ(errors_of("{ header.x: 10.0.0.1, path: /10.0.0.0/8 }"), "ok");
}

TEST(Match, RefusesNetworksThatAreWrong) {
  EXPECT_EQ(errors_of("{ ip: [10.0.0.0/8, 10.0.0.1/8] }"),
            "f:4:31: error: the network '10.0.0.1/8' has bits after its prefix; expected "
            "'10.0.0.0/8'");
  EXPECT_EQ(errors_of("{ a: { network: 10.0.0.1/8 } }"),
            "f:4:28: error: the network '10.0.0.1/8' has bits after its prefix; expected "
            "'10.0.0.0/8'");
  EXPECT_EQ(
      errors_of("{ ip: 10.0.0/8 }"),
      "f:4:18: error: '10.0.0/8' is not an address; expected an address or a network, such as "
      "192.0.2.0/24");
  EXPECT_EQ(errors_of("{ ip: 10.0.0.256 }").substr(0, 44),
            "f:4:18: error: '10.0.0.256' is not an addres");
  EXPECT_EQ(errors_of("{ a: { network: office } }").substr(0, 40),
            "f:4:28: error: 'office' is not an addres");
  EXPECT_EQ(
      errors_of("{ a: { netwrk: 10.0.0.0/8 } }"),
      "f:4:19: error: unknown key 'netwrk'; expected a pattern, a list of patterns, 'in: FILE' "
      "or 'network: [...]'; did you mean 'network'?");
  EXPECT_EQ(errors_of("{ a: { network: { network: '::1' } } }"),
            "f:4:30: error: unknown key 'network'; expected 'in: FILE'");
}

TEST(Match, NotRequiresThatNoConditionHolds) {
  const std::string match = "{ method: GET, not: { path: /health, ip: 10.0.0.0/8 } }";
  EXPECT_TRUE(matches(match, {{"method", "GET"}, {"path", "/a"}, {"ip", "192.0.2.1"}}));
  EXPECT_FALSE(matches(match, {{"method", "GET"}, {"path", "/health"}, {"ip", "192.0.2.1"}}));
  EXPECT_FALSE(matches(match, {{"method", "GET"}, {"path", "/a"}, {"ip", "10.0.0.1"}}));
  EXPECT_FALSE(matches(match, {{"method", "GET"}, {"path", "/health"}, {"ip", "10.0.0.1"}}));
  EXPECT_FALSE(matches(match, {{"method", "PUT"}, {"path", "/a"}, {"ip", "192.0.2.1"}}));
  EXPECT_TRUE(matches(match, {{"method", "GET"}})) << "an absent attribute matches nothing";
  EXPECT_TRUE(matches("{ a: x*, not: { a: [xy, xz] } }", {{"a", "x1"}}));
  EXPECT_FALSE(matches("{ a: x*, not: { a: [xy, xz] } }", {{"a", "xz"}}));
}

TEST(Match, NotIsAMap) {
  EXPECT_EQ(errors_of("{ not: /health }"),
            "f:4:19: error: 'not' is '/health'; expected a map of attributes and patterns, such as "
            "{ path: /health }");
  EXPECT_EQ(errors_of("{ not: {} }").substr(0, 36), "f:4:19: error: 'not' is an empty map");
}

class MatchLists : public ::testing::Test {
 protected:
  MatchLists() { fs::create_directories(folder_); }
  ~MatchLists() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  Expected<RuleSet, std::vector<RuleError>> load(const std::string& match) {
    write("rules.yaml", yaml_of(match));
    return RuleSet::load((folder_ / "rules.yaml").string());
  }
  // Returns the errors without the name of the folder.
  std::string errors_of(const std::string& match) {
    const auto rules = load(match);
    if (rules) return "ok";
    std::string lines = lines_of(rules.error());
    const std::string prefix = folder_.string() + "/";
    for (auto at = lines.find(prefix); at != lines.npos; at = lines.find(prefix)) {
      lines.erase(at, prefix.size());
    }
    return lines;
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("sluice-match-" + std::to_string(::getpid()));
};

TEST_F(MatchLists, ReadNetworksAndAddresses) {
  write("office.txt",
        "\xEF\xBB\xBF# the office\n10.0.0.0/8\r\n\n  192.0.2.1 # the door\n2001:db8::/32");
  for (const char* match : {"{ ip: { in: office.txt } }", "{ ip: ['::1', in: office.txt] }",
                            "{ ip: { network: { in: office.txt } } }"}) {
    const auto rules = load(match);
    ASSERT_TRUE(rules) << lines_of(rules.error());
    for (const char* ip : {"10.1.2.3", "192.0.2.1", "2001:db8::1"}) {
      EXPECT_TRUE(matches(*rules, {{"ip", ip}})) << match << ip;
    }
    EXPECT_FALSE(matches(*rules, {{"ip", "192.0.2.2"}})) << match;
  }
  EXPECT_EQ(errors_of("{ header.x: { network: [{ in: office.txt }] } }"), "ok");
  EXPECT_EQ(errors_of("{ not: { ip: { in: office.txt } } }"), "ok");
}

TEST_F(MatchLists, CompareTextsOfOtherAttributesExactly) {
  write("users.txt", "anna\n# nobody\nbo b\t\nc#d\n*\n\n");
  const auto rules = load("{ header.x-user: { in: users.txt } }");
  ASSERT_TRUE(rules) << lines_of(rules.error());
  for (const char* user : {"anna", "bo b", "c#d", "*"}) {
    EXPECT_TRUE(matches(*rules, {{"header.x-user", user}})) << user;
  }
  for (const char* user : {"Anna", "bo", "c", "# nobody", "", "any"}) {
    EXPECT_FALSE(matches(*rules, {{"header.x-user", user}})) << user;
  }
}

TEST_F(MatchLists, NameTheBadLineOfALongList) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) {
    text += i == 154'321 ? "  10.0.0.1/8\n" : std::to_string(i % 200 + 11) + ".0.0.0/8\n";
  }
  write("big.txt", text);
  EXPECT_EQ(errors_of("{ ip: { in: big.txt } }"),
            "big.txt:154322:3: error: the network '10.0.0.1/8' has bits after its prefix; expected "
            "'10.0.0.0/8'");
}

TEST_F(MatchLists, RefuseBadLines) {
  write("l.txt", "10.0.0.0/8 10.0.0.1\n10.0.0\nok\x01\n");
  EXPECT_EQ(
      errors_of("{ ip: { in: l.txt } }"),
      "l.txt:1:1: error: the network '10.0.0.0/8 10.0.0.1' is wrong; expected '10.0.0.0/' and "
      "a number from 0 to 32\n"
      "l.txt:2:1: error: '10.0.0' is not an address; expected an address or a network, such "
      "as 192.0.2.0/24\n"
      "l.txt:3:1: error: a control character in 'ok\\x01'; expected one entry in each line");
  write("l.txt", "anna\n10.0.0.0/8\n");
  EXPECT_EQ(errors_of("{ a: { in: l.txt } }"),
            "l.txt:2:1: error: '10.0.0.0/8' is a network, and the attribute is compared as text; "
            "expected 'network: { in: FILE }' below the attribute, or 'ip'");
  write("l.txt", std::string(3'000'000, 'x') + "\nok\n");
  EXPECT_EQ(errors_of("{ a: { in: l.txt } }"),
            "l.txt:1:1: error: an entry of over 4096 bytes; expected one entry in each line");
  std::string many;
  for (int i = 0; i < 150; ++i) many += "x\n";
  write("l.txt", many);
  EXPECT_TRUE(errors_of("{ ip: { in: l.txt } }").ends_with("(and 50 more errors in this list)"));
}

TEST_F(MatchLists, NeedAFileThatCanBeRead) {
  EXPECT_EQ(errors_of("{ ip: { in: absent.txt } }"),
            "rules.yaml:4:24: error: the list 'absent.txt' cannot be read: No such file or "
            "directory; expected the path of a file, relative to the folder of the rules file");
  fs::create_directories(folder_ / "d");
  EXPECT_EQ(errors_of("{ ip: { in: d } }").substr(0, 72),
            "rules.yaml:4:24: error: the list 'd' cannot be read: it is no regular fi");
  EXPECT_EQ(errors_of("{ ip: { in: [a] } }"),
            "rules.yaml:4:24: error: 'in' is a list; expected the path of a file");
}

TEST_F(MatchLists, AreNotReadForRulesFromElsewhere) {
  EXPECT_EQ(match_test::errors_of("{ ip: { in: /etc/passwd } }"),
            "f:4:24: error: 'in' names a file, and these rules were not read from a file; expected "
            "the entries themselves, as a list");
}

}  // namespace
}  // namespace sluice::match_test
