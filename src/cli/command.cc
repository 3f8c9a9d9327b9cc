#include "cli/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/quoted.h"
#include "replay/text.h"
#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"

namespace sluice::cli {
namespace {

using Errors = std::vector<RuleError>;

// Prints that the file is valid, and its warnings, or its errors. Returns whether it is valid, and
// has no warnings if these count as errors.
bool check_file(const std::string& file, const FileKind& kind, bool is_strict) {
  Errors warnings;
  const auto summary = kind.check(file, warnings);
  if (!summary) print_errors(summary.error());
  print_errors(warnings);
  if (!summary || (is_strict && !warnings.empty())) return false;
  std::cout << file << ": ok" << (summary->empty() ? "" : ", ") << *summary << '\n';
  return true;
}

// The flags of all commands that say which store and which server is asked, and how long.
constexpr std::array<std::string_view, 10> kWhere{
    "store", "config",     "prefix",  "tls-ca",    "password-file",
    "admin", "token-file", "ca-file", "cert-file", "timeout"};

// Flags with a value that says what one call changes, expects or writes.
constexpr std::array<std::string_view, 3> kOfOneCall{"expect", "for", "html"};

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether an environment variable may be the flag. Those of `init`, which writes files, have none;
// nor have flags that are on or off, and those that say what one call does, such as all of `key`: a
// variable that somebody forgot would change, replace or overwrite something.
bool has_variable(const CLI::App& app, const CLI::Option& option, const std::string& flag) {
  const std::string& command = app.get_name();
  if (command == "init" || flag == "help") return false;
  if (command == "serve" || has(kWhere, flag)) return true;
  if (option.get_items_expected_max() == 0 || has(kOfOneCall, flag)) return false;
  return command != "key" && !(command == "sum" && flag == "by");  // SLUICE_BY is a person
}

// Returns the variable of a flag: "SLUICE_TLS_CA" for --tls-ca.
std::string variable_of(std::string_view flag) {
  std::string name = "SLUICE_";
  for (const char c : flag) name += c == '-' ? '_' : base::upper(c);
  return name;
}

// Lets variables of the environment be flags of those commands that the arguments name, if it is
// `on`. Adds the names of the variables of all.
void use_environment(CLI::App& app, bool on, std::set<std::string>& names) {
  std::vector<std::pair<CLI::Option*, std::string>> found;
  for (CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& flags = option->get_lnames();
    if (flags.empty() || !has_variable(app, *option, flags.front())) continue;
    found.emplace_back(option, variable_of(flags.front()));
    names.insert(found.back().second);
  }
  if (on) {
    app.preparse_callback([found = std::move(found)](std::size_t) {
      for (const auto& [option, variable] : found) option->envname(variable);
    });
  }
  for (CLI::App* below : app.get_subcommands(nullptr)) use_environment(*below, on, names);
}

// Lets the options of all commands refuse an empty value, such as of a variable of a script that is
// not set: it would count as absent, so that another server or store is used. Empty variables of
// the environment are absent. An empty key of `suggest` counts all requests together.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_items_expected_max() == 0) continue;
    if (app.get_name() == "suggest" && option->get_lnames().front() == "key") continue;
    option->check([option](const std::string& value) {
      return value.empty() ? "it is empty; expected " + option->get_type_name() : std::string();
    });
  }
  for (CLI::App* below : app.get_subcommands(nullptr)) refuse_empty_values(*below);
}

// Says that a flag which an error names was a variable, or returns an empty text.
std::string variable_in(const CLI::App& app, const std::string& error) {
  const auto& given = app.parse_order();  // without those of the environment
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string flag = "--" + option->get_lnames().front();
    const std::size_t at = error.find(flag);
    if (at == error.npos || error.find_first_of(" :;", at) != at + flag.size()) continue;
    const std::string variable = variable_of(flag.substr(2));
    const char* const value = std::getenv(variable.c_str());
    const bool is_set =
        value != nullptr && *value != '\0' && has_variable(app, *option, flag.substr(2));
    if (is_set && std::find(given.begin(), given.end(), option) == given.end()) {
      return std::string(" (").append(flag).append(" is the environment variable ") + variable +
             ")";
    }
  }
  return {};
}

// Warns about variables whose names are almost those of flags. Others are not for the program: a
// configuration may name one, and Kubernetes sets SLUICE_PORT for a service that is called sluice.
void warn_about_variables(const std::set<std::string>& names) {
  constexpr std::string_view kPrefix = "SLUICE_";
  std::vector<std::string_view> known;
  std::vector<std::string> lower;
  for (const std::string& name : names)
    lower.push_back(base::lower_case(name.substr(kPrefix.size())));
  known.assign(lower.begin(), lower.end());
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable(*one, std::strcspn(*one, "="));
    if (!variable.starts_with(kPrefix) || names.contains(std::string(variable))) continue;
    if (variable == "SLUICE_PORT") continue;  // is almost SLUICE_SORT
    const std::string meant =
        rules::did_you_mean(base::lower_case(variable.substr(kPrefix.size())), known);
    if (meant.empty()) continue;
    const std::size_t quote = meant.find('\'') + 1;
    std::cerr << "sluice: warning: no flag reads the environment variable " << variable
              << "; did you mean " << variable_of(meant.substr(quote, meant.rfind('\'') - quote))
              << "?\n";
  }
}

}  // namespace

void check_input() {
  if (std::ferror(stdin) != 0 || std::cin.bad()) throw Failed("standard input cannot be read");
}

Expected<std::string, std::vector<RuleError>> read_file(const std::string& file) {
  if (file != "-") return rules::read_file(file);
  // Reads one byte more than the maximum, so that the check reports a file that is too long.
  std::string text(rules::kMaxFileBytes + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  check_input();
  return text;
}

void print_errors(std::span<const RuleError> errors) {
  for (const RuleError& error : errors) std::cerr << error.to_string() << '\n';
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string option_text(std::string_view name, std::string_view value) {
  return value.empty() ? "" : " " + std::string(name) + " " + shell_word(value);
}

bool is_address(std::string_view word) {
  const std::size_t colon = word.rfind(':');
  if (colon == word.npos || colon == 0 || word.find_first_of("/=") != word.npos) return false;
  return base::is_digits(word.substr(colon + 1));
}

void add_check(Command app, const FileKind& kind) {
  const Command command = app.add_subcommand(
      "check", "Check " + kind.files + " and print every error",
      std::string("Exit status: 0 no errors; 1 errors") +
          (kind.add_options ? ", or warnings with --strict" : "") +
          ", or a file cannot be read; 2 wrong usage.\n\nExamples:\n  sluice " + kind.example);
  auto files = std::make_shared<std::vector<std::string>>();
  auto config = std::make_shared<std::string>();  // also of the environment, as for serve
  const std::string about = "The files; - is standard input";
  if (kind.otherwise.empty()) {
    command.add_option("FILE", *files, about).required();
  } else {
    command.add_option("FILE", *files, about + " [./" + kind.otherwise + "]");
    command.add_option("--config", *config, "Check this file, if no other is named", "FILE");
  }
  auto strict = std::make_shared<bool>(false);
  if (kind.add_options) {
    command.add_flag("--strict", *strict, "Warnings count as errors");
    kind.add_options(command);
  }
  command.run({}, [files, config, strict, kind] {
    if (files->empty() && !config->empty()) files->push_back(*config);
    if (files->empty() && !std::filesystem::is_regular_file(kind.otherwise)) {
      throw wrong_usage("there is no file " + kind.otherwise + "; expected FILE after " +
                        kind.example.substr(0, kind.example.rfind(' ')));
    }
    if (files->empty()) files->push_back(kind.otherwise);
    bool are_valid = true;
    for (const std::string& file : *files) are_valid = check_file(file, kind, *strict) && are_valid;
    return are_valid ? 0 : kFailed;
  });
}

Option Option::required() const { return Option(*option_->required()); }
Option Option::excludes(Option other) const { return Option(*option_->excludes(other.option_)); }
Option Option::show_default() const { return Option(*option_->capture_default_str()); }

Option Option::comma_separated() const { return Option(*option_->delimiter(',')); }

Option Option::take_all() const {
  option_->expected(1)->allow_extra_args(false);  // else the first of several logs is a value
  return Option(*option_->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
}

Option Option::one_of(const std::vector<std::string>& values) const {
  return Option(*option_->check(CLI::IsMember(values)));
}

Option Option::non_negative() const { return Option(*option_->check(CLI::NonNegativeNumber)); }

template <typename T>
Option Option::range(T least, T most) const {
  option_->check(CLI::Range(least, most));
  if constexpr (std::is_floating_point_v<T>) {  // NaN is neither below a range nor above it
    option_->check([](const std::string& text) {
      T value{};
      const bool is_nan = CLI::detail::lexical_cast(text, value) && std::isnan(value);
      return std::string(is_nan ? "expected a number" : "");
    });
  }
  return *this;
}
template Option Option::range(int, int) const;
template Option Option::range(std::uint32_t, std::uint32_t) const;
template Option Option::range(std::uint64_t, std::uint64_t) const;
template Option Option::range(double, double) const;

Option Option::check(const std::function<std::string(const std::string&)>& find_error) const {
  return Option(*option_->check(find_error));
}

Command Command::add_subcommand(const std::string& name, const std::string& description,
                                const std::string& help) const {
  return {*app_->add_subcommand(name, description)->footer(help), *status_};
}

template <typename T>
Option Command::add_option(const std::string& name, T& value, const std::string& description,
                           const std::string& type) const {
  CLI::Option& option = *app_->add_option(name, value, description);
  if (!type.empty()) option.type_name(type);
  return Option(option);
}
using Text = const std::string&;
template Option Command::add_option(Text, std::string&, Text, Text) const;
template Option Command::add_option(Text, std::optional<std::string>&, Text, Text) const;
template Option Command::add_option(Text, std::vector<std::string>&, Text, Text) const;
template Option Command::add_option(Text, std::uint32_t&, Text, Text) const;
template Option Command::add_option(Text, std::uint64_t&, Text, Text) const;
template Option Command::add_option(Text, std::optional<std::uint64_t>&, Text, Text) const;
template Option Command::add_option(Text, double&, Text, Text) const;

Option Command::add_flag(const std::string& name, bool& value,
                         const std::string& description) const {
  return Option(*app_->add_flag(name, value, description));
}

void Command::require_subcommand() const { app_->require_subcommand(1); }
bool Command::names(const std::string& option) const {
  const auto& given = app_->parse_order();  // without those of the environment
  return std::find(given.begin(), given.end(), app_->get_option(option)) != given.end();
}

namespace {

// Throws Failed if the arguments before the name of a command are those of the command above it.
void refuse_options(const CLI::App& above, const CLI::App& command) {
  const auto& given = above.parse_order();  // without those of the environment
  if (given.empty()) return;
  throw wrong_usage(base::in_quotes(command.get_name()) + " is a command; expected it without " +
                    given.front()->get_name() + " before it");
}

}  // namespace

void Command::run(const std::string& name, std::function<int()> work) const {
  app_->callback([&status = *status_, app = app_, name, work = std::move(work)] {
    if (!app->get_subcommands().empty()) return;  // only that command works
    try {
      if (const CLI::App* const above = app->get_parent(); above != nullptr)
        refuse_options(*above, *app);
      status = work();
    } catch (const Failed& failed) {
      std::cerr << "sluice: " << name << (name.empty() ? "" : ": ") << failed.what()
                << variable_in(*app, failed.what()) << '\n';
      status = failed.status;
    }
  });
}

namespace {

using Words = std::vector<std::string>;

// Returns the words of a command: "rules push". Those of the program are empty.
std::string path_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return {};
  const std::string above = path_of(*app.get_parent());
  return above + (above.empty() ? "" : " ") + app.get_name();
}

std::string see_help(const std::string& path) {
  return "`sluice " + path + (path.empty() ? "" : " ") + "--help`";
}

// Says what has replaced the words, and which help describes it, or returns an empty text.
std::string find_renamed(const std::string& words, std::span<const Renamed> renamed) {
  std::string_view before, now;  // of the longest words
  for (const auto& [words_before, words_now] : renamed) {
    const bool begins = (words + " ").starts_with(std::string(words_before) + " ");
    if (begins && before.size() < words_before.size()) {
      before = words_before;
      now = words_now;
    }
  }
  if (before.empty()) return {};
  std::string is_now = base::in_quotes(before) + " is now `" + std::string(now) + "`";
  if (!now.starts_with("sluice ")) return is_now;
  const std::string_view command = now.substr(0, now.find_first_of("-ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
  return is_now + "; see `" + std::string(command) + (command.ends_with(' ') ? "" : " ") +
         "--help`";
}

Words known_words(const CLI::App& app, bool options) {
  Words words;
  if (!options) {
    for (const CLI::App* one : app.get_subcommands({})) words.push_back(one->get_name());
    return words;
  }
  for (const CLI::Option* one : app.get_options()) {
    for (const std::string& name : one->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

// Suggests the option that an argument is the value of, or returns an empty text.
std::string option_for(const std::string& word, const Words& options) {
  const auto has = [&](std::string_view option) {
    return std::ranges::find(options, option) != options.end();
  };
  const std::string shown = replay::printable(word);
  if (is_address(word) && has("--admin")) return "--admin " + shown;
  if (word.ends_with("sluice.yaml") && has("--config")) return "--config " + shown;
  const bool is_yaml = word.ends_with(".yaml") || word.ends_with(".yml");
  return is_yaml && has("--rules") ? "--rules " + shown : "";
}

// Suggests the commands that have the word as a command, such as `rules check` for `check`, or
// else a similar word.
std::string meant_for(const CLI::App& app, const std::string& word, const Words& known) {
  std::string meant;
  for (const CLI::App* one : app.get_subcommands({})) {
    const Words inner = known_words(*one, false);
    if (std::ranges::find(inner, word) == inner.end()) continue;
    meant += (meant.empty() ? "`sluice " : " or `sluice ") + one->get_name() + " " + word + "`";
  }
  if (!meant.empty()) return "; did you mean " + meant + "?";
  return rules::did_you_mean(word, {known.begin(), known.end()});
}

// Says which of the words is not known to the command, which was meant, and which help says more.
std::string unknown_word(const CLI::App& command, const Words& rest,
                         std::span<const Renamed> renamed) {
  const std::string path = path_of(command);
  const auto is_option = [](const std::string& word) { return word.starts_with('-'); };
  const auto option = std::find_if(rest.begin(), rest.end(), is_option);
  const bool has_commands = !command.get_subcommands({}).empty();
  const bool names_command = has_commands && !is_option(rest.front());
  std::string words = path;
  for (auto word = names_command ? rest.begin() : option; word != rest.end(); ++word) {
    words.append(words.empty() ? "" : " ").append(word->substr(0, word->find('=')));
    if (is_option(*word)) break;
  }
  if (std::string now = find_renamed(words, renamed); !now.empty()) return now;
  const std::string begin = path + (path.empty() ? "" : ": ");
  const std::string help = see_help(path);
  const bool names_option = !names_command && option != rest.end();
  const std::string word = names_option ? option->substr(0, option->find('=')) : rest.front();
  if (!names_command && !names_option) {
    const std::string meant = option_for(word, known_words(command, true));
    return begin + "the argument " + base::in_quotes(word) + " is one too many; " +
           (meant.empty() ? "see " : "did you mean " + meant + "? See ") + help;
  }
  const Words known = known_words(command, names_option);
  const bool is_port = word == "--port" && std::ranges::find(known, "--http") != known.end();
  const std::string hint = is_port        ? "; did you mean --http HOST:PORT?"
                           : names_option ? rules::did_you_mean(word, {known.begin(), known.end()})
                                          : meant_for(command, word, known);
  return begin + "there is no " + std::string(names_option ? "option " : "command ") +
         base::in_quotes(word) + (hint.empty() ? "; see " : hint + " See ") + help;
}

// Describes wrong arguments: an unknown word first, because it is mostly why others are missing.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error,
                        std::span<const Renamed> renamed) {
  const CLI::App* last = &program;  // of the commands that the arguments name
  for (;;) {
    const Words rest = last->remaining();
    if (!rest.empty()) return unknown_word(*last, rest, renamed);
    const auto below = last->get_subcommands();
    if (below.empty()) break;
    last = below.back();
  }
  const std::string path = path_of(*last);
  std::string what = error.what();
  if (what == "A subcommand is required") {
    what = "a command is missing; expected one of:";
    for (const std::string& name : known_words(*last, false)) {
      what.append(what.ends_with(':') ? " " : ", ").append(name);
    }
  }
  if (path == "rules diff" && what == "OLD is required") {
    what += ": `sluice status` says how the active rules differ from the files of the server";
  }
  constexpr std::string_view kRepeated = ": At Most 1 required but received ";
  if (const std::size_t at = what.find(kRepeated); at != what.npos) {
    const std::string option = what.substr(0, at);
    what = option + " is given " + what.substr(at + kRepeated.size()) + " times; expected it once";
    if (option == "--admin") {
      what +=
          ": repeat the command for another server, unless they share these rules or overrides "
          "in Redis";
    }
  }
  return path + (path.empty() ? "" : ": ") + what + variable_in(*last, what) + "; see " +
         see_help(path);
}

}  // namespace

// Help and the version go to stdout with status 0, errors in arguments to stderr with status 2.
int parse(const std::string& about, const std::string& help, const std::string& version,
          std::span<void (*const)(Command)> commands, std::span<const Renamed> renamed, int argc,
          const char* const* argv) {
  int status = 0;
  CLI::App app(about, "sluice");
  app.footer(help);
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  for (const auto add : commands) add(Command(app, status));
  refuse_empty_values(app);
  // The words that people try first.
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && (words.front() == "help" || words.front() == "version")) {
    words.push_back("--" + words.front());
    words.erase(words.begin());
    const CLI::App* about_this = &app;
    for (auto word = words.begin(); !word->starts_with('-'); ++word) {
      const auto is_asked = [&](const CLI::App* one) { return one->get_name() == *word; };
      const auto asked = about_this->get_subcommands(is_asked);
      if (asked.empty()) {
        words.pop_back();
        std::cerr << "sluice: " << unknown_word(*about_this, {word, words.end()}, renamed) << '\n';
        return kUsage;
      }
      about_this = asked.front();
    }
  }
  // Help is about flags, whatever the variables are.
  const bool is_help = std::ranges::find(words, "--help") != words.end() ||
                       std::ranges::find(words, "-h") != words.end();
  std::set<std::string> variables;
  use_environment(app, !is_help, variables);
  warn_about_variables(variables);
  std::reverse(words.begin(), words.end());  // as the parser wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error, std::cout, std::cerr);
    std::cerr << "sluice: " << usage_error(app, error, renamed) << '\n';
    return kUsage;
  }
  return status;
}

}  // namespace sluice::cli
