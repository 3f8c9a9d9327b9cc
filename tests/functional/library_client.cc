// The library as one of the front ends in test_plans_contract.py.
//
//   library_client RULES
//
// Reads one command in each line of stdin, with a tab between words, and decides it with a memory
// store. Writes the outcome, the reason and, for each limit, what remains and whether it is near.
//
//   check NAME=VALUE...                 report STATUS X-COST NAME=VALUE...
//   block MILLISECONDS NAME=VALUE...    override RULE LIMIT HOW NAME=VALUE...
//
// X-COST may be empty. HOW is a number, `blocked`, `unlimited`, or the name of a plan.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/rule_decider.h"

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c == '\t') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

sluice::Attributes attributes_of(const std::vector<std::string>& words, std::size_t first) {
  sluice::Attributes attributes;
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::size_t end = words[i].find('=');
    attributes.set(words[i].substr(0, end), words[i].substr(end + 1));
  }
  return attributes;
}

sluice::Override override_of(const std::string& how) {
  using Kind = sluice::Override::Kind;
  if (how == "blocked") return {.kind = Kind::kBlocked};
  if (how == "unlimited") return {.kind = Kind::kUnlimited};
  if (how.find_first_not_of("0123456789") != how.npos) return {.kind = Kind::kPlan, .plan = how};
  return {.limit = std::stoull(how)};
}

class Client {
 public:
  explicit Client(const sluice::RuleSet& rules) : rules_(rules) {}

  void carry_out(const std::vector<std::string>& words) {
    const std::string& command = words.at(0);
    if (command == "override") {
      set(words);
    } else if (command == "report") {
      sluice::Attributes response{{"status", words.at(1)}};
      if (!words.at(2).empty()) response.set("header.x-cost", words.at(2));
      say(decider_.report(rules_, attributes_of(words, 3), response));
    } else if (command == "block") {
      const std::chrono::milliseconds length(std::stoll(words.at(1)));
      say(decider_.decide(rules_, attributes_of(words, 2), {}, {}, {sluice::Verb::kBlock, length}));
    } else {
      say(decider_.decide(rules_, attributes_of(words, 1)));
    }
  }

 private:
  void set(const std::vector<std::string>& words) {
    const sluice::Override given = override_of(words.at(3));
    const auto counter =
        name_override(rules_, words.at(1), words.at(2), attributes_of(words, 4), given);
    std::cout << (counter && overrides_.set(*counter, given) ? "set" : "refused") << std::endl;
  }

  static void say(const sluice::RuleAnswer& answer) {
    std::cout << to_string(answer.decision.outcome) << " " << to_string(answer.decision.reason);
    for (const sluice::LimitAnswer& limit : answer.limits) {
      std::cout << " " << limit.decision.remaining << (limit.near ? " near" : " far");
    }
    std::cout << std::endl;
  }

  const sluice::RuleSet& rules_;
  sluice::MemoryStore store_;
  sluice::Limiter limiter_{store_};
  sluice::Overrides overrides_;
  sluice::RuleDecider decider_{limiter_, {.overrides = &overrides_}};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto rules = sluice::RuleSet::load(argv[1]);
  if (!rules) {
    std::cerr << rules.error().front().to_string() << "\n";
    return 1;
  }
  Client client(*rules);
  for (std::string line; std::getline(std::cin, line);) client.carry_out(words_of(line));
  return 0;
}
