#include "rules/cost_template.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/rule_set.h"

namespace sluice::rules::cost_template_test {
namespace {

// Returns "AT: MESSAGE", or "ok".
std::string error_of(std::string_view text) {
  AttributeTable table;
  const auto cost = CostTemplate::compile(text, table);
  return cost ? "ok" : std::to_string(cost.error().at) + ": " + cost.error().message;
}

// Returns the units, "missing", or "wrong ATTRIBUTE".
std::string found(std::string_view text, const Attributes& request) {
  AttributeTable table;
  const auto cost = CostTemplate::compile(text, table);
  if (!cost) return cost.error().message;
  AttributeValues values;
  values.begin(table, request);
  const auto found = cost->find(values);
  if (!found) return "wrong " + table.names()[found.error()];
  return *found ? std::to_string(**found) : "missing";
}

TEST(CostTemplate, IsANumberTheNumberOfTheRequestOrAnAttribute) {
  AttributeTable table;
  EXPECT_EQ(CostTemplate().kind(), CostTemplate::Kind::kUnset);
  EXPECT_EQ(CostTemplate::compile("request", table)->kind(), CostTemplate::Kind::kRequest);
  const auto most = CostTemplate::compile("4294967295", table);
  EXPECT_EQ(most->kind(), CostTemplate::Kind::kUnits);
  EXPECT_EQ(most->units(), 4294967295u);
  const auto attribute = CostTemplate::compile("{header.X-Units|500}", table);
  EXPECT_EQ(attribute->kind(), CostTemplate::Kind::kAttribute);
  EXPECT_EQ(attribute->units(), 500u);
  EXPECT_EQ(table.names(), std::vector<std::string>{"header.x-units"});
}

TEST(CostTemplate, ReadsTheFirstAttributeThatIsPresentElseTheDefault) {
  EXPECT_EQ(found("{a}", {{"a", "0"}}), "0");
  EXPECT_EQ(found("{a}", {{"a", "4294967295"}}), "4294967295");
  EXPECT_EQ(found("{a|b|7}", {{"a", ""}, {"b", "3"}}), "3");
  EXPECT_EQ(found("{a|b|7}", {}), "7");
  EXPECT_EQ(found("{a|7}", {{"a", ""}}), "7") << "empty counts as absent";
  EXPECT_EQ(found("{a|b}", {}), "missing");
}

TEST(CostTemplate, RefusesValuesThatAreNoNumberOfUnits) {
  for (const std::string value : {"x", "-1", "+1", "1.5", "1e3", " 1", "1 ", "01", "0x10",
                                  "4294967296", "99999999999999999999", "1,000"}) {
    EXPECT_EQ(found("{a|b|7}", {{"b", value}}), "wrong b") << value;
  }
  EXPECT_EQ(found("{a|7}", {{"a", std::string_view("1\0", 2)}}), "wrong a");
}

TEST(CostTemplate, ReportsThePositionOfAMistake) {
  const std::string right =
      "; expected one attribute and its default, such as {body.max_tokens|500}";
  EXPECT_EQ(error_of("a {b}"), "0: text outside of the braces" + right);
  EXPECT_EQ(error_of("{a} b"), "3: text outside of the braces" + right);
  EXPECT_EQ(error_of("{a}{b}"), "3: text outside of the braces" + right);
  EXPECT_EQ(error_of("{a"), "0: '{' without '}'" + right);
  EXPECT_EQ(error_of("{{a}}"), "0: '{' without '}'" + right);
  EXPECT_EQ(error_of("{a|5|6}"), "5: two defaults" + right);
  EXPECT_EQ(error_of("{a|5|b}"), "5: an attribute after the default" + right);
  EXPECT_EQ(error_of("{ip/64}"), "3: a cost has no address prefix" + right);
  EXPECT_EQ(error_of("{5}"),
            "1: a number without an attribute; expected an attribute before it, or "
            "the number without braces");
  for (const std::string wrong : {"-5", "+5", "5.5", "1e3", "4294967296", "05", "1,000"}) {
    EXPECT_EQ(error_of("{a|" + wrong + "}"),
              "3: the default is '" + wrong + "'; expected a whole number from 0 to 4294967295");
  }
  EXPECT_EQ(error_of("{}"),
            "1: an attribute without a name; expected one such as ip or header.host");
  EXPECT_EQ(error_of("{a|}"),
            "3: an attribute without a name; expected one such as ip or header.host");
  EXPECT_EQ(error_of(std::string_view("{a\0b}", 5)),
            "1: a control character in the attribute 'a\\x00b'; expected a name such as ip");
}

// Files.

constexpr const char* kNumbers = "algorithm: fixed_window, limit: 1000, per: 1h";

Expected<RuleSet, std::vector<RuleError>> load(const std::string& rules) {
  return RuleSet::parse("version: 1\nrules:\n" + rules, "f");
}

// A rule with a limit of these keys after its numbers. The first is in line 4, column 64.
std::string limit(const std::string& keys) {
  return "  - name: r\n    limits: [ { " + std::string(kNumbers) + ", " + keys + " } ]\n";
}

std::string errors_of(const std::string& keys) {
  const auto rules = load(limit(keys));
  if (rules) return "ok";
  std::string out;
  for (const RuleError& error : rules.error()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

TEST(RuleCostFiles, KeepTheCostAsItIsWritten) {
  const auto rules = load(limit("cost: 7") + limit("cost: request").replace(10, 1, "s") +
                          limit("cost: '{a|5}'").replace(10, 1, "t"));
  ASSERT_TRUE(rules) << rules.error().front().to_string();
  EXPECT_EQ(rules->rules()[0].limits[0].cost, "7");
  EXPECT_EQ(rules->rules()[1].limits[0].cost, "request");
  EXPECT_EQ(rules->rules()[2].limits[0].cost, "{a|5}");
}

TEST(RuleCostFiles, ReportThePositionOfAWrongCost) {
  const std::string right =
      "expected a whole number from 0 to 4294967295, request, or an attribute such as "
      "\"{body.max_tokens|500}\"";
  const auto wrong = [&](const std::string& found, const std::string& hint = "") {
    return "f:4:70: error: 'cost' is " + found + "; " + right + hint;
  };
  EXPECT_EQ(errors_of("cost: -1"), wrong("'-1'"));
  EXPECT_EQ(errors_of("cost: 1.5"), wrong("'1.5'"));
  EXPECT_EQ(errors_of("cost: 1e3"), wrong("'1e3'"));
  EXPECT_EQ(errors_of("cost: 4294967296"), wrong("'4294967296'"));
  EXPECT_EQ(errors_of("cost: '5'"), wrong("the text '5'", "; a number is without quotes"));
  EXPECT_EQ(errors_of("cost: body.max_tokens"), wrong("'body.max_tokens'"));
  EXPECT_EQ(errors_of("cost: Request"), wrong("'Request'"));
  EXPECT_EQ(errors_of("cost: ~").substr(0, 32), "f:4:64: error: 'cost' is nothing");
  EXPECT_EQ(errors_of("cost: [1]"), wrong("a list"));
  EXPECT_EQ(errors_of("cost: {a: b}"), wrong("a map", ", in quotes"));
  EXPECT_EQ(errors_of("cost: \"\\0\""), wrong("the text '\\x00'"));
  const std::string long_one(1100, 'a');
  EXPECT_NE(errors_of("cost: '{" + long_one + "}'"), "ok");
}

TEST(RuleCostFiles, PointIntoTheAttribute) {
  EXPECT_EQ(errors_of("cost: '{a|5|6}'"),
            "f:4:76: error: two defaults; expected one attribute and its default, such as "
            "{body.max_tokens|500}");
  EXPECT_EQ(errors_of("cost: \"{a\\0b}\""),
            "f:4:70: error: a control character in the attribute 'a\\x00b'; expected a name such "
            "as ip");
  EXPECT_EQ(errors_of("cost: '{a|-5}'"),
            "f:4:74: error: the default is '-5'; expected a whole number from 0 to 4294967295");
}

TEST(RuleCostFiles, WarnOfACostThatIsNeverAdmitted) {
  const auto rules = load(limit("cost: 1001") + limit("cost: '{a|2000}'").replace(10, 1, "s") +
                          limit("cost: 1000").replace(10, 1, "t"));
  ASSERT_TRUE(rules);
  ASSERT_EQ(rules->warnings().size(), 4u) << "two of the rules are also never reached";
  EXPECT_EQ(
      rules->warnings()[0].to_string(),
      "f:4:70: warning: a cost of 1001 exceeds the capacity of 1000, so that every request is "
      "denied; expected at most 1000");
  EXPECT_EQ(rules->warnings()[2].to_string(),
            "f:6:70: warning: the default cost of 2000 exceeds the capacity of 1000, so that "
            "requests without the attribute are denied; expected at most 1000");
}

}  // namespace
}  // namespace sluice::rules::cost_template_test
