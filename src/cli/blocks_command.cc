#include <boost/json.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "cli/admin_client.h"
#include "cli/command.h"
#include "replay/text.h"

namespace sluice::cli {
namespace {

constexpr const char* kSetBlockHelp =
    R"(Block one key of a limit that has a `block` (docs/admin.md, Blocks). The attributes are those that
the key of the limit reads. A slash in the name of a rule is written as %2F. For a limit without a
`block`, use `sluice overrides set RULE/LIMIT NAME=VALUE --blocked`, which can have --until too.

Exit status: 0 blocked; 1 it could not be blocked; 2 wrong usage.

Examples:
  sluice blocks set login/address ip=192.0.2.1 --for 15m
  sluice blocks set login/address ip=192.0.2.1 --until 2026-12-01T00:00:00Z)";

struct BlockFlags {
  std::shared_ptr<AdminFlags> admin;
  LimitPlace place;
  std::string length, until;
};

void print(const boost::json::value& counter, std::string_view state) {
  std::cout << replay::printable(std::string(counter.as_string())) << ": " << state << '\n';
}

int change(const BlockFlags& flags, std::string_view method, const std::string& more,
           std::string_view state) {
  const std::string target = "/v1/blocks?rule=" + names_of(flags.place, "&limit=") + more + "&" +
                             query_of(attributes_of(flags.place));
  const boost::json::value answer = AdminClient(*flags.admin).ask_json(method, target);
  print(answer.at("limits").at(0).at("counter"), state);
  return 0;
}

int set(const BlockFlags& flags) {
  if (flags.length.empty() == flags.until.empty()) {
    throw Failed("expected exactly one of --for and --until", kUsage);
  }
  const std::string more = flags.until.empty() ? "&for=" + url_encoded(flags.length)
                                               : "&until=" + url_encoded(flags.until);
  return change(flags, "PUT", more, "blocked");
}

int list(const AdminFlags& flags, std::uint64_t most) {
  const boost::json::value answer =
      AdminClient(flags).ask_json("GET", "/v1/blocks?count=" + std::to_string(most));
  for (const boost::json::value& one : answer.at("blocks").as_array()) {
    print(one.at("counter"), "blocked until " + std::string(one.at("until").as_string()));
  }
  if (answer.at("more").as_bool()) std::cerr << "sluice: blocks list: there may be more\n";
  return 0;
}

}  // namespace

void add_blocks(Command app, int& status) {
  const Command blocks =
      app.add_subcommand("blocks", "Block and unblock keys in a server, and list its blocks");
  blocks.require_subcommand();

  const Command setting = blocks.add_subcommand("set", "Block a key");
  auto flags = std::make_shared<BlockFlags>();
  add_place(setting, flags->place).required();
  setting.add_option("--for", flags->length, "How long, 1ms to 366d").type_name("PERIOD");
  setting.add_option("--until", flags->until, "When the block ends (RFC 3339)")
      .type_name("INSTANT");
  flags->admin = add_admin_flags(setting);
  setting.footer(kSetBlockHelp);
  setting.run(status, "blocks set", [flags] { return set(*flags); });

  const Command unsetting = blocks.add_subcommand("unset", "End the block of a key");
  auto place = std::make_shared<BlockFlags>();
  add_place(unsetting, place->place).required();
  place->admin = add_admin_flags(unsetting);
  unsetting.footer("Example:\n  sluice blocks unset login/address ip=192.0.2.1");
  unsetting.run(status, "blocks unset",
                [place] { return change(*place, "DELETE", {}, "not blocked"); });

  const Command listing = blocks.add_subcommand("list", "Print one line per block that holds");
  auto most = std::make_shared<std::uint64_t>(1000);
  listing.add_option("--max", *most, "The maximum number of blocks [1000]").range(1, 10'000);
  auto admin = add_admin_flags(listing);
  listing.run(status, "blocks list", [admin, most] { return list(*admin, *most); });
}

}  // namespace sluice::cli
