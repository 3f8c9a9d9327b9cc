#include "cli/rules_diff.h"

#include <array>
#include <boost/json.hpp>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/rules_place.h"
#include "replay/text.h"
#include "rules/rule_diff.h"
#include "server/rules/redis_rules.h"

namespace sluice::cli {
namespace {

using rules::RuleDifference;
using Kind = RuleDifference::Kind;

constexpr const char* kDiffHelp =
    R"(Compare two sets of rules by what they mean: which rules and limits were added (+) and removed
(-), and which of their values changed (~). Comments, spelling and files do not matter.

OLD and NEW are each a file, a directory, - for standard input, or redis for the rules in Redis
(./redis is a file). Rules from standard input or from Redis cannot name lists (in: FILE).

Exit status: 0 equal; 1 different; 2 wrong usage, or rules that cannot be read.

Examples:
  sluice rules diff rules.yaml new.yaml
  sluice rules diff redis rules.d --store redis://127.0.0.1:6379
  curl -s http://127.0.0.1:6070/v1/rules | sluice rules diff - rules.yaml)";

struct DiffFlags {
  std::shared_ptr<PlaceFlags> place;
  std::string before, after;
  bool json = false;
};

constexpr int kTrouble = 2;

using Texts = std::vector<server::RulesText>;

Expected<server::FilesRead, Failed> read_redis(const PlaceFlags& flags) {
  const auto place = RulesPlace::open(flags);
  if (!place) return Unexpected{Failed{place.error().what, kTrouble}};
  auto found = place->read();
  if (!found) return Unexpected{Failed{found.error().what, kTrouble}};
  if (!*found) return Unexpected{Failed{server::no_rules_at(place->key()), kTrouble}};
  return server::FilesRead{.picture = {}, .texts = std::move((*found)->texts), .errors = {}};
}

// Returns valid rules, or prints their errors.
Expected<Texts, Failed> read(const DiffFlags& flags, const std::string& from) {
  server::FilesRead read;
  RuleTerms terms;
  if (from == "redis") {
    auto found = read_redis(*flags.place);
    if (!found) return Unexpected{found.error()};
    read = *std::move(found);
  } else if (from == "-") {
    using Bytes = std::istreambuf_iterator<char>;
    read.texts.push_back({"-", std::string(Bytes(std::cin), Bytes())});
  } else {
    read = server::read_files({from});
    terms.reads_lists = true;
  }
  auto checked = check_texts(std::move(read), terms);
  if (!checked) return Unexpected{Failed{"the rules of '" + from + "' are wrong", kTrouble}};
  return std::move(checked->texts);
}

std::vector<RuleText> views(const Texts& texts) {
  std::vector<RuleText> out;
  for (const server::RulesText& text : texts) out.push_back({text.name, text.text});
  return out;
}

void print_text(const RuleDifference& one) {
  const auto value = [](const std::string& text) {
    constexpr std::string_view kPlain =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.,:/%*{}";
    if (text.empty()) return std::string("none");
    const bool is_plain = text != "none" && text.find_first_not_of(kPlain) == text.npos;
    return is_plain ? text : '"' + replay::printable(text) + '"';
  };
  if (one.rule.empty()) {
    std::cout << "~ the order of the rules\n";
    return;
  }
  std::cout << "+-~"[static_cast<std::size_t>(one.kind)] << " rule " << replay::printable(one.rule)
            << (one.limit.empty() ? "" : ", limit ") << replay::printable(one.limit);
  if (!one.key.empty()) {
    std::cout << ": " << replay::printable(one.key) << ' ' << value(one.before) << " -> "
              << value(one.after);
  }
  std::cout << '\n';
}

boost::json::object as_json(const RuleDifference& one) {
  static constexpr std::array<const char*, 3> kKinds{"added", "removed", "changed"};
  boost::json::object out{{"change", kKinds[static_cast<std::size_t>(one.kind)]}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out[name] = value;
  };
  add("rule", one.rule);
  add("limit", one.limit);
  add("key", one.key);
  add("old", one.before);
  add("new", one.after);
  return out;
}

Expected<int, Failed> diff(const DiffFlags& flags) {
  const auto before = read(flags, flags.before);
  if (!before) return Unexpected{before.error()};
  const auto after = read(flags, flags.after);
  if (!after) return Unexpected{after.error()};
  const auto found = rules::compare_rules(views(*before), views(*after));
  if (flags.json) {
    boost::json::array differences;
    for (const RuleDifference& one : found) differences.push_back(as_json(one));
    std::cout << boost::json::object{{"equal", found.empty()}, {"differences", differences}}
              << '\n';
  } else {
    for (const RuleDifference& one : found) print_text(one);
  }
  return found.empty() ? 0 : 1;
}

}  // namespace

void add_diff(Command rules, int& status) {
  const Command command = rules.add_subcommand("diff", "Compare two sets of rules");
  const auto flags = std::make_shared<DiffFlags>();
  flags->place = add_place_flags(command);
  command.add_option("OLD", flags->before, "A file, a directory, - or redis").required();
  command.add_option("NEW", flags->after, "The same").required();
  command.add_flag("--json", flags->json, "Print one JSON object");
  command.footer(kDiffHelp);
  command.callback([flags, &status] { status = finish("diff", diff(*flags)); });
}

}  // namespace sluice::cli
