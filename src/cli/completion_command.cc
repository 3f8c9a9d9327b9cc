#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

// Returns each command below the program in quotes: 'sluice serve'|'sluice rules'.
std::string patterns(Command program, std::string_view between) {
  std::string out;
  for (const Command command : program.all()) {
    if (!command.parent()) continue;
    if (!out.empty()) out += between;
    out += shell_quoted(command.called_as());
  }
  return out;
}

bool takes_files(Command command) {
  for (const Option option : command.options(true)) {
    if (option.takes_file()) return true;
  }
  return false;
}

// The options with a value, as "sluice serve --config", if the value is a file, or if it is not.
std::string options_with_values(Command program, bool files) {
  std::string out;
  for (const Command command : program.all()) {
    for (const Option option : command.options(false)) {
      if (!option.takes_value() || option.takes_file() != files) continue;
      for (const std::string& name : option.names()) {
        if (!out.empty()) out += "|";
        out += shell_quoted(command.called_as() + " " + name);
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

std::string zsh_option(Option option) {
  std::string out;
  for (const std::string& name : option.names()) {
    std::string text = option.can_repeat() ? "*" : "";
    text += name + "[" + in_brackets(option.description()) + "]";
    if (option.takes_value()) text += option.takes_file() ? ":file:_files" : ":value:";
    out += " \\\n        " + shell_quoted(text);
  }
  return out;
}

std::string bash_completion(Command program) {
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
  for (const Command command : program.all()) {
    out += "    " + shell_quoted(command.called_as()) + ") options='";
    for (const Option option : command.options(false)) {
      for (const std::string& name : option.names()) out += name + " ";
    }
    out += "' commands='";
    for (const Command below : command.subcommands()) out += below.name() + " ";
    out += takes_files(command) ? "' files=1 ;;\n" : "' ;;\n";
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

std::string zsh_completion(Command program) {
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
  for (const Command command : program.all()) {
    out += "    (" + shell_quoted(command.called_as()) + ")\n      _arguments";
    for (const Option option : command.options(false)) out += zsh_option(option);
    std::string below;
    for (const Command each : command.subcommands()) {
      below += " " + each.name() + "\\:" + "\"" + in_brackets(each.description()) + "\"";
    }
    if (!below.empty()) out += " \\\n        " + shell_quoted("1:command:((" + below + " ))");
    if (takes_files(command)) out += " \\\n        '*:file:_files'";
    out += " ;;\n";
  }
  return out + "  esac\n}\n_sluice \"$@\"\n";
}

std::string fish_completion(Command program) {
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
  for (const Command command : program.all()) {
    const std::string start =
        "complete -c sluice -n " +
        shell_quoted("test (__sluice_command) = \"" + command.called_as() + "\"");
    for (const Command below : command.subcommands()) {
      out += start + " -a " + below.name() + " -d " + shell_quoted(below.description()) + "\n";
    }
    if (takes_files(command)) out += start + " -F\n";
    for (const Option option : command.options(false)) {
      out += start;
      for (const std::string& name : option.names()) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (option.takes_value()) out += option.takes_file() ? " -r -F" : " -x";
      out += " -d " + shell_quoted(option.description()) + "\n";
    }
  }
  return out;
}

}  // namespace

void add_completion(Command app, int& status) {
  static const std::map<std::string, std::string (*)(Command)> shells{
      {"bash", bash_completion}, {"fish", fish_completion}, {"zsh", zsh_completion}};
  const auto shell = std::make_shared<std::string>();
  const Command command = app.add_subcommand("completion", "Print the completions of a shell");
  command.add_option("SHELL", *shell, "bash, fish or zsh")
      .required()
      .one_of({"bash", "fish", "zsh"});
  command.footer(kCompletionHelp);
  command.callback([shell, app, &status] {
    std::cout << shells.at(*shell)(app) << std::flush;
    status = std::cout ? 0 : kFailed;
  });
}

}  // namespace sluice::cli
