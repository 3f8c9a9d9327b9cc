#include "cli/rule_differences.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <iostream>
#include <string_view>
#include <utility>

#include "base/civil_time.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "replay/text.h"

namespace sluice::cli {

using rules::RuleDifference;

std::string text_of(const RuleDifference& one) {
  const auto value = [](const std::string& text) {
    constexpr std::string_view kPlain =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.,:/%*{}";
    if (text.empty()) return std::string("none");
    const bool is_plain = text != "none" && text.find_first_not_of(kPlain) == text.npos;
    return is_plain ? text : '"' + replay::printable(text) + '"';
  };
  if (one.rule.empty()) return "~ the order of the rules";
  std::string text = std::string(1, "+-~"[static_cast<std::size_t>(one.kind)]) + " rule " +
                     replay::printable(one.rule);
  if (!one.limit.empty()) text += ", limit " + replay::printable(one.limit);
  if (one.key.empty()) return text;
  return text + ": " + replay::printable(one.key) + " " + value(one.before) + " -> " +
         value(one.after);
}

std::vector<RuleDifference> differences_in(const boost::json::object& answer) {
  std::vector<RuleDifference> out;
  each_object(answer, "differences", [&](const boost::json::object& row) {
    const std::string kind = text_in(row, "change");
    using Kind = RuleDifference::Kind;
    out.push_back({kind == "added"     ? Kind::kAdded
                   : kind == "removed" ? Kind::kRemoved
                                       : Kind::kChanged,
                   text_in(row, "rule"), text_in(row, "limit"), text_in(row, "key"),
                   text_in(row, "old"), text_in(row, "new")});
  });
  return out;
}

namespace {

constexpr std::string_view kPlanPlace = "plans/";

// Returns where the key begins in "LIMIT.KEY", behind the dot; 0 if it is a key of a rule. The key
// of a price of a plan, "prices.MODEL.NAME", has dots.
std::size_t key_in(std::string_view text) {
  constexpr std::array<std::string_view, 4> kNumbers{"limit", "per", "burst", "lease"};
  const std::size_t last = text.rfind('.') + 1;
  const std::size_t price = text.find(".prices.") + 1;
  const bool is_number = std::ranges::find(kNumbers, text.substr(last)) != kNumbers.end();
  return is_number || price == 0 ? last : price;
}

}  // namespace

std::vector<server::TemporaryChange> temporary_in(const boost::json::object& answer) {
  std::vector<server::TemporaryChange> out;
  each_object(answer, "temporary", [&](const boost::json::object& row) {
    server::TemporaryChange one{.rule = text_in(row, "rule"),
                                .key = text_in(row, "key"),
                                .value = text_in(row, "value"),
                                .until = base::parse_rfc3339(text_in(row, "until")),
                                .has_effect = !row.contains("effective")};
    if (const std::size_t at = key_in(one.key); at > 0) {
      one.limit = one.key.substr(0, at - 1);
      one.key.erase(0, at);
    }
    out.push_back(std::move(one));
  });
  return out;
}

std::vector<server::RulesText> texts_of(AdminClient& client, std::uint64_t version) {
  const auto json = client.ask_json("GET", "/v1/rules/history?version=" + std::to_string(version));
  std::vector<server::RulesText> out;
  for (const boost::json::object* one : client.objects_in(json, "texts")) {
    out.push_back({text_in(*one, "name"), text_in(*one, "text")});
  }
  return out;
}

std::vector<server::RulesText> texts_with(std::vector<server::RulesText> texts,
                                          const std::vector<server::TemporaryChange>& changes) {
  for (server::TemporaryChange one : changes) {
    if (!one.has_effect || write_change(texts, one) || !one.rule.starts_with(kPlanPlace)) continue;
    one.rule.erase(0, kPlanPlace.size());
    one.of_plan = true;
    write_change(texts, one);
  }
  return texts;
}

std::vector<RuleDifference> compare_texts(const std::vector<server::RulesText>& before,
                                          const std::vector<server::RulesText>& after) {
  return rules::compare_rules(views_of(before), views_of(after));
}

std::string until_of(const RuleDifference& one,
                     const std::vector<server::TemporaryChange>& changes) {
  for (const server::TemporaryChange& change : changes) {
    // The difference of a number of plans names the plan: "plans.free.limit".
    std::string of_plan = change.rule + "." + change.key;
    if (of_plan.starts_with(kPlanPlace)) of_plan[kPlanPlace.size() - 1] = '.';
    const bool is_same = one.key == (one.rule == change.rule ? change.key : of_plan);
    if (!is_same || one.limit != change.limit || one.after != change.value) continue;
    return change.until ? ", until " + base::to_rfc3339(*change.until) : "";
  }
  return {};
}

std::string temporary_text(const std::vector<server::TemporaryChange>& changes) {
  std::string text;
  for (const server::TemporaryChange& one : changes) {
    const std::string key = one.limit.empty() ? one.key : one.limit + "." + one.key;
    const std::string until = one.until ? base::to_rfc3339(*one.until) : "other rules are active";
    const bool is_plan = one.rule.starts_with(kPlanPlace);
    std::string line = "temporary: ";
    line.append(is_plan ? "" : "rule ").append(one.rule).append(" has ").append(key);
    line.append(" ").append(one.value).append(" until ").append(until);
    if (!one.has_effect) line.append(", without effect on the active rules");
    text += replay::printable(line) + '\n';
  }
  return text;
}

std::string on_top_text(const std::vector<server::TemporaryChange>& changes) {
  if (changes.empty()) return {};
  return "changes for a time stay on top; sluice rules set RULE --for 0s ends them\n" +
         temporary_text(changes);
}

std::string who() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> texts{};
  std::array<char, 256> host{};
  const bool has_host = ::gethostname(host.data(), host.size() - 1) == 0;
  ::getpwuid_r(::geteuid(), &entry, texts.data(), texts.size(), &found);
  const std::string user = found != nullptr ? found->pw_name : std::to_string(::geteuid());
  return user + "@" + (has_host ? host.data() : "unknown");
}

void print_text(const std::vector<RuleDifference>& all) {
  for (const RuleDifference& one : all) std::cout << text_of(one) << '\n';
}

int print_same() { return std::cout << "the active rules say so already\n" ? 0 : 1; }

void print_warnings(std::span<const RuleError> warnings) {
  std::cout << std::flush;
  for (const RuleError& one : warnings) std::cerr << replay::printable(one.to_string()) << '\n';
}

void print_warnings(const boost::json::object& answer) {
  std::vector<RuleError> warnings;
  each_object(answer, "warnings", [&](const boost::json::object& one) {
    warnings.push_back({.file = text_in(one, "file"),
                        .line = static_cast<int>(number_in(one, "line")),
                        .column = static_cast<int>(number_in(one, "column")),
                        .what = text_in(one, "what"),
                        .expected = text_in(one, "expected"),
                        .is_warning = true});
  });
  print_warnings(warnings);
}

int print_changed(AdminClient& client, const boost::json::object& answer) {
  const auto* const list = answer.if_contains("differences");
  if (list == nullptr || !list->is_array()) throw Failed(client.strange());
  print_text(differences_in(answer));
  const bool is_pushed = answer.contains("pushed_version");
  const auto* const changed = answer.if_contains("changed");
  if (!is_pushed && changed != nullptr && *changed == false) return print_same();
  std::cout << "version " << number_in(answer, is_pushed ? "pushed_version" : "version")
            << (is_pushed ? " in Redis, active until " : " of this server, active until ")
            << text_in(answer, "active_until") << '\n';
  if (answer.contains("note")) std::cout << text_in(answer, "note") << '\n';
  print_warnings(answer);
  return 0;
}

std::string by_query(const std::string& by) { return "by=" + url_encoded(by.empty() ? who() : by); }

}  // namespace sluice::cli
