#include <algorithm>
#include <chrono>
#include <iostream>
#include <istream>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/decide.h"
#include "cli/store_flags.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/redis_store.h"

namespace sluice::cli {
namespace {

constexpr std::chrono::milliseconds kPatience{2'000};
constexpr std::size_t kMaxKeys = std::size_t{1} << 24;
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 30;

constexpr const char* kDecideHelp =
    R"(Read one request per line from stdin and write one decision per line to stdout, in JSON.
Each request contains an explicit timestamp, in microseconds since the epoch, so the same input
always gives the same output.

  {"at_us":0,"charges":[{"key":"u1","cost":1,"limit":
      {"algorithm":"token_bucket","limit":10,"per":"1s","burst":20}}]}
  {"outcome":"allowed","reason":"ok","limits":
      [{"limit":20,"remaining":19,"reset_after_us":100000}]}

verb: take (default), peek, refund, reset, charge, take_at_most, reserve, release, extend. reserve
needs max_wait_us. cost: default 1. limit: algorithm, limit, per, and the options of the algorithm:
burst, align, slices, weighting, mode, refill. A fixed_window may have {"per":"month",
"zone":"Asia/Shanghai","starts":15}, or per day, week or year. Sluice takes all charges of a line or
none. A denied line and each limit that denied it contain retry_after_us; that of the line is the
longest. It is absent if the reason is never. take_at_most adds taken. reserve and a leaky bucket in
queue mode add delay_us.

With --rules a line may have attributes instead of charges, which these rules decide, with the plans
of the rules and the --overrides of a server with a memory store; the limits are then named:
  {"at_us":0,"attributes":{"path":"/v1/chat","header.x-customer":"42"},"cost":1}

A take of {"algorithm":"concurrency","limit":3,"lease":"30s"} adds a permit, which release and
extend get in place of charges: {"at_us":9,"verb":"release","permit":"TEXT"}.

For a line that is not valid, or that the store could not decide, the output is
{"error":"...","line":n}, and the exit status is 1 at the end.

Without --store the counters are in memory. In Redis they use the format of the server and expire
after 24 hours. Use a separate --prefix for experiments:
  sluice decide --store redis://127.0.0.1:6379 --prefix trial: < requests.jsonl)";

// Reads a line and its line break. Truncates a line that is too long. Returns false at the end of
// the input.
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
    // Flushes if no input is waiting: the caller may wait for this decision.
    if (in.rdbuf()->in_avail() <= 0) out.flush();
  }
  out.flush();
  return filter.had_errors() ? kFailed : 0;
}

// Records the reason of the latest store failure.
class Reasons final : public StoreObserver {
 public:
  void on(const StoreEvent& event) noexcept override {
    if (event.kind == StoreEventKind::kConnected) return;
    const std::lock_guard lock(mutex_);
    why_ = event.why;
  }
  // Returns the reason and clears it.
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(why_, {});
  }

 private:
  std::mutex mutex_;
  std::string why_;
};

int fail_to_decide(const Failed& failed) {
  std::cerr << "sluice: decide: " << failed.what << '\n';
  return failed.status;
}

struct DecideFlags {
  std::shared_ptr<StoreFlags> store;
  std::string rules, overrides;
};

struct Rules {
  std::optional<RuleSet> set;
  Overrides overrides;

  void give(DecisionFilter& filter) const {
    if (set) filter.use(*set, overrides);
  }
};

Expected<bool, Failed> read_rules(const DecideFlags& flags, Rules& rules) {
  if (flags.rules.empty()) {
    if (flags.overrides.empty()) return false;
    return Unexpected{Failed{"--overrides needs --rules FILE", kUsage}};
  }
  auto set = RuleSet::load(flags.rules);
  if (!set) {
    for (const RuleError& error : set.error()) std::cerr << error.to_string() << "\n";
    return Unexpected{Failed{"the rules of '" + flags.rules + "' are wrong"}};
  }
  rules.set = *std::move(set);
  if (flags.overrides.empty()) return true;
  const auto read = read_overrides(flags.overrides, rules.overrides);
  if (!read) return Unexpected{Failed{read.error()}};
  if (!*read) return Unexpected{Failed{flags.overrides + ": there is no such file"}};
  return true;
}

int decide_in_memory(const Rules& rules) {
  MemoryStore store({.max_keys = kMaxKeys, .max_log_bytes = kMaxLogBytes});
  DecisionFilter filter(store);
  rules.give(filter);
  return decide(std::cin, std::cout, filter);
}

int decide_in_redis(const server::Config& config, const Rules& rules) {
  auto options = redis_options_of(config);
  if (!options) return fail_to_decide(options.error());
  // For a batch of requests, a decision matters more than a short deadline.
  options->deadline = std::max(options->deadline, kPatience);
  Reasons reasons;
  const auto store = RedisStore::open(*options, &reasons);
  if (!store) return fail_to_decide({store.error(), kUsage});
  if (const auto ready = (*store)->wait_until_ready(kPatience); !ready) {
    return fail_to_decide({"the store is not available: " + ready.error(), kFailed});
  }
  DecisionFilter filter(**store, [&] { return reasons.take(); });
  rules.give(filter);
  return decide(std::cin, std::cout, filter);
}

int decide_with(const DecideFlags& flags) {
  const auto config = config_of(*flags.store);
  if (!config) return fail_to_decide(config.error());
  Rules rules;
  if (const auto read = read_rules(flags, rules); !read) return fail_to_decide(read.error());
  std::ios::sync_with_stdio(false);
  return config->store == "memory" ? decide_in_memory(rules) : decide_in_redis(*config, rules);
}

}  // namespace

void add_decide(Command app, int& status) {
  const Command command =
      app.add_subcommand("decide", "Decide requests from stdin at explicit timestamps");
  const auto flags = std::make_shared<DecideFlags>();
  flags->store = add_store_flags(command);
  command.add_option("--rules", flags->rules, "The rules file that decides lines with attributes")
      .type_name("FILE");
  command
      .add_option("--overrides", flags->overrides,
                  "The file of overrides of a server (overrides.txt)")
      .type_name("FILE");
  command.footer(kDecideHelp);
  command.callback([flags, &status] { status = decide_with(*flags); });
}

}  // namespace sluice::cli
