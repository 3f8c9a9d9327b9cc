#include "server/config/config.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "rules/attributes.h"
#include "rules/fields.h"
#include "rules/yaml_tree.h"
#include "server/config/clients_reader.h"
#include "server/config/redis_reader.h"
#include "server/config/schema.h"
#include "server/config/tls_reader.h"
#include "server/net/address.h"
#include "server/net/trusted_proxies.h"

namespace sluice::server {
namespace {

using rules::Fields;
using rules::Node;

template <typename Number>
void set(Number& target, std::optional<std::uint64_t> value) {
  if (value) target = static_cast<Number>(*value);
}

void set(std::chrono::milliseconds& target, std::optional<Duration> value) {
  if (value) target = std::chrono::duration_cast<std::chrono::milliseconds>(*value);
}

class Reader {
 public:
  Reader(rules::Diagnostics& diagnostics, std::string_view file)
      : diagnostics_(diagnostics), folder_(std::filesystem::path(file).parent_path()) {}

  Config read(const Node& root);

 private:
  using Text = std::string Config::*;

  std::optional<Fields> part(const Fields& file, std::string_view name);
  std::optional<Fields> listener(const Fields& file, std::string_view name);
  void read_listen(const Fields& fields);
  void read_address(const Fields& fields, std::string_view name, Text member);
  void read_rules(const Fields& file);
  void read_grpc(const Fields& fields);
  void read_envoy(const Fields& fields);
  void read_proxies(const Fields& file);
  void read_admin(const Fields& fields);
  void read_bounds(const Fields& fields);
  void check_certificates(const Fields& file);
  void read_log(const Fields& fields);
  void read_record(const Fields& fields);
  std::string path(std::string_view written) const { return folder_ / written; }

  rules::Diagnostics& diagnostics_;
  std::filesystem::path folder_;
  std::vector<std::pair<std::string_view, Address>> addresses_;  // read so far
  Config config_;
};

Config Reader::read(const Node& root) {
  const Fields file = Fields::read(root, config::file(), diagnostics_);
  if (const auto listen = part(file, "listen")) read_listen(*listen);
  if (const Node* store = file.node("store")) config_.store = store->text;
  if (const auto redis = part(file, "redis")) {
    config_.redis = read_redis(*redis, folder_, diagnostics_);
  }
  if (const std::string wrong = find_store_error(config_.store, config_.redis); !wrong.empty()) {
    diagnostics_.add_message(file.at("store"), wrong);
  }
  if (const auto memory = part(file, "memory")) {
    set(config_.max_keys, memory->integer("max_keys"));
    set(config_.max_log_bytes, memory->integer("max_log_bytes"));
    if (const auto written = memory->text("snapshot"); !written.empty()) {
      config_.snapshot = path(written);
    }
    set(config_.snapshot_interval, memory->period("snapshot_interval"));
  }
  if (const auto grpc = listener(file, "grpc")) read_grpc(*grpc);
  if (const auto envoy = part(file, "envoy")) read_envoy(*envoy);
  if (const auto http = listener(file, "http")) config_.hosts = read_hosts(*http, diagnostics_);
  config_.clients = read_clients(file, folder_, diagnostics_);
  if (const auto resp = listener(file, "resp")) {
    config_.resp_options = read_resp(*resp, folder_, diagnostics_);
  }
  read_rules(file);
  config_.watch = file.flag("watch").value_or(config_.watch);
  if (const auto written = file.text("overrides"); !written.empty()) {
    config_.overrides = path(written);
  }
  read_proxies(file);
  set(config_.threads, file.integer("threads"));
  if (const auto admin = listener(file, "admin")) read_admin(*admin);
  if (const auto bounds = part(file, "bounds")) read_bounds(*bounds);
  if (const auto drain = part(file, "drain")) {
    set(config_.drain_delay, drain->period("delay"));
    set(config_.drain_timeout, drain->period("timeout"));
    if (const auto written = drain->text("handover"); !written.empty()) {
      config_.handover = path(written);
    }
  }
  if (const auto log = part(file, "log")) read_log(*log);
  if (const auto record = part(file, "record")) read_record(*record);
  set(config_.top_keys, file.integer("top_keys"));
  check_certificates(file);
  return std::move(config_);
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

// Only `redis` selects Redis. Write a file of that name as ./redis.
void Reader::read_rules(const Fields& file) {
  const auto given = file.texts("rules");
  for (const Node* rules : given) {
    if (rules->text != "redis") {
      config_.rules.push_back(path(rules->text));
    } else if (given.size() == 1) {
      config_.rules_in_redis = true;
    } else {
      diagnostics_.add(rules->at, "'rules' has 'redis' among files",
                       "expected it alone, or ./redis for a file with this name");
    }
  }
}

void Reader::read_envoy(const Fields& fields) {
  EnvoyConfig& envoy = config_.envoy;
  for (const Node* file : fields.texts("files")) envoy.files.push_back(path(file->text));
  envoy.merge_domains = fields.flag("merge_domains").value_or(false);
  envoy.consume_on_reject = fields.text("compat") == "consume_on_reject";
  envoy.shadow_mode = fields.flag("shadow_mode").value_or(false);
  envoy.headers = fields.flag("headers").value_or(false);
  envoy.request_metadata = fields.flag("request_metadata").value_or(false);
  const auto header = [&](std::string_view name, std::string& target) {
    const std::string_view text = fields.text(name);
    if (text.empty()) return;
    if (text.find_first_not_of(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != text.npos) {
      diagnostics_.add(fields.at(name),
                       "'" + std::string(name) + "' is " + rules::describe(*fields.node(name)),
                       "expected the name of a header field, such as X-RateLimit-Limit");
    }
    target = text;
  };
  header("limit_header", envoy.limit_header);
  header("remaining_header", envoy.remaining_header);
  header("reset_header", envoy.reset_header);
}

void Reader::read_grpc(const Fields& fields) {
  GrpcConfig& grpc = config_.grpc_options;
  set(grpc.streams, fields.integer("streams"));
  set(grpc.max_age, fields.period("max_age"));
}

void Reader::read_proxies(const Fields& file) {
  for (const Node* node : file.texts("trusted_proxies")) {
    const auto checked = TrustedProxies::parse(std::span(&node->text, 1));
    if (!checked) diagnostics_.add_message(node->at, checked.error());
    config_.trusted_proxies.push_back(node->text);
  }
}

void Reader::read_admin(const Fields& fields) {
  config_.admin_token = read_source(fields, "token", "SLUICE_TOKEN", folder_, diagnostics_);
}

void Reader::read_bounds(const Fields& fields) {
  Bounds& bounds = config_.bounds;
  set(bounds.header_bytes, fields.integer("header_bytes"));
  set(bounds.body_bytes, fields.integer("body_bytes"));
  set(bounds.header_timeout, fields.period("header_timeout"));
  set(bounds.body_timeout, fields.period("body_timeout"));
  set(bounds.write_timeout, fields.period("write_timeout"));
  set(bounds.idle_timeout, fields.period("idle_timeout"));
  set(bounds.connections, fields.integer("connections"));
  set(bounds.requests_per_connection, fields.integer("requests_per_connection"));
  set(bounds.waiting, fields.integer("waiting"));
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
  check("resp", config_.resp_options.users, !config_.resp_tls.client_ca_file.empty(),
        "'tls' with 'client_ca_file' in 'resp'");
}

void Reader::read_log(const Fields& fields) {
  LogOptions& log = config_.log;
  log.level = fields.choice<LogLevel>("level").value_or(log.level);
  log.format = fields.choice<LogFormat>("format").value_or(log.format);
  log.keys = fields.choice<LogKeys>("keys").value_or(log.keys);
  set(log.denials_per_second, fields.integer("denials_per_second"));
  log.access = fields.flag("access").value_or(log.access);
}

void Reader::read_record(const Fields& fields) {
  TrafficOptions& record = config_.record;
  if (const auto written = fields.text("file"); !written.empty()) record.file = path(written);
  set(record.share, fields.integer("share"));
  if (fields.node("sample_by") != nullptr) {
    record.sample_by = rules::normalized(fields.text("sample_by"));
  }
  set(record.max_bytes, fields.integer("max_bytes"));
  const auto read_names = [&](std::string_view key, std::vector<std::string>& names) {
    for (const Node* name : fields.texts(key)) {
      if (const auto wrong = rules::find_name_error(name->text)) {
        diagnostics_.add_message(name->at, *wrong);
      }
      names.push_back(rules::normalized(name->text));
    }
  };
  read_names("attributes", record.attributes);
  read_names("hash", record.hash);
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
