#include "server/config/resp_reader.h"

#include <algorithm>
#include <string>

#include "server/config/schema.h"

namespace sluice::server {
namespace {

using rules::Diagnostics;
using rules::Fields;
using rules::Node;

RespUser read_user(const Fields& fields, const std::filesystem::path& folder,
                   Diagnostics& diagnostics) {
  RespUser user;
  user.name = fields.text("name");
  user.role = fields.choice<RespRole>("role").value_or(user.role);
  const std::string_view file = fields.text("password_file");
  const std::string_view variable = fields.text("password_env");
  if (!file.empty()) user.password_file = folder / file;
  user.password_env = variable;
  if (variable.find_first_of("= ") != variable.npos) {
    diagnostics.add(fields.at("password_env"),
                    "'password_env' is " + rules::describe(*fields.node("password_env")),
                    "expected the name of an environment variable, such as RESP_PASSWORD");
  }
  if (file.empty() == variable.empty()) {
    const std::string_view what = file.empty() ? "neither 'password_file' nor 'password_env'"
                                               : "both 'password_file' and 'password_env'";
    diagnostics.add(fields.at("password_env"), std::string(what), "expected one of them");
  }
  return user;
}

}  // namespace

RespConfig read_resp(const Fields& fields, const std::filesystem::path& folder,
                     Diagnostics& diagnostics) {
  RespConfig resp;
  if (const auto timeout = fields.period("idle_timeout")) {
    resp.idle_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(*timeout);
  }
  const Node* const users = fields.node("users");
  if (users == nullptr) return resp;
  const auto& keys = rules::schema::child(rules::schema::child(config::file(), "resp"), "users");
  for (const Node* const node : users->items) {
    RespUser user = read_user(Fields::read(*node, keys, diagnostics), folder, diagnostics);
    const bool twice = std::any_of(resp.users.begin(), resp.users.end(),
                                   [&](const RespUser& one) { return one.name == user.name; });
    if (twice)
      diagnostics.add(node->at, "two users have the same name", "expected different names");
    resp.users.push_back(std::move(user));
  }
  return resp;
}

}  // namespace sluice::server
