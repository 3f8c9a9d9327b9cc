#include "rules/fields.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace sluice::rules {
namespace {

using schema::Key;
using schema::Type;

constexpr std::array<std::string_view, 3> kColours{"red", "green", "blue"};
enum class Colour { kRed, kGreen, kBlue };

constexpr std::array<Key, 2> kInnerKeys{
    {{.name = "size", .type = Type::kInteger, .required = true, .least = 1, .most = 9},
     {.name = "note", .type = Type::kText, .most = 4}}};
constexpr schema::Map kInner{"shape", "each of `shapes`", kInnerKeys};
constexpr std::array<Key, 8> kKeys{
    {{.name = "count", .type = Type::kInteger, .least = 1, .most = 1000},
     {.name = "colour", .type = Type::kChoice, .values = kColours},
     {.name = "on", .type = Type::kFlag},
     {.name = "per", .type = Type::kPeriod, .least = 1, .most = 60'000},
     {.name = "names", .type = Type::kTexts, .least = 1, .most = 5},
     {.name = "password", .type = Type::kInteger, .least = 1, .most = 9, .is_secret = true},
     {.name = "shapes", .type = Type::kList, .least = 1, .most = 2, .map = &kInner},
     {.name = "body", .type = Type::kText, .most = 100}}};
constexpr schema::Map kMap{"drawing", "the file", kKeys};

// Reads a text by a schema and keeps what the fields borrow.
class Reading {
 public:
  explicit Reading(std::string_view yaml, const schema::Map& map = kMap)
      : diagnostics_(yaml, "f"),
        document_(read_yaml(diagnostics_)),
        fields_(Fields::read(*document_.root, map, diagnostics_)) {}

  const Fields& fields() const { return fields_; }
  // Every error on its own line, or "ok".
  std::string errors() {
    std::string out = diagnostics_.empty() ? "ok" : "";
    for (const RuleError& error :
         diagnostics_.empty() ? std::vector<RuleError>{} : diagnostics_.take()) {
      out.append(out.empty() ? "" : "\n").append(error.to_string());
    }
    return out;
  }

 private:
  Diagnostics diagnostics_;
  Document document_;
  Fields fields_;
};

TEST(Fields, ReturnsEachValueByItsType) {
  Reading reading(
      "count: 1000\ncolour: blue\non: true\nper: 1m\nnames: [ann, bob]\nbody: \"a\\nb\"\n");
  ASSERT_EQ(reading.errors(), "ok");
  const Fields& fields = reading.fields();
  EXPECT_EQ(fields.integer("count"), 1000u);
  EXPECT_EQ(fields.choice<Colour>("colour"), Colour::kBlue);
  EXPECT_EQ(fields.flag("on"), true);
  EXPECT_EQ(fields.period("per"), Duration{std::chrono::minutes{1}});
  ASSERT_EQ(texts_of(*fields.node("names")).size(), 2u);
  EXPECT_EQ(texts_of(*fields.node("names"))[1]->text, "bob");
  EXPECT_EQ(fields.text("body"), "a\nb");
}

TEST(Fields, ReturnsNothingForAbsentKeys) {
  Reading reading("count: 1\n");
  ASSERT_EQ(reading.errors(), "ok");
  const Fields& fields = reading.fields();
  EXPECT_EQ(fields.node("colour"), nullptr);
  EXPECT_FALSE(fields.choice<Colour>("colour"));
  EXPECT_FALSE(fields.flag("on"));
  EXPECT_FALSE(fields.period("per"));
  EXPECT_FALSE(fields.integer("password"));
  EXPECT_EQ(fields.node("names"), nullptr);
  EXPECT_EQ(fields.text("body"), "");
}

TEST(Fields, ReadsOneTextAsAListOfOne) {
  Reading reading("names: ann\n");
  ASSERT_EQ(reading.errors(), "ok");
  ASSERT_EQ(texts_of(*reading.fields().node("names")).size(), 1u);
  EXPECT_EQ(texts_of(*reading.fields().node("names"))[0]->text, "ann");
}

TEST(Fields, ReportsAWrongValueWithItsPositionAndARightOne) {
  EXPECT_EQ(Reading("on: true\ncount: 1001\n").errors(),
            "f:2:8: error: 'count' is '1001'; expected a whole number from 1 to 1000");
  EXPECT_EQ(Reading("count: \"10\"\n").errors(),
            "f:1:8: error: 'count' is the text '10'; expected a whole number from 1 to 1000 "
            "without quotes");
  EXPECT_EQ(Reading("count: 1e2\n").errors(),
            "f:1:8: error: 'count' is '1e2'; expected a whole number from 1 to 1000, in plain "
            "digits");
  EXPECT_EQ(Reading("count: [1]\n").errors(),
            "f:1:8: error: 'count' is a list; expected a whole number from 1 to 1000");
  EXPECT_EQ(Reading("on: maybe\n").errors(),
            "f:1:5: error: 'on' is 'maybe'; expected true or false");
}

TEST(Fields, SuggestsTheNearestChoiceAndTheNearestKey) {
  EXPECT_EQ(Reading("colour: gren\n").errors(),
            "f:1:9: error: 'colour' is 'gren'; expected red, green or blue; did you mean 'green'?");
  EXPECT_EQ(Reading("cuont: 1\n").errors(),
            "f:1:1: error: unknown key 'cuont'; expected one of: count, colour, on, per, names, "
            "password, shapes, body; did you mean 'count'?");
  EXPECT_TRUE(Reading("count：1: \n")
                  .errors()
                  .ends_with("body; did you mean ':' instead of the full-width '：'?"));
}

TEST(Fields, TreatsAWrongValueAsAbsentAndKeepsItsPosition) {
  Reading reading("on: true\ncount: 0\n");
  EXPECT_FALSE(reading.fields().integer("count"));
  EXPECT_EQ(reading.fields().at("count"), 16u);
  EXPECT_EQ(reading.fields().at("colour"), 0u);  // of the map
}

TEST(Fields, ReportsEachMissingKey) {
  EXPECT_EQ(Reading("note: a\n", kInner).errors(),
            "f:1:1: error: shape lacks 'size'; expected 'size:' with a whole number from 1 to 9");
}

TEST(Fields, RefusesAPeriodOutsideItsBounds) {
  EXPECT_NE(Reading("per: 61s\n").errors(), "ok");
  EXPECT_NE(Reading("per: soon\n").errors(), "ok");
  EXPECT_EQ(Reading("per: 60s\n").errors(), "ok");
}

TEST(Fields, CountsTheItemsOfAList) {
  EXPECT_EQ(Reading("shapes: []\n").errors(),
            "f:1:9: error: 'shapes' has 0 items; expected 1 to 2");
  Reading reading("shapes: [{size: 1}, {size: 2}, {size: 3}]\n");
  EXPECT_EQ(reading.errors(), "f:1:9: error: 'shapes' has 3 items; expected 1 to 2");
  // The items are still readable, so that their errors are found in the same run.
  ASSERT_NE(reading.fields().node("shapes"), nullptr);
  EXPECT_EQ(reading.fields().node("shapes")->items.size(), 3u);
}

TEST(Fields, RefusesControlCharactersExceptInABody) {
  EXPECT_NE(Reading("names: \"a\\tb\"\n").errors().find("without control characters"),
            std::string::npos);
  EXPECT_EQ(Reading("body: \"a\\tb\"\n").errors(), "ok");
}

TEST(Fields, DoesNotRepeatASecretInItsMessage) {
  const std::string errors = Reading("password: 12345\n").errors();
  EXPECT_EQ(errors, "f:1:11: error: 'password' is not valid; expected a whole number from 1 to 9");
}

TEST(Fields, RefusesAListInPlaceOfTheMap) {
  EXPECT_EQ(Reading("- size: 1\n", kInner).errors(),
            "f:1:1: error: shape is a list; expected a map; its keys are one of: size, note");
}

TEST(WholeNumber, AcceptsPlainDigitsUpTo64Bits) {
  EXPECT_EQ(grouped_number("500_000_000"), 500'000'000u);
  for (const std::string_view text : {"", "_", "_5", "5_", "5__0", "0_1", "5_000.0"}) {
    EXPECT_FALSE(grouped_number(text)) << text;
  }
  EXPECT_EQ(whole_number("0"), 0u);
  EXPECT_EQ(whole_number("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  for (const std::string_view text :
       {"", "-1", "+1", "01", "00", "1.0", "1e3", "0x10", " 1", "1 ", "18446744073709551616"}) {
    EXPECT_FALSE(whole_number(text)) << text;
  }
}

}  // namespace
}  // namespace sluice::rules
