#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "server/api/resp/command_handler.h"
#include "server/protocol/resp/request_reader.h"

// The commands that clients send before they ask for decisions.
namespace sluice::server::resp::commands {
namespace {

constexpr std::size_t kMostNameBytes = 1024;
constexpr std::string_view kWrongPassword =
    "WRONGPASS invalid username-password pair or user is disabled.";

void become(const Users& users, Client& client, const User* user) {
  client.user = user;
  client.role = user != nullptr ? user->role : users.at_first();
}

// Logs the client in. Returns whether that succeeded. Without users, the default user has no
// password.
bool log_in(const Users& users, Client& client, std::string_view name, std::string_view password) {
  if (users.none()) return name == Users::kDefault;
  const User* const user = users.find(name, password);
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

void put(Reply& reply, std::string_view name, std::string_view value) {
  reply.bulk(name);
  reply.bulk(value);
}

}  // namespace

void hello(CommandHandler& handler, const Call& call) {
  Greeting greeting;
  if (!read_greeting(call, greeting)) return;
  Client& client = call.client;
  if (greeting.user && !log_in(handler.users, client, *greeting.user, greeting.password)) {
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
  put(reply, "server", "sluice");
  put(reply, "version", kRedisVersion);
  reply.bulk("proto");
  reply.integer(client.protocol);
  reply.bulk("id");
  reply.integer(static_cast<std::int64_t>(client.id));
  put(reply, "mode", "standalone");
  put(reply, "role", "master");
  reply.bulk("modules");
  reply.array(0);
}

void auth(CommandHandler& handler, const Call& call) {
  const auto& words = call.arguments;
  if (words.size() > 3) return call.reply.error("ERR syntax error");
  if (words.size() == 2 && handler.users.none()) {
    return call.reply.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const std::string_view name = words.size() == 3 ? words[1] : Users::kDefault;
  if (!log_in(handler.users, call.client, name, words.back())) {
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
  become(handler.users, client, nullptr);
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
  const auto age =
      std::chrono::duration_cast<std::chrono::seconds>(handler.clock.now() - client.connected);
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
