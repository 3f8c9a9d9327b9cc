#include "cli/rules_place.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <utility>

#include "server/rules/rules_manager.h"

namespace sluice::cli {
namespace {

using server::PastPush;
using server::PublishedRules;
using server::RulesText;

// Returns "user@host".
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

std::string version_of(const std::optional<PublishedRules>& rules) {
  return rules ? "version " + std::to_string(rules->version) : "no rules";
}

// For --by: the history has a line for each push.
std::string find_wrong_name(const std::string& name) {
  const bool has_control = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (!name.empty() && name.size() <= 128 && !has_control) return {};
  return "expected a name of 1 to 128 bytes without control characters";
}

}  // namespace

std::shared_ptr<PlaceFlags> add_place_flags(Command command) {
  auto flags = std::make_shared<PlaceFlags>();
  flags->store = add_store_flags(command);
  command.add_option("--key", flags->key, "The key of the rules in Redis [PREFIXrules]");
  return flags;
}

Expected<RulesPlace, Failed> RulesPlace::open(const server::Config& config,
                                              const std::string& key) {
  const auto options = redis_options_of(config);
  if (!options) return Unexpected{options.error()};
  auto session = RedisSession::open(*options);
  if (!session) return Unexpected{Failed{session.error()}};
  return RulesPlace(*std::move(session), key.empty() ? server::rules_key(config.redis) : key,
                    config.redis.options.scripting);
}

Expected<RulesPlace, Failed> RulesPlace::open(const PlaceFlags& flags) {
  const auto config = config_of(*flags.store);
  if (!config) return Unexpected{config.error()};
  return open(*config, flags.key);
}

Failed RulesPlace::wrong(const std::string& what) const {
  return Failed{key_ + " at " + session_->shown() + " holds " + what};
}

Expected<std::optional<PublishedRules>, Failed> RulesPlace::read() const {
  Expected<std::optional<PublishedRules>> found = Unexpected{"no answer"};
  const auto asked =
      session_->ask([&](redis::Command& command) { server::fill_in_read_rules(command, key_); },
                    [&](const redisReply& reply) { found = server::read_rules(reply); });
  if (!asked) return Unexpected{Failed{key_ + " at " + asked.error()}};
  if (!found) return Unexpected{wrong(found.error() + ". Delete it first if it is not needed")};
  return *std::move(found);
}

Expected<std::vector<PastPush>, Failed> RulesPlace::history() const {
  Expected<std::vector<PastPush>> found = Unexpected{"no answer"};
  const auto asked =
      session_->ask([&](redis::Command& command) { server::fill_in_read_history(command, key_); },
                    [&](const redisReply& reply) { found = server::read_history(reply); });
  if (!asked) return Unexpected{Failed{key_ + " at " + asked.error()}};
  if (!found) return Unexpected{wrong(found.error())};
  return *std::move(found);
}

Expected<std::vector<RulesText>, Failed> RulesPlace::past(const PastPush& push) const {
  Expected<std::vector<RulesText>> found = Unexpected{"no answer"};
  const auto asked = session_->ask(
      [&](redis::Command& command) { server::fill_in_read_past(command, key_, push.id); },
      [&](const redisReply& reply) { found = server::read_past(reply, push); });
  if (!asked) return Unexpected{Failed{key_ + " at " + asked.error()}};
  if (!found)
    return Unexpected{Failed{"version " + std::to_string(push.version) + ": " + found.error()}};
  return *std::move(found);
}

Expected<bool, Failed> RulesPlace::put(const PublishedRules& rules, const std::string& old) const {
  Expected<bool> pushed = true;
  const auto asked = session_->ask(
      [&](redis::Command& command) {
        if (scripting_) return server::fill_in_push(command, key_, rules, old);
        server::fill_in_overwrite(command, key_, rules);
      },
      [&](const redisReply& reply) {
        if (scripting_) pushed = server::read_pushed(reply);
      });
  if (!asked) return Unexpected{Failed{asked.error()}};
  if (!pushed) return Unexpected{Failed{pushed.error()}};
  return *pushed;
}

std::optional<CheckedRules> check_texts(server::FilesRead read, const RuleTerms& terms) {
  std::vector<RuleText> texts;
  for (const RulesText& text : read.texts) texts.push_back({text.name, text.text});
  const auto rules = RuleSet::parse(texts, terms);
  if (!rules) {
    for (const RuleError& error : rules.error()) read.errors.push_back(error);
  }
  for (const RuleError& error : read.errors) std::cerr << error.to_string() << '\n';
  if (!read.errors.empty()) return std::nullopt;
  return CheckedRules{std::move(read.texts), std::to_string(rules->rules().size()) + " rules, " +
                                                 std::to_string(server::count_limits(*rules)) +
                                                 " limits"};
}

std::shared_ptr<PushFlags> add_push_flags(Command command) {
  auto flags = std::make_shared<PushFlags>();
  command
      .add_option("--expect", flags->expect, "Push only if this version is in Redis; 0: no rules")
      .type_name("VERSION")
      .non_negative();
  command.add_flag("--dry-run", flags->dry_run, "Print what would change without pushing");
  command.add_option("--by", flags->by, "Who pushes, for the history [USER@HOST]")
      .type_name("NAME")
      .check(find_wrong_name);
  return flags;
}

Expected<int, Failed> push_rules(const RulesPlace& place, const PushFlags& flags,
                                 CheckedRules checked, const std::string& note) {
  const auto old = place.read();
  if (!old) return Unexpected{old.error()};
  const std::string there = version_of(*old);
  if (flags.expect && *flags.expect != (*old ? (*old)->version : 0)) {
    return Unexpected{Failed{place.key() + " has " + there + "; expected version " +
                             std::to_string(*flags.expect) + " there. Nothing was pushed"}};
  }
  if (*old && (*old)->texts == checked.texts) {
    std::cout << place.key() << ": " << there << " already has these rules\n";
    return 0;
  }
  auto rules = server::publish(*old ? (*old)->version + 1 : 1, server::pushed_now(),
                               std::move(checked.texts));
  if (!rules) return Unexpected{Failed{rules.error()}};
  rules->by = (flags.by.empty() ? who() : flags.by) + note;
  const std::string done =
      std::to_string(rules->version) + ", " + checked.summary + "; before " + there;
  if (flags.dry_run) {
    std::cout << place.key() << ": would become version " << done << '\n';
    return 0;
  }
  const auto pushed = place.put(*rules, *old ? (*old)->id : "");
  if (!pushed) return Unexpected{pushed.error()};
  if (!*pushed) {
    return Unexpected{Failed{place.key() +
                             ": other rules were pushed at the same time. Your rules were not "
                             "pushed. Check those rules (sluice rules show), then push "
                             "again"}};
  }
  std::cout << place.key() << ": version " << done << '\n';
  return 0;
}

int finish(const char* command, const Expected<int, Failed>& result) {
  if (result) return *result;
  std::cerr << "sluice: rules " << command << ": " << result.error().what << '\n';
  return result.error().status;
}

}  // namespace sluice::cli
