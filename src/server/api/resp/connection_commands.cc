#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "server/api/resp/command.h"
#include "server/api/resp/command_handler.h"
#include "server/protocol/resp/request_reader.h"

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
void put_info(Reply& reply, const Command& command) {
  const std::int64_t key = command.has_key ? 1 : 0;
  reply.array(10);
  reply.bulk(full_name(command));
  reply.integer(arity(command));
  put_flag_words(reply, command);
  for (int i = 0; i < 3; ++i) reply.integer(key);
  reply.set(1);
  reply.simple(command.group == "connection" ? "@connection" : "@fast");
  reply.array(0);
  reply.array(0);
  reply.array(command.parts.size());
  for (const Command& part : command.parts) put_info(reply, part);
}

void put_argument(Reply& reply, const SynopsisPart& part) {
  const bool is_token = !part.token.empty();
  const std::size_t flags = std::size_t{part.optional} + std::size_t{part.multiple};
  reply.map(2 + std::size_t{is_token} + std::size_t{flags > 0});
  reply.member("name", part.name);
  reply.member("type", "string");
  if (is_token) {
    reply.member("token", part.token);
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
  reply.member("summary", command.summary);
  reply.member("since", "0.1.0");
  reply.member("group", command.group);
  if (!parts.empty()) {
    reply.bulk("arguments");
    reply.array(parts.size());
    for (const SynopsisPart& part : parts) put_argument(reply, part);
  }
  if (command.parts.empty()) return;
  reply.bulk("subcommands");
  reply.map(command.parts.size());
  for (const Command& part : command.parts) {
    reply.bulk(full_name(part));
    put_docs(reply, part);
  }
}

}  // namespace

void command(CommandHandler&, const Call& call) {
  const auto all = all_commands();
  call.reply.array(all.size());
  for (const Command& one : all) put_info(call.reply, one);
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
  const auto known = std::count_if(names.begin(), names.end(), [](std::string_view name) {
    return find_command(name) != nullptr;
  });
  call.reply.map(static_cast<std::size_t>(known));
  for (const std::string_view name : names) {
    const Command* const found = find_command(name);
    if (found == nullptr) continue;
    call.reply.bulk(full_name(*found));
    put_docs(call.reply, *found);
  }
}

void command_info(CommandHandler& handler, const Call& call) {
  const auto names = call.arguments.subspan(2);
  if (names.empty()) return command(handler, call);
  call.reply.array(names.size());
  for (const std::string_view name : names) {
    const Command* const found = find_command(name);
    if (found == nullptr) {
      call.reply.null();
    } else {
      put_info(call.reply, *found);
    }
  }
}

void info(CommandHandler& handler, const Call& call) {
  const auto wanted = call.arguments.subspan(1);
  std::string text;
  const auto add = [&](std::string_view section, std::string_view title) {
    const bool is_wanted = wanted.empty() || std::ranges::any_of(wanted, [&](const auto& word) {
                             return same_word(word, section) || same_word(word, "all") ||
                                    same_word(word, "default") || same_word(word, "everything");
                           });
    if (is_wanted) text.append(text.empty() ? "# " : "\r\n# ").append(title).append("\r\n");
    return is_wanted;
  };
  if (add("server", "Server")) {
    const auto up = std::chrono::duration_cast<std::chrono::seconds>(handler.parts.clock.now() -
                                                                     handler.parts.started);
    text.append("redis_version:").append(kRedisVersion);
    text.append("\r\nsluice_version:").append(handler.parts.version);
    text += "\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:64\r\nprocess_id:" +
            std::to_string(::getpid()) + "\r\nuptime_in_seconds:" + std::to_string(up.count()) +
            "\r\n";
  }
  if (add("clients", "Clients")) {
    text += "connected_clients:" + std::to_string(handler.parts.connections.load()) + "\r\n";
  }
  // Clients check these sections before they send anything else.
  if (add("persistence", "Persistence")) text += "loading:0\r\n";
  if (add("replication", "Replication")) text += "role:master\r\nconnected_slaves:0\r\n";
  if (add("cluster", "Cluster")) text += "cluster_enabled:0\r\n";
  call.reply.verbatim(text);
}

// The commands that clients send before they ask for decisions.
namespace {

constexpr std::size_t kMostNameBytes = 1024;
constexpr std::string_view kWrongPassword =
    "WRONGPASS invalid username-password pair or user is disabled.";

void become(const Users& users, Client& client, const KnownClient* user) {
  client.user = user;
  client.role = user != nullptr ? user->role : users.at_first();
}

// Logs the client in. Returns whether that succeeded. Without users, the default user has no
// password.
bool log_in(const Users& users, Client& client, std::string_view name, std::string_view password) {
  if (users.none()) return name == Users::kDefault;
  const KnownClient* const user = users.find(name, password);
  if (user != nullptr) become(users, client, user);
  return user != nullptr;
}

// Returns the error of a connection name, or an empty text.
std::string_view find_name_error(std::string_view name) {
  if (name.size() > kMostNameBytes) return "ERR Client names cannot be longer than 1024 bytes.";
  const bool fits =
      std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (fits) return {};
  return "ERR Client names cannot contain spaces, newlines or special characters.";
}

struct Greeting {
  int protocol = 0;  // 0: unchanged
  std::optional<std::string_view> user;
  std::string_view password;
  std::optional<std::string_view> name;
};

// Returns false if the reply has become an error.
bool read_hello_options(const Call& call, Greeting& greeting) {
  const auto& words = call.arguments;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t more = words.size() - i - 1;
    if (same_word(words[i], "auth") && more >= 2) {
      greeting.user = words[i + 1];
      greeting.password = words[i + 2];
      i += 2;
    } else if (same_word(words[i], "setname") && more >= 1) {
      greeting.name = words[++i];
      const std::string_view error = find_name_error(*greeting.name);
      if (!error.empty()) return call.reply.error(error), false;
    } else {
      const std::string_view option = words[i].substr(0, words[i].find('\0'));
      call.reply.error("ERR Syntax error in HELLO option '" + std::string(option) + "'");
      return false;
    }
  }
  return true;
}

bool read_greeting(const Call& call, Greeting& greeting) {
  if (call.arguments.size() < 2) return true;
  const auto version = whole_number(call.arguments[1]);
  if (!version) {
    call.reply.error("ERR Protocol version is not an integer or out of range");
    return false;
  }
  if (*version < 2 || *version > 3) {
    call.reply.error("NOPROTO unsupported protocol version");
    return false;
  }
  greeting.protocol = static_cast<int>(*version);
  return read_hello_options(call, greeting);
}

}  // namespace

void hello(CommandHandler& handler, const Call& call) {
  Greeting greeting;
  if (!read_greeting(call, greeting)) return;
  Client& client = call.client;
  if (greeting.user && !log_in(handler.parts.users, client, *greeting.user, greeting.password)) {
    return call.reply.error(kWrongPassword);
  }
  if (client.role == Role::kNobody) {
    return call.reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
        "protocol version at the same time");
  }
  if (greeting.name) client.name = *greeting.name;
  if (greeting.protocol != 0) {
    client.protocol = static_cast<std::uint8_t>(greeting.protocol);
    call.reply.speak(greeting.protocol);
  }
  Reply& reply = call.reply;
  reply.map(7);
  reply.member("server", "sluice");
  reply.member("version", kRedisVersion);
  reply.member("proto", client.protocol);
  reply.member("id", client.id);
  reply.member("mode", "standalone");
  reply.member("role", "master");
  reply.bulk("modules");
  reply.array(0);
}

void auth(CommandHandler& handler, const Call& call) {
  const auto& words = call.arguments;
  if (words.size() > 3) return call.reply.error("ERR syntax error");
  if (words.size() == 2 && handler.parts.users.none()) {
    return call.reply.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const std::string_view name = words.size() == 3 ? words[1] : Users::kDefault;
  if (!log_in(handler.parts.users, call.client, name, words.back())) {
    return call.reply.error(kWrongPassword);
  }
  call.reply.ok();
}

void ping(CommandHandler&, const Call& call) {
  if (call.arguments.size() == 1) return call.reply.simple("PONG");
  if (call.arguments.size() > 2) {
    return call.reply.error("ERR wrong number of arguments for 'ping' command");
  }
  call.reply.bulk(call.arguments[1]);
}

void echo(CommandHandler&, const Call& call) { call.reply.bulk(call.arguments[1]); }

void select(CommandHandler&, const Call& call) {
  const auto number = whole_number(call.arguments[1]);
  if (!number) return call.reply.error("ERR value is not an integer or out of range");
  if (*number != 0) return call.reply.error("ERR DB index is out of range");
  call.reply.ok();
}

void reset(CommandHandler& handler, const Call& call) {
  Client& client = call.client;
  become(handler.parts.users, client, client.of_certificate);
  client.protocol = 2;
  client.name.clear();
  call.reply.speak(2);
  call.reply.simple("RESET");
}

void quit(CommandHandler&, const Call& call) {
  call.client.leaves = true;
  call.reply.ok();
}

void client_getname(CommandHandler&, const Call& call) {
  if (call.client.name.empty()) return call.reply.null();
  call.reply.bulk(call.client.name);
}

void client_id(CommandHandler&, const Call& call) {
  call.reply.integer(static_cast<std::int64_t>(call.client.id));
}

// The fields of Redis 7.2 in its order, since clients fail if one is absent. Those which have no
// meaning here have the value of an idle client.
void client_info(CommandHandler& handler, const Call& call) {
  const Client& client = call.client;
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(handler.parts.clock.now() -
                                                                    client.connected);
  std::string text = "id=" + std::to_string(client.id) + " addr=" + client.peer +
                     " laddr= fd=-1 name=" + client.name + " age=" + std::to_string(age.count());
  text +=
      " idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 qbuf-free=0 argv-mem=0"
      " multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client|info user=";
  text += client.user != nullptr ? client.user->name : std::string(Users::kDefault);
  text += " redir=-1 resp=" + std::to_string(client.protocol) + " lib-name=" + client.library +
          " lib-ver=" + client.library_version;
  text.append(" role=").append(to_string(client.role)).append("\n");
  call.reply.verbatim(text);
}

void client_setinfo(CommandHandler&, const Call& call) {
  const std::string_view option = call.arguments[2];
  const std::string_view value = call.arguments[3];
  const bool is_name = same_word(option, "lib-name");
  if (!is_name && !same_word(option, "lib-ver")) {
    return call.reply.error("ERR Unrecognized option '" +
                            std::string(option.substr(0, option.find('\0'))) + "'");
  }
  if (!find_name_error(value).empty()) {
    return call.reply.error("ERR " + std::string(is_name ? "lib-name" : "lib-ver") +
                            " cannot contain spaces, newlines or special characters, nor be longer "
                            "than 1024 bytes.");
  }
  (is_name ? call.client.library : call.client.library_version) = value;
  call.reply.ok();
}

void client_setname(CommandHandler&, const Call& call) {
  const std::string_view error = find_name_error(call.arguments[2]);
  if (!error.empty()) return call.reply.error(error);
  call.client.name = call.arguments[2];
  call.reply.ok();
}

void client_switch(CommandHandler&, const Call& call) {
  const std::string_view word = call.arguments[2];
  if (!same_word(word, "on") && !same_word(word, "off")) {
    return call.reply.error("ERR syntax error");
  }
  call.reply.ok();
}

}  // namespace sluice::server::resp::commands
