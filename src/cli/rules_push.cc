#include "cli/rules_push.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/rules_place.h"
#include "server/rules/redis_rules.h"

namespace sluice::cli {
namespace {

constexpr const char* kPushHelp =
    R"(Check the files as one set and replace the rules in Redis with them, in one step. Every
server with `rules: redis` on this store uses them within a second. The output is the new version.

Redis keeps the last 50 pushes (sluice rules history) with the user and the host that pushed;
--by names somebody else.

If two pushes happen at the same time, the later one fails. With --expect, a push also fails if
the version in Redis is another one.

Exit status: 0 pushed; 1 the rules are wrong or could not be pushed; 2 wrong usage.

Examples:
  sluice rules push rules.yaml --store redis://127.0.0.1:6379
  sluice rules push rules.d --config /etc/sluice/sluice.yaml --expect 7)";

constexpr const char* kShowHelp =
    R"(Print the rules in Redis: the text of each file, after a comment with its name. If there
is one file, the output is valid input for `sluice rules check -`.

Example:
  sluice rules show --store redis://127.0.0.1:6379)";

using Files = std::vector<std::string>;

Expected<int, Failed> push(const PlaceFlags& place_flags, const PushFlags& flags,
                           const Files& files) {
  const auto config = config_of(*place_flags.store);
  if (!config) return Unexpected{config.error()};
  if (const auto options = redis_options_of(*config); !options) return Unexpected{options.error()};
  auto checked = check_texts(server::read_files(files), server::rule_terms(*config));
  if (!checked) return 1;
  const auto place = RulesPlace::open(*config, place_flags.key);
  if (!place) return Unexpected{place.error()};
  return push_rules(*place, flags, *std::move(checked));
}

void print(const server::PublishedRules& rules) {
  for (const server::RulesText& text : rules.texts) {
    std::cout << "# " << text.name << " (version " << rules.version << ", pushed "
              << rules.pushed_at << (rules.by.empty() ? "" : " by ") << rules.by << ")\n"
              << text.text << (text.text.ends_with('\n') ? "" : "\n");
  }
}

Expected<int, Failed> show(const PlaceFlags& flags) {
  const auto place = RulesPlace::open(flags);
  if (!place) return Unexpected{place.error()};
  const auto rules = place->read();
  if (!rules) return Unexpected{rules.error()};
  if (!*rules) return Unexpected{Failed{server::no_rules_at(place->key())}};
  print(**rules);
  return 0;
}

}  // namespace

void add_push(Command rules, int& status) {
  const Command command =
      rules.add_subcommand("push", "Publish rules files in Redis for all servers");
  const auto place = add_place_flags(command);
  const auto flags = add_push_flags(command);
  const auto files = std::make_shared<Files>();
  command.add_option("FILE", *files, "Rules files and directories").required();
  command.footer(kPushHelp);
  command.callback(
      [place, flags, files, &status] { status = finish("push", push(*place, *flags, *files)); });
}

void add_show(Command rules, int& status) {
  const Command command = rules.add_subcommand("show", "Print the rules in Redis");
  const auto flags = add_place_flags(command);
  command.footer(kShowHelp);
  command.callback([flags, &status] { status = finish("show", show(*flags)); });
}

}  // namespace sluice::cli
