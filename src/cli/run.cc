#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "server/api/resp/command.h"
#include "server/config/config.h"
#include "server/config/schema.h"

namespace sluice::cli {
namespace {

constexpr const char* kAbout =
    "A rate limiter: serves decisions over HTTP, gRPC and RESP, checks rules, and tests rules on "
    "access logs.";
constexpr const char* kExamples =
    R"(Exit status: 0 success, 1 failure, 2 wrong usage. Data goes to stdout, errors to stderr.

Examples:
  sluice serve --rules rules.yaml
  sluice rules check rules.yaml
  sluice try rules.yaml 'POST /login ip=192.0.2.1' -n 7
  sluice replay --rules rules.yaml access.log.gz
  sluice replay --rules rules.yaml --html report.html access.log
  sluice suggest --key '{ip}' --harm 0.1% access.log.gz
  sluice decide < requests.jsonl
  sluice keys --store redis://127.0.0.1:6379
  sluice overrides set api/requests header.x-customer=42 --limit 100
  sluice top

`sluice SUBCOMMAND --help` describes one subcommand.)";

// If a standard stream is closed, the next file that is opened gets its number, and the output
// would go into that file. Opens /dev/null instead, in the wrong mode, so that writing still fails.
void occupy_closed_streams() {
  constexpr std::array<int, 3> kModes = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int stream = 0; stream < 3; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    static_cast<void>(::open("/dev/null", kModes[static_cast<std::size_t>(stream)]));
  }
}

// Returns whether the reader of standard output is gone, such as `| head` after its last line.
bool reader_has_left() {
  pollfd standard_output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&standard_output, 1, 0) == 1 && (standard_output.revents & POLLERR) != 0;
}

// Flushes standard output. Unwritten data is a failure, unless the reader is gone.
int flush_output(int status) {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (flushed && std::cout) return status;
  const int error = errno;
  if (error == EPIPE || reader_has_left()) return status;
  std::fprintf(stderr, "sluice: cannot write to standard output: %s\n",
               error != 0 ? std::strerror(error) : "an earlier write failed");
  return status == 0 ? kFailed : status;
}

Expected<std::string, std::vector<RuleError>> check_config(std::string_view text,
                                                           const std::string& file,
                                                           std::vector<RuleError>& /*warnings*/) {
  auto config = server::parse_config(text, file);
  if (!config) return Unexpected{std::move(config.error())};
  if (const std::string conflict = server::find_conflict(*config); !conflict.empty()) {
    const std::size_t end = conflict.find("; ");
    RuleError error{
        .file = file, .what = conflict.substr(0, end), .expected = conflict.substr(end + 2)};
    return Unexpected{std::vector{std::move(error)}};
  }
  return std::string();
}

void add_config(Command app, int& status) {
  add_file_commands(
      app.add_subcommand("config", "Check and document configuration files of the server"), status,
      {.files = "configuration files",
       .guide_file = "docs/config.md",
       .check = check_config,
       .schema = server::config::json_schema,
       .keys = &server::config::file()});
}

void add_commands(Command app, int& status) {
  const Command command = app.add_subcommand(
      "commands", "Print the commands for Redis clients, as in docs/commands.md");
  command.run(status, {}, [] {
    std::cout << server::resp::commands_reference() << std::flush;
    return std::cout ? 0 : kFailed;
  });
}

int parse_and_work(int argc, const char* const* argv) {
  int status = 0;
  const auto add = [&status](Command app) {
    add_blocks(app, status);
    add_commands(app, status);
    add_config(app, status);
    add_decide(app, status);
    add_keys(app, status);
    add_overrides(app, status);
    add_replay(app, status);
    add_rules(app, status);
    add_serve(app, status);
    add_suggest(app, status);
    add_top(app, status);
    add_try(app, status);
    app.footer(kExamples);  // last, because subcommands inherit the footer of their parent
  };
  return parse(kAbout, "sluice " SLUICE_VERSION, add, argc, argv).value_or(status);
}

}  // namespace

int run(int argc, const char* const* argv) {
  occupy_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a write to a closed pipe returns an error
  int status = kFailed;
  try {
    status = parse_and_work(argc, argv);
  } catch (const std::exception& exception) {
    std::cerr << "sluice: " << exception.what() << "\n";
  }
  return flush_output(status);
}

}  // namespace sluice::cli
