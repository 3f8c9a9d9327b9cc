#pragma once

#include <memory>
#include <string>

#include "server/config/config.h"
#include "sluice/expected.h"
#include "sluice/redis_store.h"

namespace CLI {
class App;
}

namespace sluice::cli {

// The flags of a subcommand that say where counters are kept, and how that is reached.
struct StoreFlags {
  std::string store;   // "memory", or a URL; empty: that of the configuration file
  std::string config;  // a configuration file, for its `store` and `redis`
  std::string prefix;
  std::string tls_ca;
  std::string password_file;
};

// Adds --store, --config, --prefix, --tls-ca and --password-file.
std::shared_ptr<StoreFlags> add_store_flags(CLI::App& command);

// What is wrong, as a line for people, and the exit status that it calls for.
struct Failed {
  std::string what;
  int status = 1;
};

// The configuration that the flags make of their file, or of none. Errors: also of the URL, which
// is not repeated, as it may hold a password.
Expected<server::Config, Failed> config_of(const StoreFlags& flags);
// How Redis is reached. Errors: also that the store is none in Redis.
Expected<RedisOptions, Failed> redis_options_of(const server::Config& config);

}  // namespace sluice::cli
