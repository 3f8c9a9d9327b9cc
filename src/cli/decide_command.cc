#include <CLI/CLI.hpp>
#include <iostream>
#include <istream>
#include <memory>
#include <ostream>
#include <string>

#include "cli/commands.h"
#include "cli/decide.h"
#include "sluice/memory_store.h"

namespace sluice::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
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
    "A line that is not valid gets {\"error\":\"...\",\"line\":n} in its place, and the exit "
    "status is 1\n"
    "at the end.";

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

int decide(std::istream& in, std::ostream& out) {
  MemoryStore store({.max_keys = kMaxKeys, .max_log_bytes = kMaxLogBytes});
  DecisionFilter filter(store);
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

int decide_with(const std::string& store) {
  if (store != "memory") {
    std::cerr << "sluice: decide: --store '" << store
              << "' is not a store that this version has; expected memory\n";
    return kUsage;
  }
  std::ios::sync_with_stdio(false);
  return decide(std::cin, std::cout);
}

}  // namespace

void add_decide(CLI::App& app, int& status) {
  CLI::App* const command =
      app.add_subcommand("decide", "Decides requests from stdin at the instants they state");
  const auto store = std::make_shared<std::string>("memory");
  command->add_option("--store", *store, "Where the counters are kept")->capture_default_str();
  command->footer(kHelp);
  command->callback([store, &status] { status = decide_with(*store); });
}

}  // namespace sluice::cli
