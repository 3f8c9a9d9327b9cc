#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "server/config/config.h"
#include "sluice/redis_store.h"
#include "stores/redis/client/client.h"

namespace boost::asio {
class io_context;
}

namespace sluice::cli {

// The flags of a subcommand that select the store of the counters.
struct StoreFlags {
  std::string store;   // "memory" or a URL; empty: from the configuration file
  std::string config;  // a configuration file, for its `store` and `redis`
  std::string prefix;
  std::string tls_ca;
  std::string password_file;
  std::string rules_key;  // the key of the rules in Redis; only of commands that ask for it
  // Whether kLocalConfig of the current folder is read if the flags name neither file nor store.
  bool finds_config = true;
};

inline constexpr const char* kLocalConfig = "sluice.yaml";

// Returns whether the current folder has a configuration file of that name.
bool has_local_config();

// Adds --store, --config, --prefix, --tls-ca and --password-file.
std::shared_ptr<StoreFlags> add_store_flags(Command command);

// Returns the configuration from the file and the flags. Error messages do not repeat the URL,
// because it may contain a password.
server::Config config_of(const StoreFlags& flags);
// Returns the options for Redis. An error if the store is not in Redis.
RedisOptions redis_options_of(const server::Config& config);

// A connection to Redis whose caller waits for every reply.
//
// Not thread-safe. Never repeats a command that Redis may have carried out.
class RedisSession {
 public:
  // Throws Failed: wrong options, or why the server is not available within two seconds.
  explicit RedisSession(RedisOptions options);
  ~RedisSession();

  using Fill = std::function<void(redis::Command&)>;
  // Returns what fills in a command with these words, which it borrows. `slot`: that of its keys.
  static Fill of_words(std::vector<std::string_view> words, std::optional<std::uint16_t> slot = {});
  // `reply` of the command of that number; it is valid for the call.
  using Take = std::function<void(std::size_t number, const redis::Reply& reply)>;
  // Sends commands in one write and waits for all replies. Throws Failed: the first failure. An
  // error reply of the server is one too, unless it says that the key holds a value of another type
  // and `may_be_other_type`: then it is skipped.
  void ask(const std::vector<Fill>& commands, const Take& take, bool may_be_other_type = false);
  void ask(const Fill& command, const std::function<void(const redis::Reply&)>& take);

  // Scans all servers for keys, until `take` returns false. It may miss keys that are created or
  // deleted meanwhile, and find one twice. Returns whether these are all.
  bool scan(const std::string& pattern,
            const std::function<bool(std::vector<std::string> keys)>& take);

  // Returns the URL without passwords.
  const std::string& shown() const noexcept;
  const redis::Target& target() const noexcept { return *target_; }

 private:
  std::shared_ptr<const redis::Target> target_;
  std::unique_ptr<boost::asio::io_context> loop_;
  std::unique_ptr<redis::Client> client_;
};

}  // namespace sluice::cli
