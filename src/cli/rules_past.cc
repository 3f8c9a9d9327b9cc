#include "cli/rules_past.h"

#include <algorithm>
#include <boost/json.hpp>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/rules_place.h"
#include "replay/text.h"

namespace sluice::cli {
namespace {

using server::PastPush;

constexpr const char* kHistoryHelp =
    R"(Print the last 50 pushes of rules in Redis, the latest first: the version, its id, when and by
whom it was pushed. Redis also keeps the rules of these pushes, at most 64 MiB in total; it drops
the oldest first.

Pushes with `scripting: off` and pushes by older versions of Sluice are not in the history.

Exit status: 0 printed; 1 there is no history, or Redis cannot be read; 2 wrong usage.

Examples:
  sluice rules history --store redis://127.0.0.1:6379
  sluice rules history --json --config /etc/sluice/sluice.yaml)";

constexpr const char* kRollbackHelp =
    R"(Push the rules of an earlier push again, as a new version. ID is a version or an id of
`sluice rules history`.

Exit status: 0 pushed; 1 the rules are wrong or could not be pushed; 2 wrong usage.

Examples:
  sluice rules rollback 7 --store redis://127.0.0.1:6379
  sluice rules rollback 7 --expect 9 --config /etc/sluice/sluice.yaml)";

void print_json(const std::vector<PastPush>& pushes) {
  for (const PastPush& push : pushes) {
    std::cout << boost::json::value{{"version", push.version},     {"id", push.id},
                                    {"pushed_at", push.pushed_at}, {"by", push.by},
                                    {"files", push.files},         {"bytes", push.bytes}}
              << '\n';
  }
}

void print_table(const std::vector<PastPush>& pushes) {
  const auto row = [](const auto& version, const auto& id, const auto& at, const auto& files,
                      const auto& bytes, const auto& by) {
    std::cout << std::left << std::setw(8) << version << ' ' << std::setw(24) << id << ' '
              << std::setw(20) << at << ' ' << std::right << std::setw(5) << files << ' '
              << std::setw(9) << bytes << "  " << by << '\n';
  };
  row("VERSION", "ID", "PUSHED AT", "FILES", "BYTES", "BY");
  for (const PastPush& push : pushes) {
    row(push.version, replay::printable(push.id), replay::printable(push.pushed_at), push.files,
        push.bytes, replay::printable(push.by));
  }
}

Expected<int, Failed> history(const PlaceFlags& flags, bool json) {
  const auto place = RulesPlace::open(flags);
  if (!place) return Unexpected{place.error()};
  const auto pushes = place->history();
  if (!pushes) return Unexpected{pushes.error()};
  if (pushes->empty()) {
    return Unexpected{Failed{"there is no history of " + place->key() +
                             "; it begins with the next sluice rules push"}};
  }
  if (json) {
    print_json(*pushes);
  } else {
    print_table(*pushes);
  }
  return 0;
}

// The latest push with that version or id.
Expected<PastPush, Failed> find_push(const std::vector<PastPush>& pushes, const std::string& id) {
  const auto found = std::find_if(pushes.begin(), pushes.end(), [&](const PastPush& push) {
    return push.id == id || std::to_string(push.version) == id;
  });
  if (found != pushes.end()) return *found;
  const auto [least, most] = std::minmax_element(
      pushes.begin(), pushes.end(),
      [](const PastPush& a, const PastPush& b) { return a.version < b.version; });
  const std::string expected =
      pushes.empty() ? "there is no history"
                     : "expected a version from " + std::to_string(least->version) + " to " +
                           std::to_string(most->version) + ", or an id of sluice rules history";
  return Unexpected{Failed{"the history has no push '" + id + "'; " + expected}};
}

Expected<int, Failed> roll_back(const PlaceFlags& place_flags, const PushFlags& flags,
                                const std::string& id) {
  const auto config = config_of(*place_flags.store);
  if (!config) return Unexpected{config.error()};
  const auto place = RulesPlace::open(*config, place_flags.key);
  if (!place) return Unexpected{place.error()};
  const auto pushes = place->history();
  if (!pushes) return Unexpected{pushes.error()};
  const auto push = find_push(*pushes, id);
  if (!push) return Unexpected{push.error()};
  auto texts = place->past(*push);
  if (!texts) return Unexpected{texts.error()};
  auto checked = check_texts({.picture = {}, .texts = *std::move(texts), .errors = {}},
                             server::rule_terms(*config));
  if (!checked) return 1;
  return push_rules(*place, flags, *std::move(checked),
                    " (rollback to version " + std::to_string(push->version) + ")");
}

}  // namespace

void add_history(Command rules, int& status) {
  const Command command = rules.add_subcommand("history", "Print the last pushes of rules");
  const auto flags = add_place_flags(command);
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print a JSON object for each push");
  command.footer(kHistoryHelp);
  command.callback([flags, json, &status] { status = finish("history", history(*flags, *json)); });
}

void add_rollback(Command rules, int& status) {
  const Command command =
      rules.add_subcommand("rollback", "Push the rules of an earlier push again");
  const auto place = add_place_flags(command);
  const auto flags = add_push_flags(command);
  const auto id = std::make_shared<std::string>();
  command.add_option("ID", *id, "The version or the id of the push").required();
  command.footer(kRollbackHelp);
  command.callback(
      [place, flags, id, &status] { status = finish("rollback", roll_back(*place, *flags, *id)); });
}

}  // namespace sluice::cli
