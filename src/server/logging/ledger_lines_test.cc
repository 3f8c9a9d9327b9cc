#include "server/logging/ledger_lines.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/limit_builder.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

// Writes the entries of a store as lines.
class TextLedger final : public Ledger {
 public:
  void add(const LedgerEntry& entry) noexcept override {
    text_ += ledger_line(++n_, entry).text() + '\n';
  }
  void add(LedgerLine line) {
    line.n = ++n_;
    text_ += line.text() + '\n';
  }
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::uint64_t n_ = 0;
  std::string text_;
};

// Shows all lines to the replay.
void prepare(LedgerReplay& replay, std::string_view text) {
  for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    replay.prepare(text.substr(0, end));
  }
}

// What a replay of the text says, one line each: "3 wrong: WHAT".
std::string problems(
    std::string_view text, const LedgerReplay::See& see = [](const LedgerLine&) {}) {
  std::string out;
  int number = 0;
  const auto report = [&](bool is_wrong, const std::string& what) {
    out += std::to_string(number) + (is_wrong ? " wrong: " : " incomplete: ") + what + '\n';
  };
  LedgerReplay replay(report, see);
  prepare(replay, text);
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    if (end == text.npos) return out + std::to_string(number) + " cut\n";
    if (const auto line = parse_ledger_line(text.substr(0, end))) {
      replay.add(*line);
    } else {
      out += std::to_string(number) + " " + line.error() + '\n';
    }
    text.remove_prefix(end + 1);
  }
  return out;
}

class LedgerLines : public ::testing::Test {
 protected:
  void one(Action action, std::uint64_t cost, std::string_view id, Duration at,
           std::string_view key = "default|models|org|header.x-org=a%7Cb| |v1") {
    const PermitId name = PermitId::named(id);
    store_.apply_one(action,
                     {.key = key,
                      .limit = budget(100).per(1min),
                      .cost = cost,
                      .permit = id.empty() ? nullptr : &name,
                      .id_text = id,
                      .rule = {.keyspace = Keyspace::kRules}},
                     Instant{at});
  }
  // Calls of each kind, on two counters, over several windows.
  std::string history() {
    ledger_.add({.at = Instant{90s}, .kind = "start", .version = "1"});
    one(Verb::kTake, 5, "", 100s);
    one({Verb::kHold, 10s}, 7, "a", 101s);
    one({Verb::kHold, 30s}, 8, "b", 102s);
    one({Verb::kHold, 60s}, 9, "c", 103s, "default|models|other");
    one({Verb::kExtend, 20s}, 0, "a", 104s);
    one(Verb::kSettle, 6, "a", 105s);
    one(Verb::kTake, 1, "", 140s);
    one(Verb::kSettle, 3, "b", 141s);
    one(Verb::kCancel, 0, "c", 142s, "default|models|other");
    one(Verb::kCharge, 99, "", 143s);
    one(Verb::kRefund, 12, "", 144s);
    one(Verb::kTake, 4, "d", 200s);
    one(Verb::kReset, 0, "", 201s);
    ledger_.add({.at = Instant{210s}, .kind = "stop"});
    return ledger_.take();
  }

  TextLedger ledger_;
  MemoryStore store_{{.ledger = &ledger_}};
};

TEST_F(LedgerLines, NameTheCounterAndTheCall) {
  one({Verb::kHold, 10s}, 7, "call-1", Duration{61'000'001});
  EXPECT_EQ(
      ledger_.take(),
      R"({"n":1,"at":"1970-01-01T00:01:01.000001Z","kind":"hold","rule":"models","limit":"org",)"
      R"("key":"a|b v1","counter":"default|models|org|header.x-org=a%7Cb| |v1",)"
      R"("id":"call-1","hash":"a94ac6529aed34580774","spent":0,"spent_after":0,"held":7,"held_after":7,)"
      R"("limit_units":100,"window":"1970-01-01T00:01:00.000000Z",)"
      R"("ends":"1970-01-01T00:01:11.000001Z","on_expiry":"charge","new":true})"
      "\n");
}

TEST_F(LedgerLines, AreReadAsTheyWereWritten) {
  std::string text = history();
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1)) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const auto read = parse_ledger_line(line);
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(read->text(), line);
  }
  EXPECT_FALSE(parse_ledger_line("{}"));
  EXPECT_FALSE(parse_ledger_line("[]"));
  EXPECT_FALSE(parse_ledger_line(R"({"n":1,"at":"1970-01-01T00:00:01Z","kind":"other"})"));
  EXPECT_TRUE(
      parse_ledger_line(R"({"n":1,"at":"1970-01-01T00:00:01Z","kind":"stop","later":1.5})"));
}

TEST_F(LedgerLines, OfAStoreAgree) { EXPECT_EQ(problems(history()), ""); }

TEST_F(LedgerLines, WithAnotherNumberDoNotAgree) {
  const std::string text = history();
  for (const std::string_view name :
       {"\"n\":", "\"spent\":", "\"spent_after\":", "\"held\":", "\"held_after\":"}) {
    for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
      std::size_t digit = at + name.size();
      if (text[digit] == '-') ++digit;
      // The number with which a file begins is free.
      for (; digit > 10 && text[digit] >= '0' && text[digit] <= '9'; ++digit) {
        std::string changed = text;
        changed[digit] = changed[digit] == '9' ? '8' : static_cast<char>(changed[digit] + 1);
        EXPECT_NE(problems(changed), "") << changed.substr(at, 40);
      }
    }
  }
}

// Whatever the bytes are, they are read without a fault, and a line that lacks bytes is found.
TEST_F(LedgerLines, OfWhichBytesAreMissingDoNotAgree) {
  const std::string all = history();
  const std::string text = all.substr(0, all.find("{\"n\":5,"));
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string cut = text.substr(0, at);
    EXPECT_EQ(problems(cut).empty(), cut.empty() || cut.ends_with('\n')) << at;
    for (const char other : {'\0', '"', '}', '0', '-', '\n'}) {
      std::string changed = text;
      changed[at] = other;
      problems(changed);
    }
    const std::size_t end = text.find('\n', at);
    const bool is_line = at == 0 || text[at - 1] == '\n';
    if (is_line && end + 1 < text.size()) {
      EXPECT_NE(problems(text.substr(0, at) + text.substr(end + 1)), "") << "line at " << at;
    }
  }
}

TEST_F(LedgerLines, SayWhatIsWrong) {
  std::string text = history();
  const std::size_t at = text.find("6,\"spent_after\":11,");
  ASSERT_NE(at, text.npos) << text;
  text[at] = '7';
  EXPECT_EQ(problems(text),
            "7 wrong: 'default|models|org|header.x-org=a%7Cb| |v1': its balance before; expected "
            "spent 5 and held 15, found spent 4 and held 15\n");
}

// Every line says the same of the key, so no balance differs.
TEST_F(LedgerLines, WithAnotherNameThanTheirCounterDoNotAgree) {
  const auto changed = [&](std::string_view what, std::string_view to) {
    std::string text = history();
    for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += to.size()) {
      text.replace(at, what.size(), to);
    }
    return problems(text);
  };
  EXPECT_EQ(changed("none of this", ""), "");
  EXPECT_NE(changed(R"("key":"a|b)", R"("key":"a|c)").find("it has another name than its counter"),
            std::string::npos)
      << history();
  EXPECT_NE(
      changed(R"("rule":"models")", R"("rule":"model")").find("expected rule 'models', limit"),
      std::string::npos);
  EXPECT_NE(changed(R"("limit":"org")", R"("limit":"agent")")
                .find("found rule 'models', limit "
                      "'agent'"),
            std::string::npos);
}

// The hash names the hold, so no balance differs.
TEST_F(LedgerLines, WithAnotherIdThanTheirHashDoNotAgree) {
  std::string text = history();
  const std::size_t at = text.find(R"("id":"b")");
  ASSERT_NE(at, text.npos) << text;
  text.replace(at, 8, R"("id":"zz")");
  EXPECT_NE(problems(text).find("|v1': its id 'zz' has another hash; expected "), std::string::npos)
      << problems(text);
}

// An id may have any bytes, and a line only text.
TEST_F(LedgerLines, OfIdsOfAnyBytesAgree) {
  using namespace std::string_view_literals;
  for (const std::string_view id :
       {"a\0b"sv, "\0"sv, "a|b"sv, "a\nb"sv, "a\xff"sv, "\uFFFD"sv, "\"\\"sv, "\u00fc"sv}) {
    one({Verb::kHold, 10s}, 7, id, 100s);
    one(Verb::kSettle, 6, id, 101s);
    one(Verb::kReset, 0, "", 102s);
  }
  EXPECT_EQ(problems(ledger_.take()), "");
}

// As a cluster does it: a hold, its extension, and its settlement.
TEST_F(LedgerLines, SayWhatIsTakenBack) {
  const auto line = [](int n, std::string_view kind, int spent, int spent_after, int held,
                       int held_after, std::string_view ends) {
    const auto number = [](int value) { return std::to_string(value); };
    std::string text = "{\"n\":" + number(n) + ",\"at\":\"1970-01-01T00:01:0" + number(n) +
                       "Z\",\"kind\":\"" + std::string(kind) +
                       "\",\"key\":\"k\",\"hash\":\"aa\",\"spent\":" + number(spent) +
                       ",\"spent_after\":" + number(spent_after) + ",\"held\":" + number(held) +
                       ",\"held_after\":" + number(held_after);
    if (!ends.empty()) text += ",\"ends\":\"1970-01-01T00:" + std::string(ends) + "Z\"";
    return text + "}\n";
  };
  const std::string text =
      line(1, "hold", 0, 0, 2, 2, "02:00") + line(2, "extend", 0, 0, 0, 2, "03:00") +
      line(3, "undo", 0, 0, 0, 2, "02:00") + line(4, "settle", 1, 1, -2, 0, "") +
      line(5, "undo", -1, 0, 2, 2, "02:00") + line(6, "undo", 0, 0, -2, 0, "");
  EXPECT_EQ(problems(text), "");
  EXPECT_NE(problems(text + line(7, "settle", 1, 1, -2, 0, "")), "");
}

TEST_F(LedgerLines, WithAHoldThatEndsTwiceDoNotAgree) {
  const std::string hold =
      R"({"n":2,"at":"1970-01-01T00:01:01Z","kind":"hold","key":"k","hash":"aa","spent":0,)"
      R"("spent_after":0,"held":2,"held_after":2,"ends":"1970-01-01T00:02:00Z"})";
  const auto settle = [](int n) {
    return R"({"n":)" + std::to_string(n) +
           R"(,"at":"1970-01-01T00:01:02Z","kind":"settle","key":"k","hash":"aa","spent":0,)"
           R"("spent_after":0,"held":-2,"held_after":0})"
           "\n";
  };
  const std::string start = R"({"n":1,"at":"1970-01-01T00:01:00Z","kind":"start"})"
                            "\n";
  EXPECT_EQ(problems(start + hold + '\n' + settle(3)), "");
  EXPECT_EQ(problems(start + hold + '\n' + settle(3) + settle(4)),
            "4 wrong: 'k': its balance before; expected spent 0 and held 0, found spent 0 and held "
            "2\n");
  const std::string again =
      R"({"n":4,"at":"1970-01-01T00:01:03Z","kind":"settle","key":"k","hash":"aa","spent":5,)"
      R"("spent_after":5,"held":0,"held_after":0})"
      "\n";
  EXPECT_EQ(problems(start + hold + '\n' + settle(3) + again),
            "4 wrong: 'k': the hold aa has ended before, or never began\n");
}

// As after an eviction, or after a window that a longer one contains now.
TEST_F(LedgerLines, OfACounterThatBeganAgainHaveAGap) {
  ledger_.add({.at = Instant{90s}, .kind = "start", .version = "1"});
  const auto take = [&](Limit limit, Duration at) {
    store_.apply_one(Verb::kTake, {.key = "k", .limit = limit, .cost = 5}, Instant{at});
  };
  take(budget(100).per(1min), 100s);
  take(budget(100).per(1min), 101s);
  take(budget(100).per(1h), 200s);  // the window of a minute was over, and the counter forgotten
  take(budget(100).per(1h), 201s);
  const std::string text = ledger_.take();
  EXPECT_EQ(problems(text),
            "4 incomplete: 'k': a gap: its counter was evicted, or forgotten before its limit got "
            "a longer 'per', and began again; what it had does not count any more: spent 10 and "
            "held 0\n");
}

TEST_F(LedgerLines, FollowRestarts) {
  const auto take = [](int n, int spent, int after) {
    return R"({"n":)" + std::to_string(n) +
           R"(,"at":"1970-01-01T00:01:05Z","kind":"take","key":"k","spent":)" +
           std::to_string(spent) + R"(,"spent_after":)" + std::to_string(after) +
           R"(,"held":0,"held_after":0})"
           "\n";
  };
  const auto other = [](int n, const std::string& rest) {
    return R"({"n":)" + std::to_string(n) + R"(,"at":"1970-01-01T00:01:05Z","kind":)" + rest +
           "}\n";
  };
  const std::string first = other(1, R"("start")") + take(2, 3, 3);
  // With a snapshot the balance goes on, without one it begins again.
  const std::string restored = R"("start","restored":"1970-01-01T00:01:06Z")";
  EXPECT_EQ(problems(first + other(3, R"("stop")") + other(4, restored) + take(5, 2, 5)), "");
  EXPECT_NE(problems(first + other(3, R"("stop")") + other(4, restored) + take(5, 2, 2)), "");
  EXPECT_EQ(problems(first + other(3, R"("stop")") + other(4, R"("start")") + take(5, 2, 2)), "");
  EXPECT_NE(problems(first + other(3, R"("stop")") + other(4, R"("start")") + take(5, 2, 5)), "");
  // After a kill, the balance may be that of an earlier snapshot.
  EXPECT_EQ(
      problems(first + other(3, restored) + take(4, 2, 4) + take(5, 1, 5)),
      "3 incomplete: a start without a stop before it: that server was killed, so its last "
      "entries, of at most ledger.flush, may be missing; or its log says how many could not be "
      "written\n");
  // Another file of the same server goes on; by itself it begins anywhere.
  const std::string next = other(4, R"("start","rotated":true)") + take(5, 2, 5);
  EXPECT_EQ(problems(first + other(3, R"("stop","rotated":true)") + next), "");
  const std::string gap =
      "1 incomplete: a gap: lines before n 4 are in an earlier file, or missing; what they have "
      "spent does not count\n";
  EXPECT_EQ(problems(next + take(6, 1, 6)), gap);
  EXPECT_NE(problems(next + take(6, 1, 5)), gap);
  // So does a new file after the first was renamed while no server ran.
  const std::string renamed = other(1, restored) + take(2, 2, 5);
  EXPECT_EQ(problems(first + other(3, R"("stop")") + renamed), "");
  EXPECT_NE(problems(first + other(3, R"("stop")") + other(1, restored) + take(2, 2, 6)), "");
  EXPECT_NE(problems(first + renamed), "") << "it was killed";
  EXPECT_EQ(problems(renamed),
            "1 incomplete: a gap: lines before n 1 are in an earlier file, or missing; what they "
            "have spent does not count\n");
  EXPECT_EQ(problems(first + other(3, R"("gap","lost":7)") + take(4, 1, 9) + take(5, 1, 10)),
            "3 wrong: 7 entries are missing, which could not be written\n");
}

// Lines of a counter at a second of 1970. Members: kind, spent, spent_after, held, held_after.
class TextLines {
 public:
  void add(int second, const std::string& members) {
    const std::string at = "1970-01-01T00:01:" + std::to_string(second) + "Z";
    text_ += R"({"n":)" + std::to_string(++n_) + R"(,"at":")" + at + R"(",)" + members + "}\n";
  }
  void change(int second, const std::string& kind, const std::string& key, int spent, int after,
              int held = 0, int held_after = 0) {
    std::string members = R"("kind":")" + kind + R"(","key":")" + key + R"(")";
    if (held != 0) members += R"(,"hash":"aa","ends":"1970-01-01T00:02:00Z")";
    for (const auto& [name, value] :
         {std::pair("spent", spent), {"spent_after", after}, {"held", held}}) {
      members += std::string(",\"") + name + "\":" + std::to_string(value);
    }
    add(second, members + R"(,"held_after":)" + std::to_string(held_after));
  }
  // Sums by key.
  std::map<std::string, std::int64_t> sums() const {
    std::map<std::string, std::int64_t> sums;
    problems(text_, [&](const LedgerLine& line) { sums[line.key] += line.spent; });
    return sums;
  }
  const std::string& text() const { return text_; }

 private:
  int n_ = 0;
  std::string text_;
};

TEST_F(LedgerLines, AfterTheSnapshotOfACrashDoNotCount) {
  TextLines lines;
  lines.add(10, R"("kind":"start")");
  lines.change(11, "take", "quiet", 3, 3);
  lines.change(12, "hold", "k", 0, 0, 5, 5);
  lines.change(14, "take", "k", 7, 7, 0, 5);
  lines.change(14, "take", "quiet", 4, 7);
  lines.change(14, "take", "new", 9, 9);
  lines.change(15, "settle", "k", 20, 27, -5, 0);
  lines.add(20, R"("kind":"start","restored":"1970-01-01T00:01:13Z")");
  lines.change(21, "settle", "k", 20, 20, -5, 0);
  lines.change(22, "take", "k", 1, 21);
  EXPECT_EQ(
      problems(lines.text()),
      "8 incomplete: a start without a stop before it: that server was killed, so its last "
      "entries, of at most ledger.flush, may be missing; or its log says how many could not be "
      "written\n"
      "8 incomplete: 4 entries after the snapshot were undone by a crash, so they do not "
      "count\n");
  EXPECT_EQ(lines.sums(), (std::map<std::string, std::int64_t>{{"k", 21}, {"quiet", 3}}));
  // A crash before the next snapshot undoes all since the first one.
  lines.add(30, R"("kind":"start","restored":"1970-01-01T00:01:13Z")");
  EXPECT_EQ(lines.sums(), (std::map<std::string, std::int64_t>{{"k", 0}, {"quiet", 3}}));
}

// A snapshot has each counter as it was at some instant while it was made, and perhaps entries that
// were not written any more.
TEST_F(LedgerLines, AfterARestartSayWhatTheSnapshotHad) {
  TextLines lines;
  lines.add(10, R"("kind":"start")");
  lines.change(11, "take", "k", 3, 3);
  lines.change(14, "take", "k", 4, 7);
  lines.add(20, R"("kind":"start","restored":"1970-01-01T00:01:13Z")");
  lines.change(21, "take", "k", 1, 8);
  EXPECT_EQ(lines.sums()["k"], 8);
  lines.change(22, "take", "k", 1, 19);
  EXPECT_NE(problems(lines.text()).find("6 wrong: 'k': its balance before"), std::string::npos);
  EXPECT_EQ(lines.sums()["k"], 9) << "only the first line after a restart corrects";
}

// The server that knew the holds is gone; the next one begins without them.
TEST_F(LedgerLines, CountHoldsThatEndBeforeTheNextServerBegins) {
  TextLines lines;
  const auto hold = [&](const std::string& key, int end) {
    lines.add(11, R"("kind":"hold","key":")" + key + R"(","hash":"aa","on_expiry":"charge",)" +
                      R"("ends":"1970-01-01T00:01:)" + std::to_string(end) +
                      R"(Z","spent":0,"spent_after":0,"held":5,"held_after":5)");
  };
  lines.add(10, R"("kind":"start")");
  hold("ended", 19);
  hold("open", 21);
  lines.add(12, R"("kind":"stop")");
  lines.add(20, R"("kind":"start")");
  lines.add(30, R"("kind":"stop")");
  EXPECT_EQ(problems(lines.text()), "");
  EXPECT_EQ(lines.sums(), (std::map<std::string, std::int64_t>{{"ended", 5}, {"open", 0}}));
}

// Nobody asks again for a counter that is forgotten, so nobody reports the end of its holds.
TEST_F(LedgerLines, CountHoldsWhoseEndNobodyReports) {
  std::string spent;
  LedgerReplay replay([](auto, const std::string& what) { ADD_FAILURE() << what; },
                      [&](const LedgerLine& line) {
                        spent +=
                            line.kind + " " + line.key + " " + std::to_string(line.spent) + "\n";
                      });
  one({Verb::kHold, 10s}, 7, "a", 101s, "default|models|org|x=1");
  const std::string text = ledger_.take();
  replay.add(*parse_ledger_line(text.substr(0, text.size() - 1)));
  replay.end(Instant{110s});
  EXPECT_EQ(spent, "hold 1 0\n");
  replay.end(Instant{111s});
  EXPECT_EQ(spent, "hold 1 0\ncharged 1 7\n");
}

}  // namespace
}  // namespace sluice::server
