#include "replay/suggest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <regex>
#include <stdexcept>

#include "replay/replay.h"
#include "replay/test_logs.h"
#include "tests/support/random_cases.h"

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;

// A log of a few hours with bursts, pauses and regular clients, with microseconds.
std::string random_log(unsigned seed, int keys) {
  std::mt19937 random(seed);
  const auto pick = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  std::int64_t now = 1'795'428'000'000'000 + pick(1'000'000);
  std::string text = "time,ip,path\n";
  for (int i = 0; i < 12'000; ++i) {
    const unsigned gaps[] = {0, 1, 1000, 100'000, 1'000'000, 3'000'000};
    now += pick(1 + gaps[pick(6)]);
    if (pick(2000) == 0) now += 3'600'000'000;
    const unsigned key = pick(pick(3) == 0 ? 3 : static_cast<unsigned>(keys));
    text += std::to_string(now) + ",10.0.0." + std::to_string(key) + ",/a\n";
  }
  return text;
}

class Suggest : public ::testing::Test {
 protected:
  SuggestReport suggest_for(const std::string& text) {
    options_.logs = {files_.write("log", text)};
    return suggest(rules_of(suggested_rules(options_, {})), options_);
  }
  static RuleSet rules_of(const std::string& yaml) {
    auto rules = RuleSet::parse(yaml, "suggested");
    if (!rules) throw std::runtime_error(rules.error().front().to_string());
    return *rules;
  }
  // Replays the log with the rules.
  ReplayReport replay_with(const RuleSet& rules) {
    ReplayOptions options;
    options.logs = options_.logs;
    options.fields = options_.fields;
    return replay(rules, options);
  }

  // Replays the log with the suggested limits: at most this share of the keys is denied, and
  // exactly what the suggestions say.
  void expect_harm(const SuggestReport& report, double harm) {
    const auto limits = suggestions(report, harm);
    const RuleSet rules = rules_of(suggested_rules(options_, limits));
    const ReplayReport replayed = replay_with(rules);
    ASSERT_EQ(replayed.tally.rules.size(), limits.size());
    for (std::size_t i = 0; i < limits.size(); ++i) {
      expect_denials(replayed.tally.rules[i].limits[0], limits[i]);
      EXPECT_LE(static_cast<double>(limits[i].keys_denied),
                harm * static_cast<double>(report.keys));
    }
  }
  static void expect_denials(const LimitTally& limit, const Suggestion& suggestion) {
    const std::string& name = limit.limit->name;
    EXPECT_EQ(limit.keys.keys_denied(), suggestion.keys_denied) << name;
    EXPECT_LE(limit.denied, suggestion.requests_denied) << name;
    if (suggestion.curve->algorithm != Algorithm::kFixedWindow) return;
    EXPECT_EQ(limit.denied, suggestion.requests_denied) << name;
  }

  TemporaryFiles files_;
  SuggestOptions options_ = [] {
    SuggestOptions options;
    options.periods = {1s, 1min, 1h};
    options.rate = 10;
    return options;
  }();
};

TEST_F(Suggest, LimitsDenyExactlyTheStatedKeysInAReplay) {
  for (unsigned seed = 1; seed <= sluice::testing::random_cases(1, 3); ++seed) {
    options_.rate = seed * 7;
    const SuggestReport report = suggest_for(random_log(seed, 200));
    for (const double harm : {0.0, 0.01, 0.1, 0.5}) expect_harm(report, harm);
  }
}

TEST_F(Suggest, AllowsExactlyTheShareOfTheKeys) {
  SuggestReport report;
  report.keys = 1000;
  DemandCurve& curve = report.curves.emplace_back(Algorithm::kFixedWindow, 1s, 10);
  for (int i = 0; i < 1000; ++i) curve.add_key(peak_code(i < 7 ? 5 : 1));
  EXPECT_EQ(suggestions(report, 0.7 / 100)[0].keys_denied, 7u) << "0.7 / 100 * 1000 < 7";
  EXPECT_EQ(suggestions(report, 0.69 / 100)[0].keys_denied, 0u);
}

TEST_F(Suggest, CountsWithAReplayWhatTheLimitsOfAllAlgorithmsDeny) {
  options_.counts_suggestions = true;
  options_.harm = 0.1;
  const SuggestReport report = suggest_for(random_log(3, 100));
  const auto limits = suggestions(report, 0.1);
  const ReplayReport replayed = replay_with(rules_of(suggested_rules(options_, limits)));
  bool is_below_bound = false;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    EXPECT_TRUE(limits[i].is_exact);
    EXPECT_EQ(limits[i].requests_denied, replayed.tally.rules[i].denied);
    is_below_bound |= limits[i].requests_denied < limits[i].curve->requests_over(limits[i].limit);
  }
  EXPECT_TRUE(is_below_bound);
  options_.most_kept = 100;
  EXPECT_EQ(suggest_for(random_log(3, 100)).replayed, report.replayed) << "reads the log again";
  options_.most_kept = SuggestOptions{}.most_kept;
  EXPECT_FALSE(suggestions(report, 0.2)[0].is_exact) << "only those for the share of the options";
  EXPECT_NE(suggest_text(report, 0.1, true).find("denies exactly these keys and requests.\n"),
            std::string::npos);
  EXPECT_EQ(suggest_json(report, 0.1).find("\"requests_denied_at_most\""), std::string::npos);
  options_.counts_suggestions = false;
  EXPECT_NE(suggest_text(suggest_for(random_log(3, 100)), 0.1, true).find("else upper bounds.\n"),
            std::string::npos);
}

TEST_F(Suggest, SmallerLimitsWouldDenyMoreKeys) {
  const SuggestReport report = suggest_for(random_log(4, 100));
  constexpr double kHarm = 0.05;
  auto limits = suggestions(report, kHarm);
  for (Suggestion& each : limits) {
    ASSERT_GT(each.limit, 1u);
    --each.limit;
  }
  const ReplayReport replayed = replay_with(rules_of(suggested_rules(options_, limits)));
  for (const RuleTally& rule : replayed.tally.rules) {
    EXPECT_GT(static_cast<double>(rule.limits[0].keys.keys_denied()),
              kHarm * static_cast<double>(report.keys))
        << rule.rule->name;
  }
}

TEST_F(Suggest, CountsUnitsThatTheLogGives) {
  options_.periods = {1s};
  options_.fields = {{"cost", "units"}};
  const SuggestReport report = suggest_for("time,ip,units\n1,a,70\n1,a,30\n3,b,10\n3,b,0\n");
  const auto limits = suggestions(report, 0.5);
  EXPECT_EQ(report.keys, 2u);
  EXPECT_EQ(limits[0].limit, 10u);
  EXPECT_EQ(limits[0].keys_denied, 1u);
  EXPECT_EQ(suggestions(report, 0)[0].limit, 100u);
}

TEST_F(Suggest, FollowsATimeThatGoesBack) {
  const SuggestReport report = suggest_for("time,ip\n10,a\n5,a\n10,a\n");
  EXPECT_NE(suggest_json(report, 0).find(R"("late":1,)"), std::string::npos);
  EXPECT_EQ(suggestions(report, 0)[0].limit, 3u) << "the late line is decided at the latest time";
}

// The rules of the advice, with those that are comments.
std::string all_rules(const std::string& yaml) {
  const std::string command = "sed 's/^  # /  /' THIS_FILE > NEW_FILE\n";
  EXPECT_NE(yaml.find(command), yaml.npos) << yaml;
  return std::regex_replace(yaml, std::regex("\n  # "), "\n  ");
}

// Requests of a site: pages with their pictures, an API, a form, and one client that guesses
// passwords at this second.
std::string site_log() {
  std::string text = "time,ip,method,path,agent\n";
  const auto add = [&](int at, const std::string& ip, const char* request) {
    text += std::to_string(1'700'000'000 + at) + "," + ip + "," + request + "\n";
  };
  for (int i = 0; i < 600; ++i) {
    const std::string ip = "10.0." + std::to_string(i % 37) + ".1";
    add(i * 40, ip, "GET,/shop/item,Firefox");
    for (int picture = 0; picture < 5; ++picture) add(i * 40 + 1, ip, "GET,/img/a.png,Firefox");
    if (i % 3 == 0) add(i * 40 + 2, ip, "GET,/api/items,Firefox");
    if (i % 9 == 0) add(i * 40 + 3, ip, "POST,/contact,Firefox");
    if (i % 5 == 0) add(i * 40 + 4, ip, "POST,/user/login,Firefox");
    if (i == 300) {
      for (int guess = 0; guess < 500; ++guess)
        add(i * 40 + 5, "10.9.9.9", "POST,/user/login,curl/8");
    }
  }
  return text;
}

TEST_F(Suggest, FindsRoutesAndDeniesExactlyTheStatedKeysAndRequestsThere) {
  options_.fields = {{"header.user-agent", "agent"}};
  options_.harm = 0.05;
  const SuggestReport report = suggest_for(site_log());
  const auto advice = advise(report, 0.05);
  ASSERT_EQ(advice.size(), 5u);
  EXPECT_EQ(advice[0].route->name, "pages");
  const RuleSet rules = rules_of(all_rules(advised_rules(report, advice)));
  const ReplayReport replayed = replay_with(rules);
  ASSERT_EQ(replayed.tally.rules.size(), 5u);
  EXPECT_EQ(replayed.tally.unmatched, 0u);
  for (const Advice& each : advice) {
    const auto found =
        std::find_if(replayed.tally.rules.begin(), replayed.tally.rules.end(),
                     [&](const RuleTally& rule) { return rule.rule->name == each.route->name; });
    ASSERT_NE(found, replayed.tally.rules.end()) << each.route->name;
    EXPECT_EQ(found->matched, each.route->demand.requests()) << each.route->name;
    EXPECT_EQ(found->limits[0].keys.keys_denied(), each.keys_denied) << each.route->name;
    EXPECT_EQ(found->denied, each.requests_denied) << each.route->name;
    EXPECT_EQ(each.is_exact, each.keys_denied > 0);
  }
}

TEST_F(Suggest, CountsExactlyWhatTheLimitForTheGivenShareDenies) {
  options_.harm = 0.1;
  for (const bool has_costs : {false, true}) {
    std::string log = random_log(6, 60);
    if (has_costs) {
      options_.fields = {{"cost", "cost"}};
      std::size_t line = 0;
      for (std::size_t at = 0; (at = log.find('\n', at)) != log.npos; ++line) {
        const std::string cost = line == 0 ? ",cost" : "," + std::to_string(line * 7 % 30);
        log.insert(at, cost);
        at += cost.size() + 1;
      }
    }
    const SuggestReport report = suggest_for(log);
    const auto advice = advise(report, 0.1);
    const ReplayReport replayed = replay_with(rules_of(advised_rules(report, advice)));
    ASSERT_GT(advice[0].keys_denied, 0u);
    EXPECT_TRUE(advice[0].is_exact);
    EXPECT_EQ(replayed.tally.rules[0].denied, advice[0].requests_denied);
    EXPECT_LT(advice[0].requests_denied, advice[0].curve->requests_over(advice[0].burst));
    EXPECT_NE(suggest_text(report, 0.1, false).find(": denies "), std::string::npos);
    EXPECT_EQ(suggest_text(report, 0.1, false).find("at most"), std::string::npos);
    EXPECT_NE(suggest_json(report, 0.1).find("\"requests_denied\":"), std::string::npos);
    const Advice other = advise(report, 0.3)[0];
    EXPECT_FALSE(other.is_exact);
    EXPECT_NE(denial_text(report, other).find("denies at most "), std::string::npos);
  }
}

TEST_F(Suggest, DeniesAndNamesTheFewWhoGuessPasswords) {
  options_.fields = {{"header.user-agent", "agent"}};
  const SuggestReport report = suggest_for(site_log());
  const auto advice = advise(report, 0);
  const Advice& login = advice[1];
  ASSERT_EQ(login.route->name, "login");
  EXPECT_EQ(login.route->match, "method: [POST], path: [/user/login]");
  EXPECT_EQ(login.keys_denied, 1u) << "though --harm 0 % denies no key elsewhere";
  EXPECT_LE(login.burst, 10u);
  ASSERT_FALSE(login.clients.empty());
  EXPECT_EQ(login.clients[0].label, "10.9.9.9");
  EXPECT_EQ(login.clients[0].requests, 500u);
  ASSERT_NE(login.clients[0].traits, nullptr);
  EXPECT_EQ(agent_of(*login.clients[0].traits), "curl/8");
  EXPECT_EQ(requests_of(*login.clients[0].traits), "POST /user/login");
  const std::string text = suggest_text(report, 0, false);
  EXPECT_TRUE(text.starts_with("pages: ")) << text;
  EXPECT_NE(text.find("10.9.9.9"), std::string::npos) << text;
}

// 20 clients that read pages and write to a forum, 4 that guess at a path that does not look like a
// login, and one that sends reports to another such path. Each client has `scale` times ten writes.
std::string guessing_log(int scale, const char* status) {
  std::string text = "time,ip,method,path,status\n";
  int at = 1'700'000'000;
  const auto add = [&](const std::string& ip, const std::string& request) {
    text += std::to_string(at += 3) + "," + ip + "," + request + "\n";
  };
  for (int round = 0; round < 10 * scale; ++round) {
    for (int client = 0; client < 20; ++client) {
      const std::string ip = "10.0.0." + std::to_string(client);
      for (int page = 0; page < 3; ++page) add(ip, "GET,/topic,200");
      add(ip, "POST,/topic/answer,302");
    }
    for (int client = 0; client < 4; ++client) {
      const std::string ip = "10.9.9." + std::to_string(client);
      add(ip, "GET,/gate.php,200");
      add(ip, std::string("POST,/gate.php,") + status);
    }
    add("10.8.8.8", "POST,/reports,200");
  }
  return text;
}

const RouteDemand* route_of(const SuggestReport& report, RouteKind kind) {
  for (const RouteDemand& route : report.routes) {
    if (route.kind == kind) return &route;
  }
  return nullptr;
}

TEST_F(Suggest, FindsPathsWhereClientsRepeatWritesAndReadNothingElse) {
  const SuggestReport report = suggest_for(guessing_log(2, "200"));
  const RouteDemand* const login = route_of(report, RouteKind::kLogin);
  ASSERT_NE(login, nullptr);
  EXPECT_EQ(login->match, "method: [POST], path: [/gate.php]");
  EXPECT_EQ(login->demand.requests(), 80u) << "from the first one";
  EXPECT_EQ(route_of(report, RouteKind::kWrites)->demand.requests(), 420u);
  EXPECT_EQ(report.requests, 1780u) << "though the log was read twice";
  EXPECT_EQ(report.lines, 1780u);
}

TEST_F(Suggest, FindsPathsWhereClientsWriteThatAreDenied) {
  std::string log = guessing_log(1, "403");
  // They read, too.
  for (int i = 0; i < 200; ++i) {
    log += std::to_string(1'700'100'000 + i) + ",10.9.9." + std::to_string(i % 4) + ",GET,/a,200\n";
  }
  const SuggestReport report = suggest_for(log);
  ASSERT_NE(route_of(report, RouteKind::kLogin), nullptr);
  EXPECT_EQ(route_of(report, RouteKind::kLogin)->match, "method: [POST], path: [/gate.php]");
}

TEST_F(Suggest, DoesNotTakeMissingPathsOrFewRequestsForLogins) {
  EXPECT_EQ(route_of(suggest_for(guessing_log(2, "404")), RouteKind::kLogin), nullptr);
  std::string few = guessing_log(1, "200");
  few.erase(few.rfind("10.9.9.0,POST") - 11);  // nine requests of this client and later ones
  EXPECT_EQ(route_of(suggest_for(few), RouteKind::kLogin), nullptr);
}

RouteKind route_of_post(std::string_view path) {
  LogLine line;
  line.method = "POST";
  line.path = path;
  return RouteFinder{}.find(line);
}

TEST(RouteFinder, TakesPathsForALoginThatHaveAWordOfIt) {
  for (const char* path :
       {"/wp-login.php", "/blog/userLogin.aspx", "/auth", "/oauth2/token", "/api/v1/Sessions",
        "/accessToken", "/users/sign-up/", "/session-notes/session", "/reset-password/1",
        "/auth.php", "/register"}) {
    EXPECT_EQ(route_of_post(path), RouteKind::kLogin) << path;
  }
  for (const char* path : {"/authors/new", "/session-notes", "/assessions", "/designing",
                           "/registers-of-members", "/tokenized", "/authorization-logs/a"}) {
    EXPECT_EQ(route_of_post(path), RouteKind::kWrites) << path;
  }
  EXPECT_EQ(route_of_post("/api/v1/authors"), RouteKind::kApi);
}

TEST(RouteFinder, TakesTheFirstPageOfAnAdministrationForALogin) {
  for (const char* path : {"/administrator/index.php", "/administrator/", "/shop/admin"}) {
    EXPECT_EQ(route_of_post(path), RouteKind::kLogin) << path;
  }
  for (const char* path : {"/wp-admin/async-upload.php", "/admin/users", "/index.php", "/"}) {
    EXPECT_EQ(route_of_post(path), RouteKind::kWrites) << path;
  }
}

TEST(RouteFinder, TakesDownloadsForStaticFiles) {
  const auto route_of_get = [](std::string_view path) {
    LogLine line;
    line.method = "GET";
    line.path = path;
    return RouteFinder{}.find(line);
  };
  for (const char* path : {"/a.png", "/logs/access.log", "/data/year.csv", "/a.tar.gz"}) {
    EXPECT_EQ(route_of_get(path), RouteKind::kStatic) << path;
  }
  for (const char* path : {"/feed.xml", "/blog", "/index.php"}) {
    EXPECT_EQ(route_of_get(path), RouteKind::kPages) << path;
  }
}

const Advice* advice_of(const std::vector<Advice>& all, RouteKind kind) {
  for (const Advice& each : all) {
    if (each.route->kind == kind) return &each;
  }
  return nullptr;
}

// 30 clients that write once, an editor who uploads 60 pictures, a robot that fills in a form which
// refuses it 200 times, an office of 40 people that log in within a minute, and a robot that reads
// only the page of the login.
std::string editor_log() {
  std::string text = "time,ip,method,path,status\n";
  const auto add = [&](int at, const std::string& ip, const std::string& request) {
    text += std::to_string(1'700'000'000 + at) + "," + ip + "," + request + "\n";
  };
  add(-2000, "10.3.3.3", "GET,/topic,200");  // so that it covers an hour
  for (int i = 0; i < 30; ++i) {
    const std::string ip = "10.0.0." + std::to_string(i);
    for (int page = 0; page < 5; ++page) add(i * 60, ip, "GET,/topic,200");
    add(i * 60 + 1, ip, "POST,/topic,302");
    add(i * 60 + 2, ip, "POST,/login,302");
  }
  for (int i = 0; i < 60; ++i) add(2000 + i, "10.1.1.1", "POST,/upload,200");
  for (int i = 0; i < 200; ++i) add(2100, "10.2.2.2", "POST,/contact,422");
  for (int i = 0; i < 40; ++i) add(2400 + i, "10.3.3.3", "POST,/login,302");
  for (int i = 0; i < 60; ++i) add(2440 + i, "10.3.3.3", "GET,/topic,200");
  for (int i = 0; i < 100; ++i) add(2600, "10.4.4.4", "POST,/login,200");
  for (int i = 0; i < 100; ++i) add(2601, "10.4.4.4", "GET,/login,200");
  return text;
}

TEST_F(Suggest, WithoutHarmDeniesNobodyWhoLooksLegitimate) {
  const SuggestReport report = suggest_for(editor_log());
  const auto advice = advise(report, 0);
  const auto denied_of = [&](RouteKind kind) {
    std::vector<std::string> denied;
    for (const AdvisedClient& each : advice_of(advice, kind)->clients) {
      if (each.denied) denied.push_back(each.label);
    }
    return denied;
  };
  EXPECT_EQ(denied_of(RouteKind::kWrites), std::vector<std::string>{"10.2.2.2"})
      << "most of its requests are refused";
  EXPECT_EQ(denied_of(RouteKind::kLogin), std::vector<std::string>{"10.4.4.4"})
      << "it requests nothing but the login";
  EXPECT_EQ(advice_of(advice, RouteKind::kWrites)->keys_denied, 1u);
  EXPECT_EQ(advice_of(advice, RouteKind::kLogin)->keys_denied, 1u);
}

TEST_F(Suggest, DoesNotFitOtherLimitsToRobotsThatTheLoginDenies) {
  const std::uint64_t burst = advise(suggest_for(editor_log()), 0)[0].burst;
  const auto burst_with = [&](const std::string& ip) {
    std::string log = editor_log();
    for (int i = 0; i < 99; ++i) log += "1700003000," + ip + ",GET,/topic,200\n";
    const SuggestReport report = suggest_for(log);
    EXPECT_EQ(advise(report, 0)[0].route->name, "pages");
    return advise(report, 0)[0].burst;
  };
  EXPECT_EQ(burst_with("10.4.4.4"), burst) << "100 guesses";
  EXPECT_GT(burst_with("10.3.3.3"), burst) << "an office, which the login admits";
}

TEST_F(Suggest, DoesNotLetTheFewClientsThatAreLeftSetTheLimitOfALogin) {
  options_.exclude = {{"ip", "~10\\.0\\..*"}};  // an office and a robot are left
  const SuggestReport report = suggest_for(editor_log());
  const auto advice = advise(report, 0);
  const Advice& login = *advice_of(advice, RouteKind::kLogin);
  EXPECT_LE(login.curve->rate, 6u);
  EXPECT_EQ(login.burst, 10u);
  EXPECT_EQ(login.note,
            "too few clients look like people (1 of 2): the limit is what one person needs");
  EXPECT_EQ(advice_of(advice, RouteKind::kWrites)->note,
            "only 1 client: the limit is what the heaviest of them needs");
  const std::string shown = "one person needs";
  EXPECT_NE(suggest_text(report, 0, false).find(shown), std::string::npos);
  EXPECT_NE(suggest_json(report, 0).find(shown), std::string::npos);
  EXPECT_NE(suggest_html(report, 0).find(shown), std::string::npos);
  const std::string yaml = advised_rules(report, advice);
  EXPECT_NE(yaml.find("## too few clients"), std::string::npos) << yaml;
  EXPECT_EQ(rules_of(all_rules(yaml)).rules().size(), 3u) << yaml;
  options_.exclude.clear();
  for (const Advice& each : advise(suggest_for(editor_log()), 0)) EXPECT_EQ(each.note, "");
}

// Five proxies: robots behind each guess 30 passwords within a minute, and write to no path.
TEST_F(Suggest, DeniesNoProxiesAndSaysThatTheyAre) {
  std::string log = "time,ip,method,path,status\n";
  for (int i = 0; i < 150; ++i) {
    const std::string at = std::to_string(1'700'000'000 + i / 30 * 3000 + i % 30);
    const std::string ip = ",10.0.0." + std::to_string(i / 30);
    log += at + ip + ",POST,/login,403\n";
    for (const char* path : {"/", "/topic", "/a.png", "/b.png"}) {
      log += at + ip + ",GET," + path + ",200\n";
    }
    log += at + ip + ",POST,/form,404\n";
  }
  const SuggestReport report = suggest_for(log);
  for (const double harm : {0.0, 0.01}) {
    const auto advice = advise(report, harm);
    EXPECT_EQ(advice.size(), 4u);
    for (const Advice& each : advice) EXPECT_EQ(each.keys_denied, 0u) << each.route->name;
    EXPECT_TRUE(advice[0].note.starts_with(
        "5 of 5 clients log in or fail too often for one person, and look like proxies: expected"))
        << advice[0].note;
  }
  options_.key = "{host|method}";
  for (const Advice& each : advise(suggest_for(log), 0)) {
    EXPECT_EQ(each.note.find("proxies"), std::string::npos) << each.note;
  }
  options_.key = "{ip}";
  // Readers, of whom there are more: the five are robots.
  for (int i = 0; i < 20; ++i) log += "1700020000,10.1.1." + std::to_string(i) + ",GET,/,200\n";
  const SuggestReport with_readers = suggest_for(log);
  const auto advice = advise(with_readers, 0);
  EXPECT_EQ(advice_of(advice, RouteKind::kLogin)->keys_denied, 5u);
  EXPECT_EQ(advice[0].note.find("proxies"), std::string::npos) << advice[0].note;
}

// The limit of static files cannot be made for others than the robots, which are all clients there.
TEST_F(Suggest, MakesALimitForRobotsIfARouteHasNoOtherClients) {
  std::string log = editor_log();
  for (int i = 0; i < 60; ++i) log += "1700003000,10.4.4.4,GET,/a.png,200\n";
  const SuggestReport report = suggest_for(log);
  const auto advice = advise(report, 0);
  EXPECT_EQ(advice_of(advice, RouteKind::kLogin)->keys_denied, 1u);
  EXPECT_EQ(advice_of(advice, RouteKind::kStatic)->keys_denied, 0u);
  EXPECT_EQ(advice_of(advice, RouteKind::kStatic)->note,
            "only 1 client: the limit is what the heaviest of them needs");
}

TEST_F(Suggest, SaysThatFewClientsSetTheSmallestLimit) {
  const Advice advice = advise(suggest_for("time,ip,path\n0,a,/\n9000,a,/\n"), 0)[0];
  EXPECT_EQ(advice.burst, 5u);
  EXPECT_EQ(advice.note, "only 1 client: the limit is what the heaviest of them needs");
}

TEST_F(Suggest, SaysHowManyDeniedClientsItDoesNotName) {
  std::string log = guessing_log(2, "200");
  for (int i = 0; i < 60; ++i) {
    for (int client = 0; client < 13; ++client) {
      log += "1700100000,10.7.7." + std::to_string(client) + ",POST,/gate.php,403\n";
    }
  }
  for (int client = 0; client < 60; ++client) {
    const std::string ip = ",10.6.6." + std::to_string(client);
    log += "1700200000" + ip + ",GET,/topic,200\n1700200000" + ip + ",POST,/gate.php,302\n";
  }
  const SuggestReport report = suggest_for(log);
  const Advice login = *advice_of(advise(report, 0), RouteKind::kLogin);
  ASSERT_GT(login.keys_denied, Advice::kMostClients);
  const std::string more = std::to_string(login.keys_denied - Advice::kMostClients);
  EXPECT_NE(suggest_text(report, 0, false).find("  and " + more + " more that are denied\n"),
            std::string::npos);
  EXPECT_NE(suggest_json(report, 0).find("\"more_denied\":" + more), std::string::npos);
  EXPECT_NE(suggest_html(report, 0).find("And " + more + " more that are denied."),
            std::string::npos);
}

TEST_F(Suggest, NamesTheHeaviestClientsOfALoginThoughItDeniesManyOthers) {
  std::string log = guessing_log(1, "200");
  for (int i = 0; i < 12 * 60; ++i) {
    log += "1700100000,10.7.7." + std::to_string(i % 12) + ",POST,/gate.php,403\n";
  }
  for (int i = 0; i < 100; ++i) {
    log += std::to_string(1'700'200'000 + i * 120) + ",10.5.5.5,POST,/gate.php,200\n";
  }
  const SuggestReport report = suggest_for(log);
  const Advice login = *advice_of(advise(report, 0), RouteKind::kLogin);
  ASSERT_GT(login.keys_denied, Advice::kMostClients);
  ASSERT_EQ(login.clients.size(), Advice::kMostClients);
  EXPECT_TRUE(login.clients[8].denied);
  EXPECT_EQ(login.clients[9].label, "10.5.5.5");
  EXPECT_FALSE(login.clients[9].denied);
  EXPECT_NE(
      login.note.find("5 clients that send hardly anything but logins are not denied (16.3 %)"),
      std::string::npos)
      << login.note;
}

TEST_F(Suggest, TakesRequestsThatMatchForALoginIfMostOfThemAre) {
  options_.match = {{"path", "/login"}};
  const SuggestReport login = suggest_for(editor_log());
  const auto advice = advise(login, 0);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].route->name, "login");
  EXPECT_EQ(advice[0].route->match, "path: [\"/login\"]");
  EXPECT_EQ(advice[0].keys_denied, 1u) << "the robot, which sent 200 requests";
  options_.match = {{"path", "/**"}};
  const SuggestReport all = suggest_for(editor_log());
  ASSERT_EQ(all.routes.size(), 1u);
  EXPECT_EQ(all.routes[0].name, "requests");
}

TEST_F(Suggest, FindsWhereClientsGuessAmongRequestsThatMatch) {
  std::string log = guessing_log(2, "200");
  for (int client = 0; client < 3; ++client) {
    const std::string ip = ",10.0.0." + std::to_string(client);
    log += "1700100000" + ip + ",GET,/gate.php,200\n1700100000" + ip + ",POST,/gate.php,200\n";
  }
  const SuggestReport of_all = suggest_for(log);
  const Advice whole = *advice_of(advise(of_all, 0), RouteKind::kLogin);
  const std::uint64_t rate = whole.curve->rate;
  options_.match = {{"path", "/gate.php"}, {"method", "POST"}};
  const SuggestReport matched = suggest_for(log);
  const auto advice = advise(matched, 0);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].route->name, "login");
  EXPECT_EQ(advice[0].curve->rate, rate);
  EXPECT_EQ(advice[0].burst, whole.burst);
  EXPECT_LE(advice[0].route->behaviour[0].elsewhere, 1u) << "it only reads the path";
  options_.match = {{"path", "/topic/answer"}};
  EXPECT_EQ(suggest_for(log).routes[0].name, "requests") << "these clients read pages, too";
}

TEST_F(Suggest, SaysThatTheLimitMayBeThePaceOfAnAttacker) {
  options_.match = {{"path", "/reports"}};
  std::string log = guessing_log(10, "200");  // 100 requests of a client
  for (int i = 0; i < 160; ++i) {
    const int client = i < 60 ? i % 20 : 99;
    log += std::to_string(1'700'100'000 + i * 60) + ",10.0.0." + std::to_string(client) +
           ",POST,/reports,200\n";
  }
  const SuggestReport two = suggest_for(log);
  EXPECT_EQ(
      advise(two, 0)[0].note,
      "most are of 10.8.8.8, 10.0.0.99, which send hardly anything else: this may be the pace "
      "of an attacker");
  const SuggestReport one = suggest_for(guessing_log(10, "200"));
  const std::string note =
      "only 1 client: the limit is what the heaviest of them needs; "
      "most are of 10.8.8.8, which sends hardly anything else: this may be the pace of an attacker";
  EXPECT_EQ(advise(one, 0)[0].note, note);
  EXPECT_NE(suggest_text(one, 0, false).find(note), std::string::npos);
  EXPECT_NE(advised_rules(one, advise(one, 0)).find("## " + note), std::string::npos);
  // Among the writes of a whole log, and from a client that reads pages, too.
  options_.match.clear();
  log = guessing_log(1, "200");
  for (int i = 0; i < 1000; ++i) {
    const std::string at = std::to_string(1'700'100'000 + i * 30) + ",10.7.7.7,";
    log += at + "GET,/topic,200\n" + at + "POST,/topic/answer,302\n";
  }
  const SuggestReport of_all = suggest_for(log);
  const Advice writes = *advice_of(advise(of_all, 0), RouteKind::kWrites);
  EXPECT_TRUE(writes.note.starts_with("10.7.7.7 sends 8")) << writes.note;
  EXPECT_TRUE(writes.note.ends_with("% of these requests: the limit may be its pace"));
}

TEST_F(Suggest, LeavesRoomAboveWhatClientsNeeded) {
  const SuggestReport report = suggest_for(random_log(5, 100));
  for (const double harm : {0.0, 0.05}) {
    const auto advice = advise(report, harm);
    ASSERT_EQ(advice.size(), 1u);
    const auto most = static_cast<std::uint64_t>(harm * static_cast<double>(report.keys));
    EXPECT_GE(advice[0].curve->rate * 60 * 2,
              advice[0].route->demand.curves()[0].smallest(most) * 3);
    EXPECT_GE(advice[0].burst * 2, advice[0].curve->smallest(most) * 3);
    EXPECT_LE(advice[0].keys_denied, most);
  }
}

// 200 clients with 10 requests at once, two with 14 and 15, one with 100, and one with 40 in an
// hour, which needs a small burst.
std::string uneven_log() {
  std::string log = "time,ip,path\n";
  const auto add = [&](int at, const std::string& ip) {
    log += std::to_string(1'700'006'400 + at) + "," + ip + ",/a\n";  // from a full hour
  };
  for (int i = 0; i < 40; ++i) add(i * 90, "10.1.1.1");
  for (int i = 0; i < 2000; ++i) add(3600 + i / 10, "10.0.0." + std::to_string(i / 10));
  for (int i = 0; i < 14; ++i) add(4000, "10.2.2.2");
  for (int i = 0; i < 15; ++i) add(4000, "10.3.3.3");
  for (int i = 0; i < 100; ++i) add(4000, "10.4.4.4");
  return log;
}

TEST_F(Suggest, SaysWhatTheClientsNeededThatItAdmits) {
  options_.harm = 0.02;
  const SuggestReport report = suggest_for(uneven_log());
  const Advice advice = advise(report, options_.harm)[0];  // may deny four clients
  ASSERT_EQ(advice.burst, 15u);
  EXPECT_EQ(advice.keys_denied, 1u);
  EXPECT_EQ(advice.keys_measured, 203u);
  EXPECT_EQ(advice.busiest_hour, 40u);
  EXPECT_EQ(advice.burst_needed, 15u);
  const std::string text = suggest_text(report, options_.harm, false);
  const std::string room =
      "rate: 1.5 times the busiest hour of 203 clients (40); burst: 1 times the need (15)";
  const std::string basis =
      "made for 200 of 204 clients: burst 1.5 times 10, rounded up; rate at least 1.5 times 10 an "
      "hour";
  EXPECT_NE(text.find("\n  " + room + "\n  " + basis + "\n"), std::string::npos) << text;
  EXPECT_NE(suggest_html(report, options_.harm).find("<p>" + basis + ".</p>"), std::string::npos);
  EXPECT_NE(suggest_json(report, options_.harm)
                .find(R"("made_for":{"headroom":1.5,"keys":200,"of_keys":204,"busiest_hour":10,)"
                      R"("burst_needed":10})"),
            std::string::npos);
  ASSERT_EQ(advice.clients.size(), 2u);
  EXPECT_EQ(advice.clients[1].label, "10.3.3.3");
  EXPECT_TRUE(advice.clients[1].needs_most);
  std::string rules = advised_rules(report, {advice});
  const auto denied_keys = [&] {
    return replay_with(rules_of(rules)).tally.rules[0].limits[0].keys.keys_denied();
  };
  EXPECT_EQ(denied_keys(), 1u);
  rules.replace(rules.find("burst: 15"), 9, "burst: 14");
  EXPECT_EQ(denied_keys(), 2u) << "the one who needs most";
}

// Each client sends 60 requests in a minute once, the last one 70.
std::string busy_minutes() {
  std::string log = "time,ip,path\n";
  for (int client = 0; client < 30; ++client) {
    for (int i = 0; i < (client == 29 ? 70 : 60); ++i) {
      log += std::to_string(1'700'000'000 + client * 7200 + i % 60) + ",10.0.0." +
             std::to_string(client) + ",/a\n";
    }
  }
  return log;
}

TEST_F(Suggest, BoundsTheRateByTheBusiestHourAndSaysHowFarItIsAbove) {
  const SuggestReport report = suggest_for(busy_minutes());
  const Advice advice = advise(report, 0)[0];
  EXPECT_EQ(advice.busiest_hour, 70u);
  EXPECT_LE(advice.curve->rate * 60, 700u);
  EXPECT_EQ(advice.curve->rate, 6u) << "the pair that is full again first";
  EXPECT_EQ(advice.burst, 100u);
  const std::string headroom =
      "rate: 5.1 times the busiest hour of 30 clients (70); burst: 1.5 times the need (65)";
  EXPECT_NE(suggest_text(report, 0, false).find("clients\n  " + headroom + "\n"), std::string::npos)
      << suggest_text(report, 0, false);
  EXPECT_NE(suggest_html(report, 0).find("<p>" + headroom + ".</p>"), std::string::npos);
  EXPECT_NE(
      suggest_json(report, 0).find(R"("keys_measured":30,"busiest_hour":70,"burst_needed":65,)"),
      std::string::npos);
}

// The most units of a client in an hour after one of its requests, counted one by one: with those
// of less than `more` besides.
std::uint64_t busiest_hour(const std::vector<std::pair<std::int64_t, std::uint64_t>>& requests,
                           std::int64_t more = 0) {
  std::uint64_t most = 0;
  for (std::size_t first = 0; first < requests.size(); ++first) {
    std::uint64_t units = 0;
    for (std::size_t i = first; i < requests.size(); ++i) {
      if (requests[i].first - requests[first].first >= 3'600'000'000 + more) break;
      units += requests[i].second;
    }
    most = std::max(most, units);
  }
  return most;
}

TEST_F(Suggest, CountsTheBusiestHourOfLogsThatBeginAtAnyMinute) {
  options_.fields = {{"cost", "cost"}};
  std::mt19937 random(7);
  const auto pick = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  for (int log = 0; log < 60; ++log) {
    const bool is_whole = log % 2 == 0;  // seconds
    const std::int64_t minutes = 5 + pick(log % 3 == 0 ? 55 : 200);
    const std::int64_t begin = 1'700'006'400 + pick(60) * 60;  // after a full hour
    std::vector<std::int64_t> times(400);
    for (std::int64_t& at : times) {
      at = begin * 1'000'000 + random() % (minutes * 60'000'000);
      if (is_whole) at -= at % 1'000'000;
    }
    std::sort(times.begin(), times.end());
    std::array<std::vector<std::pair<std::int64_t, std::uint64_t>>, 3> requests;
    std::string text = "time,ip,cost\n";
    for (std::size_t i = 0; i < times.size(); ++i) {
      const unsigned client = i < 3 ? static_cast<unsigned>(i) : pick(3);
      const bool is_large = log % 6 == 0 && pick(10) == 0;
      const unsigned cost = is_large ? 4'000'000'000 : pick(20);
      text += std::to_string(times[i]) + "," + std::to_string(client) + "," + std::to_string(cost) +
              "\n";
      requests[client].emplace_back(times[i], cost);
    }
    const SuggestReport report = suggest_for(text);
    ASSERT_EQ(report.routes.size(), 1u);
    for (std::uint32_t client = 0; client < 3; ++client) {
      const std::uint64_t found = report.routes[0].demand.busiest_hour_of(client);
      EXPECT_GE(found, busiest_hour(requests[client])) << log;
      EXPECT_LE(found, busiest_hour(requests[client], is_whole ? 0 : 1'000'000)) << log;
      std::uint64_t all = 0;
      for (const auto& [at, cost] : requests[client]) all += cost;
      if (minutes <= 60) {
        EXPECT_EQ(found, all) << log;
      }
    }
  }
}

TEST_F(Suggest, CountsTheBusiestHourOfClientsThatReturn) {
  // More clients than are remembered at once, some of them for a second time.
  std::string text = "time,ip\n";
  for (int i = 0; i < 6000; ++i) {
    const int client = i % 5 == 0 ? i % 1000 : i;
    text += std::to_string(1'700'000'000 + i * 4) + "," + std::to_string(client) + "\n";
  }
  const SuggestReport report = suggest_for(text);
  const Demand& demand = report.routes[0].demand;
  // Requests 0, 1000, 2000 of client 0 are 4,000 s apart.
  EXPECT_EQ(demand.busiest_hour_of(0), 1u);
  EXPECT_EQ(demand.requests_of(0), 6u);
}

// One client with a request every two seconds.
std::string steady_log(int begin, int minutes) {
  std::string log = "time,ip,path\n";
  for (int i = 0; i < minutes * 30; ++i) {
    log += std::to_string(1'700'006'400 + begin * 60 + i * 2) + ",10.0.0.1,/a\n";
  }
  return log;
}

TEST_F(Suggest, LeavesTheSameRoomWhereverALogBegins) {
  for (const int minutes : {60, 70, 90, 150}) {
    for (const int begin : {0, 1, 17, 30, 59}) {
      const SuggestReport report = suggest_for(steady_log(begin, minutes));
      const Advice advice = advise(report, 0)[0];
      EXPECT_EQ(advice.busiest_hour, 1800u) << begin << ", " << minutes;
      EXPECT_EQ(advice.curve->rate, 60u) << begin << ", " << minutes;
    }
  }
  const SuggestReport report = suggest_for(steady_log(30, 70));
  EXPECT_NE(
      suggest_text(report, 0, false).find("rate: 2 times the busiest hour of 1 client (1,800)"),
      std::string::npos);
  EXPECT_NE(suggest_json(report, 0).find(R"("busiest_hour":1800,)"), std::string::npos);
}

TEST_F(Suggest, SaysThatALogIsShorterThanTheHoursOfRates) {
  // 20 clients with 40 requests a second, from half a minute before a full hour.
  std::string log = "time,ip,path\n";
  for (int i = 0; i < 20 * 40 * 61; ++i) {
    log += std::to_string(1'700'006'370 + i / 800) + ",10.0.0." + std::to_string(i % 20) + ",/a\n";
  }
  const SuggestReport report = suggest_for(log);
  const auto advice = advise(report, 0);
  const std::string note = "the log covers 1 min, and rates are for hours: use a longer log";
  EXPECT_EQ(advice[0].note, note);
  EXPECT_NE(advised_rules(report, advice).find("## " + note), std::string::npos);
  const std::string text = suggest_text(report, 0, false);
  EXPECT_NE(text.find("rate: 4.9 times the 1 min of 20 clients (2,440)"), std::string::npos)
      << text;
}

TEST_F(Suggest, NamesTheClientThatNeedsTheLargestBurst) {
  const SuggestReport one = suggest_for(busy_minutes());
  const auto clients = advise(one, 0)[0].clients;
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].label, "10.0.0.29");
  EXPECT_TRUE(clients[0].needs_most);
  EXPECT_NE(suggest_text(one, 0, false).find("65  needs most\n"), std::string::npos);
  EXPECT_NE(suggest_html(one, 0).find(">needs most<"), std::string::npos);
  const SuggestReport many = suggest_for(busy_minutes() + "1700300000,10.0.0.29,/a\n");
  EXPECT_EQ(advise(many, 0.04)[0].burst_needed, 65u) << "it may deny one, and admits all";
  const SuggestReport equal = suggest_for(busy_minutes().erase(busy_minutes().find(".29,") - 17));
  EXPECT_TRUE(advise(equal, 0)[0].clients.empty()) << "several needed as much";
}

TEST_F(Suggest, ShowsClientsThatNeedLittleOrHaveAnEmptyKey) {
  const std::string log = "time,ip,path\n0,a,/x\n0,a,/x\n0,a,/x\n9000,b,/\n";
  const std::string text = suggest_text(suggest_for(log), 0, false);
  EXPECT_NE(text.find("  a                  3    75.0 %               3  needs most\n      /x\n"),
            std::string::npos)
      << text;
  options_.key = "";
  const SuggestReport report = suggest_for(log);
  EXPECT_NE(suggest_text(report, 0, false).find("\n  (empty key) "), std::string::npos);
  EXPECT_NE(suggest_html(report, 0).find(">(empty key)<"), std::string::npos);
}

TEST_F(Suggest, TakesRatesThatFitLargeUnits) {
  options_.fields = {{"cost", "units"}};
  std::string text = "time,ip,units\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(1'700'000'000 + i * 6) + ",a,2500\n";
  const auto report = suggest_for(text);
  const auto advice = advise(report, 0);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].route->name, "units") << "the name of the field";
  EXPECT_GE(advice[0].curve->rate, 37'500u) << "1.5 times 25,000 a minute";
  EXPECT_LE(advice[0].curve->rate, 100'000u);
  EXPECT_LE(advice[0].burst, 10'000u);
  EXPECT_EQ(advice[0].keys_denied, 0u);
}

TEST_F(Suggest, SaysWhichLinesHaveACostThatIsNoNumber) {
  options_.fields = {{"cost", "units"}};
  const SuggestReport report = suggest_for("time,ip,units\n1,a,2\n2,a,x\n3\n");
  EXPECT_NE(suggest_text(report, 0, false)
                .find("2 lines skipped, 1 with a cost that is no whole number\n"),
            std::string::npos);
  EXPECT_NE(suggest_json(report, 0).find(R"("skipped":2,"wrong_costs":1)"), std::string::npos);
}

TEST_F(Suggest, NamesWhatALimitCounts) {
  options_.fields = {{"cost", "Tokens"}};
  std::string text = "time,ip,Tokens\n";
  for (int i = 0; i < 100; ++i) text += std::to_string(1'700'000'000 + i * 66) + ",a,2000\n";
  const SuggestReport report = suggest_for(text);
  const std::string summary = suggest_text(report, 0, true);
  EXPECT_TRUE(summary.starts_with("Tokens: 3,000 Tokens per 1m, burst 3,000: denies none"))
      << summary;
  EXPECT_NE(summary.find("limits and bursts count Tokens, shares are of requests\n"),
            std::string::npos)
      << summary;
  EXPECT_NE(summary.find("fixed_window            2,000 Tokens per 1s"), std::string::npos)
      << summary;
  const std::string yaml = advised_rules(report, advise(report, 0));
  EXPECT_EQ(rules_of(yaml).rules()[0].limits[0].name, "Tokens") << yaml;
  EXPECT_NE(suggest_json(report, 0).find(R"("unit":"Tokens")"), std::string::npos);
  options_.fields = {{"cost", "usage.total tokens"}};
  EXPECT_EQ(options_.unit(), "units");
  options_.fields = {{"cost", "usage.total_tokens"}};
  EXPECT_EQ(options_.unit(), "total_tokens");
}

TEST_F(Suggest, PrintsOneRuleAndTheOthersAsComments) {
  const SuggestReport report = suggest_for(site_log());
  const std::string yaml = advised_rules(report, advise(report, 0));
  const RuleSet rules = rules_of(yaml);
  ASSERT_EQ(rules.rules().size(), 1u) << yaml;
  EXPECT_EQ(rules.rules()[0].name, "pages");
  EXPECT_EQ(rules.rules()[0].mode, RuleMode::kShadow);
  EXPECT_TRUE(rules.warnings().empty());
  const RuleSet all = rules_of(all_rules(yaml));
  EXPECT_TRUE(all.warnings().empty()) << all_rules(yaml);
  EXPECT_EQ(all.rules().size(), 5u) << all_rules(yaml);
  for (const Rule& rule : all.rules()) {
    EXPECT_TRUE(rule.mode == RuleMode::kShadow && rule.continues) << rule.name;
  }
  const SuggestReport one = suggest_for("time,ip,path\n1,a,/\n2,a,/\n");
  EXPECT_EQ(advised_rules(one, advise(one, 0)).find("sed"), std::string::npos) << "no comments";
}

// A site with a few requests of an API, of pictures, of a form, and many to a login below an API.
std::string small_routes_log() {
  std::string text = "time,ip,method,path\n";
  const auto add = [&](int at, const std::string& request) {
    text += std::to_string(1'700'000'000 + at) + ",10.0.0." + std::to_string(at % 7) + "," +
            request + "\n";
  };
  for (int i = 0; i < 2000; ++i) {
    add(i, "GET,/topic");
    if (i % 500 == 0) add(i, "GET,/a.png");
    if (i % 500 == 1) add(i, "GET,/v1/items");
    if (i % 500 == 2) add(i, "POST,/contact");
    if (i % 500 == 3) add(i, "POST,/user/login");
  }
  return text;
}

TEST_F(Suggest, ExcludesOnlyRoutesThatHaveARule) {
  const SuggestReport report = suggest_for(small_routes_log());
  ASSERT_EQ(report.routes.size(), 1u);
  EXPECT_EQ(report.routes[0].match, "");
  EXPECT_EQ(report.routes[0].demand.requests(), 2016u);
}

TEST_F(Suggest, CountsLoginsBelowAnApiForBoth) {
  std::string log = small_routes_log();
  for (int i = 0; i < 50; ++i) {
    log += std::to_string(1'700'010'000 + i) + ",10.1.1.1,POST,/v1/login\n";
    log += std::to_string(1'700'010'000 + i) + ",10.1.1.1,GET,/v1/items\n";
    log += std::to_string(1'700'010'000 + i) + ",10.1.1.1,POST,/answer\n";
  }
  const SuggestReport report = suggest_for(log);
  EXPECT_EQ(route_of(report, RouteKind::kLogin)->demand.requests(), 54u);
  EXPECT_EQ(route_of(report, RouteKind::kApi)->demand.requests(), 104u);
  EXPECT_EQ(route_of(report, RouteKind::kWrites)->match,
            "method: [POST], not: { path: [/user/login, /v1/login, \"/v1/**\"] }");
  EXPECT_EQ(route_of(report, RouteKind::kPages)->match,
            "not: { method: [POST], path: [\"/v1/**\"] }");
  const RuleSet rules = rules_of(all_rules(advised_rules(report, advise(report, 0))));
  for (const RuleTally& rule : replay_with(rules).tally.rules) {
    for (const RouteDemand& route : report.routes) {
      if (route.name != rule.rule->name) continue;
      EXPECT_EQ(rule.matched, route.demand.requests()) << route.name;
    }
  }
}

TEST_F(Suggest, LetsRulesAfterItsOwnDecideWhileInShadowMode) {
  const SuggestReport report = suggest_for(site_log());
  const std::string own =
      "  - { name: own, limits: [{ key: a, algorithm: gcra, limit: 9, per: 1s }] }\n";
  const RuleSet rules = rules_of(all_rules(advised_rules(report, advise(report, 0))) + own);
  ASSERT_EQ(rules.rules().size(), 6u);
  EXPECT_EQ(replay_with(rules).tally.rules[5].matched, report.requests);
}

TEST_F(Suggest, SaysNothingAboutAnEmptyLog) {
  const SuggestReport report = suggest_for("time,ip\n");
  EXPECT_EQ(report.keys, 0u);
  EXPECT_EQ(suggestions(report, 0.1)[0].limit, 1u);
  EXPECT_TRUE(advise(report, 0.1).empty());
  EXPECT_TRUE(rules_of(advised_rules(report, {})).rules().empty());
  EXPECT_EQ(suggest_text(report, 0.1, true).find("fixed_window"), std::string::npos);
  EXPECT_TRUE(suggest_html(report, 0.1).starts_with("<!DOCTYPE html>"));
}

TEST_F(Suggest, SaysThatManyClientsAreAddressesOfOneNetwork) {
  const auto shown = [&](int clients) {
    std::string log = "time,ip,path\n";
    for (int i = 0; i < clients; ++i) {
      const std::string at = std::to_string(1'700'000'000 + 600 * i) + ",";
      for (int repeat = 0; repeat < 2; ++repeat)
        log += at + "2001:db8::" + std::to_string(i) + ",/\n";
      log += at + "2001:db8:0:" + std::to_string(i) + "9::1,/\n" + at + "10.0.0.7,/\n";
    }
    return suggest_text(suggest_for(log), 0, false);
  };
  const std::string hint =
      "\n10 clients are IPv6 addresses of one /64: --key '{ip/64}' counts them together\n";
  EXPECT_NE(shown(10).find(hint), std::string::npos) << shown(10);
  EXPECT_EQ(shown(9).find("/64"), std::string::npos) << shown(9);
  options_.key = "{ip/64}";
  EXPECT_EQ(shown(10).find("counts them together"), std::string::npos);
}

TEST_F(Suggest, ShowsMarkupOfKeysAsText) {
  options_.key = "<b>{ip}";
  const SuggestReport report = suggest_for("time,ip\n1,a\n");
  EXPECT_EQ(suggest_html(report, 0).find("<b>"), std::string::npos);
  EXPECT_EQ(rules_of(suggested_rules(options_, suggestions(report, 0))).rules().size(), 9u);
}

}  // namespace
}  // namespace sluice::replay
