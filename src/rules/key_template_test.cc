#include "rules/key_template.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "rules/counter_key.h"
#include "rules/rule_set.h"

namespace sluice::rules {
namespace {

// A template and the attributes that it reads, filled in for one request.
struct Filled {
  bool present = false;
  std::string key;
  std::string label;
};

Filled fill(std::string_view text, const AttributeSource& attributes, std::string prefix = "") {
  AttributeTable table;
  auto compiled = KeyTemplate::compile(text, table);
  if (!compiled) {
    ADD_FAILURE() << text << ": " << compiled.error().message;
    return {};
  }
  AttributeValues values;
  values.begin(table, attributes);
  std::string out = std::move(prefix);
  std::string scratch = "left over";
  std::size_t end = 0;
  const auto label = compiled->fill(values, out, end, scratch);
  if (!label) return {};
  return {true, out.substr(0, end), out.substr(*label)};
}

std::string error_of(std::string_view text) {
  AttributeTable table;
  const auto compiled = KeyTemplate::compile(text, table);
  if (compiled) return "none";
  return std::to_string(compiled.error().at) + ": " + compiled.error().message;
}

TEST(KeyTemplate, FillsInAttributes) {
  const Attributes request{{"ip", "192.0.2.1"}, {"path", "/a"}};
  EXPECT_EQ(fill("{ip}", request).label, "192.0.2.1");
  EXPECT_EQ(fill("{ip}", request, "d|r|l").key, "d|r|l|ip=192.0.2.1");
  EXPECT_EQ(fill("{path} of {ip}!", request).label, "/a of 192.0.2.1!");
  EXPECT_EQ(fill("{path} of {ip}!", request).key, "|path=/a| of |ip=192.0.2.1|!");
}

TEST(KeyTemplate, WithoutAttributesIsItsText) {
  EXPECT_EQ(fill("", Attributes{}, "p").key, "p");
  EXPECT_EQ(fill("", Attributes{}, "p").label, "");
  EXPECT_EQ(fill("all", Attributes{}).label, "all");
  EXPECT_EQ(fill("{{a}}", Attributes{}).label, "{a}");
  EXPECT_EQ(fill("{{{ip}}}", Attributes{{"ip", "x"}}).label, "{x}");
}

TEST(KeyTemplate, FallsBackToTheNextThatIsThere) {
  const std::string_view text = "{header.X-User|cookie.id|ip}";
  EXPECT_EQ(fill(text, Attributes{{"header.x-user", "u"}, {"ip", "i"}}).key, "|header.x-user=u");
  EXPECT_EQ(fill(text, Attributes{{"cookie.id", "u"}, {"ip", "i"}}).key, "|cookie.id=u");
  EXPECT_EQ(fill(text, Attributes{{"ip", "i"}}).key, "|ip=i");
  EXPECT_FALSE(fill(text, Attributes{{"host", "i"}}).present);
}

TEST(KeyTemplate, TakesAnEmptyValueForMissing) {
  EXPECT_FALSE(fill("{ip}", Attributes{{"ip", ""}}).present);
  EXPECT_EQ(fill("{header.x|ip}", Attributes{{"header.x", ""}, {"ip", "i"}}).label, "i");
}

TEST(KeyTemplate, GroupsAddressesByNetwork) {
  const Attributes v4{{"ip", "192.0.2.77"}};
  const Attributes v6{{"ip", "2001:db8::1"}};
  EXPECT_EQ(fill("{ip/64}", v6).key, "|ip/64=2001:db8::/64");
  EXPECT_EQ(fill("{ip/64}", v4).label, "192.0.2.77");
  EXPECT_EQ(fill("{ip/24/48}", v4).key, "|ip/24/48=192.0.2.0/24");
  EXPECT_EQ(fill("{ip/24/48}", v6).label, "2001:db8::/48");
  EXPECT_EQ(fill("{header.x|ip/64}", v6).label, "2001:db8::/64");
  EXPECT_EQ(fill("{ip/64}", Attributes{{"ip", "2001:DB8:0::1"}}).label, "2001:db8::/64");
  const Attributes mapped{{"ip", "::ffff:192.0.2.77"}};
  EXPECT_EQ(fill("{ip/64}", mapped).label, "192.0.2.77");
  EXPECT_EQ(fill("{ip/24/64}", mapped).label, "192.0.2.0/24");
  EXPECT_EQ(fill("{ip}", mapped).label, "::ffff:192.0.2.77") << "front ends write it as IPv4";
}

TEST(KeyTemplate, KeepsTextThatIsNotAnAddressAndDistinguishesItFromNetworks) {
  EXPECT_EQ(fill("{ip/64}", Attributes{{"ip", "2001:db8::/64"}}).key, "|ip=2001:db8::/64");
  EXPECT_EQ(fill("{ip/64}", Attributes{{"ip", "2001:db8::1"}}).key, "|ip/64=2001:db8::/64");
}

TEST(KeyTemplate, ShowsTheValueAndStoresItEscaped) {
  const Filled filled = fill("{a}", Attributes{{"a", "x|y%z\n{t}="}});
  EXPECT_EQ(filled.key, "|a=x%7Cy%25z%0A%7Bt%7D=");
  EXPECT_EQ(filled.label, "x|y%z\n{t}=");
}

TEST(KeyTemplate, ReportsThePositionOfAnErrorAndTheCorrectSyntax) {
  EXPECT_EQ(error_of("a{ip"),
            "1: '{' without '}'; expected {ATTRIBUTE}, or '{{' for the character itself");
  EXPECT_EQ(error_of("{a{b}"),
            "0: '{' without '}'; expected {ATTRIBUTE}, or '{{' for the character itself");
  EXPECT_EQ(error_of("a}"), "1: '}' without '{'; expected '}}' for the character itself");
  EXPECT_EQ(error_of("{}"),
            "1: an attribute without a name; expected one such as ip or header.host");
  EXPECT_EQ(error_of("{ip|}"),
            "4: an attribute without a name; expected one such as ip or header.host");
  EXPECT_EQ(error_of("{|ip}"),
            "1: an attribute without a name; expected one such as ip or header.host");
  EXPECT_EQ(error_of("{header.}"), "1: 'header.' lacks its name; expected header.NAME");
  EXPECT_EQ(error_of("{a| ip}"), "3: a space next to the attribute ' ip'; expected the name alone");
  EXPECT_EQ(error_of("{ip/24}"),
            "3: '/24' could mean IPv4 or IPv6; expected both, such as /24/64, or more than 32 bits "
            "for IPv6 alone");
}

TEST(KeyTemplate, RefusesInvalidPrefixes) {
  for (const char* text : {"{ip/}", "{ip/x}", "{ip/129}", "{ip/33/64}", "{ip/24/129}", "{ip/24/}",
                           "{ip//64}", "{ip/24/64/1}", "{ip/-1}", "{ip/0x40}", "{ip/9999999999}"}) {
    EXPECT_NE(error_of(text).find("is not an address prefix; expected /64"), std::string::npos)
        << text << " " << error_of(text);
  }
}

// Reads a key back: the parts between bars, each a name and a value, or a text alone.
using Parts = std::vector<std::pair<std::string, std::optional<std::string>>>;

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

Parts read_back(std::string_view key) {
  Parts parts;
  for (;;) {
    const std::size_t bar = key.find('|');
    const std::string_view part = key.substr(0, bar);
    const std::size_t equals = part.find('=');
    parts.emplace_back(unescaped(part.substr(0, equals)), std::nullopt);
    if (equals != part.npos) parts.back().second = unescaped(part.substr(equals + 1));
    if (bar == key.npos) return parts;
    key.remove_prefix(bar + 1);
  }
}

// Texts in which the characters of the grammar are frequent.
rc::Gen<std::string> nasty_text() {
  const auto special = rc::gen::elementOf(std::string("|=%{}/7CD\n\0a", 12));
  return rc::gen::container<std::string>(rc::gen::oneOf(special, rc::gen::arbitrary<char>()));
}

std::string doubled_braces(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '{' || c == '}' ? 2 : 1, c);
  return out;
}

TEST(CounterKey, ReadsBackInOneWayOnly) {
  const auto property = [] {
    const auto domain = *nasty_text();
    const auto rule = *nasty_text();
    const auto limit = *nasty_text();
    const auto text = *nasty_text();
    const auto first = *nasty_text();
    const auto second = *nasty_text();
    Attributes attributes{{"b", second}, {"c", "always"}};
    if (*rc::gen::arbitrary<bool>()) attributes.set("a", first);
    const bool has_first = !attributes.find("a").value_or("").empty();

    const auto filled = fill("{a|b|c}" + doubled_braces(text) + "{b|c}", attributes,
                             CounterKey{domain, rule, limit, {}}.text());
    RC_ASSERT(filled.present);
    const std::pair<std::string, std::optional<std::string>> b =
        second.empty() ? std::pair{"c", std::optional<std::string>("always")}
                       : std::pair{"b", std::optional<std::string>(second)};
    Parts expected{{domain, {}}, {rule, {}}, {limit, {}}};
    expected.push_back(has_first ? std::pair{"a", std::optional<std::string>(first)} : b);
    if (!text.empty()) expected.emplace_back(text, std::nullopt);
    expected.push_back(b);
    RC_ASSERT(read_back(filled.key) == expected);
    RC_ASSERT(filled.label == *expected[3].second + text + *b.second);
  };
  EXPECT_TRUE(rc::check("a key reads back", property));
}

std::string tag_of(std::string_view text, const AttributeSource& attributes) {
  AttributeTable table;
  const auto compiled = KeyTemplate::compile(text, table);
  if (!compiled) throw std::invalid_argument(compiled.error().message);
  AttributeValues values;
  values.begin(table, attributes);
  std::string out = "before|";
  compiled->fill_tag(values, out);
  return out.substr(7);
}

TEST(Tag, ContainsThePartsOfTheKeyAndTreatsMissingOnesAsEmpty) {
  const Attributes request{{"ip", "192.0.2.1"}, {"header.x-a", ""}};
  EXPECT_EQ(tag_of("", request), "");
  EXPECT_EQ(tag_of("all", request), "all");
  EXPECT_EQ(tag_of("{ip}", request), "ip=192.0.2.1");
  EXPECT_EQ(tag_of("{header.X-A|ip/24/64}", request), "ip/24/64=192.0.2.0/24");
  EXPECT_EQ(tag_of("{header.x-a}", request), "header.x-a=");
  EXPECT_EQ(tag_of("t {cookie.a|query.b}{ip}", request), "t |cookie.a=|ip=192.0.2.1");
}

TEST(Tag, ReadsBackInOneWayOnly) {
  const auto property = [] {
    const auto first = *nasty_text();
    const auto second = *nasty_text();
    const auto text = *nasty_text();
    Attributes attributes;
    if (*rc::gen::arbitrary<bool>()) attributes.set("a", first);
    if (*rc::gen::arbitrary<bool>()) attributes.set("b", second);
    const std::string a(attributes.find("a").value_or(""));
    const std::string b(attributes.find("b").value_or(""));
    const bool falls_back = a.empty() && !b.empty();
    Parts expected{falls_back ? std::pair{"b", std::optional(b)}
                              : std::pair{"a", std::optional(a)}};
    if (!text.empty()) expected.emplace_back(text, std::nullopt);
    expected.emplace_back("b", b);
    const std::string tag = tag_of("{a|b}" + doubled_braces(text) + "{b}", attributes);
    RC_ASSERT(read_back(tag) == expected);
  };
  EXPECT_TRUE(rc::check("a tag reads back", property));
}

TEST(CounterKey, HasNeitherBracesNorControlBytes) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  for (const auto append : {append_name, append_value}) {
    std::string out;
    EXPECT_TRUE(append(out, every));
    for (const char c : out) {
      EXPECT_FALSE(c == '{' || c == '}' || c == '|' || c == 0x7F ||
                   static_cast<unsigned char>(c) < 0x20);
    }
    EXPECT_EQ(unescaped(out), every);
  }
}

}  // namespace
}  // namespace sluice::rules
