#include "cli/top_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <string>

#include "base/civil_time.h"

namespace sluice::cli {
namespace {

using namespace std::chrono_literals;
using Pressed = TopView::Pressed;

TopSample sample_at(std::chrono::seconds at, std::uint64_t orders, std::uint64_t denied) {
  TopSample sample;
  sample.at = std::chrono::steady_clock::time_point(at);
  sample.server = "sluice 1.2.3, up 5 s, store memory";
  sample.seconds = 50;
  sample.counts = {{{"", ""}, {7, 0}},
                   {{"order", ""}, {orders, denied, denied / 10}},
                   {{"order", "user"}, {orders, denied, 0, 0, 2 * denied}},
                   {{"api", ""}, {10 * orders, 0}}};
  sample.keys = {{"order", "user", "user-7", 1234, 3}, {"api", "ip", "203.0.113.9", 20, 0, true}};
  return sample;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Returns the line that begins with this text.
std::string line_of(const TopView& view, std::string_view begin) {
  for (const std::string& line : view.report(120)) {
    if (line.starts_with(begin)) return line;
  }
  return {};
}

TEST(TopSums, AddUpServers) {
  TopSum servers;
  servers.add("a:1", sample_at(0s, 100, 10));
  servers.add("b:1", sample_at(0s, 1000, 100));
  const TopSample first = servers.take();
  EXPECT_EQ(first.server, "servers: a:1, b:1");
  EXPECT_EQ(first.counts.at({"order", ""}).requests, 0U) << "rates are of what is new";
  ASSERT_EQ(first.keys.size(), 2U);
  EXPECT_EQ(first.keys[0].count, 2468U);
  EXPECT_EQ(first.keys[0].error, 6U);

  servers.add("a:1", sample_at(2s, 120, 15));
  servers.add("b:1", sample_at(2s, 30, 3));  // it was started again
  EXPECT_EQ(servers.take().counts.at({"order", ""}).requests, 50U);
  servers.add("a:1", sample_at(4s, 130, 15));
  servers.fail("b:1", "no answer");
  const TopSample alone = servers.take();
  EXPECT_EQ(alone.counts.at({"order", ""}).requests, 60U);
  EXPECT_EQ(alone.trouble, std::vector<std::string>{"b:1: no answer"});
  TopSample again = sample_at(6s, 40, 3);
  again.trouble = {"OUTAGE", "  meanwhile"};
  again.keys = {{"order", "user", "user-9", 9999, 0}};
  servers.add("a:1", sample_at(6s, 130, 15));
  servers.add("b:1", again);
  const TopSample last = servers.take();
  EXPECT_EQ(last.counts.at({"order", ""}).requests, 70U);
  EXPECT_EQ(last.trouble, (std::vector<std::string>{"b:1: OUTAGE", "  meanwhile"}));
  EXPECT_EQ(last.keys[0].key, "user-9") << "the highest counts first";
}

TEST(TopMetrics, AreReadByRuleAndLimit) {
  const auto counts = read_counts(
      "# HELP sluice_requests_total Decided requests.\n"
      "sluice_requests_total{rule=\"\",outcome=\"allowed\",reason=\"ok\"} 5\n"
      "sluice_requests_total{rule=\"a\\\"},\\n\",outcome=\"allowed\",reason=\"ok\"} 7\n"
      "sluice_requests_total{rule=\"a\\\"},\\n\",outcome=\"denied\",reason=\"limited\"} 2e3\n"
      "sluice_requests_total{rule=\"c\",outcome=\"allowed\",reason=\"fallback\"} 4\n"
      "sluice_decisions_total{rule=\"b\",limit=\"l\",outcome=\"denied\",reason=\"limited\"} 3\n"
      "sluice_decisions_total{rule=\"b\",limit=\"l\",outcome=\"denied\",reason=\"store_error\"} 2\n"
      "sluice_shadow_denials_total{rule=\"b\",limit=\"l\"} 4\n"
      "sluice_limits_skipped_total{rule=\"b\",limit=\"l\"} 8\n"
      "sluice_other_total{rule=\"b\",limit=\"l\"} 1\n"
      "sluice_requests_total{rule=\"cut");
  ASSERT_EQ(counts.size(), 5U);
  EXPECT_EQ(counts.at({"", ""}).requests, 5U);
  EXPECT_EQ(counts.at({"a\"},\n", ""}).requests, 2007U);
  EXPECT_EQ(counts.at({"a\"},\n", ""}).denied, 2000U);
  EXPECT_EQ(counts.at({"c", ""}).failed, 4U);
  EXPECT_EQ(counts.at({"c", ""}).denied, 0U);
  const RequestCounts of = counts.at({"b", "l"});
  EXPECT_EQ(of.requests, 5U);
  EXPECT_EQ(of.denied, 1U) << "4 of the 5 in shadow mode";
  EXPECT_EQ(of.failed, 2U);
  EXPECT_EQ(of.shadow, 4U);
  EXPECT_EQ(counts.at({"b", ""}).shadow, 4U);
  EXPECT_EQ(counts.at({"b", ""}).requests, 5U) << "other rules counted them";
  EXPECT_EQ(of.skipped, 8U);
}

boost::json::object status_of(const std::string& members) {
  return boost::json::parse(R"({"version":"1.2.3","uptime_s":5,"ready":true,"draining":false,)" +
                            members + "}")
      .as_object();
}

TEST(ServerLine, DoesNotMixConnectionsOfTheStoreAndOfClients) {
  EXPECT_EQ(
      server_line(status_of(
          R"("listeners":[{"name":"http","connections":1200},{"name":"admin","connections":1}],)"
          R"("store":{"kind":"redis","connections":3},"rules":{"version":7})")),
      "sluice 1.2.3, up 5 s, store redis with 3 connections, rules version 7; clients: http "
      "1,200, admin 1");
  EXPECT_EQ(server_line(status_of(R"("store":{"kind":"redis","connections":1})")),
            "sluice 1.2.3, up 5 s, store redis with 1 connection");
}

TEST(Trouble, IsWhatIsWrongAndWhatHappensMeanwhile) {
  const Instant now = *base::parse_rfc3339("2026-11-26T23:13:16Z");
  EXPECT_TRUE(trouble_of(status_of(R"("rules":{"last_errors":[]})"), now).empty());
  EXPECT_EQ(
      text_of(trouble_of(
          status_of(
              R"("outage":{"since":"2026-11-26T23:10:04Z","why":"Redis at 127.0.0.1:6379 refuses )"
              R"(connections","rules":[{"name":"api","does":"allow"},{"name":"login","does":"local"},)"
              R"({"name":"b\u001b","does":"allow"}]},)"
              R"("rules_lost":{"since":"2026-11-26T23:12:16Z","why":"there are no rules"},)"
              R"("rules":{"last_errors":[{"file":"r.yaml","line":3,"what":"it is wrong"}]})"),
          now)),
      "OUTAGE since 2026-11-26T23:10:04Z (3 min 12 s): Redis at 127.0.0.1:6379 refuses "
      "connections\n"
      "  meanwhile everything passes: api, b\\x1b; local limits: login\n"
      "RULES LOST since 2026-11-26T23:12:16Z (1 min): there are no rules; the last rules stay "
      "active\n"
      "RULES REFUSED: r.yaml:3: it is wrong; the rules before stay active\n");
  EXPECT_EQ(
      text_of(trouble_of(
          status_of(
              R"("full":{"since":"2026-11-26T23:12:16Z","why":"it is","rules":)"
              R"([{"name":"api","does":"allow"},{"name":"login","does":"deny"}]},)"
              R"("slow":{"since":"2026-11-26T23:12:16Z","why":"redis://a:1: 4.1 % of ","rules":)"
              R"([{"name":"api","does":"deny"}]})"
              R"(,"overrides_lost":{"since":"2026-11-26T23:12:16Z","count":3,)"
              R"("counters":["default|api|user|k=a","default|api|user|k=b"],)"
              R"("why":"import them"},"gateway_not_trusted":{"since":"2026-11-26T23:12:16Z",)"
              R"("peer":"10.0.0.7","why":"10.0.0.7 says"},"rules_lost":{"since":"2026-11-26T23:12:16Z",)"
              R"("why":"from a file","from_cache":true})"),
          now)),
      "STORE FULL since 2026-11-26T23:12:16Z (1 min): it is\n"
      "  meanwhile, for keys without a counter (new clients), everything passes: api; everything "
      "is denied: login\n"
      "STORE SLOW since 2026-11-26T23:12:16Z (1 min): redis://a:1: 4.1 % of \n"
      "  meanwhile, for requests that it does not answer in time, everything is denied: api\n"
      "RULES FROM CACHE since 2026-11-26T23:12:16Z (1 min): from a file\n"
      "GATEWAY NOT TRUSTED since 2026-11-26T23:12:16Z (1 min): 10.0.0.7 says\n"
      "OVERRIDES LOST (3) since 2026-11-26T23:12:16Z (1 min): import them\n"
      "  they are: default|api|user|k=a, default|api|user|k=b and 1 more\n"
      "  blocks by 'block' of a limit are lost, too, and no server knows them: import an earlier "
      "export\n");
  EXPECT_EQ(text_of(trouble_of(boost::json::parse(R"({"ready":false})").as_object(), now)),
            "NOT READY: /readyz says why\n");
  EXPECT_EQ(text_of(trouble_of(boost::json::parse(R"({"draining":true})").as_object(), now)),
            "DRAINING: the server ends\n");
}

TEST(Trouble, IsAListenerNearItsMaximum) {
  const auto trouble = [](const std::string& listeners) {
    return text_of(trouble_of(status_of(R"("listeners":[)" + listeners + "]"), Instant{}));
  };
  EXPECT_EQ(trouble(R"({"name":"http","connections":9,"max":10},)"
                    R"({"name":"admin","connections":8,"max":10})"),
            "CONNECTIONS NEAR THE MAXIMUM: http 9 of 10 (bounds.connections); further ones are "
            "refused\n");
  EXPECT_EQ(trouble(R"({"name":"http","connections":9})"), "") << "of an older server";
  EXPECT_EQ(trouble(R"({"name":"grpc","connections":0,"max":0})"), "");
}

TEST(Trouble, SaysOneCauseOnce) {
  EXPECT_EQ(
      text_of(trouble_of(
          status_of(R"("rules_lost":{"since":"2026-11-26T23:12:16Z","why":"there are no rules"},)"
                    R"("rules":{"last_errors":[{"file":"sluice:rules","line":1,)"
                    R"("what":"there are no rules"}]})"),
          *base::parse_rfc3339("2026-11-26T23:13:16Z"))),
      "RULES LOST since 2026-11-26T23:12:16Z (1 min): there are no rules; the last rules "
      "stay active\n");
}

TEST(TopView, BeginsWithWhatIsWrong) {
  TopView view({});
  TopSample sample = sample_at(std::chrono::seconds(0), 0, 0);
  sample.trouble = {"OUTAGE since then", "  meanwhile everything passes: api"};
  view.add(sample);
  const auto lines = view.screen(100, 24);
  EXPECT_EQ(lines[0], "OUTAGE since then");
  EXPECT_EQ(lines[2], "sluice 1.2.3, up 5 s, store memory");
}

TEST(TopView, ShowsTheWholeCauseOfWhatIsWrong) {
  TopSum sum;
  TopSample one;
  one.server = "sluice";
  one.trouble = {
      "OUTAGE since 2026-11-26T23:10:04Z (3 min 12 s): Redis at 127.0.0.1:26379 refuses "
      "connections",
      "  meanwhile everything passes: api, search; local limits: login"};
  sum.add("127.0.0.1:6070", one);
  TopView view({});
  view.add(sum.take());
  const auto lines = view.screen(80, 24);
  EXPECT_EQ(lines[0], "127.0.0.1:6070: OUTAGE since 2026-11-26T23:10:04Z (3 min 12 s): Redis at");
  EXPECT_EQ(lines[1], "    127.0.0.1:26379 refuses connections");
  EXPECT_EQ(lines[2], "  meanwhile everything passes: api, search; local limits: login");
  EXPECT_EQ(lines[3], "servers: 127.0.0.1:6070");
  EXPECT_EQ(view.report(80)[0], "127.0.0.1:6070: " + one.trouble[0]) << "for a file";
  one.trouble = {std::string(1000, 'x') + std::string(999, ' ')};
  for (int i = 0; i < 999; ++i) one.trouble[0] += " x";
  view.add(one);
  EXPECT_EQ(view.screen(80, 24)[4], "sluice") << "a long one takes four lines";
}

TEST(TopView, ShowsRatesBetweenSamples) {
  TopView view({});
  view.add(sample_at(0s, 100, 10));
  view.add(sample_at(10s, 300, 60));
  EXPECT_EQ(line_of(view, "order"),
            "order                              20.0       5.0   25.0 %       0.5       10.0");
  EXPECT_EQ(line_of(view, "(all)"),
            "(all)                               220       5.0    2.3 %       0.5       10.0");
  view.add(sample_at(20s, 1, 0));  // another process
  EXPECT_EQ(line_of(view, "order"),
            "order                               0.0       0.0        -       0.0        0.0");
}

TEST(TopView, ShowsWhatARuleInShadowModeWouldDeny) {
  TopView view({});
  const auto at = [](std::chrono::seconds time, std::uint64_t would) {
    TopSample sample = sample_at(time, 0, 0);
    sample.counts[{"search", ""}] = {.requests = 2 * would, .shadow = would};
    sample.counts[{"order", ""}] = {.requests = would, .shadow = would};  // until a change
    sample.shadow = {"search"};
    return sample;
  };
  view.add(at(0s, 0));
  view.add(at(10s, 20));
  EXPECT_EQ(line_of(view, "search"),
            "search (would deny)                 4.0       2.0   50.0 %       0.0        0.0");
  EXPECT_EQ(line_of(view, "order"),
            "order                               2.0       0.0    0.0 %       0.0        0.0");
  EXPECT_EQ(line_of(view, "(all)"),
            "(all)                               6.0       0.0    0.0 %       0.0        0.0");
}

TEST(TopView, SortsRules) {
  TopView view({});
  view.add(sample_at(0s, 0, 0));
  view.add(sample_at(1s, 100, 10));
  const auto is_before = [&](std::string_view a, std::string_view b) {
    const std::string text = text_of(view.report(100));
    return text.find(a) < text.find(b);
  };
  EXPECT_TRUE(is_before("\norder", "\napi"));
  EXPECT_EQ(view.press("s"), Pressed::kRedraw);
  EXPECT_TRUE(is_before("\napi", "\norder"));
}

TEST(TopView, Filters) {
  TopView view({});
  view.add(sample_at(0s, 0, 0));
  EXPECT_EQ(view.press("/"), Pressed::kRedraw);
  EXPECT_EQ(view.press("userq\x7f-7"), Pressed::kRedraw);
  EXPECT_NE(text_of(view.screen(100, 24)).find("filter: user-7_"), std::string::npos);
  view.press("\r");
  EXPECT_NE(text_of(view.report(100)).find("user-7"), std::string::npos);
  EXPECT_EQ(text_of(view.report(100)).find("203.0.113.9"), std::string::npos);
  view.press("\x1b");
  EXPECT_NE(text_of(view.report(100)).find("(now shadow) 203.0.113.9"), std::string::npos);
  EXPECT_EQ(view.press("\x1b[A"), Pressed::kNothing);
  EXPECT_EQ(view.press("q"), Pressed::kQuit);
}

TEST(TopView, StandsWhilePaused) {
  TopView view({});
  view.add(sample_at(0s, 0, 0));
  view.press("p");
  TopSample next = sample_at(1s, 0, 0);
  next.server = "sluice 9.9.9";
  view.add(next);
  EXPECT_EQ(text_of(view.screen(100, 24)).find("9.9.9"), std::string::npos);
  EXPECT_NE(text_of(view.screen(100, 24)).find("[paused]"), std::string::npos);
  EXPECT_EQ(view.press("p"), Pressed::kAsk);
}

TEST(TopView, ShowsThePartsOfProxies) {
  TopView view({}, true);
  TopSample sample = sample_at(0s, 1, 1);
  sample.parts = {{"api", "requests", "user=anna", "10.0.0.7:4321", 40, 25, 100, 12'000}};
  view.add(sample);
  const std::string text = text_of(view.report(100));
  EXPECT_NE(text.find("      40.0      25.0    25.0 %   12.0 s  10.0.0.7:4321"), std::string::npos)
      << text;
  EXPECT_NE(text.find("api/requests"), std::string::npos);
  EXPECT_NE(text.find("user=anna"), std::string::npos);
  EXPECT_EQ(text.find("MOST DENIED"), std::string::npos);
  sample.parts.clear();
  sample.no_parts = "none";
  view.add(sample);
  EXPECT_NE(text_of(view.report(100)).find("none"), std::string::npos);
}

TEST(TopView, ChangesTheQuery) {
  TopView view({});
  EXPECT_EQ(view.press("b"), Pressed::kAsk);
  EXPECT_EQ(view.query().by, insight::TopBy::kAsked);
  EXPECT_EQ(view.press("w"), Pressed::kAsk);
  EXPECT_EQ(view.query().over, insight::Span::kHour);
}

TEST(TopView, SaysHowManyRulesASmallScreenLeavesOut) {
  TopView view({});
  TopSample sample = sample_at(0s, 0, 0);
  for (const char* name : {"a", "b", "c", "d"}) sample.counts[{name, ""}] = {};
  view.add(sample);
  sample.at += 1s;
  view.add(sample);
  const auto small = view.screen(100, 12);
  EXPECT_TRUE(small[2].starts_with("RULE ")) << text_of(small);
  EXPECT_TRUE(small[4].starts_with("a ")) << text_of(small);
  EXPECT_EQ(small[5], "... 5 more rules") << text_of(small);
  EXPECT_TRUE(small[6].starts_with("MOST DENIED KEYS")) << text_of(small);
  EXPECT_EQ(text_of(view.screen(100, 24)).find("more rule"), std::string::npos);
}

TEST(TopView, KeepsTheKeyOnANarrowScreen) {
  TopView view({});
  view.add(sample_at(0s, 0, 0));
  const std::string at_60 = text_of(view.screen(60, 24));
  EXPECT_NE(at_60.find("       COUNT  RULE/LIMIT              KEY\n"), std::string::npos) << at_60;
  EXPECT_NE(at_60.find("       1,234  order/user              user-7\n"), std::string::npos)
      << at_60;
  const std::string at_30 = text_of(view.screen(30, 24));
  EXPECT_NE(at_30.find("  user-7\n"), std::string::npos) << at_30;
  const std::string at_80 = text_of(view.screen(80, 24));
  EXPECT_NE(at_80.find("     ERROR    PER S  RULE/LIMIT"), std::string::npos) << at_80;
}

TEST(TopView, FitsAnyScreenAndHasNoControlCharacters) {
  TopView view({});
  TopSample sample = sample_at(0s, 1, 1);
  sample.keys[0].key = "\x1b[2J\u202Eevil\n\u009B" + std::string(1 << 20, 'x');
  sample.counts[{"\x1b]0;title\x07", ""}] = {1, 1};
  view.add(sample);
  sample.at += 1s;
  sample.counts[{"\x1b]0;title\x07", ""}] = {2, 2};
  view.add(sample);
  view.fail("\x1b[31m");
  for (const auto& [width, height] : {std::pair{80, 24}, {200, 60}, {10, 3}, {1, 1}}) {
    const auto lines =
        view.screen(static_cast<std::size_t>(width), static_cast<std::size_t>(height));
    EXPECT_LE(lines.size(), static_cast<std::size_t>(height));
    for (const std::string& line : lines) {
      EXPECT_TRUE(std::none_of(line.begin(), line.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
      })) << line;
      EXPECT_EQ(line.find("\u202E"), std::string::npos);
      EXPECT_EQ(line.find("\u009B"), std::string::npos);
      EXPECT_LE(
          std::count_if(line.begin(), line.end(),
                        [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }),
          width);
    }
  }
}

}  // namespace
}  // namespace sluice::cli
