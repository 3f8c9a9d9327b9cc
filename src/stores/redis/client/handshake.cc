#include "stores/redis/client/handshake.h"

#include <array>

#include "stores/redis/client/words.h"

namespace sluice::redis {
namespace {

constexpr std::string_view kName = "sluice";

std::string_view text_of(const redisReply& reply) noexcept {
  const bool text = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS ||
                    reply.type == REDIS_REPLY_ERROR;
  return text ? std::string_view(reply.str, reply.len) : std::string_view();
}

// Returns a value of HELLO's map, which is a list of keys and values.
std::string_view value_of(const redisReply& map, std::string_view name) noexcept {
  if (map.type != REDIS_REPLY_ARRAY) return {};
  for (std::size_t i = 0; i + 1 < map.elements; i += 2) {
    if (text_of(*map.element[i]) == name) return text_of(*map.element[i + 1]);
  }
  return {};
}

struct Meaning {
  std::string_view begins;
  std::string_view holds;
  std::string_view what;
};

// Errors that end a handshake at any stage.
constexpr std::array<Meaning, 9> kFatal = {{
    {"WRONGPASS", "", "wrong user name or password"},
    {"ERR invalid password", "", "wrong password"},
    {"LOADING", "", "the server is still loading its data"},
    {"MASTERDOWN", "", "the server is a replica that has lost its master"},
    {"DENIED", "", "the server is in protected mode and accepts no remote connections"},
    {"ERR", "max number of clients", "the server has its maximum number of clients (maxclients)"},
    {"ERR", "max clients", "the server has its maximum number of clients (maxclients)"},
    {"ERR", "without any password configured",
     "a password is configured, but the server requires none"},
    {"ERR", "no password is set", "a password is configured, but the server requires none"},
}};

std::string_view fatal_meaning(std::string_view error) noexcept {
  for (const Meaning& one : kFatal) {
    if (error.starts_with(one.begins) && error.find(one.holds) != error.npos) return one.what;
  }
  return {};
}

}  // namespace

Handshake::Step Handshake::begin() {
  if (options_.protocol == 2) return begin_resp2();
  return enter(Stage::kHello);
}

Handshake::Step Handshake::begin_resp2() {
  protocol_ = 2;
  return enter(options_.password.empty() ? Stage::kName : Stage::kAuth);
}

Handshake::Step Handshake::enter(Stage stage) {
  stage_ = stage;
  output_.clear();
  const std::string& password = options_.password;
  switch (stage) {
    case Stage::kHello:
      if (password.empty()) {
        say({"HELLO", "3", "SETNAME", kName});
      } else {
        const std::string_view given = options_.username;
        const std::string_view user = given.empty() ? std::string_view("default") : given;
        say({"HELLO", "3", "AUTH", user, password, "SETNAME", kName});
      }
      break;
    case Stage::kAuth:
      if (options_.username.empty()) {
        say({"AUTH", password});
      } else {
        say({"AUTH", options_.username, password});
      }
      break;
    case Stage::kName: say({"CLIENT", "SETNAME", kName}); break;
    case Stage::kSelect: say({"SELECT", std::to_string(options_.database)}); break;
    case Stage::kRole: say({"ROLE"}); break;
    case Stage::kReady: return Step::kReady;
  }
  return Step::kSend;
}

void Handshake::say(std::initializer_list<std::string_view> elements) {
  output_.append("*").append(std::to_string(elements.size())).append("\r\n");
  for (const std::string_view element : elements) {
    output_.append("$").append(std::to_string(element.size())).append("\r\n");
    output_.append(element).append("\r\n");
  }
}

Handshake::Step Handshake::on_reply(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR) return on_error(text_of(reply));
  switch (stage_) {
    case Stage::kHello: {
      if (value_of(reply, "server").empty() && value_of(reply, "version").empty()) {
        return fail("the server is not Redis: its answer to HELLO is unknown");
      }
      const std::string_view role = value_of(reply, "role");
      if (!role.empty() && options_.only_master) {
        role_known_ = true;
        if (on_role(role) == Step::kFailed) return Step::kFailed;
      }
      return after_name();
    }
    case Stage::kAuth: return enter(Stage::kName);
    case Stage::kName: return after_name();
    case Stage::kSelect:
      return enter(options_.only_master && !role_known_ ? Stage::kRole : Stage::kReady);
    case Stage::kRole:
      if (reply.type != REDIS_REPLY_ARRAY || reply.elements == 0) {
        return fail("the server is not Redis: its answer to ROLE is unknown");
      }
      if (on_role(text_of(*reply.element[0])) == Step::kFailed) return Step::kFailed;
      return enter(Stage::kReady);
    case Stage::kReady: break;
  }
  return fail("the server sent a reply without a command");
}

Handshake::Step Handshake::after_name() {
  if (options_.database != 0) return enter(Stage::kSelect);
  return enter(options_.only_master && !role_known_ ? Stage::kRole : Stage::kReady);
}

Handshake::Step Handshake::on_role(std::string_view role) {
  if (role == "master") return Step::kReady;
  return fail("the server is not a master but a " + shown(role));
}

Handshake::Step Handshake::on_error(std::string_view error) {
  if (const std::string_view what = fatal_meaning(error); !what.empty()) return fail(what, error);
  if (stage_ == Stage::kHello) return on_hello_refused(error);
  if (error.starts_with("NOAUTH")) return fail("the server requires a password", error);
  switch (stage_) {
    case Stage::kName: return after_name();          // the name is optional
    case Stage::kRole: return enter(Stage::kReady);  // no permission; a write will show the role
    case Stage::kAuth: return fail("the server refuses the password", error);
    case Stage::kSelect:
      if (error.find("out of range") != error.npos) {
        return fail("the server has no database " + std::to_string(options_.database), error);
      }
      return fail("database " + std::to_string(options_.database) + " cannot be selected", error);
    default: return fail("the server refuses the connection", error);
  }
}

Handshake::Step Handshake::on_hello_refused(std::string_view error) {
  if (error.starts_with("NOAUTH") && options_.password.empty()) {
    return fail("the server requires a password", error);
  }
  if (options_.protocol == 0) return begin_resp2();
  return fail("the server does not support RESP3 (protocol 3); expected protocol 0 or 2", error);
}

Handshake::Step Handshake::fail(std::string_view what, std::string_view said) {
  why_ = what;
  if (!said.empty()) why_.append(" (it says: ").append(shown(said)).append(")");
  return Step::kFailed;
}

}  // namespace sluice::redis
