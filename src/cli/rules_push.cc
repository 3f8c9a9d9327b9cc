#include "cli/rules_push.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/redis_session.h"
#include "cli/store_flags.h"
#include "server/rules/published_rules.h"
#include "server/rules/redis_rules.h"
#include "server/rules/rules_files.h"
#include "server/rules/rules_manager.h"

namespace sluice::cli {
namespace {

using server::PublishedRules;
using server::RulesText;

constexpr const char* kPushHelp =
    R"(Checks the files as one set and replaces the rules in Redis with them, in one step. Every
server with `rules: redis` on this store uses them within a second. Prints the new version.

If two pushes happen at the same time, the later one fails. With --expect, a push also fails if
the version in Redis is another one.

Exit status: 0 pushed; 1 the rules are wrong or could not be pushed; 2 wrong usage.

Examples:
  sluice rules push rules.yaml --store redis://127.0.0.1:6379
  sluice rules push rules.d --config /etc/sluice/sluice.yaml --expect 7)";

constexpr const char* kShowHelp =
    R"(Prints the rules in Redis: the text of each file, after a comment with its name. If there
is one file, the output is valid input for `sluice rules check -`.

Example:
  sluice rules show --store redis://127.0.0.1:6379)";

// The exit status, or the failure.
using Result = Expected<int, Failed>;

int finish(const char* command, const Result& result) {
  if (result) return *result;
  std::cerr << "sluice: rules " << command << ": " << result.error().what << '\n';
  return result.error().status;
}

std::string now_as_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::string text(20, '\0');
  if (::gmtime_r(&now, &parts) == nullptr) return {};
  std::strftime(text.data(), text.size() + 1, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// The location of rules in Redis.
struct Place {
  std::unique_ptr<RedisSession> session;
  std::string key;

  // Returns nullopt if there are no rules.
  Expected<std::optional<PublishedRules>, Failed> read() const {
    Expected<std::optional<PublishedRules>> found = Unexpected{"no answer"};
    const auto asked =
        session->ask([&](redis::Command& command) { server::fill_in_read_rules(command, key); },
                     [&](const redisReply& reply) { found = server::read_rules(reply); });
    if (!asked) return Unexpected{Failed{key + " at " + asked.error()}};
    if (!found) {
      return Unexpected{Failed{key + " at " + session->shown() + " holds " + found.error() +
                               ". Delete it first if it is not needed"}};
    }
    return *std::move(found);
  }
};

Expected<Place, Failed> open_place(const server::Config& config, const RedisOptions& options,
                                   const std::string& key) {
  auto session = RedisSession::open(options);
  if (!session) return Unexpected{Failed{session.error()}};
  return Place{*std::move(session), key.empty() ? server::rules_key(config.redis) : key};
}

struct PushFlags {
  std::shared_ptr<StoreFlags> store;
  std::vector<std::string> files;
  std::string key;
  std::optional<std::uint64_t> expect;
  bool dry_run = false;
};

// The texts of the files and a summary ("2 rules, 3 limits").
struct Checked {
  std::vector<RulesText> texts;
  std::string summary;
};

// Returns nullopt after printing all errors.
std::optional<Checked> check_files(const std::vector<std::string>& paths, const RuleTerms& terms) {
  server::FilesRead read = server::read_files(paths);
  std::vector<RuleText> texts;
  for (const RulesText& text : read.texts) texts.push_back({text.name, text.text});
  const auto rules = RuleSet::parse(texts, terms);
  if (!rules) {
    for (const RuleError& error : rules.error()) read.errors.push_back(error);
  }
  for (const RuleError& error : read.errors) std::cerr << error.to_string() << '\n';
  if (!read.errors.empty()) return std::nullopt;
  return Checked{std::move(read.texts), std::to_string(rules->rules().size()) + " rules, " +
                                            std::to_string(server::count_limits(*rules)) +
                                            " limits"};
}

std::string version_of(const std::optional<PublishedRules>& rules) {
  return rules ? "version " + std::to_string(rules->version) : "no rules";
}

// Returns whether the rules replaced those with the id `old`.
Expected<bool, Failed> put(const Place& place, const PublishedRules& rules, const std::string& old,
                           bool scripting) {
  Expected<bool> pushed = true;
  const auto asked = place.session->ask(
      [&](redis::Command& command) {
        if (scripting) return server::fill_in_push(command, place.key, rules, old);
        server::fill_in_overwrite(command, place.key, rules);
      },
      [&](const redisReply& reply) {
        if (scripting) pushed = server::read_pushed(reply);
      });
  if (!asked) return Unexpected{Failed{asked.error()}};
  if (!pushed) return Unexpected{Failed{pushed.error()}};
  return *pushed;
}

Result push_to(const Place& place, const PushFlags& flags, Checked checked, bool scripting) {
  const auto old = place.read();
  if (!old) return Unexpected{old.error()};
  const std::string there = version_of(*old);
  if (flags.expect && *flags.expect != (*old ? (*old)->version : 0)) {
    return Unexpected{Failed{place.key + " has " + there + "; expected version " +
                             std::to_string(*flags.expect) + " there. Nothing was pushed"}};
  }
  if (*old && (*old)->texts == checked.texts) {
    std::cout << place.key << ": " << there << " already has these rules\n";
    return 0;
  }
  auto rules =
      server::publish(*old ? (*old)->version + 1 : 1, now_as_text(), std::move(checked.texts));
  if (!rules) return Unexpected{Failed{rules.error()}};
  const std::string done =
      std::to_string(rules->version) + ", " + checked.summary + "; before " + there;
  if (flags.dry_run) {
    std::cout << place.key << ": would become version " << done << '\n';
    return 0;
  }
  const auto pushed = put(place, *rules, *old ? (*old)->id : "", scripting);
  if (!pushed) return Unexpected{pushed.error()};
  if (!*pushed) {
    return Unexpected{Failed{place.key +
                             ": other rules were pushed at the same time. Your rules were not "
                             "pushed. Check those rules (sluice rules show), then push "
                             "again"}};
  }
  std::cout << place.key << ": version " << done << '\n';
  return 0;
}

Result push(const PushFlags& flags) {
  const auto config = config_of(*flags.store);
  if (!config) return Unexpected{config.error()};
  const auto options = redis_options_of(*config);
  if (!options) return Unexpected{options.error()};
  auto checked = check_files(flags.files, server::rule_terms(*config));
  if (!checked) return 1;
  const auto place = open_place(*config, *options, flags.key);
  if (!place) return Unexpected{place.error()};
  return push_to(*place, flags, *std::move(checked), config->redis.options.scripting);
}

void print(const PublishedRules& rules) {
  for (const RulesText& text : rules.texts) {
    std::cout << "# " << text.name << " (version " << rules.version << ", pushed "
              << rules.pushed_at << ")\n"
              << text.text << (text.text.ends_with('\n') ? "" : "\n");
  }
}

Result show(const StoreFlags& flags, const std::string& key) {
  const auto config = config_of(flags);
  if (!config) return Unexpected{config.error()};
  const auto options = redis_options_of(*config);
  if (!options) return Unexpected{options.error()};
  const auto place = open_place(*config, *options, key);
  if (!place) return Unexpected{place.error()};
  const auto rules = place->read();
  if (!rules) return Unexpected{rules.error()};
  if (!*rules) return Unexpected{Failed{server::no_rules_at(place->key)}};
  print(**rules);
  return 0;
}

}  // namespace

void add_push(CLI::App& rules, int& status) {
  CLI::App* const command =
      rules.add_subcommand("push", "Publishes rules files in Redis for all servers");
  auto flags = std::make_shared<PushFlags>();
  flags->store = add_store_flags(*command);
  command->add_option("FILE", flags->files, "Rules files and directories")->required();
  command->add_option("--key", flags->key, "The key of the rules in Redis [PREFIXrules]");
  command
      ->add_option("--expect", flags->expect, "Push only if this version is in Redis; 0: no rules")
      ->type_name("VERSION")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--dry-run", flags->dry_run, "Print what would change without pushing");
  command->footer(kPushHelp);
  command->callback([flags, &status] { status = finish("push", push(*flags)); });
}

void add_show(CLI::App& rules, int& status) {
  CLI::App* const command = rules.add_subcommand("show", "Prints the rules in Redis");
  const auto store = add_store_flags(*command);
  auto key = std::make_shared<std::string>();
  command->add_option("--key", *key, "The key of the rules in Redis [PREFIXrules]");
  command->footer(kShowHelp);
  command->callback([store, key, &status] { status = finish("show", show(*store, *key)); });
}

}  // namespace sluice::cli
