// Reads the configuration file. The rows of the schema set the members of Config; this file checks
// what more than one key is about.

#include "server/config/config.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/client_tls.h"
#include "rules/fields.h"
#include "rules/yaml_tree.h"
#include "server/config/schema.h"
#include "server/config/secret.h"
#include "server/net/address.h"
#include "server/net/listening_socket.h"
#include "stores/redis/client/target.h"

namespace sluice::server {
namespace {

using rules::Fields;
using rules::Node;

// Reads the listeners' addresses or takes their defaults, and compares each with those before it.
void read_listen(const Fields& fields, const std::filesystem::path& folder, Config& config,
                 rules::Diagnostics& diagnostics) {
  constexpr std::string_view kUnix = "unix:";
  std::vector<std::pair<std::string_view, Address>> before;
  for (const ListenAddress& listener : kListenAddresses) {
    std::string& text = config.*listener.address;
    if (const Node* node = fields.node(listener.key)) text = node->text;
    if (text.starts_with(kUnix) && text.size() > kUnix.size()) {
      text.replace(kUnix.size(), text.npos, (folder / text.substr(kUnix.size())).string());
    }
    auto address = parse_address(text);
    if (!address) {
      diagnostics.add_message(fields.at(listener.key), address.error());
      continue;
    }
    for (const auto& [other, taken] : before) {
      if (!collide(taken, *address)) continue;
      diagnostics.add(
          fields.at(listener.key),
          "'" + std::string(listener.key) + "' has the address of '" + std::string(other) + "'",
          "expected another address for each listener");
    }
    before.emplace_back(listener.key, std::move(address.value()));
  }
}

// Checks the keys NAME_file and NAME_env of a section, of which at most one may be set. `example`
// is the name of a variable for the error.
void check_secret(const Fields& fields, const std::string& name, std::string_view example,
                  rules::Diagnostics& diagnostics) {
  const std::string file_key = name + "_file";
  const std::string env_key = name + "_env";
  const std::string_view variable = fields.text(env_key);
  if (variable.find_first_of("= ") != variable.npos) {
    diagnostics.add(
        fields.at(env_key), "'" + env_key + "' is " + rules::describe(*fields.node(env_key)),
        "expected the name of an environment variable, such as " + std::string(example));
  }
  if (fields.text(file_key).empty() || variable.empty()) return;
  diagnostics.add(fields.at(env_key), "both '" + file_key + "' and '" + env_key + "'",
                  "expected one of them");
}

void check_redis(const Fields& fields, const Config& config, rules::Diagnostics& diagnostics) {
  check_secret(fields, "password", "REDIS_PASSWORD", diagnostics);
  check_secret(fields, "sentinel_password", "REDIS_PASSWORD", diagnostics);
  const CircuitBreakerOptions& breaker = config.redis.breaker;
  if (breaker.open_for <= breaker.longest_open) return;
  diagnostics.add(fields.map("breaker")->at("open_for"), "'open_for' is longer than 'longest_open'",
                  "expected at most 'longest_open', which is 10s by default");
}

void check_tls(const Fields& file, const ListenAddress& listener, const Config& config,
               rules::Diagnostics& diagnostics) {
  const Fields* const section = file.map(listener.key);
  const Fields* const tls = section == nullptr ? nullptr : section->map("tls");
  if (tls == nullptr) return;
  const net::TlsFiles& files = config.*listener.tls;
  const bool wanted = !files.key_file.empty() || !files.client_ca_file.empty();
  if (files.cert_file.empty() ? wanted : files.key_file.empty()) {
    diagnostics.add(section->at("tls"), "'tls' lacks a file",
                    "expected both 'cert_file' and 'key_file'");
  }
  if (!files.requires_client && files.client_ca_file.empty()) {
    diagnostics.add(tls->at("client_certificate"), "'client_certificate' without 'client_ca_file'",
                    "expected the authorities of the certificates");
  }
}

// Reads a list of clients. `secret` is "password" or "token", which the keys of its source begin
// with.
std::vector<KnownClient> read_clients(const Fields& section, std::string_view list,
                                      const std::string& secret, std::string_view example,
                                      rules::Diagnostics& diagnostics) {
  std::vector<KnownClient> clients;
  const Node* const items = section.node(list);
  if (items == nullptr) return clients;
  for (const Node* const node : items->items) {
    KnownClient client;
    const Fields fields = Fields::read(*node, *section.key(list).map, diagnostics, &client);
    check_secret(fields, secret, example, diagnostics);
    if (!client.source.is_set() && client.certificate.empty()) {
      std::string lacks = "neither '" + secret;
      lacks.append("_file', '").append(secret).append("_env' nor 'certificate'");
      diagnostics.add(fields.at(secret + "_env"), std::move(lacks), "expected one of them");
    }
    const auto check_unique = [&](std::string KnownClient::* member, std::string_view what) {
      const bool twice = !(client.*member).empty() &&
                         std::any_of(clients.begin(), clients.end(), [&](const auto& other) {
                           return other.*member == client.*member;
                         });
      if (!twice) return;
      diagnostics.add(node->at, "two " + std::string(list) + " have the same " + std::string(what),
                      "expected different " + std::string(what) + "s");
    };
    check_unique(&KnownClient::name, "name");
    check_unique(&KnownClient::certificate, "certificate");
    clients.push_back(std::move(client));
  }
  return clients;
}

// Without authorities, a listener does not ask for certificates.
void check_certificates(const Fields& file, const Config& config, rules::Diagnostics& diagnostics) {
  const auto check = [&](std::string_view list, const std::vector<KnownClient>& clients, bool asked,
                         std::string_view expected) {
    const bool used = std::any_of(clients.begin(), clients.end(),
                                  [](const auto& client) { return !client.certificate.empty(); });
    if (!used || asked) return;
    diagnostics.add(file.at(list), "'certificate' of a client, but no listener asks for it",
                    "expected " + std::string(expected));
  };
  const bool asked = !config.http_tls.client_ca_file.empty() ||
                     !config.grpc_tls.client_ca_file.empty() ||
                     !config.admin_tls.client_ca_file.empty();
  check("clients", config.clients, asked,
        "'tls' with 'client_ca_file' in 'http', 'grpc' or 'admin'");
  check("resp", config.resp_users, !config.resp_tls.client_ca_file.empty(),
        "'tls' with 'client_ca_file' in 'resp'");
}

Config read(const Node& root, const std::filesystem::path& folder,
            rules::Diagnostics& diagnostics) {
  Config config;
  const Fields file = Fields::read(root, config::file(), diagnostics, &config);
  if (const Fields* listen = file.map("listen")) read_listen(*listen, folder, config, diagnostics);
  if (const Fields* redis = file.map("redis")) check_redis(*redis, config, diagnostics);
  if (const std::string wrong = find_store_error(config.store, config.redis); !wrong.empty()) {
    diagnostics.add_message(file.at("store"), wrong);
  }
  for (const ListenAddress& listener : kListenAddresses) {
    check_tls(file, listener, config, diagnostics);
  }
  config.clients = read_clients(file, "clients", "token", "SHOP_TOKEN", diagnostics);
  if (const Fields* resp = file.map("resp")) {
    config.resp_users = read_clients(*resp, "users", "password", "RESP_PASSWORD", diagnostics);
  }
  if (const Fields* admin = file.map("admin")) {
    check_secret(*admin, "token", "SLUICE_TOKEN", diagnostics);
  }
  check_certificates(file, config, diagnostics);
  return config;
}

}  // namespace

std::string find_store_error(const std::string& store, const RedisConfig& redis) {
  if (store == "memory") return {};
  if (store.find("://") == store.npos) {
    return "unknown store; expected memory, or the URL of a Redis server, such as "
           "redis://127.0.0.1:6379, or quota://HOST:PORT of another Sluice";
  }
  if (store.starts_with("quota://") || store.starts_with("quotas://")) {
    const auto address = parse_address(upstream_address(store));
    if (address && address->kind == Address::Kind::kTcp && address->port != 0) return {};
    return "the store is " + rules::in_quotes(store) +
           "; expected quota://HOST:PORT, the gRPC listener of another Sluice, such as "
           "quota://10.0.0.1:8081, or quotas:// for TLS";
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
  options.ledger_keep = config.ledger.in_redis ? config.ledger.keep : 0;
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

OtlpOptions otlp_options(const Config& config) {
  OtlpOptions options = config.otlp;
  const auto use = [](const char* variable, std::string& option) {
    const char* const value = std::getenv(variable);  // NOLINT: nobody sets it meanwhile
    if (option.empty() && value != nullptr) option = value;
  };
  use("OTEL_EXPORTER_OTLP_ENDPOINT", options.endpoint);
  use("OTEL_EXPORTER_OTLP_CERTIFICATE", options.ca_file);
  use("OTEL_EXPORTER_OTLP_HEADERS", options.headers);
  use("OTEL_SERVICE_NAME", options.service_name);
  return options;
}

StoreKind kind_of(const Config& config) noexcept {
  if (config.store == "memory") return StoreKind::kMemory;
  return upstream_address(config.store).empty() ? StoreKind::kRedis : StoreKind::kQuota;
}

std::string_view upstream_address(std::string_view store) noexcept {
  for (const std::string_view scheme : {"quota://", "quotas://"}) {
    if (store.starts_with(scheme)) return store.substr(scheme.size());
  }
  return {};
}

RuleTerms rule_terms(const Config& config) noexcept {
  const StoreKind kind = kind_of(config);
  const bool in_memory = kind == StoreKind::kMemory;
  const bool in_redis = kind == StoreKind::kRedis;
  return {.scripting = !in_redis || config.redis.options.scripting,
          .max_log_bytes = in_memory ? config.max_log_bytes : 0,
          .assigned = kind == StoreKind::kQuota,
          .leases = in_redis,
          .in_redis = in_redis,
          .in_cluster = config.store.find("+cluster://") != config.store.npos};
}

std::string rules_key(const RedisConfig& redis) {
  return redis.rules_key.empty() ? redis.options.prefix + "rules" : redis.rules_key;
}

std::string set_ledger(std::string_view text, LedgerOptions& ledger) {
  constexpr std::string_view kFile = "file:";
  const bool is_file = text.starts_with(kFile) && text.size() > kFile.size();
  ledger.in_redis = text == "redis";
  if (!is_file && !ledger.in_redis && text != "off") {
    return "the ledger is " + rules::in_quotes(text) +
           "; expected file:PATH, such as file:/var/lib/sluice/ledger.jsonl, or redis, or off";
  }
  ledger.file = is_file ? text.substr(kFile.size()) : std::string_view();
  return {};
}

namespace {

// Two that write one file would damage it.
std::string find_shared_file(const Config& config) {
  const std::array<std::pair<std::string_view, const std::string*>, 4> files{
      {{"memory.snapshot", &config.snapshot},
       {"ledger", &config.ledger.file},
       {"record.file", &config.record.file},
       {"overrides", &config.overrides}}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto path = std::filesystem::path(*files[i].second).lexically_normal();
    for (std::size_t j = i + 1; j < files.size(); ++j) {
      if (path.empty() || path != std::filesystem::path(*files[j].second).lexically_normal()) {
        continue;
      }
      return std::string(files[i].first) + " and " + std::string(files[j].first) +
             " are one file, " + *files[i].second + "; expected a file for each";
    }
  }
  return {};
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
  const bool in_memory = kind_of(config) == StoreKind::kMemory;
  const bool in_redis = kind_of(config) == StoreKind::kRedis;
  const std::string other = in_memory ? "memory" : "another Sluice";
  if (config.rules_in_redis && !in_redis) {
    return "rules in Redis need a store in Redis, but the store is " + other +
           "; expected --store URL, or rules files";
  }
  if (!config.redis.rules_cache.empty() && !config.rules_in_redis) {
    return "redis.rules_cache keeps rules from Redis, but the rules are not there; expected rules: "
           "redis, or no redis.rules_cache";
  }
  if (!config.snapshot.empty() && !in_memory) {
    return "memory.snapshot keeps the counters of this process, but the store is in " +
           std::string(in_redis ? "Redis" : "another Sluice") +
           ", which keeps them itself; expected the store memory, or no memory.snapshot";
  }
  if (!config.ledger.file.empty() && kind_of(config) == StoreKind::kQuota) {
    return "the ledger is of budgets, which a store at another Sluice does not have; expected no "
           "ledger, or another store";
  }
  if (!config.ledger.file.empty() && !in_memory) {
    return "the ledger is a file of the budgets of this process, but the store is in Redis; "
           "expected ledger: redis, or the store memory";
  }
  if (config.ledger.in_redis && !in_redis) {
    return "a ledger in Redis needs a store in Redis, but the store is " + other +
           "; expected --store URL, or ledger: file:PATH";
  }
  return find_shared_file(config);
}

std::string find_unprotected(const Config& config, const ListenAddress& listener,
                             std::string_view address) {
  if (listener.key == "admin" && !config.admin_token.is_set()) {
    return "administration at " + std::string(address) +
           " needs a token because other machines can connect; set admin.token_file or "
           "admin.token_env in the configuration file, or listen on 127.0.0.1";
  }
  if (listener.key == "resp" && config.resp_users.empty()) {
    return "RESP at " + std::string(address) +
           " needs users with passwords because other machines can connect; set resp.users in the "
           "configuration file, or listen on 127.0.0.1";
  }
  return {};
}

std::vector<std::string> find_start_errors(const Config& config,
                                           std::vector<std::string>& not_set) {
  std::vector<std::string> errors;
  const auto check = [&errors](const std::string& of, const auto& result) {
    if (!result) errors.push_back(of + (of.empty() ? "" : ": ") + result.error());
    return result.has_value();
  };
  // Returns whether there is no secret, or it can be read.
  const auto check_secret = [&](const std::string& of, const SecretSource& source, auto read) {
    if (source.file.empty() && !source.variable.empty() &&
        std::getenv(source.variable.c_str()) == nullptr) {  // NOLINT: nobody sets it meanwhile
      not_set.push_back(of + ": environment variable " + source.variable +
                        " is not set here; expected it where the server starts");
      return false;
    }
    return !source.is_set() || check(of, read(source));
  };
  for (const ListenAddress& listener : kListenAddresses) {
    const auto address = parse_address(config.*listener.address);
    if (!address || address->kind == Address::Kind::kOff) continue;
    if (const net::TlsFiles& files = config.*listener.tls; !files.cert_file.empty()) {
      check(std::string(listener.key) + ".tls", net::TlsContext::open(files, {}));
    }
    if (address->kind == Address::Kind::kUnix) continue;
    const auto resolved = net::resolve(*address);
    if (!check({}, resolved) || resolved->is_loopback()) continue;
    const std::string wrong = find_unprotected(config, listener, resolved->text());
    if (!wrong.empty()) errors.push_back(wrong);
  }
  check_secret("admin", config.admin_token, read_token);
  for (const KnownClient& one : config.clients) check_secret("clients", one.source, read_token);
  for (const KnownClient& one : config.resp_users) {
    check_secret("resp.users", one.source, read_password);
  }
  if (kind_of(config) == StoreKind::kRedis) {
    const bool first = check_secret("redis", config.redis.password, read_password);
    if (check_secret("redis", config.redis.sentinel_password, read_password) && first) {
      check("redis", redis_options(config));
    }
  }
  if (kind_of(config) == StoreKind::kQuota) {
    const UpstreamConfig& upstream = config.upstream;
    check_secret("upstream.token", upstream.token, read_token);
    if (config.store.starts_with("quotas://")) {
      check("upstream", base::make_tls({upstream.ca_file, upstream.cert_file, upstream.key_file}));
    }
  }
  if (!config.otlp.endpoint.empty()) check("otlp", OtlpExporter::make_post(otlp_options(config)));
  return errors;
}

Expected<Config, std::vector<RuleError>> parse_config(std::string_view yaml,
                                                      std::string_view file) {
  rules::Diagnostics diagnostics(yaml, file);
  const rules::Document document = read_yaml(diagnostics);
  Config config;
  if (document.root != nullptr) {
    config = read(*document.root, std::filesystem::path(file).parent_path(), diagnostics);
  }
  if (!diagnostics.empty()) return Unexpected{diagnostics.take()};
  return config;
}

Expected<Config, std::vector<RuleError>> load_config(const std::string& path) {
  const auto bytes = rules::read_file(path);
  if (!bytes) return Unexpected{bytes.error()};
  return parse_config(*bytes, path);
}

std::string overrides_path(const Config& config) {
  if (kind_of(config) == StoreKind::kRedis) return {};
  if (!config.overrides.empty() || config.rules.empty()) return config.overrides;
  const std::filesystem::path rules = config.rules.front();
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(rules, ignored);
  return ((is_folder ? rules : rules.parent_path()) / "overrides.txt").string();
}

}  // namespace sluice::server
