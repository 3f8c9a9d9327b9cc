#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <istream>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/decide.h"
#include "cli/store_flags.h"
#include "sluice/memory_store.h"
#include "sluice/redis_store.h"

namespace sluice::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr std::chrono::milliseconds kPatience{2'000};
constexpr std::size_t kMaxKeys = std::size_t{1} << 24;
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 30;

constexpr const char* kHelp =
    "Reads one request a line from stdin, writes one decision a line to stdout, in JSON. Instants\n"
    "are stated, in microseconds since the epoch, so that the same input always gives the same\n"
    "output.\n"
    "\n"
    "  {\"at_us\":0,\"charges\":[{\"key\":\"u1\",\"cost\":1,\"limit\":\n"
    "      {\"algorithm\":\"token_bucket\",\"limit\":10,\"per\":\"1s\",\"burst\":20}}]}\n"
    "  {\"outcome\":\"allowed\",\"reason\":\"ok\",\"limits\":\n"
    "      [{\"limit\":20,\"remaining\":19,\"reset_after_us\":100000}]}\n"
    "\n"
    "verb: take (default), peek, refund, reset. cost: default 1. limit: algorithm, limit, per, "
    "and\n"
    "where they apply burst, align, slices, weighting, mode, refill. All charges of a line are "
    "taken,\n"
    "or none. Denied adds retry_after_us, to the line the longest, and to each limit that denied;\n"
    "it is absent when reason is never. A queueing leaky_bucket adds delay_us.\n"
    "\n"
    "A line that is not valid, or that the store could not decide, gets "
    "{\"error\":\"...\",\"line\":n} in\n"
    "its place, and the exit status is 1 at the end.\n"
    "\n"
    "Without --store the counters are kept in memory. In Redis they are kept as a server keeps "
    "them,\n"
    "for 24 hours, under --prefix: give one of its own to what is but tried out.\n"
    "  sluice decide --store redis://127.0.0.1:6379 --prefix trial: < requests.jsonl";

// Reads up to and over a line break. False at the end of the input; a line over the bound is cut
// and read to its end.
bool read_line(std::istream& in, std::string& line, bool& too_long) {
  line.clear();
  too_long = false;
  std::streambuf& buffer = *in.rdbuf();
  int c = buffer.sbumpc();
  if (c == std::char_traits<char>::eof()) return false;
  for (; c != std::char_traits<char>::eof() && c != '\n'; c = buffer.sbumpc()) {
    if (line.size() < DecisionFilter::kMaxLine) {
      line.push_back(static_cast<char>(c));
    } else {
      too_long = true;
    }
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

int decide(std::istream& in, std::ostream& out, DecisionFilter& filter) {
  std::string line;
  bool too_long = false;
  while (out && read_line(in, line, too_long)) {
    out << (too_long ? filter.refuse_long_line() : filter.answer(line)) << '\n';
    // Whoever waits for this answer before asking the next question gets it.
    if (in.rdbuf()->in_avail() <= 0) out.flush();
  }
  out.flush();
  return filter.had_errors() ? kFailed : 0;
}

// Remembers why the store failed last.
class Reasons final : public StoreObserver {
 public:
  void on(const StoreEvent& event) noexcept override {
    if (event.kind == StoreEventKind::kConnected) return;
    const std::lock_guard lock(mutex_);
    why_ = event.why;
  }
  // And forgets it.
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(why_, {});
  }

 private:
  std::mutex mutex_;
  std::string why_;
};

int fail(const Failed& failed) {
  std::cerr << "sluice: decide: " << failed.what << '\n';
  return failed.status;
}

int decide_in_memory() {
  MemoryStore store({.max_keys = kMaxKeys, .max_log_bytes = kMaxLogBytes});
  DecisionFilter filter(store);
  return decide(std::cin, std::cout, filter);
}

int decide_in_redis(const server::Config& config) {
  auto options = redis_options_of(config);
  if (!options) return fail(options.error());
  // A file that is read wants answers rather than haste.
  options->deadline = std::max(options->deadline, kPatience);
  Reasons reasons;
  const auto store = RedisStore::open(*options, &reasons);
  if (!store) return fail({store.error(), kUsage});
  if (const auto ready = (*store)->wait_until_ready(kPatience); !ready) {
    return fail({"the store cannot be asked: " + ready.error(), kFailed});
  }
  DecisionFilter filter(**store, [&] { return reasons.take(); });
  return decide(std::cin, std::cout, filter);
}

int decide_with(const StoreFlags& flags) {
  const auto config = config_of(flags);
  if (!config) return fail(config.error());
  std::ios::sync_with_stdio(false);
  return config->store == "memory" ? decide_in_memory() : decide_in_redis(*config);
}

}  // namespace

void add_decide(CLI::App& app, int& status) {
  CLI::App* const command =
      app.add_subcommand("decide", "Decides requests from stdin at the instants they state");
  const auto flags = add_store_flags(*command);
  command->footer(kHelp);
  command->callback([flags, &status] { status = decide_with(*flags); });
}

}  // namespace sluice::cli
