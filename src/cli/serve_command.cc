#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/store_flags.h"
#include "server/config/config.h"
#include "server/net/address.h"
#include "server/runtime/server.h"

namespace sluice::cli {
namespace {

constexpr const char* kServeHelp =
    R"(ADDR is host:port, [v6]:port or unix:PATH. Port 0 selects a free port; off closes a
listener. When all listeners accept connections, the server prints one line to stdout with the
real ports: `ready http=ADDR grpc=ADDR resp=ADDR admin=ADDR`. Each flag may also be an environment
variable: SLUICE_HTTP for --http. Flags override variables, and these the configuration file
(docs/config.md); without --config it is sluice.yaml in the current folder, if there is one. Without rules the server uses a small built-in example. docs/http.md
describes HTTP, docs/envoy.md gRPC and docs/reference/commands.md RESP.

SIGHUP reloads the rules, Envoy's files, the administration token and certificates. The server
also reloads rules when their files change. On SIGTERM, SIGINT and SIGPWR it stops accepting
connections, finishes open requests and exits with status 0. It logs SIGUSR1, SIGUSR2, SIGALRM,
SIGIO, SIGPROF, SIGVTALRM and real-time signals, which have no effect.

Exit status: 0 stopped by a signal or replaced (drain.handover); 1 the server could not start, or
could not save its counters, ledger or overrides at the end; 2 wrong usage; 3 it was replaced and
could not save them.

Examples:
  sluice serve --rules rules.yaml
  sluice serve --config /etc/sluice/sluice.yaml --http 0.0.0.0:8080
  sluice serve --store redis://127.0.0.1:6379 --rules redis)";

struct ServeFlags {
  std::string config;
  std::vector<std::string> rules, envoy;
  std::array<std::string, server::kListenAddresses.size()> addresses;
  std::string store;
  std::string record;
  std::string ledger;
  std::size_t threads = 0;
};

void override_with(const ServeFlags& flags, server::Config& config) {
  const auto take = [](const std::string& flag, std::string& value) {
    if (!flag.empty()) value = flag;
  };
  for (std::size_t i = 0; i < flags.addresses.size(); ++i) {
    take(flags.addresses[i], config.*server::kListenAddresses[i].address);
  }
  take(flags.store, config.store);
  take(flags.record, config.record.file);
  if (!flags.rules.empty()) {
    config.rules_in_redis = flags.rules == std::vector<std::string>{"redis"};
    config.rules = config.rules_in_redis ? std::vector<std::string>() : flags.rules;
  }
  if (!flags.envoy.empty()) config.envoy.files = flags.envoy;
  if (flags.threads > 0) config.threads = flags.threads;
}

// Returns the first error in the flags, or an empty string.
std::string find_mistake(const ServeFlags& flags) {
  for (std::size_t i = 0; i < flags.addresses.size(); ++i) {
    const std::string& value = flags.addresses[i];
    if (value.empty()) continue;
    if (const auto address = server::parse_address(value); !address) {
      return "--" + std::string(server::kListenAddresses[i].key) + " " + value + ": " +
             address.error();
    }
  }
  if (flags.rules.size() > 1 &&
      std::find(flags.rules.begin(), flags.rules.end(), "redis") != flags.rules.end()) {
    return "--rules redis among files; expected it alone, or ./redis for a file with this name";
  }
  return {};
}

int serve(const ServeFlags& flags) {
  if (const std::string mistake = find_mistake(flags); !mistake.empty()) {
    throw wrong_usage(mistake);
  }
  server::Config config;
  const bool is_found = flags.config.empty() && has_local_config();
  if (is_found || !flags.config.empty()) {
    auto loaded = server::load_config(is_found ? kLocalConfig : flags.config);
    if (!loaded) {
      print_errors(loaded.error());
      return kFailed;
    }
    config = std::move(*loaded);
    if (is_found) config.found_file = std::filesystem::absolute(kLocalConfig);
  }
  override_with(flags, config);
  if (!flags.ledger.empty()) {
    const auto wrong = server::set_ledger(flags.ledger, config.ledger);
    if (!wrong.empty()) throw wrong_usage("--ledger: " + wrong);
  }
  // The message does not repeat the URL, because it may contain a password.
  if (const auto wrong = server::find_store_error(config.store, config.redis); !wrong.empty()) {
    throw wrong_usage("--store: " + wrong);
  }
  if (const auto conflict = server::find_conflict(config); !conflict.empty()) {
    throw wrong_usage(conflict);
  }
  const auto on_ready = [](const std::string& ready_line, const std::string& hint) {
    std::cout << ready_line << std::endl;
    if (!hint.empty()) std::cerr << hint << std::endl;
  };
  const auto served = server::serve(config, on_ready);
  if (!served) throw Failed(served.error());
  return *served;
}

}  // namespace

void add_serve(Command app) {
  const Command command = app.add_subcommand(
      "serve", "Serve decisions over HTTP, gRPC (Envoy) and RESP (Redis clients)", kServeHelp);
  auto flags = std::make_shared<ServeFlags>();
  command.add_option("--config", flags->config, "The configuration file [./sluice.yaml]", "FILE");
  command.add_option("--rules", flags->rules,
                     "A rules file or directory; may be repeated. redis: the rules in the store",
                     "FILE");
  command.add_option("--envoy", flags->envoy,
                     "A file or directory of Envoy's rate limit service; may be repeated", "FILE");
  for (std::size_t i = 0; i < flags->addresses.size(); ++i) {
    const server::ListenAddress& one = server::kListenAddresses[i];
    command.add_option(
        "--" + std::string(one.key), flags->addresses[i],
        "The address for " + std::string(one.title) + " [" + server::Config().*one.address + "]",
        "ADDR");
  }
  command.add_option("--store", flags->store,
                     "The store of the counters: memory, or redis://HOST:PORT [memory]", "URL");
  command.add_option("--record", flags->record,
                     "Record requests in this file, for sluice replay (docs/replay.md)", "FILE");
  command.add_option("--ledger", flags->ledger,
                     "Write every change of a budget: file:PATH or redis (docs/budgets.md) [off]",
                     "WHERE");
  command
      .add_option("--threads", flags->threads, "The number of event loops [number of processors]",
                  "N")
      .range(1, 1024);
  command.run({}, [flags] { return serve(*flags); });
}

}  // namespace sluice::cli
