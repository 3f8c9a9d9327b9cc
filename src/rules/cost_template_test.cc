#include "rules/cost_template.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rules/rule_set.h"
#include "sluice/rule_set.h"

namespace sluice::rules::cost_template_test {
namespace {

// Returns "AT: MESSAGE", or "ok".
std::string error_of(std::string_view text) {
  AttributeTable table;
  const auto cost = CostTemplate::compile(text, table);
  return cost ? "ok" : std::to_string(cost.error().at) + ": " + cost.error().message;
}

// Returns the units, "missing", "wrong ATTRIBUTE", "too large" or "no price".
std::string found(std::string_view text, const Attributes& request,
                  std::uint64_t most = kMaxUnits) {
  AttributeTable table;
  const auto prices =
      std::make_shared<PriceTable>(PriceTable{{"large", "small"}, {"in", "out"}, {3, 15, 1, 2}});
  const auto cost = CostTemplate::compile(text, table, prices->names);
  if (!cost) return cost.error().message;
  const PriceChoice price{KeyTemplate::compile("{model}", table).value(),
                          request.find("only") ? "" : "large", prices};
  AttributeValues values;
  values.begin(table, request);
  const auto found = cost->find(values, price, 0, most);
  if (!found && found.error() == CostTemplate::kTooLarge) return "too large";
  if (!found && found.error() == CostTemplate::kNoPrice) return "no price";
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
  EXPECT_EQ(attribute->kind(), CostTemplate::Kind::kComputed);
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

TEST(CostTemplate, AddsProducts) {
  EXPECT_EQ(found("{a|2} * 3 + {b|4} * 5", {{"a", "10"}}), "50");
  EXPECT_EQ(found("2*3+4", {}), "10");
  EXPECT_EQ(found("{a} + {b}", {{"a", "1"}}), "missing");
  EXPECT_EQ(found("{a} + {b|1}", {{"a", "1"}, {"b", "-1"}}), "wrong b");
  EXPECT_EQ(found("{a} * {b}", {{"a", "65536"}, {"b", "65535"}}), "4294901760");
  EXPECT_EQ(found("{a} * {b}", {{"a", "65536"}, {"b", "65536"}}), "too large");
}

TEST(CostTemplate, IsExactUpToItsBound) {
  constexpr std::uint64_t kMost = kMaxAmount;
  EXPECT_EQ(found("{a}", {{"a", "9007199254740991"}}, kMost), "9007199254740991");
  EXPECT_EQ(found("{a}", {{"a", "9007199254740992"}}, kMost), "wrong a");
  EXPECT_EQ(found("{a} + 1", {{"a", "9007199254740991"}}, kMost), "too large");
  EXPECT_EQ(found("{a} * {a} * {a} * 0 + 7", {{"a", "9007199254740991"}}, kMost), "7");
  EXPECT_EQ(found("{a} * {a} + {a} * {a}", {{"a", "9007199254740991"}}, kMost), "too large");
  EXPECT_EQ(found("{a} * 3 + 2", {{"a", "3002399751580329"}}, kMost), "9007199254740989");
}

TEST(CostTemplate, MultipliesWithThePricesOfTheModel) {
  const std::string_view text = "{in|0} * price.in + {out|100} * price.out";
  EXPECT_EQ(found(text, {{"model", "small"}, {"in", "7"}}), "207");
  EXPECT_EQ(found(text, {{"model", "large"}, {"in", "7"}, {"out", "1"}}), "36");
  EXPECT_EQ(found(text, {{"model", "other"}}), "1500") << "the default";
  EXPECT_EQ(found(text, {}), "1500") << "the default";
  EXPECT_EQ(found(text, {{"only", "1"}, {"model", "other"}}), "no price");
  EXPECT_EQ(found(text, {{"only", "1"}}), "missing");
}

TEST(CostTemplate, ReportsThePositionOfAMistake) {
  const std::string right =
      "; expected numbers, attributes such as {body.max_tokens|500} and price.NAME, joined by '*' "
      "and '+'";
  EXPECT_EQ(error_of("a {b}"), "0: 'a' outside of braces" + right);
  EXPECT_EQ(error_of("{a} b"), "4: text after a number" + right);
  EXPECT_EQ(error_of("{a}{b}"), "3: text after a number" + right);
  EXPECT_EQ(error_of("{a} - 1"), "4: text after a number" + right);
  EXPECT_EQ(error_of("{a} / 2"), "4: text after a number" + right);
  EXPECT_EQ(error_of("({a} + 1) * 2"), "0: '(' outside of braces" + right);
  EXPECT_EQ(error_of("{a} +"), "5: nothing at the end" + right);
  EXPECT_EQ(error_of("* {a}"), "0: '*' outside of braces" + right);
  EXPECT_EQ(error_of("{a} * 1.5"),
            "6: a number is '1.5'; expected a whole number from 0 to 9007199254740991");
  EXPECT_EQ(error_of("{a} * price.in"),
            "6: there is no price 'in'; expected 'prices:' in this file");
  EXPECT_EQ(error_of("{a"), "0: '{' without '}'" + right);
  EXPECT_EQ(error_of("{{a}}"), "0: '{' without '}'" + right);
  EXPECT_EQ(error_of("{a|5|6}"), "5: two defaults" + right);
  EXPECT_EQ(error_of("{a|5|b}"), "5: an attribute after the default" + right);
  EXPECT_EQ(error_of("{ip/64}"), "3: a cost has no address prefix" + right);
  EXPECT_EQ(error_of("{5}"),
            "1: a number without an attribute; expected an attribute before it, or "
            "the number without braces");
  for (const std::string wrong : {"-5", "+5", "5.5", "1e3", "9007199254740992", "05", "1,000"}) {
    EXPECT_EQ(
        error_of("{a|" + wrong + "}"),
        "3: the default is '" + wrong + "'; expected a whole number from 0 to 9007199254740991");
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
      "expected a whole number from 0 to 9007199254740991, request, or attributes such as "
      "\"{body.max_tokens|500}\", also in a sum of products";
  const auto wrong = [&](const std::string& found, const std::string& hint = "") {
    return "f:4:70: error: 'cost' is " + found + "; " + right + hint;
  };
  EXPECT_EQ(errors_of("cost: -1"), wrong("'-1'"));
  EXPECT_EQ(errors_of("cost: 1.5"), wrong("'1.5'"));
  EXPECT_EQ(errors_of("cost: 1e3"), wrong("'1e3'"));
  EXPECT_EQ(errors_of("cost: 9007199254740992"), wrong("'9007199254740992'"));
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
            "f:4:76: error: two defaults; expected numbers, attributes such as "
            "{body.max_tokens|500} and price.NAME, joined by '*' and '+'");
  EXPECT_EQ(errors_of("cost: \"{a\\0b}\""),
            "f:4:70: error: a control character in the attribute 'a\\x00b'; expected a name such "
            "as ip");
  EXPECT_EQ(errors_of("cost: '{a|-5}'"),
            "f:4:74: error: the default is '-5'; expected a whole number from 0 to "
            "9007199254740991");
}

TEST(RuleCostFiles, RefuseAConstantThatNoRequestCanCost) {
  const std::string wrong =
      "f:4:70: error: the cost is too large for fixed_window; expected at most 4294967295";
  EXPECT_EQ(errors_of("cost: 9007199254740991 * 2"), wrong);
  EXPECT_EQ(errors_of("cost: 9007199254740991 + 1"), wrong);
  EXPECT_EQ(errors_of("cost: 65536 * 65536"), wrong);
  EXPECT_EQ(errors_of("cost: 4294967296"), wrong);
  EXPECT_EQ(errors_of("cost: 65535 * 65537"), "ok");
}

// Prices.

constexpr const char* kPrices =
    "version: 1\nprices: { large: { in: 3, out: 15 }, small: { in: 1, out: 2 } }\nrules:\n";

std::string errors_with_prices(const std::string& keys, const std::string& file = kPrices) {
  const auto rules = RuleSet::parse(file + limit(keys), "f");
  if (rules) return rules->warnings().empty() ? "ok" : rules->warnings().front().to_string();
  std::string out;
  for (const RuleError& error : rules.error()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

TEST(RuleCostFiles, HavePricesOfModels) {
  EXPECT_EQ(errors_with_prices("cost: '{size|1} * price.in', price: { of: '{size}' }"), "ok");
  EXPECT_EQ(errors_with_prices("cost: '{size|1} * price.in'"),
            "f:5:70: error: the cost reads prices, and the limit lacks 'price'; expected 'price:' "
            "such as { of: \"{body.model}\", default: MODEL }");
  EXPECT_EQ(errors_with_prices("cost: '{size|1} * price.on', price: { of: '{size}' }"),
            "f:5:82: error: there is no price 'on'; expected one of: in or out; did you mean "
            "'in'?");
  EXPECT_EQ(errors_with_prices("cost: 'price.in', price: { of: '{size}', default: larg }"),
            "f:5:114: error: there are no prices of 'larg'; expected one of: large or small; did "
            "you mean 'large'?");
  EXPECT_EQ(errors_with_prices("cost: 'price.in', price: { of: 'x{size}' }"),
            "f:5:95: error: 'of' is the text 'x{size}'; expected one attribute, such as "
            "\"{body.model}\"");
  EXPECT_EQ(errors_with_prices("cost: 5, price: { of: '{size}' }"),
            "f:5:80: warning: the cost reads no price; expected price.NAME in 'cost'");
  std::vector<RuleError> warnings;
  const std::string misspelt =
      kPrices + limit("cost: 'price.inn', price: { of: 'b', default: large }");
  const RuleText file{misspelt, "f"};
  EXPECT_FALSE(load_rules({&file, 1}, {}, &warnings));
  for (const RuleError& warning : warnings) ADD_FAILURE() << warning.to_string();
}

TEST(RuleCostFiles, HavePricesOfPlans) {
  const auto of_plan = [](const std::string& prices, const std::string& cost) {
    const auto rules = RuleSet::parse(
        "version: 1\nprices: { large: { in: 3, out: 15 }, small: { in: 1, out: 2 } }\n"
        "plans:\n  pro: { a: { limit: 100, per: 1s, prices: " +
            prices + " } }\nrules:\n  - name: r\n    plan: { default: pro }\n" +
            "    limits: [ { name: a, algorithm: fixed_window, " + cost + " } ]\n",
        "f");
    if (!rules) return rules.error().front().to_string();
    return rules->warnings().empty() ? "ok" : rules->warnings().front().to_string();
  };
  const std::string cost = "cost: 'price.out * 5', price: { of: '{model}', default: large }";
  EXPECT_EQ(of_plan("{ large: { in: 2, out: 10 } }", cost), "ok");
  EXPECT_EQ(
      of_plan("{ large: { out: 21 } }", cost),
      "f:8:57: warning: the default cost of 105 exceeds the capacity of 100, so that requests "
      "without the attribute are denied; expected at most 100");
  EXPECT_EQ(of_plan("{ large: { in: 2 } }", cost),
            "f:4:44: error: the model 'large' of the plan 'pro' has no price 'out'; expected 'out' "
            "among its 'prices'");
  EXPECT_EQ(of_plan("{ larg: { in: 2, out: 10 } }", cost),
            "f:4:46: error: there are no prices of 'larg'; expected one of: large or small; did "
            "you mean 'large'?");
  EXPECT_EQ(of_plan("{ large: { out: 10, inn: 2 } }", cost),
            "f:4:64: error: there is no price 'inn'; expected one of: in or out; did you mean "
            "'in'?");
  EXPECT_EQ(of_plan("{ large: { out: 1.5 } }", cost),
            "f:4:60: error: the price 'out' is '1.5'; expected a whole number from 0 to "
            "9007199254740991");
  EXPECT_EQ(of_plan("{ large: { out: 10 } }", "cost: 5"),
            "f:4:44: warning: the cost of the limit 'a' of the rule 'r' reads no price; expected "
            "price.NAME in its 'cost'");
}

TEST(RuleCostFiles, SayWhoAvoidsALimitWithPrices) {
  EXPECT_EQ(errors_with_prices("cost: 'price.in', price: { of: '{body.model}' }"),
            "f:5:89: warning: a client avoids the limit 'r/0' by leaving out body.model; expected "
            "a 'default', 'on_missing: deny' if only programs ask (no gateway sends the body), or "
            "'trusted' with what they set");
  EXPECT_EQ(errors_with_prices("cost: 'price.in', price: { of: '{body.model}', default: large }"),
            "ok");
  EXPECT_EQ(errors_with_prices("cost: 'price.in', price: { of: '{model}' }"), "ok");
  EXPECT_EQ(errors_with_prices("cost: 'price.in', price: { of: '{body.model}' }, on_missing: deny"),
            "ok");
}

TEST(RuleCostFiles, ReportWrongPrices) {
  const auto of = [](const std::string& prices) {
    return errors_with_prices("cost: 1", "version: 1\nprices: " + prices + "\nrules:\n");
  };
  EXPECT_EQ(of("{ a: { in: 9007199254740991 } }"), "ok");
  EXPECT_EQ(of("{ a: { in: 500_000 } }"), "ok");
  for (const std::string wrong : {"9007199254740992", "-1", "1.5", "1e9", "_1", "1__0"}) {
    EXPECT_EQ(of("{ a: { in: " + wrong + " } }"),
              "f:2:20: error: the price 'in' is '" + wrong +
                  "'; expected a whole number from 0 to 9007199254740991");
  }
  EXPECT_EQ(of("{ a: 5 }"),
            "f:2:14: error: the prices of 'a' are '5'; expected a map of names and numbers, such "
            "as { input: 3, output: 15 }");
  EXPECT_EQ(of("{ a: { 'i n': 5 } }"),
            "f:2:16: error: the name of a price is the text 'i n'; expected at most 32 names of 1 "
            "to 64 letters, digits, '_' and '-'");
  EXPECT_EQ(
      errors_with_prices("cost: '{size|1} * price.out', price: { of: '{size}' }",
                         "version: 1\nprices: { a: { in: 1, out: 2 }, b: { in: 2 } }\nrules:\n"),
      "f:5:70: error: the model 'b' has no price 'out'; expected 'out' among its 'prices'");
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
