#include "cli/decide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string>
#include <vector>

#include "sluice/memory_store.h"

namespace sluice::cli {
namespace {

const std::string kTen = R"({"algorithm":"token_bucket","limit":10,"per":"1s","burst":20})";

std::string charge(const std::string& key, const std::string& limit, const std::string& rest = "") {
  return R"({"key":")" + key + R"(","limit":)" + limit + rest + "}";
}
std::string request(const std::string& at_us, const std::string& charges,
                    const std::string& rest = "") {
  return R"({"at_us":)" + at_us + R"(,"charges":[)" + charges + "]" + rest + "}";
}

// The answers to some lines, by one filter over a store of its own.
std::vector<std::string> answers_to(const std::vector<std::string>& lines) {
  MemoryStore store({.max_keys = 1024, .shards = 1});
  DecisionFilter filter(store);
  std::vector<std::string> answers;
  for (const std::string& line : lines) answers.push_back(filter.answer(line));
  return answers;
}

std::string answer_to(const std::string& line) { return answers_to({line}).front(); }

// The text of the error that a line gets, or the whole answer where it gets none.
std::string error_of(const std::string& line) {
  const std::string answer = answer_to(line);
  const boost::json::value value = boost::json::parse(answer);
  const auto* const error = value.as_object().if_contains("error");
  return error == nullptr ? answer : std::string(error->as_string());
}

// --- good lines ---

TEST(Decide, AnswersTheExampleOfItsHelp) {
  EXPECT_EQ(
      answer_to(
          R"({"at_us":0,"charges":[{"key":"u1","cost":1,"limit":{"algorithm":"token_bucket","limit":10,"per":"1s","burst":20}}]})"),
      R"({"outcome":"allowed","reason":"ok","limits":[{"limit":20,"remaining":19,"reset_after_us":100000}]})");
}

const std::string kBudget = R"({"algorithm":"budget","limit":9007199254740991,"per":"never"})";

TEST(Decide, HoldsAndSettlesBudgetsOnce) {
  const auto line = [](const std::string& verb, const std::string& rest) {
    return request("0", charge("k", kBudget, R"(,"cost":7)"),
                   R"(,"verb":")" + verb + R"(","id":"a")" + rest);
  };
  const std::string limits =
      R"("limits":[{"limit":9007199254740991,"remaining":9007199254740984,"reset_after_us":4503599627370496}]})";
  EXPECT_EQ(
      answers_to({line("hold", R"(,"ttl":"30s")"), line("hold", R"(,"ttl_ms":30000)"),
                  line("settle", R"(,"actual":7)"), line("cancel", ""),
                  line("extend", R"(,"ttl":"1s")")}),
      (std::vector<std::string>{
          R"({"outcome":"allowed","reason":"ok","id":"a","ends_after_us":30000000,)" + limits,
          R"({"outcome":"allowed","reason":"ok","id":"a","repeated":true,"ends_after_us":30000000,)" +
              limits,
          R"({"outcome":"allowed","reason":"ok","id":"a",)" + limits,
          R"({"outcome":"denied","reason":"conflict","id":"a",)" + limits,
          R"({"outcome":"denied","reason":"gone","id":"a",)" + limits}));
}

TEST(Decide, SaysWhatIsWrongWithAHold) {
  const auto error = [](const std::string& rest) {
    return error_of(request("0", charge("k", kBudget), rest));
  };
  EXPECT_EQ(error(R"(,"verb":"hold","ttl":"1s")"), "id: is missing");
  EXPECT_EQ(error(R"(,"verb":"hold","id":"a")"), "ttl: is missing");
  EXPECT_EQ(error(R"(,"verb":"hold","id":"","ttl":"1s")"), "id: has 0 bytes; expected 1 to 128");
  EXPECT_EQ(error(R"(,"verb":"hold","id":"a","ttl":"25h")"),
            "ttl: 25h is out of range; it must be 1s to 24h");
  EXPECT_EQ(error(R"(,"verb":"hold","id":"a","ttl":"24h","ttl_ms":1000)"),
            "ttl_ms: is next to 'ttl'; expected one of them");
  EXPECT_EQ(error(R"(,"verb":"extend","id":"a","ttl_ms":1000,"ttl":"1s")"),
            "ttl: is next to 'ttl_ms'; expected one of them");
  EXPECT_EQ(error(R"(,"verb":"reserve","max_wait_us":1,"id":"a")"),
            "id: is only for take, peek, charge, hold, settle, cancel and extend; leave it out");
  for (const char* verb : {"refund", "reset", "release"}) {
    EXPECT_EQ(error(std::string(R"(,"id":"a","verb":")") + verb + "\""),
              "id: is only for take, peek, charge, hold, settle, cancel and extend; leave it out");
  }
  EXPECT_EQ(error(R"(,"verb":"extend","id":"a","ttl":"1s","permit":"p")"),
            "permit: is next to 'id'; give one of them");
  EXPECT_EQ(error(R"(,"verb":"cancel","id":"a","actual":1)"),
            "actual: is only for settle; leave it out");
  EXPECT_EQ(error_of(request("0", charge("k", kTen), R"(,"verb":"settle","id":"a")")),
            "charges[0]: token_bucket has no holds; expected only budgets");
  EXPECT_EQ(error_of(request("0", charge("k", kTen), R"(,"verb":"hold","id":"a","ttl":"1s")")),
            "id: is only for budgets, and no charge is one; leave it out");
}

TEST(Decide, ReportsARetryTimeUnlessTheRequestCanNeverPass) {
  const std::string line = request("0", charge("k", kTen, R"(,"cost":20)"));
  const std::string more = request("0", charge("k", kTen, R"(,"cost":21)"));
  EXPECT_EQ(
      answers_to({line, line, more}),
      (std::vector<std::string>{
          R"({"outcome":"allowed","reason":"ok","limits":[{"limit":20,"remaining":0,"reset_after_us":2000000}]})",
          R"({"outcome":"denied","reason":"limited","retry_after_us":2000000,"limits":[{"limit":20,"remaining":0,"reset_after_us":2000000,"retry_after_us":2000000}]})",
          R"({"outcome":"denied","reason":"never","limits":[{"limit":20,"remaining":0,"reset_after_us":2000000}]})"}));
}

TEST(Decide, DeniedRequestShowsItsOtherLimitsUntouched) {
  const std::string narrow = R"({"algorithm":"fixed_window","limit":1,"per":"1m"})";
  const std::string line = request("5", charge("a", kTen) + "," + charge("b", narrow));
  EXPECT_EQ(
      answers_to({line, line}),
      (std::vector<std::string>{
          R"({"outcome":"allowed","reason":"ok","limits":[{"limit":20,"remaining":19,"reset_after_us":100000},{"limit":1,"remaining":0,"reset_after_us":60000000}]})",
          R"({"outcome":"denied","reason":"limited","retry_after_us":60000000,"limits":[{"limit":20,"remaining":19,"reset_after_us":100000},{"limit":1,"remaining":0,"reset_after_us":60000000,"retry_after_us":60000000}]})"}));
}

TEST(Decide, QueueSaysItsDelay) {
  const std::string queue =
      R"({"algorithm":"leaky_bucket","limit":10,"per":"1s","burst":5,"mode":"queue"})";
  const std::string line = request("0", charge("q", queue));
  EXPECT_EQ(
      answers_to({line, line}),
      (std::vector<std::string>{
          R"({"outcome":"allowed","reason":"ok","delay_us":0,"limits":[{"limit":5,"remaining":4,"reset_after_us":100000}]})",
          R"({"outcome":"allowed","reason":"ok","delay_us":100000,"limits":[{"limit":5,"remaining":3,"reset_after_us":200000}]})"}));
}

TEST(Decide, EveryVerbDoesItsWork) {
  const auto line = [](const std::string& verb) {
    return request("0", charge("k", kTen, R"(,"cost":5)"), R"(,"verb":")" + verb + "\"");
  };
  const std::string allowed = R"({"outcome":"allowed","reason":"ok","limits":[{"limit":20,)";
  EXPECT_EQ(answers_to({line("peek"), line("take"), line("take"), line("refund"), line("reset"),
                        line("peek")}),
            (std::vector<std::string>{allowed + R"("remaining":15,"reset_after_us":500000}]})",
                                      allowed + R"("remaining":15,"reset_after_us":500000}]})",
                                      allowed + R"("remaining":10,"reset_after_us":1000000}]})",
                                      allowed + R"("remaining":15,"reset_after_us":500000}]})",
                                      allowed + R"("remaining":20,"reset_after_us":0}]})",
                                      allowed + R"("remaining":15,"reset_after_us":500000}]})"}));
}

TEST(Decide, ChargesTakesAtMostAndReserves) {
  const auto ask = [](const std::string& cost, const std::string& rest) {
    return request("0", charge("k", kTen, ",\"cost\":" + cost), rest);
  };
  EXPECT_EQ(
      answers_to({ask("15", R"(,"verb":"take_at_most")"), ask("9", R"(,"verb":"take_at_most")"),
                  ask("4", R"(,"verb":"reserve","max_wait_us":400000)"),
                  ask("1", R"(,"verb":"reserve","max_wait_us":400000)"),
                  ask("1", R"(,"verb":"charge")")}),
      (std::vector<std::string>{
          R"({"outcome":"allowed","reason":"ok","taken":15,"limits":[{"limit":20,"remaining":5,"reset_after_us":1500000}]})",
          R"({"outcome":"allowed","reason":"ok","taken":5,"limits":[{"limit":20,"remaining":0,"reset_after_us":2000000}]})",
          R"({"outcome":"allowed","reason":"ok","delay_us":400000,"limits":[{"limit":20,"remaining":0,"reset_after_us":2400000}]})",
          R"({"outcome":"denied","reason":"limited","retry_after_us":100000,"limits":[{"limit":20,"remaining":0,"reset_after_us":2400000,"retry_after_us":100000}]})",
          R"({"outcome":"allowed","reason":"over","limits":[{"limit":20,"remaining":0,"reset_after_us":2500000}]})"}));
  EXPECT_EQ(error_of(ask("1", R"(,"verb":"reserve")")), "max_wait_us: is missing");
  EXPECT_EQ(error_of(ask("1", R"(,"max_wait_us":5)")),
            "max_wait_us: is only for the verb reserve; leave it out");
}

TEST(Decide, TakesEveryAlgorithmAndOption) {
  for (
      const char* limit : {
          R"({"algorithm":"fixed_window","limit":3,"per":"1s","align":"clock"})",
          R"({"algorithm":"fixed_window","limit":3,"per":"1s","align":"first_request"})",
          R"({"algorithm":"fixed_window","limit":3,"per":"month","zone":"Asia/Tokyo","starts":15})",
          R"({"algorithm":"fixed_window","limit":3,"per":"year","starts":"04-06"})",
          R"({"algorithm":"sliding_window_log","limit":3,"per":"1ms"})",
          R"({"algorithm":"sliding_window_counter","limit":3,"per":"366d","slices":1000})",
          R"({"algorithm":"sliding_window_counter","limit":3,"per":"1h","weighting":"none"})",
          R"({"algorithm":"sliding_window_counter","limit":3,"per":"1h","weighting":"linear"})",
          R"({"algorithm":"sliding_window_hybrid","limit":3,"per":"7d","slices":1})",
          R"({"algorithm":"leaky_bucket","limit":3,"per":"1s","mode":"meter"})",
          R"({"algorithm":"token_bucket","limit":3,"per":"1s","refill":"interval"})",
          R"({"algorithm":"token_bucket","limit":3,"per":"1s","refill":"continuous"})",
          R"({"algorithm":"gcra","limit":3,"per":"1s","burst":2})",
      }) {
    const std::string answer = answer_to(request("1000000", charge("k", limit)));
    EXPECT_TRUE(answer.starts_with(
        R"({"outcome":"allowed","reason":"ok","limits":[{"limit":3,"remaining":2,)"))
        << limit << "\n"
        << answer;
  }
}

TEST(Decide, CostIsOneUnlessItIsGiven) {
  EXPECT_EQ(answer_to(request("0", charge("k", kTen))),
            answer_to(request("0", charge("k", kTen, R"(,"cost":1)"))));
  EXPECT_EQ(
      answer_to(request("0", charge("k", kTen, R"(,"cost":0)"))),
      R"({"outcome":"allowed","reason":"ok","limits":[{"limit":20,"remaining":20,"reset_after_us":0}]})");
}

TEST(Decide, KeysAreAnyText) {
  const std::string one = R"({"algorithm":"fixed_window","limit":1,"per":"1s"})";
  const std::string long_key(1 << 20, 'k');
  std::vector<std::string> lines;
  for (const std::string& key :
       {std::string(), std::string(R"(\u0000)"), std::string(R"(\u0000\u0000)"),
        std::string(R"(a\u0000b)"), std::string(R"(a\u0000c)"), std::string("\xE8\xAF\xB7"),
        long_key}) {
    lines.push_back(request("0", charge(key, one)));
  }
  for (const std::string& answer : answers_to(lines)) {
    EXPECT_TRUE(answer.starts_with(R"({"outcome":"allowed")")) << answer;
  }
  // The same key in another spelling is the same counter.
  const auto twice =
      answers_to({request("0", charge("a", one)), request("0", charge(R"(\u0061)", one))});
  EXPECT_TRUE(twice[1].starts_with(R"({"outcome":"denied")"));
}

TEST(Decide, TakesTheEndsOfEveryRange) {
  const std::string most =
      R"({"algorithm":"token_bucket","limit":4294967295,"per":"1ms","burst":4294967295})";
  EXPECT_EQ(
      answer_to(request("4503599627370495", charge("k", most, R"(,"cost":4294967295)"))),
      R"({"outcome":"allowed","reason":"ok","limits":[{"limit":4294967295,"remaining":0,"reset_after_us":1000}]})");
  const std::string ban = R"({"algorithm":"gcra","limit":0,"per":"1s"})";
  EXPECT_EQ(
      answer_to(request("0", charge("k", ban))),
      R"({"outcome":"denied","reason":"never","limits":[{"limit":0,"remaining":0,"reset_after_us":0}]})");
}

TEST(Decide, TakesSixtyFourChargesAndNoMore) {
  std::string charges = charge("0", kTen);
  for (int i = 1; i < 64; ++i) charges += "," + charge(std::to_string(i), kTen);
  EXPECT_TRUE(answer_to(request("0", charges)).starts_with(R"({"outcome":"allowed")"));
  EXPECT_EQ(error_of(request("0", charges + "," + charge("64", kTen))),
            "charges: must be a list of 1 to 64 charges");
}

TEST(Decide, SpaceAroundTheObjectDoesNotMatter) {
  EXPECT_EQ(answer_to(" \t" + request("0", charge("k", kTen)) + " \r"),
            answer_to(request("0", charge("k", kTen))));
}

// --- bad lines ---

TEST(Decide, NumbersItsLinesAndContinuesAfterAnError) {
  MemoryStore store;
  DecisionFilter filter(store);
  const std::string good = request("0", charge("k", kTen));
  EXPECT_FALSE(filter.had_errors());
  (void)filter.answer(good);
  EXPECT_FALSE(filter.had_errors());
  EXPECT_EQ(filter.answer("{}"), R"({"error":"at_us: is missing","line":2})");
  EXPECT_TRUE(filter.had_errors());
  EXPECT_NE(filter.answer(good).find(R"("remaining":18)"), std::string::npos);
  EXPECT_EQ(filter.refuse_long_line(),
            R"({"error":"the line is too long; at most 16777216 bytes","line":4})");
  EXPECT_EQ(filter.answer("{}"), R"({"error":"at_us: is missing","line":5})");
}

// Answers everything with one reason.
class FailingStore final : public Store {
 public:
  explicit FailingStore(Reason reason) : reason_(reason) {}
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    const Decision denied = Decision::refused(reason_);
    std::fill(each.begin(), each.end(), denied);
    return denied;
  }

 private:
  Reason reason_;
};

TEST(Decide, ReportsTheLineThatTheStoreCouldNotDecide) {
  for (const Reason reason : {Reason::kStoreError, Reason::kStoreTimeout, Reason::kForeignValue}) {
    FailingStore store(reason);
    DecisionFilter filter(store);
    EXPECT_EQ(filter.answer(request("0", charge("k", kTen))),
              R"({"error":"the store could not decide: )" + std::string(to_string(reason)) +
                  R"(","line":1})");
    EXPECT_TRUE(filter.had_errors());
    DecisionFilter explained(store, [] { return std::string("it is gone"); });
    EXPECT_EQ(explained.answer(request("0", charge("k", kTen))),
              R"({"error":"the store could not decide: )" + std::string(to_string(reason)) +
                  R"_( (it is gone)","line":1})_");
  }
}

TEST(Decide, RefusesInvalidJson) {
  struct Case {
    std::string line;
    std::string error;
  };
  const Case cases[] = {
      {"", "column 1: not valid JSON (incomplete JSON); expected one object on the line"},
      {"{\"at_us\":0",
       "column 11: not valid JSON (incomplete JSON); expected one object on the line"},
      {"{} {}", "column 4: not valid JSON (extra data); expected one object on the line"},
      {"{at_us:0}", "column 2: not valid JSON (syntax error); expected one object on the line"},
      {"{\"at_us\":0,}",
       "column 12: not valid JSON (syntax error); expected one object on the line"},
      {"\xEF\xBB\xBF{}",
       "column 1: not valid JSON (syntax error); expected one object on the line"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of(c.line), c.error) << c.line;
}

TEST(Decide, RefusesInvalidUtf8) {
  for (const char* bytes : {"\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    const std::string error = error_of(request("0", charge(bytes, kTen)));
    EXPECT_TRUE(error.find("not valid JSON (syntax error)") != std::string::npos) << error;
  }
  const std::string lone_surrogate = error_of(request("0", charge(R"(\ud800)", kTen)));
  EXPECT_TRUE(lone_surrogate.find("not valid JSON") != std::string::npos) << lone_surrogate;
}

TEST(Decide, RefusesDeepNesting) {
  EXPECT_EQ(error_of(std::string(100000, '[')), "must be an object");
  EXPECT_EQ(error_of(request("0", std::string(100000, '['))), "charges[0]: must be an object");
  EXPECT_EQ(error_of(request("0", std::string(100000, '{'))),
            "column 24: not valid JSON (syntax error); expected one object on the line");
}

TEST(Decide, RefusesKeysGivenTwice) {
  EXPECT_EQ(error_of(R"({"at_us":0,"at_us":1,"charges":[]})"),
            "the key 'at_us' is given twice; give it once");
  EXPECT_EQ(error_of(request("0", charge("k", kTen) + "," + charge("k", kTen, R"(,"key":"x")"))),
            "charges[1]: the key 'key' is given twice; give it once");
  EXPECT_EQ(error_of(request(
                "0", charge("k", R"({"algorithm":"gcra","limit":1,"per":"1s","limit":1000})"))),
            "charges[0].limit: the key 'limit' is given twice; give it once");
  EXPECT_EQ(error_of(R"({"at_us":0,"\u0061t_us":1,"charges":[]})"),
            "the key 'at_us' is given twice; give it once");
}

TEST(Decide, RefusesARequestOfAnotherShape) {
  struct Case {
    std::string line;
    std::string error;
  };
  const std::string good = charge("k", kTen);
  const Case cases[] = {
      {"[]", "must be an object"},
      {"null", "must be an object"},
      {"{}", "at_us: is missing"},
      {R"({"at_us":0})", "charges: is missing"},
      {R"({"at_us":0,"charges":{}})", "charges: must be a list of 1 to 64 charges"},
      {R"({"at_us":0,"charges":[]})", "charges: must be a list of 1 to 64 charges"},
      {R"({"at_us":0,"charges":[1]})", "charges[0]: must be an object"},
      {R"({"at_us":0,"charge":[]})",
       "unknown key 'charge'; expected one of: at_us, verb, max_wait_us, charges, permit, id, "
       "ttl, ttl_ms, actual, attributes, cost"},
      {request("0", good, R"(,"verb":"Take")"),
       "verb: 'Take' is unknown; expected take, peek, refund, reset, charge, take_at_most, "
       "reserve, release, extend, hold, settle or cancel"},
      {request("0", good, R"(,"verb":null)"), "verb: must be text"},
      {request("0", R"({"limit":)" + kTen + "}"), "charges[0].key: is missing"},
      {request("0", R"({"key":"k"})"), "charges[0].limit: is missing"},
      {request("0", R"({"key":1,"limit":)" + kTen + "}"), "charges[0].key: must be text"},
      {request("0", good + "," + charge("k", "7")), "charges[1].limit: must be an object"},
      {request("0", charge("k", kTen, R"(,"costs":1)")),
       "charges[0]: unknown key 'costs'; expected one of: key, cost, alternative, limit"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of(c.line), c.error) << c.line;
}

TEST(Decide, RefusesNumbersThatAreNotWholeOrOutOfRange) {
  const std::string at = "at_us: ";
  const std::string instants = "must be a whole number from 0 to 4503599627370495";
  const auto at_us = [](const std::string& text) {
    return error_of(request(text, charge("k", kTen)));
  };
  EXPECT_EQ(at_us("-1"), at + "-1 is out of range; " + instants);
  EXPECT_EQ(at_us("4503599627370496"), at + "4503599627370496 is out of range; " + instants);
  EXPECT_EQ(at_us("18446744073709551615"),
            at + "18446744073709551615 is out of range; " + instants);
  EXPECT_EQ(at_us("18446744073709551616"),
            at + "18446744073709551616 is out of range; " + instants);
  EXPECT_EQ(at_us("-9223372036854775808"),
            at + "-9223372036854775808 is out of range; " + instants);
  for (const char* text : {"1.0", "1e3", "\"1\"", "true", "null", "[]", "1e999"}) {
    EXPECT_EQ(at_us(text), at + instants) << text;
  }
  EXPECT_EQ(error_of(request("0", charge("k", kTen, R"(,"cost":9007199254740992)"))),
            "charges[0].cost: 9007199254740992 is out of range; must be a whole number from 0 to "
            "9007199254740991");
  EXPECT_EQ(error_of(request("0", charge("k", kTen, R"(,"cost":null)"))),
            "charges[0].cost: must be a whole number from 0 to 9007199254740991");
}

TEST(Decide, RefusesImpossibleLimits) {
  struct Case {
    std::string limit;
    std::string error;
  };
  const Case cases[] = {
      {"{}", ".algorithm: is missing"},
      {R"({"algorithm":"gcra"})", ".limit: is missing"},
      {R"({"algorithm":"gcra","limit":1})", ".per: is missing"},
      {R"({"algorithm":"GCRA","limit":1,"per":"1s"})",
       ".algorithm: 'GCRA' is unknown; expected fixed_window, sliding_window_log, "
       "sliding_window_counter, sliding_window_hybrid, leaky_bucket, token_bucket, gcra, "
       "concurrency or budget"},
      {R"({"algorithm":"gcra","limit":-1,"per":"1s"})",
       ".limit: -1 is out of range; must be a whole number from 0 to 9007199254740991"},
      {R"({"algorithm":"gcra","limit":1,"per":1})",
       ".per: must be text such as \"60s\" or \"500ms\""},
      {R"({"algorithm":"gcra","limit":1,"per":"1"})",
       ".per: '1' has no unit; expected a whole number and its unit (ms, s, m, h or d), such as "
       "1s"},
      {R"({"algorithm":"gcra","limit":1,"per":"367d"})",
       ": per 367d is out of range; it must be 1ms to 366d"},
      {R"({"algorithm":"gcra","limit":1,"per":"1s","slices":2})",
       ": slices does not apply to gcra; it applies to sliding_window_counter and "
       "sliding_window_hybrid"},
      {R"({"algorithm":"leaky_bucket","limit":1,"per":"1s","mode":"drip"})",
       ".mode: 'drip' is unknown; expected meter or queue"},
      {R"({"algorithm":"fixed_window","limit":1,"per":"1s","align":"day"})",
       ".align: 'day' is unknown; expected first_request or clock"},
      {R"({"algorithm":"sliding_window_counter","limit":1,"per":"1s","weighting":""})",
       ".weighting: '' is unknown; expected linear or none"},
      {R"({"algorithm":"token_bucket","limit":1,"per":"1s","refill":"all"})",
       ".refill: 'all' is unknown; expected continuous or interval"},
      {R"({"algorithm":"token_bucket","limit":1,"per":"1s","burst":0})",
       ": burst 0 is out of range; it must be 1 to 4294967295"},
      {R"({"algorithm":"gcra","limit":1,"per":"1s","brust":0})",
       ": unknown key 'brust'; expected one of: algorithm, limit, per, lease, zone, starts, burst, "
       "align, slices, weighting, mode, refill, on_expiry, holds, remember"},
      {R"({"algorithm":"gcra","limit":1,"per":"month"})",
       ": per month does not apply to gcra; it applies to fixed_window and budget"},
      {R"({"algorithm":"fixed_window","limit":1,"per":"1s","zone":"UTC"})",
       ".zone: applies only to windows of the calendar; expected also 'per' with day, week, month "
       "or year"},
      {R"({"algorithm":"fixed_window","limit":1,"per":"day","zone":"Mars"})",
       ".zone: there is no time zone 'Mars' in /usr/share/zoneinfo; expected a name of the IANA "
       "time zone database, such as Asia/Shanghai"},
      {R"({"algorithm":"fixed_window","limit":1,"per":"week","starts":7})",
       ": 'starts' is '7'; expected a day of the week, monday to sunday"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(error_of(request("0", charge("k", c.limit))), "charges[0].limit" + c.error);
  }
}

TEST(Decide, RefusesTwoLimitsOnOneCounter) {
  const std::string other = R"({"algorithm":"token_bucket","limit":11,"per":"1s"})";
  const std::string third = R"({"algorithm":"gcra","limit":11,"per":"1s"})";
  EXPECT_EQ(error_of(request(
                "0", charge("k", kTen) + "," + charge("k", third) + "," + charge("k", other))),
            "charges[2]: uses the counter of charges[0] (same key and algorithm) with different "
            "numbers; give each limit its own key");
}

TEST(Decide, ErrorsAreShortAndValidForAnyLine) {
  const std::string long_text(1 << 20, 'x');
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xE8\xAF\xB7";
  for (const std::string& text : {long_text, wide, "x" + wide, "xx" + wide}) {
    const std::string in_quotes = "\"" + text + "\"";
    for (const std::string& line :
         {"{" + in_quotes + ":1}", "{" + in_quotes + ":1," + in_quotes + ":2}",
          request("0", charge("k", kTen), ",\"verb\":" + in_quotes),
          request("0", charge("k", R"({"algorithm":)" + in_quotes + "}")),
          request("0", charge("k", R"({"algorithm":"gcra","limit":1,"per":)" + in_quotes + "}")),
          request("0", charge("k", R"({"algorithm":"leaky_bucket","limit":1,"per":"1s","mode":)" +
                                       in_quotes + "}"))}) {
      const std::string answer = answer_to(line);
      EXPECT_LT(answer.size(), 400u);
      boost::json::error_code error;
      EXPECT_TRUE(boost::json::parse(answer, error).is_object()) << answer;
      EXPECT_FALSE(error) << answer;
    }
  }
}

TEST(Decide, HandsOutPermitsAndTakesThemBack) {
  const std::string slot = charge("k", R"({"algorithm":"concurrency","limit":1,"lease":"30s"})");
  MemoryStore store;
  DecisionFilter filter(store);
  const std::string first = filter.answer(request("0", slot));
  const std::string_view name = R"("permit":")";
  const std::size_t at = first.find(name);
  ASSERT_NE(at, std::string::npos) << first;
  const std::string permit =
      first.substr(at + name.size(), first.find('"', at + name.size()) - at - name.size());
  const auto change = [&](const std::string& verb, const std::string& at_us) {
    return filter.answer(R"({"at_us":)" + at_us + R"(,"verb":")" + verb + R"(","permit":")" +
                         permit + "\"}");
  };
  EXPECT_NE(filter.answer(request("1", slot)).find(R"("retry_after_us":29999999)"),
            std::string::npos);
  EXPECT_EQ(change("extend", "10"), R"({"outcome":"allowed","reason":"ok"})");
  EXPECT_NE(filter.answer(request("11", slot)).find(R"("retry_after_us":29999999)"),
            std::string::npos);
  EXPECT_EQ(change("release", "12"), R"({"outcome":"allowed","reason":"ok"})");
  EXPECT_EQ(change("release", "12"), R"({"outcome":"denied","reason":"gone"})");
  EXPECT_EQ(change("extend", "12"), R"({"outcome":"denied","reason":"gone"})");
  EXPECT_NE(filter.answer(request("13", slot)).find(name), std::string::npos);
  EXPECT_EQ(filter.answer(request("13", slot, R"(,"verb":"peek")")).find(name), std::string::npos);
}

TEST(Decide, ReportsMistakesAboutPermits) {
  const std::string slot = charge("k", R"({"algorithm":"concurrency","limit":1,"lease":"30s"})");
  EXPECT_EQ(error_of(R"({"at_us":0,"verb":"release"})"), "permit: is missing");
  EXPECT_TRUE(error_of(R"({"at_us":0,"verb":"extend","permit":"x"})").starts_with("permit: "));
  EXPECT_EQ(error_of(R"({"at_us":0,"permit":"x","charges":[]})"),
            "permit: is only for release and extend; leave it out");
  EXPECT_EQ(error_of(request("0", slot, R"(,"verb":"release")")),
            "charges: a permit names its own; leave them out");
  EXPECT_EQ(error_of(request("0", slot, R"(,"verb":"charge")")),
            "charges[0]: concurrency cannot be charged; expected another verb or algorithm");
  EXPECT_EQ(
      error_of(request("0", charge("k", R"({"algorithm":"concurrency","limit":1,"per":"1s"})"))),
      "charges[0].limit.per: does not apply to concurrency; expected 'lease'");
  EXPECT_EQ(error_of(request("0", charge("k", R"({"algorithm":"gcra","limit":1,"lease":"1s"})"))),
            "charges[0].limit.lease: does not apply to gcra; expected 'per'");
}

TEST(Decide, BadLineChangesNothing) {
  const std::string good = request("0", charge("k", kTen));
  const auto answers = answers_to(
      {good, request("0", charge("k", kTen) + "," + charge("k", kTen, R"(,"cost":-1)")), good});
  EXPECT_NE(answers[2].find(R"("remaining":18)"), std::string::npos);
}

// --- rules ---

class DecideByRules : public ::testing::Test {
 protected:
  DecideByRules() { filter_.use(rules_, overrides_); }
  std::string ask(const std::string& customer, const std::string& rest = "") {
    return filter_.answer(R"({"at_us":0,"attributes":{"header.x-customer":")" + customer +
                          R"(","header.x-plan":"pro"})" + rest + "}");
  }

  const RuleSet rules_ = *RuleSet::parse(
      "version: 1\n"
      "plans: { free: { day: { limit: 2, per: 1d } }, pro: { day: { limit: 5, per: 1d } } }\n"
      "rules:\n"
      "  - name: api\n"
      "    plan: { from: \"{header.x-plan}\", default: free }\n"
      "    limits: [ { name: day, key: \"{header.x-customer}\", algorithm: fixed_window } ]\n",
      "rules.yaml");
  Overrides overrides_;
  MemoryStore store_;
  DecisionFilter filter_{store_};
};

TEST_F(DecideByRules, NamesLimitsWithTheNumbersOfPlansAndOverrides) {
  EXPECT_EQ(
      ask("a"),
      R"({"outcome":"allowed","reason":"ok","rule":"api","limits":[{"rule":"api","name":"day","limit":5,"remaining":4,"reset_after_us":86400000000}]})");
  const auto set = overrides_.set("default|api|day|header.x-customer=b", {.limit = 1});
  ASSERT_TRUE(set) << set.error();
  EXPECT_TRUE(ask("b", R"(,"cost":2)").starts_with(R"({"outcome":"denied","reason":"never")"));
  EXPECT_TRUE(ask("b").starts_with(R"({"outcome":"allowed","reason":"ok")"));
}

TEST_F(DecideByRules, ExplainsWhatDoesNotGoTogether) {
  EXPECT_EQ(ask("a", R"(,"charges":[])"),
            R"({"error":"charges: come from the rules; leave them out","line":1})");
  EXPECT_EQ(filter_.answer(R"({"at_us":0,"attributes":{"a":1}})"),
            R"({"error":"attributes.a: must be text","line":2})");
  EXPECT_EQ(error_of(R"({"at_us":0,"attributes":{}})"),
            "attributes: need rules; expected the option --rules FILE");
  EXPECT_EQ(error_of(R"({"at_us":0,"cost":2,"charges":[]})"),
            "cost: is of a charge here; expected it in 'charges'");
  EXPECT_EQ(error_of(R"({"at_us":0,"verb":"settle","id":"a","attributes":{}})"),
            "actual: is missing");
  EXPECT_EQ(error_of(R"({"at_us":0,"verb":"cancel","id":"a","cost":1,"attributes":{}})"),
            "cost: is not for settle, cancel and extend; leave it out");
}

}  // namespace
}  // namespace sluice::cli
