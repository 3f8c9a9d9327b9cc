#include "cli/store_flags.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

#include "stores/redis/client/clients.h"
#include "stores/redis/client/target.h"

namespace sluice::cli {

std::shared_ptr<StoreFlags> add_store_flags(Command command) {
  auto flags = std::make_shared<StoreFlags>();
  command.add_option("--store", flags->store, "The store of the counters: redis://HOST:PORT, ...",
                     "URL");
  command.add_option("--config", flags->config,
                     "The configuration file of a server, for its store [./sluice.yaml]", "FILE");
  command.add_option("--prefix", flags->prefix, "The prefix of every key in Redis [sluice:]",
                     "TEXT");
  command.add_option("--tls-ca", flags->tls_ca,
                     "The file of certificate authorities for rediss://, PEM", "FILE");
  command.add_option("--password-file", flags->password_file, "The file of the password for Redis",
                     "FILE");
  return flags;
}

bool has_local_config() {
  std::error_code ignored;
  return std::filesystem::is_regular_file(kLocalConfig, ignored);
}

server::Config config_of(const StoreFlags& flags) {
  server::Config config;
  std::string file = flags.config;
  if (file.empty() && flags.store.empty() && flags.finds_config && has_local_config()) {
    file = kLocalConfig;
    config.found_file = file;
  }
  if (!file.empty()) {
    auto loaded = server::load_config(file);
    if (!loaded) {
      std::string lines;
      for (const RuleError& error : loaded.error()) {
        lines.append(lines.empty() ? "" : "\n").append(error.to_string());
      }
      throw Failed(lines);
    }
    loaded->found_file = config.found_file;
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
    throw wrong_usage("--prefix contains braces; expected text without braces, which mark tags");
  }
  if (const auto wrong = server::find_store_error(config.store, config.redis); !wrong.empty()) {
    throw wrong_usage("--store: " + wrong);
  }
  return config;
}

RedisOptions redis_options_of(const server::Config& config) {
  if (server::kind_of(config) != server::StoreKind::kRedis) {
    throw wrong_usage(
        "there is no store in Redis; expected --store URL, such as redis://127.0.0.1:6379, or "
        "--config FILE");
  }
  auto options = server::redis_options(config);
  if (!options) throw Failed(options.error());
  return *std::move(options);
}

namespace {

// A person can wait longer than a request, and reads more data.
constexpr std::chrono::milliseconds kDeadline{10'000};
constexpr std::chrono::milliseconds kConnectWithin{2'000};  // for the connection

}  // namespace

RedisSession::RedisSession(RedisOptions options)
    : loop_(std::make_unique<boost::asio::io_context>(1)) {
  options.deadline = std::max(options.deadline, kDeadline);
  auto target = redis::make_target(options);
  if (!target) throw Failed(target.error());
  target_ = *std::move(target);
  client_ = redis::make_client(*loop_, target_, nullptr);
  const auto end = std::chrono::steady_clock::now() + kConnectWithin;
  while (!client_->ready()) {
    loop_->run_one_for(std::chrono::milliseconds(5));
    loop_->restart();
    if (std::chrono::steady_clock::now() < end) continue;
    const std::string why = client_->why();
    throw Failed(shown() + " is not available: " + (why.empty() ? "no answer yet" : why));
  }
}
RedisSession::~RedisSession() = default;

RedisSession::Fill RedisSession::of_words(std::vector<std::string_view> words,
                                          std::optional<std::uint16_t> slot) {
  return [words = std::move(words), slot](redis::Command& command) {
    for (const std::string_view word : words) command.append(word);
    command.slot = slot;
  };
}

void RedisSession::ask(const std::vector<Fill>& commands, const Take& take,
                       bool may_be_other_type) {
  std::size_t left = commands.size();
  std::vector<std::string> errors(commands.size());
  std::deque<redis::AskCommand> asked;
  for (const Fill& fill : commands) {
    fill(asked.emplace_back([&, number = asked.size()](const redis::Answer& answer) {
      --left;
      if (answer.failure == redis::Failure::kNone) return take(number, *answer.reply);
      const bool is_other_type =
          answer.failure == redis::Failure::kError && answer.text.starts_with("WRONGTYPE");
      if (is_other_type && may_be_other_type) return;
      errors[number] = answer.text.empty() ? "no answer" : answer.text;
    }));
  }
  for (redis::AskCommand& one : asked) client_->submit(one);
  while (left > 0) {
    loop_->run_one_for(std::chrono::milliseconds(50));
    loop_->restart();
  }
  for (const std::string& error : errors) {
    if (!error.empty()) throw Failed(shown() + ": " + error);
  }
}

void RedisSession::ask(const Fill& command, const std::function<void(const redis::Reply&)>& take) {
  ask({command}, [&](std::size_t, const redis::Reply& reply) { take(reply); });
}

bool RedisSession::scan(const std::string& pattern,
                        const std::function<bool(std::vector<std::string> keys)>& take) {
  std::vector<std::optional<std::uint16_t>> slots(1);  // of each master; absent: of the only one
  if (target_->kind == redis::Target::Kind::kCluster) {
    std::string error;
    ask(of_words({"CLUSTER", "SLOTS"}), [&](const redis::Reply& reply) {
      const auto map = redis::SlotMap::read(reply, {});
      const auto of_each = map ? map->slot_of_each() : std::vector<std::uint16_t>();
      slots.assign(of_each.begin(), of_each.end());
      if (!map) error = map.error();
    });
    if (!error.empty()) throw Failed(shown() + ": " + error);
  }
  for (const std::optional<std::uint16_t> slot : slots) {
    std::string cursor = "0";
    do {
      const std::string from = cursor;
      const auto fill = of_words({"SCAN", from, "MATCH", pattern, "COUNT", "1000"}, slot);
      std::vector<std::string> keys;
      ask(fill, [&](const redis::Reply& reply) {
        cursor = "0";
        if (reply.type != redis::Reply::kArray || reply.count != 2) return;
        cursor = reply[0].string();
        for (const redis::Reply& key : reply[1]) keys.emplace_back(key.string());
      });
      if (!take(std::move(keys))) return false;
    } while (cursor != "0");
  }
  return true;
}

const std::string& RedisSession::shown() const noexcept { return target_->shown; }

}  // namespace sluice::cli
