#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_tree.h"
#include "cli/commands.h"

namespace sluice::cli {
namespace {

constexpr const char* kCompletionHelp =
    R"(Packages contain the completions. Without a package:
  sluice completion bash > ~/.local/share/bash-completion/completions/sluice
  sluice completion zsh > ~/.zfunc/_sluice          # a folder in $fpath
  sluice completion fish > ~/.config/fish/completions/sluice.fish

Exit status: 0 success, 2 wrong usage.)";

// All completions first find the command that the words before the cursor call, then complete its
// commands, its options, or the value of an option.

// Quotes a text for a shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

// Returns each command below the program in quotes: 'sluice serve'|'sluice rules'.
std::string patterns(const CLI::App& program, std::string_view between) {
  std::string out;
  for (const CLI::App* command : commands_from(program)) {
    if (command == &program) continue;
    if (!out.empty()) out += between;
    out += shell_quoted(called_as(*command));
  }
  return out;
}

bool takes_files(const CLI::App& command) {
  for (const CLI::Option* option : options_of(command, true)) {
    if (takes_file(*option)) return true;
  }
  return false;
}

// The options with a value, as "sluice serve --config", if the value is a file, or if it is not.
std::string options_with_values(const CLI::App& program, bool files) {
  std::string out;
  for (const CLI::App* command : commands_from(program)) {
    for (const CLI::Option* option : options_of(*command, false)) {
      if (!takes_value(*option) || takes_file(*option) != files) continue;
      for (const std::string& name : names_of(*option)) {
        if (!out.empty()) out += "|";
        out += shell_quoted(called_as(*command) + " " + name);
      }
    }
  }
  return out;
}

// A text inside the brackets of a specification of zsh.
std::string in_brackets(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const CLI::Option& option) {
  std::string out;
  for (const std::string& name : names_of(option)) {
    std::string text = option.get_items_expected_max() > 1 ? "*" : "";
    text += name + "[" + in_brackets(option.get_description()) + "]";
    if (takes_value(option)) text += takes_file(option) ? ":file:_files" : ":value:";
    out += " \\\n        " + shell_quoted(text);
  }
  return out;
}

std::string bash_completion(const CLI::App& program) {
  std::string out = R"(# Completions of sluice for bash, printed by `sluice completion bash`.
_sluice() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command=sluice commands='' options='' files='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
      )" + patterns(program, "|") +
                    R"() command+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$command $prev" in
    )" + options_with_values(program, true) +
                    R"()
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return ;;
    )" + options_with_values(program, false) +
                    R"() COMPREPLY=(); return ;;
  esac
  case "$command" in
)";
  for (const CLI::App* command : commands_from(program)) {
    out += "    " + shell_quoted(called_as(*command)) + ") options='";
    for (const CLI::Option* option : options_of(*command, false)) {
      for (const std::string& name : names_of(*option)) out += name + " ";
    }
    out += "' commands='";
    for (const CLI::App* below : command->get_subcommands({})) out += below->get_name() + " ";
    out += takes_files(*command) ? "' files=1 ;;\n" : "' ;;\n";
  }
  return out + R"(  esac
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  elif [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
  fi
}
complete -F _sluice sluice
)";
}

std::string zsh_completion(const CLI::App& program) {
  std::string out = R"(#compdef sluice
# Completions of sluice for zsh, printed by `sluice completion zsh`.
_sluice() {
  local command=sluice
  integer i at=1
  for (( i = 2; i < CURRENT; i++ )); do
    case "$command $words[i]" in
      ()" + patterns(program, "|") +
                    R"() command+=" $words[i]"; at=i ;;
    esac
  done
  shift $(( at - 1 )) words
  (( CURRENT -= at - 1 ))
  case "$command" in
)";
  for (const CLI::App* command : commands_from(program)) {
    out += "    (" + shell_quoted(called_as(*command)) + ")\n      _arguments";
    for (const CLI::Option* option : options_of(*command, false)) out += zsh_option(*option);
    std::string below;
    for (const CLI::App* each : command->get_subcommands({})) {
      below += " " + each->get_name() + "\\:" + "\"" + in_brackets(each->get_description()) + "\"";
    }
    if (!below.empty()) out += " \\\n        " + shell_quoted("1:command:((" + below + " ))");
    if (takes_files(*command)) out += " \\\n        '*:file:_files'";
    out += " ;;\n";
  }
  return out + "  esac\n}\n_sluice \"$@\"\n";
}

std::string fish_completion(const CLI::App& program) {
  std::string out = R"(# Completions of sluice for fish, printed by `sluice completion fish`.
function __sluice_command
    set -l command sluice
    for word in (commandline -opc)[2..-1]
        switch "$command $word"
            case )" +
                    patterns(program, " ") +
                    R"(
                set command "$command $word"
        end
    end
    echo $command
end
complete -c sluice -f
)";
  for (const CLI::App* command : commands_from(program)) {
    const std::string start =
        "complete -c sluice -n " +
        shell_quoted("test (__sluice_command) = \"" + called_as(*command) + "\"");
    for (const CLI::App* below : command->get_subcommands({})) {
      out += start + " -a " + below->get_name() + " -d " + shell_quoted(below->get_description()) +
             "\n";
    }
    if (takes_files(*command)) out += start + " -F\n";
    for (const CLI::Option* option : options_of(*command, false)) {
      out += start;
      for (const std::string& name : option->get_lnames()) out += " -l " + name;
      for (const std::string& name : option->get_snames()) out += " -s " + name;
      if (takes_value(*option)) out += takes_file(*option) ? " -r -F" : " -x";
      out += " -d " + shell_quoted(option->get_description()) + "\n";
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app, int& status) {
  static const std::map<std::string, std::string (*)(const CLI::App&)> kShells{
      {"bash", bash_completion}, {"fish", fish_completion}, {"zsh", zsh_completion}};
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Prints the completions of a shell");
  command->add_option("SHELL", *shell, "bash, fish or zsh")
      ->required()
      ->check(CLI::IsMember(kShells));
  command->footer(kCompletionHelp);
  const CLI::App* const program = &app;
  command->callback([shell, program, &status] {
    std::cout << kShells.at(*shell)(*program) << std::flush;
    status = std::cout ? 0 : kFailed;
  });
}

}  // namespace sluice::cli
