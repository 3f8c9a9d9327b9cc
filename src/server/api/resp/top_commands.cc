#include <cstdint>
#include <optional>
#include <string>

#include "insight/top_keys.h"
#include "server/api/resp/arguments.h"
#include "server/api/resp/command_handler.h"

// RL.TOP: the most asked and the most denied keys of a rule.
namespace sluice::server::resp::commands {
namespace {

using insight::TopKeysQuery;

// Sets a value that was read. Returns false if the reply has become an error.
template <typename T>
bool set_option(std::string_view option, std::string_view value, const Expected<T>& read, T& to,
                Reply& reply) {
  if (read) {
    to = *read;
    return true;
  }
  reply.error("ERR " + std::string(option) + " is " + shown(value) + "; expected " + read.error());
  return false;
}

bool read_top_option(std::string_view name, std::string_view value, TopKeysQuery& query,
                     Reply& reply) {
  if (same_word(name, "BY"))
    return set_option(name, value, insight::read_top_by(value), query.by, reply);
  if (same_word(name, "OVER"))
    return set_option(name, value, insight::read_span(value), query.over, reply);
  if (same_word(name, "LIMIT")) {
    query.limit = value;
    return true;
  }
  if (same_word(name, "COUNT")) {
    const auto most = read_number(value, {"COUNT", 1, insight::KeyFrame::kMostKeys}, reply);
    if (most) query.most = static_cast<std::size_t>(*most);
    return most.has_value();
  }
  reply.error("ERR " + shown(name) + " is not an option; expected LIMIT, BY, OVER or COUNT");
  return false;
}

bool names_a_limit(const Rule& rule, std::string_view limit, Reply& reply) {
  std::string names;
  for (const RuleLimit& one : rule.limits) {
    if (limit.empty() || one.name == limit) return true;
    names.append(names.empty() ? "" : ", ").append(one.name);
  }
  reply.error("ERR the rule " + shown(rule.name) + " has no limit " + shown(limit) +
              (names.empty() ? "" : "; expected one of: " + names));
  return false;
}

void write_keys(const insight::TopLimit& limit, Reply& reply) {
  reply.map(3);
  reply.bulk("limit");
  reply.bulk(limit.limit);
  reply.bulk("total");
  reply.integer(static_cast<std::int64_t>(limit.total));
  reply.bulk("keys");
  reply.array(limit.keys.size());
  for (const insight::TopKey& key : limit.keys) {
    reply.map(3);
    reply.bulk("key");
    reply.bulk(key.text);
    reply.bulk("count");
    reply.integer(static_cast<std::int64_t>(key.count));
    reply.bulk("error");
    reply.integer(static_cast<std::int64_t>(key.error));
  }
}

}  // namespace

void top(CommandHandler& handler, const Call& call) {
  if (handler.top_keys == nullptr || !handler.top_keys->is_on()) {
    return call.reply.error(
        "ERR this server does not count keys; expected top_keys over 0 in its configuration, and "
        "log.keys plain or hash");
  }
  const RuleSet rules = handler.rules.current();
  const Rule* const rule = rules.find(call.arguments[1]);
  if (rule == nullptr) {
    return call.reply.error("ERR there is no rule " + shown(call.arguments[1]));
  }
  TopKeysQuery query{.rule = rule->name};
  const auto options = call.arguments.subspan(2);
  if (options.size() % 2 != 0) {
    return call.reply.error(
        "ERR " + shown(options.back()) +
        " has no value; expected pairs of LIMIT, BY, OVER or COUNT and a value");
  }
  for (std::size_t i = 0; i < options.size(); i += 2) {
    if (!read_top_option(options[i], options[i + 1], query, call.reply)) return;
  }
  if (!names_a_limit(*rule, query.limit, call.reply)) return;
  const auto limits = handler.top_keys->top(query);
  call.reply.array(limits.size());
  for (const insight::TopLimit& limit : limits) write_keys(limit, call.reply);
}

}  // namespace sluice::server::resp::commands
