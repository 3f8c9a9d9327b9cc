#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice::cli {

// The exit status of the program: 0 is success, kFailed a failure, kUsage wrong usage.
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

// Thrown where the work of a command cannot go on: what to print, and the exit status.
// `is_done`: the state is the wanted one already, so that it is no failure if another server has
// changed.
struct Failed : std::runtime_error {
  explicit Failed(const std::string& what, int exit_status = kFailed, bool done = false)
      : std::runtime_error(what), status(exit_status), is_done(done) {}
  int status;
  bool is_done;
};
// Returns what to throw for wrong usage.
inline Failed wrong_usage(const std::string& what) { return Failed(what, kUsage); }

// The parser of the arguments. Its own header takes seconds to compile; only command.cc includes
// it. packaging/manual writes manual pages and completions from --help.

// A handle of an option, a flag or a positional argument of a command.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required() const;
  Option excludes(Option other) const;
  Option show_default() const;
  Option comma_separated() const;  // of the values of a positional argument
  Option take_all() const;         // one value for each use of the option
  Option one_of(const std::vector<std::string>& values) const;
  Option non_negative() const;
  template <typename T>
  Option range(T least, T most) const;
  // `find_error` returns an empty text for a valid value.
  Option check(const std::function<std::string(const std::string&)>& find_error) const;

 private:
  CLI::Option* option_;
};

// A handle of a command.
class Command {
 public:
  // The exit status of run() goes to `status`.
  Command(CLI::App& app, int& status) : app_(&app), status_(&status) {}

  // `help` follows the options.
  Command add_subcommand(const std::string& name, const std::string& description,
                         const std::string& help) const;
  // `type`: what the help calls the value; by default its type.
  template <typename T>
  Option add_option(const std::string& name, T& value, const std::string& description,
                    const std::string& type = {}) const;
  Option add_flag(const std::string& name, bool& value, const std::string& description) const;
  void require_subcommand() const;
  // Whether the arguments have this option; one of the environment does not count.
  bool names(const std::string& option) const;
  // `work` returns the exit status. What it throws is printed as "sluice: NAME: WHAT", without NAME
  // if it is empty.
  void run(const std::string& name, std::function<int()> work) const;

 private:
  CLI::App* app_;
  int* status_;
};

// To be called after reading standard input to its end. Throws Failed if that has failed: to
// std::cin an error looks like the end.
void check_input();
// Returns the text of a file, or of standard input for "-".
Expected<std::string, std::vector<RuleError>> read_file(const std::string& file);
// Prints errors or warnings of a file to standard error, each as a line.
void print_errors(std::span<const RuleError> errors);

// Returns the word as a shell reads it, in quotes if it needs them.
std::string shell_word(std::string_view word);
// Returns " --admin 10.0.0.1:6070" for a shell; nothing without a value.
std::string option_text(std::string_view name, std::string_view value);

// Whether the word is HOST:PORT.
bool is_address(std::string_view word);

// The words of an earlier version, "keys" or "top --by", and those that have replaced them.
using Renamed = std::pair<std::string_view, std::string_view>;

// Adds the commands of a program, and does the work of the command that the arguments name, or
// prints help, the version, or an error in the arguments: what is wrong, a similar word or the new
// one, and the help of the command. Returns the exit status.
int parse(const std::string& about, const std::string& help, const std::string& version,
          std::span<void (*const)(Command)> commands, std::span<const Renamed> renamed, int argc,
          const char* const* argv);

// A kind of file that the program can check.
struct FileKind {
  std::string files;    // "rules files"
  std::string example;  // "rules check rules.yaml"
  // Checks a file, and adds its warnings, of a file with errors too. Returns a summary, "1 rule, 1
  // limit", which may be empty. Errors: all errors of the file.
  std::function<Expected<std::string, std::vector<RuleError>>(const std::string& file,
                                                              std::vector<RuleError>& warnings)>
      check;
  // Adds options to the subcommand; may be empty.
  std::function<void(Command)> add_options = {};
  std::string otherwise = {};  // the file if none is named and it exists; empty: one must be named
};

// Adds the subcommand check for this kind to `command`.
void add_check(Command command, const FileKind& kind);

// The subcommands of the program, one file each; the small ones are in run.cc. `add_X` adds the
// subcommand to `app`.
void add_decide(Command app);
void add_init(Command app);
void add_key(Command app);
void add_ledger(Command app);
void add_replay(Command app);
void add_rules(Command app);
void add_rules_set(Command rules);
void add_serve(Command app);
void add_status(Command app);
void add_suggest(Command app);
void add_top(Command app);
void add_try(Command app);

// Runs the program with these arguments and returns the exit status. Data goes to stdout, errors to
// stderr. Not thread-safe, because it uses the standard streams.
int run(int argc, const char* const* argv);

}  // namespace sluice::cli
