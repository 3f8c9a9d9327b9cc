#include "cli/store_flags.h"

#include <utility>

namespace sluice::cli {
std::shared_ptr<StoreFlags> add_store_flags(Command command) {
  auto flags = std::make_shared<StoreFlags>();
  command.add_option("--store", flags->store, "The store of the counters: redis://HOST:PORT, ...")
      .type_name("URL");
  command.add_option("--config", flags->config, "The configuration file of a server, for its store")
      .type_name("FILE");
  command.add_option("--prefix", flags->prefix, "The prefix of every key in Redis [sluice:]")
      .type_name("TEXT");
  command
      .add_option("--tls-ca", flags->tls_ca,
                  "The file of certificate authorities for rediss://, PEM")
      .type_name("FILE");
  command.add_option("--password-file", flags->password_file, "The file of the password for Redis")
      .type_name("FILE");
  return flags;
}

server::Config config_of(const StoreFlags& flags) {
  server::Config config;
  if (!flags.config.empty()) {
    auto loaded = server::load_config(flags.config);
    if (!loaded) {
      std::string lines;
      for (const RuleError& error : loaded.error()) {
        lines.append(lines.empty() ? "" : "\n").append(error.to_string());
      }
      throw Failed(lines);
    }
    config = *std::move(loaded);
  }
  if (!flags.store.empty()) config.store = flags.store;
  if (!flags.prefix.empty()) config.redis.options.prefix = flags.prefix;
  if (!flags.tls_ca.empty()) config.redis.options.tls_ca_file = flags.tls_ca;
  if (!flags.password_file.empty()) {
    config.redis.password.file = flags.password_file;
    config.redis.password.variable.clear();
  }
  if (flags.prefix.find_first_of("{}") != std::string::npos) {
    throw Failed("--prefix contains braces; expected text without braces, which mark tags", kUsage);
  }
  if (const auto wrong = server::find_store_error(config.store, config.redis); !wrong.empty()) {
    throw Failed("--store: " + wrong, kUsage);
  }
  return config;
}

RedisOptions redis_options_of(const server::Config& config) {
  if (config.store == "memory") {
    throw Failed(
        "there is no store in Redis; expected --store URL, such as redis://127.0.0.1:6379, or "
        "--config FILE",
        kUsage);
  }
  auto options = server::redis_options(config);
  if (!options) throw Failed(options.error());
  return *std::move(options);
}

}  // namespace sluice::cli
