#include "server/config/redis_reader.h"

#include <string>

#include "server/config/clients_reader.h"
#include "server/config/schema.h"

namespace sluice::server {
namespace {

using rules::Fields;
using rules::Node;
using std::chrono::milliseconds;

class RedisReader {
 public:
  RedisReader(const std::filesystem::path& folder, rules::Diagnostics& diagnostics)
      : folder_(folder), diagnostics_(diagnostics) {}

  RedisConfig read(const Fields& fields);

 private:
  void read_options(const Fields& fields);
  void read_tls(const Fields& fields);
  void read_breaker(const Fields& fields);
  void read_prefix(const Fields& fields);
  Fields part(const Node& node, std::string_view name) const;
  std::string path(std::string_view written) const {
    return written.empty() ? std::string() : std::string(folder_ / written);
  }

  const std::filesystem::path& folder_;
  rules::Diagnostics& diagnostics_;
  RedisConfig redis_;
};

template <typename Number>
void set_number(Number& target, std::optional<std::uint64_t> value) {
  if (value) target = static_cast<Number>(*value);
}

template <typename Period>
void set_period(Period& target, std::optional<Duration> value) {
  if (value) target = std::chrono::duration_cast<Period>(*value);
}

Fields RedisReader::part(const Node& node, std::string_view name) const {
  const auto& keys = rules::schema::child(config::file(), "redis");
  return Fields::read(node, rules::schema::child(keys, name), diagnostics_);
}

RedisConfig RedisReader::read(const Fields& fields) {
  read_options(fields);
  read_prefix(fields);
  const auto secret = [&](std::string_view name) {
    return read_source(fields, name, "REDIS_PASSWORD", folder_, diagnostics_);
  };
  redis_.password = secret("password");
  redis_.sentinel_password = secret("sentinel_password");
  if (const Node* tls = fields.node("tls")) read_tls(part(*tls, "tls"));
  set_number(redis_.nodes, fields.integer("nodes"));
  if (const Node* node = fields.node("deny_cache")) {
    const Fields cache = part(*node, "deny_cache");
    redis_.deny_cache_enabled = cache.flag("enabled").value_or(true);
    set_number(redis_.deny_cache.max_keys, cache.integer("max_keys"));
    set_period(redis_.deny_cache.longest, cache.period("longest"));
  }
  if (const Node* node = fields.node("leases")) {
    const Fields leases = part(*node, "leases");
    set_number(redis_.lease_percent, leases.integer("share"));
    set_number(redis_.lease_keys, leases.integer("max_keys"));
  }
  if (const Node* breaker = fields.node("breaker")) read_breaker(part(*breaker, "breaker"));
  redis_.rules_key = fields.text("rules_key");
  return std::move(redis_);
}

void RedisReader::read_options(const Fields& fields) {
  RedisOptions& options = redis_.options;
  options.username = fields.text("username");
  options.sentinel_username = fields.text("sentinel_username");
  set_period(options.deadline, fields.period("deadline"));
  set_period(options.connect_timeout, fields.period("connect_timeout"));
  set_number(options.max_pending, fields.integer("max_pending"));
  set_number(options.protocol, fields.integer("protocol"));
  if (options.protocol == 1) {
    diagnostics_.add(fields.at("protocol"), "'protocol' is '1'",
                     "expected 2, 3, or 0 for the version that the server supports");
  }
  options.scripting = fields.choice<bool>("scripting").value_or(options.scripting);
  options.module = fields.choice<ModuleUse>("module").value_or(options.module);
}

// Braces in the prefix would put all keys of a cluster into one slot.
void RedisReader::read_prefix(const Fields& fields) {
  const Node* prefix = fields.node("prefix");
  if (prefix == nullptr) return;
  redis_.options.prefix = prefix->text;
  if (prefix->text.find_first_of("{}") == std::string::npos) return;
  diagnostics_.add(prefix->at, "'prefix' is " + rules::describe(*prefix),
                   "expected text without braces, which mark tags");
}

void RedisReader::read_tls(const Fields& fields) {
  RedisOptions& options = redis_.options;
  options.tls_ca_file = path(fields.text("ca_file"));
  options.tls_cert_file = path(fields.text("cert_file"));
  options.tls_key_file = path(fields.text("key_file"));
  options.tls_server_name = fields.text("server_name");
  options.tls_verify = fields.flag("verify").value_or(options.tls_verify);
}

void RedisReader::read_breaker(const Fields& fields) {
  CircuitBreakerOptions& breaker = redis_.breaker;
  set_number(breaker.failures, fields.integer("failures"));
  set_period(breaker.open_for, fields.period("open_for"));
  set_period(breaker.longest_open, fields.period("longest_open"));
  if (breaker.open_for <= breaker.longest_open) return;
  diagnostics_.add(fields.at("open_for"), "'open_for' is longer than 'longest_open'",
                   "expected at most 'longest_open', which is 10s by default");
}

}  // namespace

RedisConfig read_redis(const rules::Fields& fields, const std::filesystem::path& folder,
                       rules::Diagnostics& diagnostics) {
  return RedisReader(folder, diagnostics).read(fields);
}

}  // namespace sluice::server
