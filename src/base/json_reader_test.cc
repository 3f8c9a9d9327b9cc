#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "base/json_schema.h"

namespace sluice::base {
namespace {

// {"name":"a","count":1,"on":true,"tags":{"x":{"size":1}},"parts":[{"id":"p"}]}
struct Order {
  std::string_view name;
  std::optional<std::uint64_t> count;
  bool on = false;
  std::string seen;  // what was read of tags and parts

  bool begin_tag(const JsonValue& value, JsonProblem& problem) {
    if (seen.find(value.name) != seen.npos) return problem.is_twice(value.name);
    seen.append(value.name).append(":");
    return true;
  }
  bool set_size(const JsonValue& value, JsonProblem&) {
    seen += std::to_string(value.number) + " ";
    return true;
  }
  bool begin_part(const JsonValue&, JsonProblem& problem) {
    return seen.size() < 20 || problem.is_outer("too many", "expected fewer");
  }
  bool set_id(const JsonValue& value, JsonProblem& problem) {
    if (value.text == "no") return problem.is_value("'no'", "expected another id");
    seen.append(value.text).append(value.kind == kJsonText ? "; " : "#; ");
    return true;
  }
};

using Member = JsonMember<Order>;
using Object = JsonObject<Order>;

constexpr Member kOfTag[] = {
    {"size", kJsonWhole, "expected 0 to 9", json_into<&Order::set_size>, 9}};
constexpr Object kTag(kOfTag);
constexpr Member kOfTags[] = {{.kinds = kJsonObject,
                               .expected = "expected a tag",
                               .set = json_into<&Order::begin_tag>,
                               .object = &kTag}};
constexpr Object kTags(kOfTags, nullptr, true);
constexpr Member kOfPart[] = {{.name = "id",
                               .kinds = kJsonText | kJsonNumber,
                               .expected = "expected an id",
                               .set = json_into<&Order::set_id>,
                               .required = true}};
constexpr Object kInPart(kOfPart);
constexpr Member kPart{.kinds = kJsonObject,
                       .expected = "expected a part",
                       .set = json_into<&Order::begin_part>,
                       .object = &kInPart};
constexpr Member kOfOrder[] = {
    {"name", kJsonText, "expected a name", json_into<&Order::name>},
    {"count", kJsonWhole, "expected a number to 50", json_into<&Order::count>, 50},
    {"on", kJsonTrue, "expected true", json_into<&Order::on>},
    {.name = "tags", .kinds = kJsonObject, .expected = "expected tags", .object = &kTags},
    {.name = "parts", .kinds = kJsonArray, .expected = "expected parts", .each = &kPart}};
constexpr Object kInOrder(kOfOrder, [](Order& order, JsonProblem& problem) {
  return !order.on || order.count || problem.is_of("count", "is needed with 'on'", "expected it");
});
constexpr Member kOrder{.kinds = kJsonObject, .expected = "expected an order", .object = &kInOrder};

// "PLACE: MESSAGE", or what was read.
std::string read(std::string_view json) {
  // A copy of exact size, so that a sanitizer detects reads beyond its end.
  const std::unique_ptr<char[]> copy(new char[json.size()]);
  std::copy(json.begin(), json.end(), copy.get());
  static JsonReader<Order> reader;  // one document must not affect the next
  Order order;
  JsonProblem problem;
  if (!reader.read({copy.get(), json.size()}, kOrder, order, problem)) {
    return problem.place + ": " + problem.message();
  }
  return std::string(order.name) + "|" + (order.count ? std::to_string(*order.count) : "") + "|" +
         (order.on ? "on|" : "|") + order.seen;
}

std::string by_path(std::string_view json) {
  JsonReader<Order> reader;
  Order order;
  JsonProblem problem;
  EXPECT_FALSE(reader.read(json, kOrder, order, problem)) << json;
  return problem.message_by_path("no object");
}

TEST(JsonReader, ReadsByTheTable) {
  EXPECT_EQ(read("{}"), "|||");
  EXPECT_EQ(read(R"( {"parts":[{"id":"a"},{"id":-1.50e3}], "name":"b\u0000\n\u8bf7", "count":50,
                     "tags":{"x":{"size":9},"y":{}}, "on":true} )"),
            "b" + std::string(1, '\0') + "\n请|50|on|a; -1.50e3#; x:9 y:");
}

TEST(JsonReader, SaysWhereAValueIsWrong) {
  EXPECT_EQ(read("[]"), ": found an array; expected an order");
  EXPECT_EQ(read(R"({"name":1})"), "name: found a number; expected a name");
  EXPECT_EQ(read(R"({"name":{}})"), "name: found an object; expected a name");
  EXPECT_EQ(read(R"({"on":false})"), "on: found false; expected true");
  EXPECT_EQ(read(R"({"on":null})"), "on: found null; expected true");
  EXPECT_EQ(read(R"({"count":"1"})"), "count: found text; expected a number to 50");
  for (const std::string number : {"51", "-1", "1.0", "18446744073709551616"}) {
    EXPECT_EQ(read("{\"count\":" + number + "}"),
              "count: found " + number + "; expected a number to 50");
  }
  EXPECT_EQ(read(R"({"parts":[{"id":"a"},7]})"), "parts[1]: found a number; expected a part");
  EXPECT_EQ(read(R"({"parts":[{"id":"a"},{"id":null}]})"),
            "parts[1].id: found null; expected an id");
  EXPECT_EQ(read(R"({"parts":[{"id":"no"}]})"), "parts[0].id: found 'no'; expected another id");
  EXPECT_EQ(read(R"({"tags":{"x":1}})"), "tags: 'x' is a number; expected a tag");
  EXPECT_EQ(read(R"({"tags":{"x":{"size":10}}})"), "tags: 'x.size' is 10; expected 0 to 9");
}

TEST(JsonReader, SaysWhichMembersAreWrong) {
  EXPECT_EQ(read(R"({"nam":1})"),
            ": unknown member 'nam'; expected one of: name, count, on, tags, parts");
  EXPECT_EQ(read(R"({"parts":[{"x":1}]})"), "parts[0]: unknown member 'x'; expected one of: id");
  EXPECT_EQ(read(R"({"name":"a","n\u0061me":"b"})"),
            ": the member 'name' is given twice; expected it once");
  EXPECT_EQ(read(R"({"tags":{"x":{},"x":{}}})"),
            "tags: the member 'x' is given twice; expected it once");
  EXPECT_EQ(read(R"({"parts":[{}]})"), "parts[0].id: missing; expected an id");
  EXPECT_EQ(read(R"({"on":true})"), "count: is needed with 'on'; expected it");
  EXPECT_EQ(read(R"({"name":"12345678901234567890","tags":{"123456789012345678901":{}},
                     "parts":[{"id":"a"}]})"),
            "parts: too many; expected fewer");
}

TEST(JsonReader, SaysWhatIsWrongByThePath) {
  EXPECT_EQ(by_path("[]"), "no object");
  EXPECT_EQ(by_path("{"), "no object");
  EXPECT_EQ(by_path(R"({"tags":{"x":{"size":10}}})"), "'tags.x.size' is 10; expected 0 to 9");
  EXPECT_EQ(by_path(R"({"tags":{"x":{"sise":1}}})"),
            "unknown member 'tags.x.sise'; expected one of: size");
  EXPECT_EQ(by_path(R"({"tags":{"x":{},"x":{}}})"),
            "the member 'tags.x' is given twice; expected it once");
  EXPECT_EQ(by_path(R"({"on":true})"), "is needed with 'on'; expected it");
}

TEST(JsonReader, ChecksTheSyntaxBeforeTheEndOfTheObject) {
  JsonReader<Order> reader;
  for (const std::string_view json :
       {"", "{", R"({"on":true)", R"({"on":true}x)", "{\"on\":\"\xff\"", "{'on':1}",
        R"({"on":true,})", "// x\n{}"}) {
    Order order;
    JsonProblem problem;
    EXPECT_FALSE(reader.read(json, kOrder, order, problem)) << json;
    EXPECT_EQ(problem.kind, JsonProblem::Kind::kSyntax) << json;
    EXPECT_LE(problem.at, json.size());
  }
}

// Any JSON, to the deepest level that there may be.
struct Depth {
  std::size_t values = 0;
  bool add(const JsonValue&, JsonProblem&) {
    ++values;
    return true;
  }
};
extern const JsonMember<Depth> kAny[1];
const JsonObject<Depth> kAnyObject(kAny, nullptr, true);
const JsonMember<Depth> kAny[1] = {
    {.kinds = kJsonAny, .set = json_into<&Depth::add>, .object = &kAnyObject, .each = kAny}};

TEST(JsonReader, BoundsTheDepth) {
  JsonReader<Depth> reader;
  for (const bool arrays : {true, false}) {
    for (const std::size_t depth : {32, 33, 100000}) {
      std::string json;
      for (std::size_t i = 0; i < depth; ++i) json += arrays ? "[" : "{\"a\":";
      json += "1" + std::string(depth, arrays ? ']' : '}');
      Depth read;
      JsonProblem problem;
      EXPECT_EQ(reader.read(json, kAny[0], read, problem), depth == 32);
      EXPECT_EQ(problem.kind == JsonProblem::Kind::kTooDeep, depth > 32);
      EXPECT_EQ(read.values, 32U + (depth == 32 ? 1 : 0));
    }
  }
}

std::string schema_of(const auto& row) {
  JsonWriter json;
  write_json_schema(json, row);
  return std::string(json.view());
}

constexpr auto kSizes = std::to_array<std::string_view>({"small", "large"});
constexpr Member kOfShirt[] = {
    {.name = "count",
     .kinds = kJsonWhole,
     .expected = "expected 0 to 9",
     .most = 9,
     .required = true},
    {.name = "size", .kinds = kJsonText, .expected = "expected one of them", .one_of = kSizes},
    {.name = "gift", .kinds = kJsonTrue},
    {.name = "note", .kinds = kJsonText | kJsonNull}};
constexpr Object kShirt(kOfShirt);
constexpr Member kEachShirt{.kinds = kJsonObject, .object = &kShirt};

TEST(JsonReader, RefusesATextThatIsNoneOfTheRow) {
  JsonReader<Order> reader;
  Order order;
  JsonProblem problem;
  EXPECT_TRUE(reader.read(R"({"count":1,"size":"large"})", kEachShirt, order, problem));
  EXPECT_FALSE(reader.read(R"({"count":1,"size":"Large"})", kEachShirt, order, problem));
  EXPECT_EQ(problem.place + ": " + problem.message(), "size: found 'Large'; expected one of them");
}

TEST(JsonSchema, SaysWhatARowOfATableTakes) {
  EXPECT_EQ(
      schema_of(kEachShirt),
      R"({"type":"object","properties":{)"
      R"("count":{"description":"0 to 9","type":"integer","minimum":0,"maximum":9},)"
      R"("size":{"description":"one of them","type":"string","enum":["small","large"]},"gift":{"const":true},)"
      R"("note":{"type":["string","null"]}},)"
      R"("additionalProperties":false,"required":["count"]})");
  EXPECT_EQ(schema_of(Member{.kinds = kJsonObject, .object = &kTags}),
            R"({"type":"object","additionalProperties":{"description":"a tag","type":"object",)"
            R"("properties":{"size":{"description":"0 to 9","type":"integer","minimum":0,)"
            R"("maximum":9}},"additionalProperties":false}})");
}

TEST(JsonSchema, EndsAtAnObjectThatContainsItself) {
  EXPECT_NE(schema_of(kAny[0]).find(R"("additionalProperties":{)"), std::string::npos);
  EXPECT_LT(schema_of(kAny[0]).size(), 2000U);
}

}  // namespace
}  // namespace sluice::base
