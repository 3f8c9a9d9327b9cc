#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/api/resp/command_handler.h"
#include "server/api/resp/synopsis.h"

// The commands that report on the server: COMMAND and INFO.
namespace sluice::server::resp::commands {
namespace {

void put_flag_words(Reply& reply, const Command& command) {
  std::vector<std::string_view> words;
  words.emplace_back(command.writes ? "write" : "readonly");
  words.emplace_back("fast");
  if (command.group == "connection" || command.group == "server") {
    words = {"loading", "stale", "fast"};
  }
  if (command.role == Role::kNobody) words.emplace_back("no_auth");
  reply.set(words.size());
  for (const std::string_view word : words) reply.simple(word);
}

// Writes the fields of Redis 7: name, arity, flags, first key, last key, step, ACL categories,
// tips, key specifications, parts.
void put_info(Reply& reply, const Command& command, const std::string& name) {
  const std::int64_t key = command.has_key ? 1 : 0;
  reply.array(10);
  reply.bulk(name);
  reply.integer(arity(command));
  put_flag_words(reply, command);
  for (int i = 0; i < 3; ++i) reply.integer(key);
  reply.set(1);
  reply.simple(command.group == "connection" ? "@connection" : "@fast");
  reply.array(0);
  reply.array(0);
  reply.array(command.parts.size());
  for (const Command& part : command.parts) {
    put_info(reply, part, name + "|" + std::string(part.name));
  }
}

void put_argument(Reply& reply, const SynopsisPart& part) {
  const bool is_token = !part.token.empty();
  const std::size_t flags = std::size_t{part.optional} + std::size_t{part.multiple};
  reply.map(2 + std::size_t{is_token} + std::size_t{flags > 0});
  reply.bulk("name");
  reply.bulk(part.name);
  reply.bulk("type");
  reply.bulk("string");
  if (is_token) {
    reply.bulk("token");
    reply.bulk(part.token);
  }
  if (flags == 0) return;
  reply.bulk("flags");
  reply.set(flags);
  if (part.optional) reply.simple("optional");
  if (part.multiple) reply.simple("multiple");
}

void put_docs(Reply& reply, const Command& command) {
  const std::vector<SynopsisPart> parts = read_synopsis(command.synopsis);
  reply.map(3 + std::size_t{!parts.empty()} + std::size_t{!command.parts.empty()});
  reply.bulk("summary");
  reply.bulk(command.summary);
  reply.bulk("since");
  reply.bulk("0.1.0");
  reply.bulk("group");
  reply.bulk(command.group);
  if (!parts.empty()) {
    reply.bulk("arguments");
    reply.array(parts.size());
    for (const SynopsisPart& part : parts) put_argument(reply, part);
  }
  if (command.parts.empty()) return;
  reply.bulk("subcommands");
  reply.map(command.parts.size());
  for (const Command& part : command.parts) {
    reply.bulk(std::string(command.name) + "|" + std::string(part.name));
    put_docs(reply, part);
  }
}

const Command* of_name(std::string_view name) {
  const Found found = find_command(name);
  return found.part != nullptr ? found.part : found.command;
}

struct Section {
  std::string_view name;
  std::string (*text)(const CommandHandler& handler);
};

std::string about_server(const CommandHandler& handler) {
  const auto up =
      std::chrono::duration_cast<std::chrono::seconds>(handler.clock.now() - handler.about.started);
  return "# Server\r\nredis_version:" + std::string(kRedisVersion) +
         "\r\nsluice_version:" + std::string(handler.about.version) +
         "\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:64\r\nprocess_id:" +
         std::to_string(::getpid()) + "\r\nuptime_in_seconds:" + std::to_string(up.count()) +
         "\r\n";
}

std::string about_clients(const CommandHandler& handler) {
  return "# Clients\r\nconnected_clients:" + std::to_string(handler.about.connections.load()) +
         "\r\n";
}

// The section that clients check before they send anything else.
std::string about_data(const CommandHandler&) { return "# Persistence\r\nloading:0\r\n"; }
std::string about_replication(const CommandHandler&) {
  return "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n";
}
std::string about_cluster(const CommandHandler&) { return "# Cluster\r\ncluster_enabled:0\r\n"; }

constexpr Section kSections[] = {{"server", about_server},
                                 {"clients", about_clients},
                                 {"persistence", about_data},
                                 {"replication", about_replication},
                                 {"cluster", about_cluster}};

}  // namespace

void command(CommandHandler&, const Call& call) {
  const auto all = all_commands();
  call.reply.array(all.size());
  for (const Command& one : all) put_info(call.reply, one, std::string(one.name));
}

void command_count(CommandHandler&, const Call& call) {
  call.reply.integer(static_cast<std::int64_t>(all_commands().size()));
}

void command_docs(CommandHandler&, const Call& call) {
  const auto names = call.arguments.subspan(2);
  if (names.empty()) {
    call.reply.map(all_commands().size());
    for (const Command& one : all_commands()) {
      call.reply.bulk(one.name);
      put_docs(call.reply, one);
    }
    return;
  }
  const auto known = std::count_if(names.begin(), names.end(),
                                   [](std::string_view name) { return of_name(name) != nullptr; });
  call.reply.map(static_cast<std::size_t>(known));
  for (const std::string_view name : names) {
    const Command* const found = of_name(name);
    if (found == nullptr) continue;
    call.reply.bulk(full_name(find_command(name)));
    put_docs(call.reply, *found);
  }
}

void command_info(CommandHandler& handler, const Call& call) {
  const auto names = call.arguments.subspan(2);
  if (names.empty()) return command(handler, call);
  call.reply.array(names.size());
  for (const std::string_view name : names) {
    const Command* const found = of_name(name);
    if (found == nullptr) {
      call.reply.null();
    } else {
      put_info(call.reply, *found, full_name(find_command(name)));
    }
  }
}

void info(CommandHandler& handler, const Call& call) {
  const auto wanted = call.arguments.subspan(1);
  const auto asked_for = [&](std::string_view section) {
    return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](std::string_view word) {
             return same_word(word, section) || same_word(word, "all") ||
                    same_word(word, "default") || same_word(word, "everything");
           });
  };
  std::string text;
  for (const Section& section : kSections) {
    if (!asked_for(section.name)) continue;
    if (!text.empty()) text += "\r\n";
    text += section.text(handler);
  }
  call.reply.verbatim(text);
}

}  // namespace sluice::server::resp::commands
