#include "server/api/check/check_endpoint.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace sluice::server {
namespace {

// The result of reading a body: the error, or the requests as "verb cost name=value ...;" with the
// values of the wanted names.
class Reading {
 public:
  explicit Reading(std::vector<std::string_view> names = {}) : names_(std::move(names)) {}

  void operator()(const CheckRequest& request, bool alone) {
    ++requests;
    alone_ = alone;
    text_ += std::to_string(static_cast<int>(request.verb)) + ' ' + std::to_string(request.cost);
    for (const LimitCost& cost : request.costs) {
      text_.append(" ").append(cost.limit).append("#").append(std::to_string(cost.units));
    }
    if (request.verb == Verb::kReserve) {
      text_ += " wait " + std::to_string(request.max_wait / std::chrono::milliseconds(1)) + " ms";
    }
    if (request.actual.value_or(1) != 1 || !request.actual_costs.empty()) {
      text_ += " actual " + std::to_string(request.actual.value_or(1));
    }
    for (const LimitCost& cost : request.actual_costs) {
      text_.append(" ").append(cost.limit).append("#").append(std::to_string(cost.units));
    }
    for (const std::string_view name : names_) {
      const auto value = request.attributes.find(name);
      text_.append(" ").append(name).append(value ? "=" + std::string(*value) : " absent");
    }
    text_ += ';';
  }
  // The requests and attributes so far.
  const std::string& of() const { return text_; }
  std::string of(std::string_view body) {
    text_.clear();
    requests = 0;
    // A copy of exact size, so that a sanitizer detects reads beyond its end.
    const std::unique_ptr<char[]> copy(new char[body.size()]);
    std::copy(body.begin(), body.end(), copy.get());
    const std::string error =
        reader_.read(CheckKind::kCheck, {copy.get(), body.size()}, true, std::ref(*this));
    if (!error.empty()) {
      EXPECT_EQ(requests, 0u) << "something was decided before the error was found";
      return error;
    }
    if (!reader_.is_array()) {
      EXPECT_EQ(requests, 1u);
      EXPECT_TRUE(alone_);
    } else if (requests > 0) {
      EXPECT_FALSE(alone_);
    }
    return reader_.is_array() ? "[" + text_ + "]" : text_;
  }

  std::size_t requests = 0;

 private:
  std::vector<std::string_view> names_;
  CheckReader reader_;
  bool alone_ = false;
  std::string text_;
};

std::string read(std::string_view body, std::vector<std::string_view> names = {}) {
  return Reading(std::move(names)).of(body);
}
// Reads a request whose attributes are this JSON.
std::string attributes(std::string_view members, std::vector<std::string_view> names = {}) {
  return read("{\"attributes\":{" + std::string(members) + "}}", std::move(names));
}

TEST(CheckReader, ReadsARequest) {
  EXPECT_EQ(read(R"({"attributes":{"method":"POST","ip":"203.0.113.9"},"cost":3,"verb":"peek"})",
                 {"ip", "method", "host"}),
            "1 3 ip=203.0.113.9 method=POST host absent;");
}

TEST(CheckReader, TakesOneUnitByDefault) { EXPECT_EQ(read(R"({"attributes":{}})"), "0 1;"); }

TEST(CheckReader, KnowsTheVerbs) {
  const auto verb = [](std::string_view name) {
    return read("{\"verb\":\"" + std::string(name) + "\",\"attributes\":{}}");
  };
  EXPECT_EQ(verb("check"), std::to_string(static_cast<int>(Verb::kTake)) + " 1;");
  EXPECT_EQ(verb("peek"), std::to_string(static_cast<int>(Verb::kPeek)) + " 1;");
  EXPECT_EQ(verb("refund"), std::to_string(static_cast<int>(Verb::kRefund)) + " 1;");
  EXPECT_EQ(verb("reset"), std::to_string(static_cast<int>(Verb::kReset)) + " 1;");
  EXPECT_EQ(verb("take"),
            "at verb: found 'take'; expected check, peek, refund, reset, charge, take_at_most or "
            "reserve");
}

TEST(CheckReader, ReadsHowLongAReservationMayWait) {
  const auto wait = [](std::string_view members) {
    return read("{\"attributes\":{}," + std::string(members) + "}");
  };
  const std::string reserve = std::to_string(static_cast<int>(Verb::kReserve));
  EXPECT_EQ(wait(R"("verb":"reserve","max_wait_ms":500)"), reserve + " 1 wait 500 ms;");
  EXPECT_EQ(wait(R"("max_wait_ms":86400000,"verb":"reserve")"), reserve + " 1 wait 86400000 ms;");
  const std::string expected = "; expected milliseconds: a whole number from 0 to 86400000 (a day)";
  EXPECT_EQ(wait(R"("verb":"reserve")"), "at max_wait_ms: missing" + expected);
  EXPECT_EQ(wait(R"("verb":"reserve","max_wait_ms":86400001)"),
            "at max_wait_ms: found 86400001" + expected);
  EXPECT_EQ(wait(R"("verb":"reserve","max_wait_ms":-1)"), "at max_wait_ms: found -1" + expected);
  EXPECT_EQ(wait(R"("verb":"reserve","max_wait_ms":"1s")"),
            "at max_wait_ms: found text" + expected);
  EXPECT_EQ(wait(R"("max_wait_ms":5)"),
            "at max_wait_ms: only a reservation waits; expected the verb reserve");
}

TEST(CheckReader, ReadsHowLongATakeMayWait) {
  Reading requests;
  CheckReader reader;
  const auto error = [&](const std::string& members) {
    const std::string body = R"({"attributes":{})" + members + "}";
    return reader.read(CheckKind::kCheck, body, false, std::ref(requests));
  };
  EXPECT_EQ(error(R"(,"wait_ms":300000)"), "");
  EXPECT_EQ(error(R"(,"verb":"check","wait_ms":0)"), "");
  EXPECT_EQ(error(R"(,"wait_ms":300001)"),
            "at wait_ms: found 300001; expected milliseconds: a whole number from 0 to 300000 (5 "
            "minutes)");
  EXPECT_EQ(error(R"(,"verb":"peek","wait_ms":1)"),
            "at wait_ms: only a check waits; expected the verb check");
  EXPECT_EQ(reader.read(CheckKind::kCheck, R"([{"attributes":{},"wait_ms":1}])", true,
                        std::ref(requests)),
            "at [0].wait_ms: a request in an array cannot wait; expected a single request");
}

TEST(CheckReader, ReadsTheActualCostsOfASettlement) {
  Reading requests;
  CheckReader reader;
  const auto settle = [&](const std::string& members) {
    return reader.read(CheckKind::kSettle, "{\"attributes\":{}" + members + "}", true,
                       std::ref(requests));
  };
  EXPECT_EQ(settle(R"(,"cost":7,"actual":5)"), "");
  EXPECT_EQ(settle(R"(,"costs":{"t":7},"actual":{"t":5})"), "");
  EXPECT_EQ(requests.of(), "0 7 actual 5;0 1 t#7 actual 1 t#5;");
  const std::string expected =
      "; expected the actual cost: a whole number from 0 to 9007199254740991, or an object of "
      "limits and "
      "their actual costs, {\"tokens\":512}";
  EXPECT_EQ(settle(""), "at actual: missing" + expected);
  EXPECT_EQ(settle(R"(,"actual":"5")"), "at actual: found text" + expected);
  EXPECT_EQ(settle(R"(,"actual":{"t":1,"t":2})"),
            "at actual: 't' is given twice; expected each limit once");
  EXPECT_EQ(settle(R"(,"actual":{"t":"x"})"),
            "at actual: 't' is text; expected a whole number from 0 to 9007199254740991");
  EXPECT_EQ(
      settle(R"(,"actual":1,"verb":"peek")"),
      "at the top: unknown member 'verb'; expected one of: attributes, id, cost, costs, limit, "
      "actual");
}

TEST(CheckReader, ReadsTheResponseOfAReport) {
  Reading requests;
  CheckReader reader;
  const auto report = [&](const std::string& members, bool may_operate = true) {
    return reader.read(CheckKind::kReport, "{\"attributes\":{}" + members + "}", may_operate,
                       std::ref(requests));
  };
  EXPECT_EQ(report(R"(,"status":401)"), "");
  EXPECT_EQ(report(R"(,"status":"401","cost":2,"response":{"header.x-cost":"3"})"), "");
  EXPECT_EQ(report(R"(,"status":null)"),
            "at status: found null; expected the status of the response, such as 401");
  EXPECT_EQ(report(R"(,"response":[])"),
            "at response: found an array; expected an object whose members are texts");
  EXPECT_EQ(report(R"(,"response":{"a":1})"), "at response: 'a' is a number; expected text");
  EXPECT_EQ(report(R"(,"response":{"a":"1","a":"2"})"),
            "at response: 'a' is given twice; expected each attribute once");
  EXPECT_EQ(report(R"(,"verb":"check")"),
            "at the top: unknown member 'verb'; expected one of: attributes, cost, costs, status, "
            "response");
  EXPECT_TRUE(report(R"(,"status":401)", false).starts_with("at the top: a report; "));
  EXPECT_EQ(
      reader.read(CheckKind::kCheck, R"({"attributes":{},"status":401})", true, std::ref(requests))
          .substr(0, 39),
      "at the top: unknown member 'status'; ex");
}

TEST(CheckReader, TakesCostsOf32Bits) {
  const auto cost = [](const std::string& text) {
    return read("{\"attributes\":{},\"cost\":" + text + "}");
  };
  EXPECT_EQ(cost("0"), "0 0;");
  EXPECT_EQ(cost("4294967295"), "0 4294967295;");
  for (const char* wrong :
       {"9007199254740992", "-1", "1.0", "1e2", "9223372036854775808", "99999999999999999999999"}) {
    EXPECT_EQ(cost(wrong), "at cost: found " + std::string(wrong) +
                               "; expected a whole number from 0 to 9007199254740991");
  }
  const std::string right = "; expected a whole number from 0 to 9007199254740991";
  EXPECT_EQ(cost("\"1\""), "at cost: found text" + right);
  EXPECT_EQ(cost("null"), "at cost: found null" + right);
  EXPECT_EQ(cost("{}"), "at cost: found an object" + right);
  EXPECT_EQ(cost("[1]"), "at cost: found an array" + right);
}

TEST(CheckReader, ReadsTheCostsOfLimits) {
  const auto costs = [](const std::string& text) {
    return read("{\"costs\":" + text + ",\"attributes\":{\"a\":\"1\"},\"cost\":2}", {"a"});
  };
  EXPECT_EQ(costs("{}"), "0 2 a=1;");
  EXPECT_EQ(costs(R"({"tokens":4294967295,"r\u002f0":0})"), "0 2 tokens#4294967295 r/0#0 a=1;");
  EXPECT_EQ(read(R"([{"attributes":{},"costs":{"t":1}},{"attributes":{}}])"), "[0 1 t#1;0 1;]");
  const std::string right = "; expected a whole number from 0 to 9007199254740991";
  for (const char* wrong : {"9007199254740992", "-1", "1.0", "1e2", "9223372036854775808"}) {
    EXPECT_EQ(costs("{\"t\":" + std::string(wrong) + "}"),
              "at costs: 't' is " + std::string(wrong) + right);
  }
  EXPECT_EQ(costs(R"({"t":"1"})"), "at costs: 't' is text" + right);
  EXPECT_EQ(costs(R"({"t\u0000":null})"), "at costs: 't\\x00' is null" + right);
  EXPECT_EQ(costs(R"({"t":{"u":1}})"), "at costs: 't' is an object" + right);
  EXPECT_EQ(costs(R"({"t":[1]})"), "at costs: 't' is an array" + right);
  EXPECT_EQ(costs(R"({"t":1,"u":1,"t":1})"),
            "at costs: 't' is given twice; expected each limit once");
  const std::string object = "; expected an object of limits and their costs, {\"tokens\":700}";
  EXPECT_EQ(costs("5"), "at costs: found a number" + object);
  EXPECT_EQ(costs("[5]"), "at costs: found an array" + object);
  EXPECT_EQ(costs("null"), "at costs: found null" + object);
  std::string many;
  for (int i = 0; i < 65; ++i) many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  EXPECT_EQ(costs("{" + many + "}"), "at costs: over 64 of them; expected at most 64");
}

TEST(CheckReader, NeedsAClientThatOperatesForSeveralUnitsOfALimit) {
  CheckReader reader;
  Reading requests;
  const auto error = [&](const std::string& members) {
    const std::string found = reader.read(CheckKind::kCheck, "{\"attributes\":{}" + members + "}",
                                          false, std::ref(requests));
    EXPECT_EQ(reader.needs_operate(), !found.empty());
    return found.substr(0, found.find(':'));
  };
  EXPECT_EQ(error(R"(,"costs":{"a":1,"b":0})"), "");
  EXPECT_EQ(error(R"(,"costs":{"a":2},"verb":"peek")"), "");
  EXPECT_EQ(error(R"(,"costs":{"a":1,"b":2})"), "at costs");
  EXPECT_EQ(error(R"(,"costs":{"a":2},"cost":2)"), "at cost");
  EXPECT_EQ(error(R"(,"costs":{"a":1},"verb":"refund")"), "at verb");
  EXPECT_EQ(error(R"(,"verb":"charge")"), "at verb");
  EXPECT_EQ(error(R"(,"verb":"reserve","max_wait_ms":0)"), "at verb");
  EXPECT_EQ(error(R"(,"verb":"take_at_most")"), "");
  EXPECT_EQ(error(R"(,"verb":"take_at_most","cost":2)"), "at cost");
  reader.read(CheckKind::kSettle, R"({"attributes":{},"actual":1})", false, std::ref(requests));
  EXPECT_TRUE(reader.needs_operate());
}

TEST(CheckReader, LowersTheNamesOfHeadersOnly) {
  EXPECT_EQ(attributes(R"("header.X-User-ID":"A","Query.Q":"B")",
                       {"header.x-user-id", "header.X-User-ID", "Query.Q"}),
            "0 1 header.x-user-id=A header.X-User-ID absent Query.Q=B;");
}

TEST(CheckReader, TakesTextInEveryLanguageAndEscape) {
  EXPECT_EQ(attributes(R"("手机":"请求过于频繁","a\u002eb":"\u8bf7\ud83d\ude00\n\u0000x")",
                       {"手机", "a.b"}),
            "0 1 手机=请求过于频繁 a.b=请😀\n" + std::string(1, '\0') + "x;");
  EXPECT_EQ(attributes(R"("a":"","b":"\t","c":"")", {"a", "b", "c"}), "0 1 a= b=\t c=;");
}

TEST(CheckReader, FlattensTheBody) {
  EXPECT_EQ(attributes(R"("body":{"email":"a@b","n":-1.50e+3,"big":18446744073709551615,
                          "yes":true,"no":false,"none":null,"in":{"ner":{"x":"1"},"y":"\u0032"},
                          "last":7},"ip":"::1")",
                       {"body.email", "body.n", "body.big", "body.yes", "body.no", "body.none",
                        "body.in.ner.x", "body.in.y", "body.last", "ip", "body"}),
            "0 1 body.email=a@b body.n=-1.50e+3 body.big=18446744073709551615 body.yes=true "
            "body.no=false body.none absent body.in.ner.x=1 body.in.y=2 body.last=7 ip=::1 "
            "body absent;");
  EXPECT_EQ(attributes(R"("body":"plain","body.email":"x")", {"body", "body.email"}),
            "0 1 body=plain body.email=x;");
}

TEST(CheckReader, ReportsAnAttributeThatIsNotText) {
  EXPECT_EQ(attributes(R"("ip":1)"), "at attributes: 'ip' is a number; expected text");
  EXPECT_EQ(attributes(R"("ip":null)"), "at attributes: 'ip' is null; expected text");
  EXPECT_EQ(attributes(R"("ip":true)"), "at attributes: 'ip' is true; expected text");
  EXPECT_EQ(attributes(R"("ip":{})"), "at attributes: 'ip' is an object; expected text");
  EXPECT_EQ(attributes(R"("ip":[])"), "at attributes: 'ip' is an array; expected text");
  EXPECT_EQ(attributes(R"("body":1)"),
            "at attributes: 'body' is a number; expected text or an object");
  EXPECT_EQ(attributes(R"("body":{"a":{"b":[]}})"),
            "at attributes: 'body.a.b' is an array; expected text, a number, true, false, null or "
            "an object");
}

TEST(CheckReader, ReportsTheMemberThatIsWrong) {
  EXPECT_EQ(read(R"({"cost":1})"),
            "at attributes: missing; expected an object whose members are texts");
  EXPECT_EQ(read(R"({"attributes":[]})"),
            "at attributes: found an array; expected an object whose members are texts");
  EXPECT_EQ(read(R"({"attributes":"x"})"),
            "at attributes: found text; expected an object whose members are texts");
  EXPECT_EQ(read(R"({"atributes":{}})"),
            "at the top: unknown member 'atributes'; expected one of: attributes, id, hold_ms, "
            "cost, costs, "
            "limit, verb, max_wait_ms, wait_ms");
  EXPECT_EQ(read(R"({"attributes":{},"cost":1,"cost":1})"),
            "at the top: the member 'cost' is given twice; expected it once");
  EXPECT_EQ(read(R"({"verb":5,"attributes":{}})"),
            "at verb: found a number; expected check, peek, refund, reset, charge, take_at_most or "
            "reserve");
}

TEST(CheckReader, RefusesARepeatedAttribute) {
  const std::string right = " is given twice; expected each attribute once";
  EXPECT_EQ(attributes(R"("ip":"1","ip":"1")"), "at attributes: 'ip'" + right);
  EXPECT_EQ(attributes(R"("header.A":"1","header.a":"1")"), "at attributes: 'header.a'" + right);
  EXPECT_EQ(attributes(R"("body":{"a":1,"\u0061":2})"), "at attributes: 'body.a'" + right);
  EXPECT_EQ(attributes(R"("body":{"a":null,"a":1})"), "at attributes: 'body.a'" + right);
  EXPECT_EQ(attributes(R"("body":{"a":{},"a":{}})"), "at attributes: 'body.a'" + right);
  EXPECT_EQ(attributes(R"("body":{"a":{"b":1},"a.b":1})"), "at attributes: 'body.a.b'" + right);
  EXPECT_EQ(attributes(R"("body.a":"1","body":{"a":1})"), "at attributes: 'body.a'" + right);
  std::string many;
  for (int i = 0; i < 40; ++i) many += "\"a" + std::to_string(i) + "\":\"\",";
  EXPECT_EQ(attributes(many + "\"a7\":\"\""), "at attributes: 'a7'" + right);
}

TEST(CheckReader, FindsOneOfManyAttributes) {
  std::string members;
  for (std::size_t i = 0; i < NamedAttributes::kMost; ++i) {
    members += (i > 0 ? ",\"a" : "\"a") + std::to_string(i) + "\":\"v" + std::to_string(i) + '"';
  }
  EXPECT_EQ(attributes(members, {"a0", "a500", "a999", "a1000", "", "b"}),
            "0 1 a0=v0 a500=v500 a999=v999 a1000 absent  absent b absent;");
  EXPECT_EQ(attributes(members + ",\"x\":\"\""),
            "at attributes: over 1000 of them; expected at most 1000");
}

TEST(CheckReader, BoundsNames) {
  const std::string name(256, 'n');
  EXPECT_EQ(attributes('"' + name + "\":\"1\"", {name}), "0 1 " + name + "=1;");
  const std::string right =
      "' is too long; expected at most 256 bytes, including dots and the names of outer objects";
  EXPECT_EQ(attributes("\"n" + name + "\":\"1\""),
            "at attributes: the name '" + std::string(60, 'n') + "..." + right);
  EXPECT_EQ(attributes("\"body\":{\"" + std::string(251, 'n') + "\":\"1\"}"), "0 1;");
  EXPECT_EQ(attributes("\"body\":{\"" + std::string(252, 'n') + "\":\"1\"}"),
            "at attributes: the name '" + std::string(60, 'n') + "..." + right);
}

// The largest amount to copy: every name is joined from two, and every value is escaped.
TEST(CheckReader, HasRoomForTheLargestCopies) {
  std::string members;
  const std::string name(245, 'n');
  for (int i = 1000; i < 1999; ++i) {
    members += (i > 1000 ? ",\"" : "\"") + std::to_string(i) + name + "\":\"\\n" +
               std::string(500, 'v') + '"';
  }
  EXPECT_EQ(attributes("\"body\":{" + members + "}", {"body.1000" + name, "body.1998" + name}),
            "0 1 body.1000" + name + "=\n" + std::string(500, 'v') + " body.1998" + name + "=\n" +
                std::string(500, 'v') + ";");
}

TEST(CheckReader, ReadsArraysInTheirOrder) {
  EXPECT_EQ(read("[]"), "[]");
  EXPECT_EQ(read(R"([{"attributes":{"a":"1"},"cost":5},{"attributes":{"b":"2"}}])", {"a", "b"}),
            "[0 5 a=1 b absent;0 1 a absent b=2;]");
}

TEST(CheckReader, TakesAThousandRequestsAtOnceAndNoMore) {
  std::string array = "[{\"attributes\":{}}";
  for (int i = 1; i < 1000; ++i) array += ",{\"attributes\":{}}";
  Reading reading;
  reading.of(array + "]");
  EXPECT_EQ(reading.requests, 1000u);
  EXPECT_EQ(
      reading.of(array + ",{\"attributes\":{}}]"),
      "at the top: over 1000 requests; expected at most 1000; send the others in another array");
}

TEST(CheckReader, ReportsTheRequestOfAnArrayThatIsWrong) {
  const std::string first = R"([{"attributes":{}},)";
  EXPECT_EQ(read(first + R"({"attributes":{},"cost":-1}])"),
            "at [1].cost: found -1; expected a whole number from 0 to 9007199254740991");
  EXPECT_EQ(read(first + "7]"),
            "at [1]: found a number; expected a request, {\"attributes\":{...}}");
  EXPECT_EQ(read(first + "[]]"),
            "at [1]: found an array; expected a request, {\"attributes\":{...}}");
  EXPECT_EQ(read(first + "{}]"),
            "at [1].attributes: missing; expected an object whose members are texts");
  EXPECT_EQ(read(first + R"({"x":1}])"),
            "at [1]: unknown member 'x'; expected one of: attributes, id, hold_ms, cost, costs, "
            "limit, verb, "
            "max_wait_ms, wait_ms");
}

TEST(CheckReader, RequiresAnObjectOrAnArray) {
  const std::string right = "; expected a request, {\"attributes\":{...}}, or an array of them";
  EXPECT_EQ(read("7"), "at the top: found a number" + right);
  EXPECT_EQ(read("\"x\""), "at the top: found text" + right);
  EXPECT_EQ(read("null"), "at the top: found null" + right);
}

TEST(CheckReader, ReportsWhereTheJsonEnds) {
  const auto where = [](std::string_view body) {
    const std::string error = read(body);
    EXPECT_NE(error.find(" (line:column): not valid JSON in UTF-8 ("), std::string::npos) << error;
    return error.substr(0, error.find(" (line"));
  };
  EXPECT_EQ(where(""), "at 1:1");
  EXPECT_EQ(where("{"), "at 1:2");
  EXPECT_EQ(where("{\"attributes\":{}} x"), "at 1:19");
  EXPECT_EQ(where("{\"attributes\":{}}{}"), "at 1:18");
  EXPECT_EQ(where("{\n  \"attributes\": {\n    \"a\" \"b\"}}"), "at 3:9");
  EXPECT_EQ(where("{\"attributes\":{},}"), "at 1:18");
  EXPECT_EQ(where("{'attributes':{}}"), "at 1:2");
  EXPECT_EQ(where("[{\"attributes\":{}},]"), "at 1:20");
  EXPECT_EQ(where("{\"attributes\":{\"a\":\"\xff\"}}"), "at 1:21");
  EXPECT_EQ(where("{\"attributes\":{\"a\":\"\xed\xa0\x80\"}}"), "at 1:21");
  EXPECT_EQ(where("{\"attributes\":{\"a\":\"\\ud800\"}}").substr(0, 5), "at 1:");
  EXPECT_EQ(where("{\"attributes\":{\"a\":\"\n\"}}"), "at 1:21");
  EXPECT_EQ(where("\xef\xbb\xbf{}"), "at 1:1");
}

TEST(CheckReader, BoundsTheDepth) {
  const auto nested = [](std::size_t depth) {
    std::string text = "{\"attributes\":{\"body\":";
    for (std::size_t i = 2; i < depth; ++i) text += "{\"a\":";
    text += "1" + std::string(depth, '}');
    return text;
  };
  EXPECT_EQ(read(nested(32)), "0 1;");
  EXPECT_NE(read(nested(33)).find("nested too deep; expected at most 32 levels"),
            std::string::npos);
  EXPECT_NE(read(std::string(100000, '[')).find("an array; expected"), std::string::npos);
}

TEST(CheckReader, ReadsTheNextBodyAfterAnError) {
  Reading reading({"a"});
  EXPECT_NE(reading.of(R"({"attributes":{"a":"1","body":{"b":[)"), "");
  EXPECT_EQ(reading.of(R"({"attributes":{"a":"2"}})"), "0 1 a=2;");
}

}  // namespace
}  // namespace sluice::server
