#include "server/config/clients_reader.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "server/config/schema.h"

namespace sluice::server {
namespace {

using rules::Diagnostics;
using rules::Fields;
using rules::Node;

// The keys of a list of clients.
struct ClientKeys {
  std::string_view list;
  std::string_view secret;  // "password"; with _file and _env, the keys of its source
  std::string_view example;
};
constexpr ClientKeys kUsers{"users", "password", "RESP_PASSWORD"};
constexpr ClientKeys kClients{"clients", "token", "SHOP_TOKEN"};

// The roles in the order of the schema's choices. `check-only` is `check`.
constexpr std::array kRoles{Role::kCheck, Role::kOperate, Role::kAdmin, Role::kCheck};

ClientConfig read_client(const ClientKeys& keys, const Fields& fields,
                         const std::filesystem::path& folder, Diagnostics& diagnostics) {
  ClientConfig client;
  client.name = fields.text("name");
  if (const auto role = fields.choice<std::size_t>("role")) client.role = kRoles[*role];
  client.secret = read_source(fields, keys.secret, keys.example, folder, diagnostics);
  client.certificate = fields.text("certificate");
  if (!client.secret.is_set() && client.certificate.empty()) {
    const std::string name(keys.secret);
    diagnostics.add(fields.at(name + "_env"),
                    "neither '" + name + "_file', '" + name + "_env' nor 'certificate'",
                    "expected one of them");
  }
  return client;
}

// Reads a list of a section.
std::vector<ClientConfig> read_list(const ClientKeys& keys, const Fields& section,
                                    const rules::schema::Map& section_map,
                                    const std::filesystem::path& folder, Diagnostics& diagnostics) {
  std::vector<ClientConfig> clients;
  const Node* const list = section.node(keys.list);
  if (list == nullptr) return clients;
  const auto& map = rules::schema::child(section_map, keys.list);
  for (const Node* const node : list->items) {
    ClientConfig client =
        read_client(keys, Fields::read(*node, map, diagnostics), folder, diagnostics);
    const auto check_unique = [&](std::string ClientConfig::* member, std::string_view what) {
      const bool twice = !(client.*member).empty() &&
                         std::any_of(clients.begin(), clients.end(), [&](const auto& other) {
                           return other.*member == client.*member;
                         });
      if (!twice) return;
      diagnostics.add(node->at,
                      "two " + std::string(keys.list) + " have the same " + std::string(what),
                      "expected different " + std::string(what) + "s");
    };
    check_unique(&ClientConfig::name, "name");
    check_unique(&ClientConfig::certificate, "certificate");
    clients.push_back(std::move(client));
  }
  return clients;
}

}  // namespace

SecretSource read_source(const Fields& fields, std::string_view name, std::string_view example,
                         const std::filesystem::path& folder, Diagnostics& diagnostics) {
  const std::string file_key = std::string(name) + "_file";
  const std::string env_key = std::string(name) + "_env";
  const std::string_view file = fields.text(file_key);
  const std::string_view variable = fields.text(env_key);
  if (variable.find_first_of("= ") != variable.npos) {
    diagnostics.add(
        fields.at(env_key), "'" + env_key + "' is " + rules::describe(*fields.node(env_key)),
        "expected the name of an environment variable, such as " + std::string(example));
  }
  if (!file.empty() && !variable.empty()) {
    diagnostics.add(fields.at(env_key), "both '" + file_key + "' and '" + env_key + "'",
                    "expected one of them");
  }
  return {file.empty() ? std::string() : (folder / file).string(), std::string(variable)};
}

RespConfig read_resp(const Fields& fields, const std::filesystem::path& folder,
                     Diagnostics& diagnostics) {
  RespConfig resp;
  if (const auto timeout = fields.period("idle_timeout")) {
    resp.idle_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(*timeout);
  }
  resp.users =
      read_list(kUsers, fields, rules::schema::child(config::file(), "resp"), folder, diagnostics);
  return resp;
}

std::vector<ClientConfig> read_clients(const Fields& file, const std::filesystem::path& folder,
                                       Diagnostics& diagnostics) {
  return read_list(kClients, file, config::file(), folder, diagnostics);
}

std::vector<std::string> read_hosts(const Fields& fields, Diagnostics& diagnostics) {
  std::vector<std::string> hosts;
  for (const Node* const node : fields.texts("hosts")) {
    std::string& host = hosts.emplace_back(node->text);
    for (char& c : host) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (host.find_first_of(":/ ") == host.npos) continue;
    diagnostics.add(node->at, "the host is " + rules::describe(*node),
                    "expected a host name without a port, such as sluice.internal");
  }
  return hosts;
}

}  // namespace sluice::server
