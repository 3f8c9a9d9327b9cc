#include "server/config/config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/fields.h"
#include "rules/yaml_tree.h"
#include "server/config/schema.h"
#include "server/config/secret.h"
#include "server/net/address.h"
#include "server/net/tls_files.h"
#include "stores/redis/client/target.h"

namespace sluice::server {

// Reads the keys NAME_file and NAME_env of a section, of which at most one may be set. `example` is
// the name of a variable for the error.
SecretSource read_source(const rules::Fields& fields, std::string_view name,
                         std::string_view example, const std::filesystem::path& folder,
                         rules::Diagnostics& diagnostics);

// Reads the list `users` of the section `resp`. Paths are relative to `folder`.
std::vector<ClientConfig> read_users(const rules::Fields& fields,
                                     const std::filesystem::path& folder,
                                     rules::Diagnostics& diagnostics);
// Reads the list `clients` of the whole file.
std::vector<ClientConfig> read_clients(const rules::Fields& file,
                                       const std::filesystem::path& folder,
                                       rules::Diagnostics& diagnostics);
// Reads the key `tls` of a listener's section, whose schema is `map`. Paths are relative to
// `folder`.
net::TlsFiles read_tls(const rules::Fields& section, const rules::schema::Map& map,
                       const std::filesystem::path& folder, rules::Diagnostics& diagnostics);

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

std::vector<ClientConfig> read_users(const Fields& fields, const std::filesystem::path& folder,
                                     Diagnostics& diagnostics) {
  return read_list(kUsers, fields, rules::schema::child(config::file(), "resp"), folder,
                   diagnostics);
}

std::vector<ClientConfig> read_clients(const Fields& file, const std::filesystem::path& folder,
                                       Diagnostics& diagnostics) {
  return read_list(kClients, file, config::file(), folder, diagnostics);
}

net::TlsFiles read_tls(const rules::Fields& section, const rules::schema::Map& map,
                       const std::filesystem::path& folder, rules::Diagnostics& diagnostics) {
  net::TlsFiles files;
  const rules::Node* const node = section.node("tls");
  if (node == nullptr) return files;
  const auto tls = rules::Fields::read(*node, rules::schema::child(map, "tls"), diagnostics);
  const auto read_path = [&](std::string_view name, std::string& target) {
    if (const auto text = tls.text(name); !text.empty()) target = folder / text;
  };
  read_path("cert_file", files.cert_file);
  read_path("key_file", files.key_file);
  read_path("client_ca_file", files.client_ca_file);
  files.requires_client = tls.text("client_certificate") != "optional";
  const bool wanted = !files.key_file.empty() || !files.client_ca_file.empty();
  if (files.cert_file.empty() ? wanted : files.key_file.empty()) {
    diagnostics.add(node->at, "'tls' lacks a file", "expected both 'cert_file' and 'key_file'");
  }
  if (!files.requires_client && files.client_ca_file.empty()) {
    diagnostics.add(tls.at("client_certificate"), "'client_certificate' without 'client_ca_file'",
                    "expected the authorities of the certificates");
  }
  return files;
}

std::string find_store_error(const std::string& store, const RedisConfig& redis) {
  if (store == "memory") return {};
  if (store.find("://") == store.npos) {
    return "unknown store; expected memory, or the URL of a Redis server, such as "
           "redis://127.0.0.1:6379";
  }
  // Files are not read. It matters only whether there is a password.
  RedisOptions options{.url = store, .username = redis.options.username};
  const auto placeholder = [](const SecretSource& source) { return source.is_set() ? "-" : ""; };
  options.password = placeholder(redis.password);
  options.sentinel_username = redis.options.sentinel_username;
  options.sentinel_password = placeholder(redis.sentinel_password);
  const auto target = redis::make_target(options);
  return target ? std::string() : target.error();
}

Expected<RedisOptions> redis_options(const Config& config) {
  const RedisConfig& redis = config.redis;
  RedisOptions options = redis.options;
  options.url = config.store;
  auto password = read_password(redis.password);
  if (!password) return Unexpected{password.error()};
  options.password = std::move(*password);
  auto of_sentinels = read_password(redis.sentinel_password);
  if (!of_sentinels) return Unexpected{of_sentinels.error()};
  options.sentinel_password = std::move(*of_sentinels);
  if (const auto target = redis::make_target(options); !target) {
    return Unexpected{"the store: " + target.error()};
  }
  return options;
}

RuleTerms rule_terms(const Config& config) noexcept {
  const bool in_memory = config.store == "memory";
  return {.scripting = in_memory || config.redis.options.scripting,
          .max_log_bytes = in_memory ? config.max_log_bytes : 0,
          .leases = !in_memory,
          .in_redis = !in_memory};
}

std::string rules_key(const RedisConfig& redis) {
  return redis.rules_key.empty() ? redis.options.prefix + "rules" : redis.rules_key;
}

namespace {

using rules::Fields;
using rules::Node;

class Reader {
 public:
  Reader(rules::Diagnostics& diagnostics, std::string_view file)
      : diagnostics_(diagnostics), folder_(std::filesystem::path(file).parent_path()) {}

  Config read(const Node& root);

 private:
  using Text = std::string Config::*;

  std::optional<Fields> part(const Fields& file, std::string_view name);
  std::optional<Fields> listener(const Fields& file, std::string_view name);
  void check_redis(const Fields& fields);
  void read_listen(const Fields& fields);
  void read_address(const Fields& fields, std::string_view name, Text member);
  void read_admin(const Fields& fields);
  void check_certificates(const Fields& file);
  std::string path(std::string_view written) const { return folder_ / written; }

  rules::Diagnostics& diagnostics_;
  std::filesystem::path folder_;
  std::vector<std::pair<std::string_view, Address>> addresses_;  // read so far
  Config config_;
};

Config Reader::read(const Node& root) {
  const Fields file = Fields::read(root, config::file(), diagnostics_, &config_);
  if (const auto listen = part(file, "listen")) read_listen(*listen);
  if (const Fields* redis = file.map("redis")) check_redis(*redis);
  if (const std::string wrong = find_store_error(config_.store, config_.redis); !wrong.empty()) {
    diagnostics_.add_message(file.at("store"), wrong);
  }
  listener(file, "grpc");
  listener(file, "http");
  config_.clients = read_clients(file, folder_, diagnostics_);
  if (const auto resp = listener(file, "resp")) {
    config_.resp_users = read_users(*resp, folder_, diagnostics_);
  }
  if (const auto admin = listener(file, "admin")) read_admin(*admin);
  check_certificates(file);
  return std::move(config_);
}

void Reader::check_redis(const Fields& fields) {
  for (const std::string_view name : {"password", "sentinel_password"}) {
    read_source(fields, name, "REDIS_PASSWORD", folder_, diagnostics_);
  }
  const CircuitBreakerOptions& breaker = config_.redis.breaker;
  if (breaker.open_for <= breaker.longest_open) return;
  diagnostics_.add(fields.map("breaker")->at("open_for"),
                   "'open_for' is longer than 'longest_open'",
                   "expected at most 'longest_open', which is 10s by default");
}

// Returns the map of that name, if there is one.
std::optional<Fields> Reader::part(const Fields& file, std::string_view name) {
  const Node* node = file.node(name);
  if (node == nullptr) return std::nullopt;
  return Fields::read(*node, rules::schema::child(config::file(), name), diagnostics_);
}

// Returns the section of a listener, if there is one, after reading its `tls`.
std::optional<Fields> Reader::listener(const Fields& file, std::string_view name) {
  auto section = part(file, name);
  if (!section) return section;
  const auto& map = rules::schema::child(config::file(), name);
  for (const ListenAddress& one : kListenAddresses) {
    if (one.key == name) config_.*one.tls = read_tls(*section, map, folder_, diagnostics_);
  }
  return section;
}

void Reader::read_listen(const Fields& fields) {
  for (const ListenAddress& one : kListenAddresses) read_address(fields, one.key, one.address);
}

// Reads a listener's address or takes its default, and compares it with the previous ones.
void Reader::read_address(const Fields& fields, std::string_view name, Text member) {
  constexpr std::string_view kUnix = "unix:";
  std::string& text = config_.*member;
  if (const Node* node = fields.node(name)) text = node->text;
  if (text.starts_with(kUnix) && text.size() > kUnix.size()) {
    text.replace(kUnix.size(), text.npos, path(text.substr(kUnix.size())));
  }
  auto address = parse_address(text);
  if (!address) return diagnostics_.add_message(fields.at(name), address.error());
  for (const auto& [other, taken] : addresses_) {
    if (!collide(taken, *address)) continue;
    diagnostics_.add(fields.at(name),
                     "'" + std::string(name) + "' has the address of '" + std::string(other) + "'",
                     "expected another address for each listener");
  }
  addresses_.emplace_back(name, std::move(address.value()));
}

void Reader::read_admin(const Fields& fields) {
  config_.admin_token = read_source(fields, "token", "SLUICE_TOKEN", folder_, diagnostics_);
}

// Without authorities, a listener does not ask for certificates.
void Reader::check_certificates(const Fields& file) {
  const auto check = [&](std::string_view list, const std::vector<ClientConfig>& clients,
                         bool asked, std::string_view expected) {
    const bool used = std::any_of(clients.begin(), clients.end(),
                                  [](const auto& client) { return !client.certificate.empty(); });
    if (!used || asked) return;
    diagnostics_.add(file.at(list), "'certificate' of a client, but no listener asks for it",
                     "expected " + std::string(expected));
  };
  const bool asked = !config_.http_tls.client_ca_file.empty() ||
                     !config_.grpc_tls.client_ca_file.empty() ||
                     !config_.admin_tls.client_ca_file.empty();
  check("clients", config_.clients, asked,
        "'tls' with 'client_ca_file' in 'http', 'grpc' or 'admin'");
  check("resp", config_.resp_users, !config_.resp_tls.client_ca_file.empty(),
        "'tls' with 'client_ca_file' in 'resp'");
}

}  // namespace

std::string find_conflict(const Config& config) {
  for (std::size_t i = 0; i < kListenAddresses.size(); ++i) {
    const ListenAddress& a = kListenAddresses[i];
    const auto address = parse_address(config.*a.address);
    for (std::size_t j = i + 1; j < kListenAddresses.size(); ++j) {
      const ListenAddress& b = kListenAddresses[j];
      const auto other = parse_address(config.*b.address);
      if (!address || !other || !collide(*address, *other)) continue;
      return std::string(a.title) + " and " + std::string(b.title) + " cannot both listen at " +
             config.*a.address + "; expected another address for one of them";
    }
  }
  if (config.rules_in_redis && config.store == "memory") {
    return "rules in Redis need a store in Redis, but the store is memory; expected --store URL, "
           "or rules files";
  }
  if (!config.snapshot.empty() && config.store != "memory") {
    return "memory.snapshot keeps the counters of this process, but the store is in Redis, which "
           "keeps them itself; expected the store memory, or no memory.snapshot";
  }
  return {};
}

Expected<Config, std::vector<RuleError>> parse_config(std::string_view yaml,
                                                      std::string_view file) {
  const rules::SourceText source(yaml);
  rules::Diagnostics diagnostics(source, file);
  rules::Document document;
  read_yaml(diagnostics, document);
  Config config;
  if (document.root != nullptr) config = Reader(diagnostics, file).read(*document.root);
  if (!diagnostics.empty()) return Unexpected{diagnostics.take()};
  return config;
}

Expected<Config, std::vector<RuleError>> load_config(const std::string& path) {
  const auto bytes = rules::read_file(path);
  if (!bytes) return Unexpected{bytes.error()};
  return parse_config(*bytes, path);
}

std::string overrides_path(const Config& config) {
  if (config.store != "memory") return {};
  if (!config.overrides.empty() || config.rules.empty()) return config.overrides;
  const std::filesystem::path rules = config.rules.front();
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(rules, ignored);
  return ((is_folder ? rules : rules.parent_path()) / "overrides.txt").string();
}

}  // namespace sluice::server
