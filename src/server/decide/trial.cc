// What `sluice try` and POST /v1/try say about a request: which rule matches and why the others do
// not, the keys and numbers of its limits, and what a client gets.

#include "server/decide/trial.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <utility>

#include "core/limit.h"
#include "core/period.h"
#include "rules/attributes.h"
#include "rules/diagnostics.h"
#include "rules/rule_set.h"
#include "server/decide/rejection.h"
#include "server/decide/rule_counters.h"
#include "server/protocol/http/message.h"
#include "sluice/rule_decider.h"

namespace sluice::server {

Expected<WrittenRequest> WrittenRequest::read(const std::vector<std::string>& words) {
  WrittenRequest request;
  std::vector<std::string> parts = words;
  if (words.size() == 1) {
    parts.clear();
    std::string_view rest = words.front();
    while (!rest.empty()) parts.emplace_back(base::take_until(rest, ' '));
  }
  for (const std::string& word : parts) {
    if (word.empty()) continue;
    if (std::string wrong = request.add_word(word); !wrong.empty())
      return Unexpected{std::move(wrong)};
  }
  if (request.values_.empty()) {
    return Unexpected{
        std::string("the request is empty; expected one such as 'POST /login ip=192.0.2.1'")};
  }
  return request;
}

std::optional<std::string_view> WrittenRequest::find(std::string_view name) const {
  const auto given = values_.find(std::string(name));
  if (given != values_.end()) return given->second;
  constexpr std::string_view kQuery = "query.";
  if (!name.starts_with(kQuery)) return std::nullopt;
  return base::find_query(base::split_target(target_).query, name.substr(kQuery.size()), buffers_);
}

// Returns what is wrong with the word, or an empty text.
std::string WrittenRequest::add_word(const std::string& word) {
  const bool is_method =
      std::ranges::all_of(word, [](unsigned char c) { return std::isupper(c) != 0 || c == '-'; });
  if (is_method) return add("method", word);
  if (word.front() == '/' || word.starts_with("http://") || word.starts_with("https://")) {
    target_ = word;
    std::string buffer;
    return add("path",
               std::string(base::normalized_path(base::split_target(target_).path, buffer)));
  }
  const std::size_t equals = word.find('=');
  if (equals == 0 || equals == word.npos) {
    return rules::in_quotes(word) +
           " is no part of a request; expected a method such as POST, a path such as /login, or "
           "NAME=VALUE such as ip=192.0.2.1";
  }
  const std::string name = word.substr(0, equals);
  if (const auto wrong = rules::find_name_error(name)) return *wrong;
  std::string value = word.substr(equals + 1);
  if (name == "host") {
    std::string buffer;
    value = std::string(base::host_name(value, buffer));
  }
  std::string known = rules::normalized(name);
  const auto wrong = known == "ip" ? rules::find_address_error(value) : std::nullopt;
  return wrong ? *wrong : add(known, std::move(value));
}

std::string WrittenRequest::add(const std::string& name, std::string value) {
  if (values_.emplace(name, std::move(value)).second) return {};
  return "the request has " + name + " twice; expected it once";
}

std::string in_seconds(Duration time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  std::array<char, 32> text{};
  const bool is_whole = ms % 1000 == 0;
  std::snprintf(text.data(), text.size(), is_whole ? "%.0f s" : "%.3f s",
                static_cast<double>(ms) / 1000);
  return text.data();
}

bool is_read(const RuleSet& rules, std::string_view attribute) {
  const auto& known = rules.impl().attributes.names();
  return attribute == "method" || attribute == "path" ||
         std::ranges::find(known, attribute) != known.end();
}

std::string explain_unread(const RuleSet& rules, const WrittenRequest& request) {
  const auto& known = rules.impl().attributes.names();
  std::string out;
  for (const auto& [name, value] : request.values()) {
    if (is_read(rules, name)) continue;
    const std::string similar = rules::did_you_mean(name, {known.begin(), known.end()});
    out += "no rule reads the attribute " + rules::in_quotes(name) +
           (similar.empty() ? rules::did_you_mean_attribute(name) : similar) + "\n";
  }
  return out;
}

std::string explain_rules(const RuleSet& rules, const WrittenRequest& request) {
  const RuleSet::Impl& set = rules.impl();
  const auto& known = set.attributes.names();
  rules::AttributeValues values;
  values.begin(set.attributes, request);
  std::string out;
  for (std::size_t i = 0; i < set.rules.size(); ++i) {
    const Rule& rule = set.rules[i];
    out += "rule " + rule.name + ": ";
    const rules::Condition* const wrong = set.compiled[i].mismatch(values);
    if (wrong != nullptr) {
      const auto& value = values.get(wrong->attribute);
      out.append("does not match, ").append(known[wrong->attribute]).append(" is ");
      out += value ? rules::in_quotes(*value) : "absent";
      out.append(" and must ").append(wrong->negated ? "not " : "").append("be ");
      out.append(wrong->written).append("\n");
      continue;
    }
    out.append("matches").append(rule.mode == RuleMode::kShadow ? " (mode: shadow)" : "");
    if (rule.action != RuleAction::kLimit) {
      out.append(", action: ").append(rule.action == RuleAction::kAllow ? "allow" : "deny");
    }
    const bool is_last = !rules::lets_others_match(rule);
    if (is_last && i + 1 < set.rules.size()) out += "; rules after it are not tried";
    out += '\n';
    if (is_last) break;
  }
  return out;
}

namespace {

// "its key lacks header.x-user or ip"
std::string why_skipped(const RuleSet& rules, const WrittenRequest& request,
                        const RuleAnswer::Skipped& skipped) {
  for (const RuleCounter& counter : counters_of(rules, *skipped.rule, request)) {
    if (counter.limit != skipped.limit || counter.missing.empty()) continue;
    return "the request lacks " + counter.missing_names() + " of its key";
  }
  return "the request lacks an attribute of its cost";
}

// The limits that do not apply because an override says `unlimited`.
std::string explain_unlimited(const RuleSet& rules, const WrittenRequest& request,
                              const RuleAnswer& answer, const Overrides* overrides) {
  std::string out;
  if (overrides == nullptr) return out;
  for (const RuleAnswer::Matched& matched : answer.matched) {
    for (const RuleCounter& counter : counters_of(rules, *matched.rule, request)) {
      const bool applies = std::ranges::find(answer.limits, counter.limit, &LimitAnswer::limit) !=
                           answer.limits.end();
      const auto given = overrides->find(counter.key);
      if (applies || !given || given->kind != Override::Kind::kUnlimited) continue;
      out += "limit " + rules::full_name(matched.rule->name, counter.limit->name);
      if (!counter.label.empty()) out += ": key " + rules::in_quotes(counter.label);
      out += ", override: " + override_text(*given) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string explain_limits(const RuleSet& rules, const WrittenRequest& request,
                           const RuleAnswer& answer, const Overrides* overrides) {
  std::string out;
  if (!answer.mistake.empty()) {
    out.append("the request is invalid: ").append(answer.mistake).append("\n");
  } else if (answer.matched.empty()) {
    out += "no rule matches, so the request is allowed\n";
  }
  for (const LimitAnswer& limit : answer.limits) {
    out += "limit " + rules::full_name(limit.rule->name, limit.limit->name) + ": " +
           core::format_limit(limit.numbers) + " (" +
           std::string(to_string(limit.numbers.algorithm())) + ")";
    if (limit.limit->alternative) out += ", after " + (limit.limit - 1)->name;
    if (!limit.label.empty()) out += ", key " + rules::in_quotes(limit.label);
    if (limit.cost != 1) out += ", cost " + std::to_string(limit.cost);
    const auto given = overrides != nullptr ? overrides->find(limit.counter) : std::nullopt;
    if (given) out += ", override: " + override_text(*given);
    out += '\n';
  }
  out += explain_unlimited(rules, request, answer, overrides);
  for (const RuleAnswer::Skipped& one : answer.skipped) {
    out += "limit " + rules::full_name(one.rule->name, one.limit->name) + ": skipped, because " +
           why_skipped(rules, request, one) + "\n";
  }
  return out;
}

std::string explain_decision(const RuleAnswer& answer) {
  const Decision& decision = answer.decision;
  std::string out = decision.allowed() ? "allowed  " : "denied  ";
  out += to_string(decision.reason);
  if (decision.retry_after) out += ", again after " + in_seconds(*decision.retry_after);
  if (decision.delay && *decision.delay > Duration{0}) {
    out += ", delayed by " + in_seconds(*decision.delay);
  }
  if (const LimitAnswer* const charged = answer.charged()) {
    out += ", charged to " + charged->limit->name;
  }
  for (const LimitAnswer& limit : answer.limits) {
    if (!has_numbers(limit.decision)) continue;
    out += "; " + limit.limit->name + " " + std::to_string(limit.decision.remaining) + " of " +
           std::to_string(limit.decision.capacity) + " left";
  }
  return out + "\n";
}

std::string explain_response(const RuleAnswer& answer, const Clock& clock) {
  RuleHttpFields fields;
  http::Response response;
  put_gateway_answer(answer, fields, response, clock);
  std::erase(response.fields, '\r');
  std::string out = "HTTP status " + std::to_string(response.status) + "\n" + response.fields;
  if (response.body.empty()) return out;
  out.append("Content-Type: ").append(response.content_type).append("\n\n");
  return out.append(response.body).append("\n");
}

}  // namespace sluice::server
