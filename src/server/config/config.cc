#include "server/config/config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "rules/fields.h"
#include "rules/yaml_tree.h"
#include "server/attributes/trusted_proxies.h"
#include "server/config/address.h"
#include "server/config/redis_reader.h"
#include "server/config/schema.h"

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
  void read_listen(const Fields& fields);
  void read_address(const Fields& fields, std::string_view name, Text member);
  void read_rules(const Fields& file);
  void read_proxies(const Fields& file);
  void read_admin(const Fields& fields);
  void read_bounds(const Fields& fields);
  void read_log(const Fields& fields);
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
  }
  read_rules(file);
  config_.watch = file.flag("watch").value_or(config_.watch);
  read_proxies(file);
  set(config_.threads, file.integer("threads"));
  if (const auto admin = part(file, "admin")) read_admin(*admin);
  if (const auto bounds = part(file, "bounds")) read_bounds(*bounds);
  if (const auto drain = part(file, "drain")) {
    set(config_.drain_delay, drain->period("delay"));
    set(config_.drain_timeout, drain->period("timeout"));
  }
  if (const auto log = part(file, "log")) read_log(*log);
  return std::move(config_);
}

// The map of that name, where there is one.
std::optional<Fields> Reader::part(const Fields& file, std::string_view name) {
  const Node* node = file.node(name);
  if (node == nullptr) return std::nullopt;
  return Fields::read(*node, rules::schema::child(config::file(), name), diagnostics_);
}

void Reader::read_listen(const Fields& fields) {
  constexpr std::array<std::pair<std::string_view, Text>, 4> kListeners{
      {{"http", &Config::http},
       {"grpc", &Config::grpc},
       {"resp", &Config::resp},
       {"admin", &Config::admin}}};
  for (const auto& [name, member] : kListeners) read_address(fields, name, member);
}

// Reads one listener's, or takes its default, and compares it with those before it.
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

// `redis` alone is the source; a file of that name is written ./redis.
void Reader::read_rules(const Fields& file) {
  const auto given = file.texts("rules");
  for (const Node* rules : given) {
    if (rules->text != "redis") {
      config_.rules.push_back(path(rules->text));
    } else if (given.size() == 1) {
      config_.rules_in_redis = true;
    } else {
      diagnostics_.add(rules->at, "'rules' has 'redis' among files",
                       "expected it alone, or ./redis for a file of that name");
    }
  }
}

void Reader::read_proxies(const Fields& file) {
  for (const Node* node : file.texts("trusted_proxies")) {
    const auto checked = TrustedProxies::parse(std::span(&node->text, 1));
    if (!checked) diagnostics_.add_message(node->at, checked.error());
    config_.trusted_proxies.push_back(node->text);
  }
}

void Reader::read_admin(const Fields& fields) {
  const std::string_view file = fields.text("token_file");
  const std::string_view variable = fields.text("token_env");
  if (variable.find_first_of("= ") != variable.npos) {
    diagnostics_.add(fields.at("token_env"),
                     "'token_env' is " + rules::describe(*fields.node("token_env")),
                     "expected the name of an environment variable, such as SLUICE_TOKEN");
  }
  if (!file.empty() && !variable.empty()) {
    diagnostics_.add(fields.at("token_env"), "both 'token_file' and 'token_env'",
                     "expected one of them");
  }
  if (!file.empty()) config_.admin_token_file = path(file);
  config_.admin_token_env = variable;
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
}

void Reader::read_log(const Fields& fields) {
  LogOptions& log = config_.log;
  log.level = fields.choice<LogLevel>("level").value_or(log.level);
  log.format = fields.choice<LogFormat>("format").value_or(log.format);
  log.keys = fields.choice<LogKeys>("keys").value_or(log.keys);
  set(log.denials_per_second, fields.integer("denials_per_second"));
  log.access = fields.flag("access").value_or(log.access);
}

}  // namespace

std::string find_conflict(const Config& config) {
  const auto http = parse_address(config.http);
  const auto admin = parse_address(config.admin);
  if (http && admin && collide(*http, *admin)) {
    return "HTTP and the administration cannot both listen at " + config.http +
           "; expected another address for one of them";
  }
  if (config.rules_in_redis && config.store == "memory") {
    return "rules in Redis need a store in Redis, and the store is memory; expected --store URL, "
           "or files of rules";
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

}  // namespace sluice::server
