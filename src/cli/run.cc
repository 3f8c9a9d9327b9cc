#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/store_flags.h"
#include "rules/diagnostics.h"
#include "rules/schema.h"
#include "server/api/resp/command.h"
#include "server/config/config.h"
#include "server/config/schema.h"
#include "server/rules/envoy_manager.h"
#include "server/rules/rules_manager.h"
#include "server/runtime/openapi.h"

namespace sluice::cli {
namespace {

constexpr const char* kAbout =
    "A rate limiter: serves decisions over HTTP, gRPC and RESP, checks rules, and tests rules on "
    "access logs.";
constexpr const char* kExamples =
    R"(Exit status: 0 success, 1 failure, 2 wrong usage. Data goes to stdout, errors to stderr.

Examples:
  sluice init
  sluice serve --rules rules.yaml
  sluice rules check rules.yaml
  sluice try rules.yaml 'POST /login ip=192.0.2.1' -n 7
  sluice replay --rules rules.yaml access.log.gz
  sluice replay --rules rules.yaml --html report.html access.log
  sluice suggest --key '{ip}' --harm 0.1% access.log.gz
  sluice decide < requests.jsonl
  sluice key login ip=192.0.2.1
  sluice key api/requests header.x-customer=42 --set limit=100 --for 1h
  sluice status
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

Expected<std::string, std::vector<RuleError>> check_config(const std::string& file,
                                                           std::vector<RuleError>& warnings) {
  auto text = read_file(file);
  if (!text) return text;
  auto config = server::parse_config(*text, file);
  if (!config) return Unexpected{std::move(config.error())};
  const auto error_of = [&file](const std::string& text) {
    const std::size_t end = std::min(text.find("; "), text.size());
    return RuleError{.file = file,
                     .what = text.substr(0, end),
                     .expected = text.substr(std::min(end + 2, text.size()))};
  };
  if (const std::string conflict = server::find_conflict(*config); !conflict.empty()) {
    return Unexpected{std::vector{error_of(conflict)}};
  }
  // The files of rules as the server reads them; those in Redis may be pushed later.
  const RuleTerms terms = server::rule_terms(*config);
  std::vector<RuleError> errors;
  const auto add = [&](const auto& opened) {
    if (!opened) errors.insert(errors.end(), opened.error().begin(), opened.error().end());
  };
  if (!config->rules_in_redis) {
    add(server::RulesManager::open(config->rules, SystemClock::instance(), terms));
  }
  add(server::EnvoyManager::open(config->envoy, terms));
  std::vector<std::string> not_set;
  for (const std::string& wrong : server::find_start_errors(*config, not_set)) {
    errors.push_back(error_of(wrong));
  }
  for (const std::string& variable : not_set) {
    warnings.push_back(error_of(variable));
    warnings.back().is_warning = true;
  }
  if (!errors.empty()) return Unexpected{std::move(errors)};
  return std::string();
}

void add_config(Command app) {
  const Command command = app.add_subcommand(
      "config", "Check configuration files of the server",
      "check also reads the rules, secrets and certificates that a file names, and warns about\n"
      "variables of secrets that are not set. It binds no ports, and asks no Redis.\n\n"
      "Exit status: 0 the files are valid; 1 a file has errors, or cannot be read; 2 wrong "
      "usage.\n\n"
      "Examples:\n  sluice config check\n  sluice config check /etc/sluice/sluice.yaml");
  command.require_subcommand();
  add_check(command, {.files = "configuration files",
                      .example = "config check /etc/sluice/sluice.yaml",
                      .check = check_config,
                      .otherwise = kLocalConfig});
}

constexpr const char* kDocsHelp =
    R"(Print a reference that belongs to this version of Sluice: without NAME, which there are. With
--schema, print a JSON Schema (draft 2020-12), by which editors check and complete such files.

Exit status: 0 printed; 2 there is no such reference or schema.

Examples:
  sluice docs rules
  sluice docs config --schema > sluice.schema.json)";

// A reference that the program prints.
struct Reference {
  std::string_view name;
  std::string_view about;
  std::string (*text)();
  std::string (*schema)();  // null: there is none
};
constexpr std::array<Reference, 4> kReferences{
    {{"commands", "The commands for Redis clients, as in docs/reference/commands.md",
      server::resp::commands_reference, nullptr},
     {"config", "The keys of the server's configuration file, as in docs/reference/config.md",
      [] { return rules::schema::reference(server::config::file()); }, server::config::json_schema},
     {"openapi", "The HTTP API and the administration as OpenAPI 3.1, as in docs/openapi.json",
      server::openapi, nullptr},
     {"rules", "The keys of rules files, as in docs/reference/rules.md",
      [] { return rules::schema::reference(rules::schema::file()); },
      [] { return rules::schema::json_schema(); }}}};

std::string reference_of(const std::string& name, bool is_schema) {
  std::string list;
  std::vector<std::string_view> names;
  for (const Reference& one : kReferences) {
    if (is_schema && one.schema == nullptr) continue;
    if (one.name == name) return is_schema ? one.schema() : one.text();
    names.push_back(one.name);
    list.append(one.name).append(12 - one.name.size(), ' ').append(one.about).append("\n");
  }
  if (name.empty() && !is_schema) return list;
  throw wrong_usage((name.empty()
                         ? "a schema needs a name"
                         : "there is no " + std::string(is_schema ? "schema" : "reference") +
                               " called " + rules::in_quotes(name)) +
                    "; expected " + rules::either(names) + rules::did_you_mean(name, names));
}

void add_docs(Command app) {
  const Command command = app.add_subcommand("docs", "Print a reference or a schema", kDocsHelp);
  auto name = std::make_shared<std::string>();
  auto is_schema = std::make_shared<bool>(false);
  command.add_option("NAME", *name, "commands, config, openapi or rules");
  command.add_flag("--schema", *is_schema, "Print the JSON Schema of the files instead");
  command.run("docs", [name, is_schema] {
    std::cout << reference_of(*name, *is_schema) << std::flush;
    return std::cout ? 0 : kFailed;
  });
}

constexpr Renamed kRenamed[] = {
    {"blocks", "sluice key"},
    {"blocks list", "sluice key list"},
    {"blocks set", "sluice key RULE/LIMIT NAME=VALUE --block TIME"},
    {"blocks unset", "sluice key RULE/LIMIT NAME=VALUE --unblock"},
    {"commands", "sluice docs commands"},
    {"completion", "packaging/manual PROGRAM SHARE"},
    {"config docs", "sluice docs config"},
    {"config schema", "sluice docs config --schema"},
    {"key export --rule", "sluice key export RULE"},
    {"keys", "sluice key dump"},
    {"manual", "man sluice"},
    {"overrides", "sluice key"},
    {"overrides export", "sluice key export"},
    {"overrides import", "sluice key import"},
    {"overrides list", "sluice key list"},
    {"overrides set", "sluice key RULE/LIMIT NAME=VALUE --set limit=N"},
    {"overrides unset", "sluice key RULE/LIMIT NAME=VALUE --unset"},
    {"rules diff --key", "sluice rules diff --rules-key"},
    {"rules docs", "sluice docs rules"},
    {"rules history --key", "sluice rules history --rules-key"},
    {"rules push --key", "sluice rules push --rules-key"},
    {"rules rollback --key", "sluice rules rollback --rules-key"},
    {"rules schema", "sluice docs rules --schema"},
    {"rules show --key", "sluice rules show --rules-key"},
    {"replay --max-keys", "sluice replay --max"},
    {"top --by", "sluice top --sort"},
    {"top -n", "sluice top --reports"},
};

constexpr auto kCommands = std::to_array<void (*)(Command)>(
    {add_config, add_decide, add_docs, add_init, add_key, add_ledger, add_replay, add_rules,
     add_serve, add_status, add_suggest, add_top, add_try});

}  // namespace

int run(int argc, const char* const* argv) {
  occupy_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a write to a closed pipe returns an error
  int status = kFailed;
  try {
    status = parse(kAbout, kExamples, "sluice " SLUICE_VERSION, kCommands, kRenamed, argc, argv);
  } catch (const std::exception& exception) {
    std::cerr << "sluice: " << exception.what() << "\n";
  }
  return flush_output(status);
}

}  // namespace sluice::cli
