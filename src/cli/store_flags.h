#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "server/config/config.h"
#include "sluice/redis_store.h"

namespace sluice::cli {

// The flags of a subcommand that select the store of the counters.
struct StoreFlags {
  std::string store;   // "memory" or a URL; empty: from the configuration file
  std::string config;  // a configuration file, for its `store` and `redis`
  std::string prefix;
  std::string tls_ca;
  std::string password_file;
  std::string rules_key;  // the key of the rules in Redis; only of commands that ask for it
};

// Adds --store, --config, --prefix, --tls-ca and --password-file.
std::shared_ptr<StoreFlags> add_store_flags(Command command);

// Returns the configuration from the file and the flags. Error messages do not repeat the URL,
// because it may contain a password.
server::Config config_of(const StoreFlags& flags);
// Returns the options for Redis. An error if the store is not in Redis.
RedisOptions redis_options_of(const server::Config& config);

}  // namespace sluice::cli
