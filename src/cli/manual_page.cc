#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace sluice::cli {
namespace {

// Text of troff. A dash becomes one that can be copied into a shell, and no line starts a request.
std::string in_troff(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (const char c : text) {
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      default: out += c;
    }
  }
  return out;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

// The name of a page: "sluice-rules".
std::string page_name(Command command) {
  std::string name = command.called_as();
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

// The text after the options of --help, in three parts.
struct Footer {
  std::string text;
  std::string exit_status;
  std::string examples;
};

Footer read_footer(const std::string& text) {
  constexpr std::string_view kExit = "Exit status: ";
  constexpr std::string_view kExamples = "Examples:";
  Footer footer;
  std::string* part = &footer.text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kExit)) {
      part = &footer.exit_status;
      line.erase(0, kExit.size());
    } else if (line == kExamples) {
      part = &footer.examples;
      continue;
    } else if (line.empty() && part != &footer.text) {
      part = &footer.text;
    }
    part->append(line).push_back('\n');
  }
  return footer;
}

// Indented lines are shown as they are, the others are filled. Empty lines separate paragraphs.
void append_text(std::string& out, const std::string& text) {
  std::string_view between = ".PP\n";  // what comes before the next line
  bool as_is = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      if (!out.ends_with(".EE\n.RE\n")) between = ".PP\n";
      continue;
    }
    const bool indented = line.starts_with("  ");
    if (as_is != indented) between = indented ? ".PP\n.RS\n.EX\n" : ".EE\n.RE\n.PP\n";
    const bool begins = out.substr(out.rfind('\n', out.size() - 2) + 1).starts_with(".SH");
    if (begins && between.starts_with(".PP\n")) between.remove_prefix(4);
    out.append(between);
    out += in_troff(indented ? std::string_view(line).substr(2) : line) + "\n";
    between = {};
    as_is = indented;
  }
  if (as_is) out += ".EE\n.RE\n";
}

void append_options(std::string& out, Command command) {
  for (const bool positional : {true, false}) {
    for (const Option option : command.options(positional)) {
      out += ".TP\n\\fB" + in_troff(option.shown_name()) + "\\fR" + in_troff(option.shown_value()) +
             "\n" + in_troff(option.description()) + "\n";
    }
  }
}

// A command that has no page of its own.
void append_section(std::string& out, Command command) {
  out += ".SS \"" + in_troff(command.usage()) + "\"\n" + in_troff(command.description()) + ".\n";
  append_options(out, command);
  append_text(out, command.footer());
}

// The commands below a command. Those of the program are named only, for they have pages.
void append_commands(std::string& out, Command command) {
  const auto commands = command.subcommands();
  if (!commands.empty()) out += ".SH COMMANDS\n";
  for (const Command below : commands) {
    if (!command.parent()) {
      out += ".TP\n\\fB" + in_troff(below.called_as()) + "\\fR\n" + in_troff(below.description()) +
             "\n";
      continue;
    }
    for (const Command each : below.all()) append_section(out, each);
  }
}

void append_part(std::string& out, std::string_view title, const std::string& text) {
  if (text.find_first_not_of('\n') == std::string::npos) return;
  out.append(".SH \"").append(title).append("\"\n");
  append_text(out, text);
}

// The commands of the program have pages of their own.
std::string see_also(Command command) {
  std::vector<std::string> names;
  if (command.parent()) {
    names.push_back(page_name(*command.parent()));
  } else {
    for (const Command below : command.subcommands()) names.push_back(page_name(below));
  }
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? ".BR " : " ,\n.BR ") + in_troff(name) + " (1)";
  }
  return out + "\n";
}

}  // namespace

std::string manual_page(Command command) {
  const Footer footer = read_footer(command.footer());
  const std::string name = in_troff(page_name(command));
  std::string description = command.description();
  if (description.ends_with('.')) description.pop_back();
  std::string out = ".TH " + upper_case(name) + " 1 \"\" \"sluice " SLUICE_VERSION "\" \"\"\n";
  out += ".SH NAME\n" + name + " \\- " + in_troff(description) + "\n";
  out += ".SH SYNOPSIS\n.B " + in_troff(command.usage()) + "\n";
  append_part(out, "DESCRIPTION", footer.text);
  out += ".SH OPTIONS\n";
  append_options(out, command);
  append_commands(out, command);
  append_part(out, "EXIT STATUS", footer.exit_status);
  append_part(out, "EXAMPLES", footer.examples);
  return out + ".SH \"SEE ALSO\"\n" + see_also(command);
}

}  // namespace sluice::cli
