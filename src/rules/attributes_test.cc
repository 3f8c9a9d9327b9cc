#include <gtest/gtest.h>

#include "rules/attributes.h"
#include "sluice/attributes.h"

namespace sluice {
namespace {

TEST(Attributes, FindsTheLastValue) {
  Attributes attributes{{"path", "/a"}, {"ip", ""}, {"path", "/b"}};
  EXPECT_EQ(attributes.find("path"), "/b");
  attributes.set("path", "/c");
  EXPECT_EQ(attributes.find("path"), "/c");
}

TEST(Attributes, DistinguishesAnEmptyValueFromNone) {
  const Attributes attributes{{"ip", ""}};
  EXPECT_EQ(attributes.find("ip"), "");
  EXPECT_EQ(attributes.find("host"), std::nullopt);
}

TEST(Attributes, OwnsItsNamesAndValues) {
  Attributes attributes;
  {
    const std::string name = "a name that is long enough for the heap";
    const std::string value = "a value that is long enough for the heap";
    attributes.set(name, value);
  }
  EXPECT_EQ(attributes.find("a name that is long enough for the heap"),
            "a value that is long enough for the heap");
}

TEST(AttributeTable, KnowsHeaderNamesInAnyCase) {
  rules::AttributeTable table;
  EXPECT_EQ(table.number("header.X-User"), table.number("header.x-user"));
  EXPECT_NE(table.number("query.X"), table.number("query.x"));
  EXPECT_EQ(table.names().front(), "header.x-user");
}

TEST(DidYouMeanAttribute, KnowsTheNamesOfNginx) {
  using rules::did_you_mean_attribute;
  for (const char* name : {"remote_addr", "binary_remote_addr", "ip_address", "client_ip"}) {
    EXPECT_EQ(did_you_mean_attribute(name), "; did you mean 'ip'?") << name;
  }
  EXPECT_EQ(did_you_mean_attribute("remote_user"), "; did you mean 'header.x-user-id'?");
  // What programs and Envoy send.
  for (const char* name : {"user", "remote_address"}) {
    EXPECT_EQ(did_you_mean_attribute(name), "") << name;
  }
}

// Counts how often it is asked.
class Counting final : public AttributeSource {
 public:
  std::optional<std::string_view> find(std::string_view) const override {
    ++asked;
    return std::nullopt;
  }
  mutable int asked = 0;
};

TEST(AttributeValues, AsksOnceForEachRequest) {
  rules::AttributeTable table;
  const auto number = table.number("ip");
  const Counting source;
  rules::AttributeValues values;
  values.begin(table, source);
  EXPECT_EQ(values.get(number), std::nullopt);
  EXPECT_EQ(values.get(number), std::nullopt);
  EXPECT_EQ(source.asked, 1);
  values.begin(table, source);
  EXPECT_EQ(values.get(number), std::nullopt);
  EXPECT_EQ(source.asked, 2);
}

TEST(AttributeNames, AreRefusedIfTheyCannotNameAnAttribute) {
  for (const char* name : {"", "header.", "query.", " ip", "ip ", "a\tb"}) {
    EXPECT_TRUE(rules::find_name_error(name).has_value()) << name;
  }
  for (const char* name : {"ip", "header.x", "generic key", "a/b", "路径"}) {
    EXPECT_FALSE(rules::find_name_error(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace sluice
