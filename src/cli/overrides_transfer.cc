#include "cli/overrides_transfer.h"

#include <boost/json.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/admin_client.h"
#include "cli/commands.h"
#include "cli/override_lines.h"
#include "cli/override_pages.h"

namespace sluice::cli {
namespace {

constexpr const char* kImportHelp =
    R"(Set the overrides in a file: JSON lines, or CSV if the name ends in .csv (docs/overrides.md).
An override of the same counter is replaced; others stay.

The server first checks every line. If one is wrong, the command prints FILE:LINE, what is wrong
and what would be right, and sets nothing. If all lines are right, it then sends them in parts of
2 MiB. With --skip-unknown, it leaves out the lines of rules and limits that are not there, and
prints their numbers.

Exit status: 0 set; 1 a line is wrong, or the overrides could not be set; 2 wrong usage.

Examples:
  sluice overrides import customers.csv
  sluice overrides export | sluice overrides import - --admin 10.0.0.2:6070)";

constexpr const char* kExportHelp =
    R"(Print the overrides of a server to stdout, as JSON lines or CSV that `sluice overrides import`
reads, in no order. The rule may be one that is no longer there.

Exit status: 0 printed; 1 they could not be read, or there is no such rule; 2 wrong usage.

Example:
  sluice overrides export --csv > overrides.csv)";

using Result = Expected<int, Failed>;

struct ImportFlags {
  std::shared_ptr<AdminFlags> admin;
  std::string file;
  bool csv = false;
  bool dry_run = false;
  bool skip_unknown = false;

  bool is_csv() const { return csv || file.ends_with(".csv"); }
};

struct Totals {
  std::uint64_t count = 0, ended = 0, added = 0;
  std::uint64_t room = 0;  // before the first part
  std::uint64_t unknown = 0;
  std::vector<std::uint64_t> unknown_lines = {};  // the first of them

  std::string text(bool counts_repeated) const {
    return std::to_string(count - ended - unknown) + " overrides, " +
           (counts_repeated ? "at most " : "") + std::to_string(added) + " of them new" +
           (ended > 0 ? "; " + std::to_string(ended) + " have ended and are left out" : "") +
           text_of_unknown();
  }

 private:
  std::string text_of_unknown() const {
    if (unknown == 0) return {};
    std::string lines;
    for (const std::uint64_t line : unknown_lines)
      lines.append(lines.empty() ? "" : ", ").append(std::to_string(line));
    if (unknown > unknown_lines.size()) lines += ", ...";
    return "; " + std::to_string(unknown) + " left out, of rules or limits that are not there (" +
           (unknown == 1 ? "line " : "lines ") + lines + ")";
  }
};

Expected<std::vector<OverridePart>> read_parts(const ImportFlags& flags) {
  const auto format = flags.is_csv() ? OverrideFormat::kCsv : OverrideFormat::kJsonLines;
  if (flags.file == "-") return read_override_lines(std::cin, flags.file, format);
  std::ifstream file(flags.file, std::ios::binary);
  if (!file) return Unexpected{flags.file + ": cannot be read; expected a file, or -"};
  return read_override_lines(file, flags.file, format);
}

std::uint64_t number_in(const boost::json::object& json, std::string_view name) {
  const auto* value = json.if_contains(name);
  return value != nullptr && value->is_int64() ? static_cast<std::uint64_t>(value->as_int64()) : 0;
}

// Sends the parts of a file to a server.
class Import {
 public:
  Import(AdminClient& client, const ImportFlags& flags, std::vector<OverridePart> parts)
      : client_(client), flags_(flags), parts_(std::move(parts)) {}

  // Has the server check every line, and changes nothing.
  Expected<Totals, Failed> check() {
    Totals totals;
    for (const OverridePart& part : parts_) {
      if (auto sent = send(part, part.body, "dry_run=true", totals); !sent) {
        return Unexpected{Failed{std::move(sent.error().what)}};
      }
    }
    if (totals.added <= totals.room) return totals;
    return Unexpected{Failed{flags_.file + ": " + std::to_string(totals.added) +
                             " new overrides; the server has room for " +
                             std::to_string(totals.room)}};
  }
  Expected<Totals, Failed> set() && {
    Totals totals;
    std::uint32_t done = 0;  // the last line that can be set
    for (OverridePart& part : parts_) {
      const bool is_last = &part == &parts_.back();
      const auto sent = send(part, std::move(part.body), is_last ? "" : "more=true", totals);
      if (!sent) {
        if (!sent.error().changes_nothing) done = part.lines.back();
        return Unexpected{Failed{sent.error().what + so_far(done)}};
      }
      done = part.lines.back();
    }
    return totals;
  }
  bool has_parts() const noexcept { return parts_.size() > 1; }

 private:
  struct NotSent {
    std::string what;
    bool changes_nothing;
  };

  Expected<bool, NotSent> send(const OverridePart& part, std::string body, std::string query,
                               Totals& totals) {
    if (flags_.skip_unknown) query += query.empty() ? "skip_unknown=true" : "&skip_unknown=true";
    const auto answer = client_.ask("POST", "/v1/overrides?" + query, std::move(body));
    if (!answer) return Unexpected{NotSent{answer.error(), false}};
    const auto json = answer->json();
    if (answer->status != 200) {
      const std::string what = refusal(part, *answer, json.value_or(boost::json::object()));
      return Unexpected{NotSent{what, answer->status < 500}};
    }
    if (!json || !json->contains("count")) return Unexpected{NotSent{client_.strange(), false}};
    add(part, *json, totals);
    return true;
  }

  // The place of a refused line, "FILE:LINE: ", and why it was refused.
  std::string refusal(const OverridePart& part, const AdminClient::Answer& answer,
                      const boost::json::object& problem) const {
    std::string why = client_.refusal(answer);
    while (why.ends_with('.')) why.pop_back();
    if (problem.contains("unknown")) why += "; --skip-unknown leaves out such lines";
    const std::uint64_t line = number_in(problem, "line");
    if (line == 0 || line > part.lines.size()) return flags_.file + ": " + why;
    const auto* name = problem.if_contains("attribute");
    if (!flags_.is_csv() || name == nullptr || !name->is_string()) {
      return place(part.lines[line - 1]) + why;
    }
    const bool has_hint = why.find("; did you mean ") != why.npos;
    return place(1) + why + (has_hint ? "" : hint_for_column(name->as_string()));
  }
  std::string place(std::uint32_t line) const {
    return flags_.file + ":" + std::to_string(line) + ": ";
  }

  static std::string so_far(std::uint32_t line) {
    if (line == 0) return {};
    return "; some lines up to line " + std::to_string(line) +
           " may be set; expected another import of the file";
  }

  static void add(const OverridePart& part, const boost::json::object& json, Totals& totals) {
    constexpr std::size_t kShown = 20;
    if (totals.count == 0) totals.room = number_in(json, "room");
    totals.count += number_in(json, "count");
    totals.ended += number_in(json, "ended");
    totals.added += number_in(json, "new");
    totals.unknown += number_in(json, "unknown");
    const auto* lines = json.if_contains("unknown_lines");
    if (lines == nullptr || !lines->is_array()) return;
    for (const boost::json::value& one : lines->as_array()) {
      const std::uint64_t line = one.is_int64() ? static_cast<std::uint64_t>(one.as_int64()) : 0;
      if (line == 0 || line > part.lines.size() || totals.unknown_lines.size() == kShown) continue;
      totals.unknown_lines.push_back(part.lines[line - 1]);
    }
  }

  AdminClient& client_;
  const ImportFlags& flags_;
  std::vector<OverridePart> parts_;
};

Result import(const ImportFlags& flags) {
  auto parts = read_parts(flags);
  if (!parts) return Unexpected{Failed{parts.error()}};
  const auto client = connect_to(*flags.admin);
  if (!client) return Unexpected{client.error()};
  Import import(**client, flags, *std::move(parts));
  const auto checked = import.check();
  if (!checked) return Unexpected{checked.error()};
  if (flags.dry_run) {
    std::cout << flags.file << ": ok, " << checked->text(import.has_parts()) << '\n';
    return 0;
  }
  const auto done = std::move(import).set();
  if (!done) return Unexpected{done.error()};
  std::cout << flags.file << ": set " << done->text(false) << '\n';
  return 0;
}

// Errors in a file are printed as FILE:LINE, without the name of the program.
int run_import(const ImportFlags& flags) {
  const Result result = import(flags);
  if (result || !result.error().what.starts_with(flags.file + ":")) {
    return finish_overrides("import", result);
  }
  std::cerr << result.error().what << '\n';
  return result.error().status;
}

struct ExportFlags {
  std::shared_ptr<AdminFlags> admin;
  std::string rule;
  bool csv = false;
};

Result print_all(const ExportFlags& flags) {
  const auto client = connect_to(*flags.admin);
  if (!client) return Unexpected{client.error()};
  if (flags.csv) std::cout << csv_header();
  std::string line;
  const auto print = [&](const boost::json::object& one) {
    line.clear();
    if (flags.csv) {
      append_csv(one, line);
    } else {
      line = boost::json::serialize(one) + "\n";
    }
    std::cout << line;
  };
  const auto count = for_each_override(**client, flags.rule, print);
  if (!count) return Unexpected{count.error()};
  return 0;
}

}  // namespace

void add_overrides_import(Command overrides, int& status) {
  const Command command = overrides.add_subcommand("import", "Set the overrides in a file");
  auto flags = std::make_shared<ImportFlags>();
  command.add_option("FILE", flags->file, "The file; - is standard input").required();
  command.add_flag("--csv", flags->csv, "The file is CSV, whatever its name");
  command.add_flag("--dry-run", flags->dry_run, "Check the file without a change");
  command.add_flag("--skip-unknown", flags->skip_unknown,
                   "Leave out lines of rules and limits that are not there");
  flags->admin = add_admin_flags(command);
  command.footer(kImportHelp);
  command.callback([flags, &status] { status = run_import(*flags); });
}

void add_overrides_export(Command overrides, int& status) {
  const Command command = overrides.add_subcommand("export", "Print the overrides for a file");
  auto flags = std::make_shared<ExportFlags>();
  command.add_option("--rule", flags->rule, "Only those of this rule").type_name("NAME");
  command.add_flag("--csv", flags->csv, "Print CSV instead of JSON lines");
  flags->admin = add_admin_flags(command);
  command.footer(kExportHelp);
  command.callback([flags, &status] { status = finish_overrides("export", print_all(*flags)); });
}

}  // namespace sluice::cli
