// `sluice key export` and `import`: the overrides of a server as JSON lines or CSV. An import is
// checked as a whole before its first change is sent.

#include "cli/key_command.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/csv.h"
#include "base/json_writer.h"
#include "base/quoted.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "rules/counter_key.h"
#include "rules/diagnostics.h"
#include "sluice/overrides.h"

namespace sluice::cli {

namespace {

constexpr const char* kImportHelp =
    R"(Set the overrides in a file: JSON lines, or CSV if the name ends in .csv (docs/keys.md).
An override of the same counter is replaced; others stay.

The server first checks every line. If one is wrong, the command prints FILE:LINE, what is wrong
and what would be right, and sets nothing. If all lines are right, it then sends them in parts of
256 KiB. With --skip-unknown, it leaves out the lines of rules and limits that are not there, and
prints their numbers.

Exit status: 0 set; 1 a line is wrong, or the overrides could not be set; 2 wrong usage.

Examples:
  sluice key import customers.csv
  sluice key export | sluice key import - --admin 10.0.0.2:6070)";

constexpr const char* kExportHelp =
    R"(Print the overrides of a server to stdout, as JSON lines or CSV that `sluice key import`
reads, in no order, and then the blocks of `block` and --block that have not ended. An import makes
overrides of these, which block until the same instant, or blocks if the key has an override, which
stays. The rule may be one that is no longer there.

While Redis is away, servers know the overrides, but not these blocks: the overrides are printed,
stderr says that others are missing, and the exit status is 1. So it is for an hour after Redis has
lost overrides, unless they are set again. To keep an export, write another file and rename it.

With --lost, it prints instead what the server knew when Redis came back without its data: at most
10,000 overrides, for an hour, except for those that are set again or were removed by --unset. Each
server has what it knew itself, until it restarts. The blocks that only Redis knew are in no server.

Exit status: 0 printed; 1 overrides or blocks could not be read, or there is no such rule; 2 wrong usage.

Examples:
  sluice key export --csv > overrides.csv
  sluice key export api > api.jsonl
  sluice key export --lost | sluice key import -)";

struct ImportFlags {
  std::shared_ptr<AdminFlags> admin;
  std::string file;
  bool csv = false;
  bool dry_run = false;
  bool skip_unknown = false;

  bool is_csv() const { return csv || file.ends_with(".csv"); }
};

std::vector<OverridePart> read_parts(const ImportFlags& flags) {
  std::ifstream file;
  if (flags.file != "-") file.open(flags.file, std::ios::binary);
  if (!file) throw Failed(flags.file + ": cannot be read; expected a file, or -");
  auto parts = read_override_lines(flags.file == "-" ? std::cin : file, flags.file, flags.is_csv());
  if (flags.file == "-") check_input();
  if (!parts) throw Failed(parts.error());
  return *std::move(parts);
}

// Sends the parts of a file to a server.
class Import {
 public:
  Import(AdminClient& client, const ImportFlags& flags, std::vector<OverridePart> parts)
      : client_(client), flags_(flags), parts_(std::move(parts)) {}

  // Has the server check every line, and changes nothing.
  void check() {
    for (const OverridePart& part : parts_) send(part, part.body, "dry_run=true");
    if (added_ <= room_) return;
    throw Failed(flags_.file + ": " + std::to_string(added_) +
                 " new overrides; the server has room for " + std::to_string(room_));
  }
  void set() {
    count_ = ended_ = added_ = unknown_ = 0;
    unknown_lines_.clear();
    for (OverridePart& part : parts_) {
      const bool is_last = &part == &parts_.back();
      may_be_set_ = part.lines.back();
      send(part, std::move(part.body), is_last ? "" : "more=true");
      was_set_ = may_be_set_;
    }
  }
  // What was sent, for people.
  std::string text() const {
    const bool counts_repeated = was_set_ == 0 && parts_.size() > 1;
    return std::to_string(count_ - ended_ - unknown_) + " overrides, " +
           (counts_repeated ? "at most " : "") + std::to_string(added_) + " of them new" +
           (ended_ > 0 ? "; " + std::to_string(ended_) + " have ended and are left out" : "") +
           text_of_unknown();
  }

 private:
  std::string text_of_unknown() const {
    if (unknown_ == 0) return {};
    std::string lines;
    for (const std::uint32_t line : unknown_lines_)
      lines.append(lines.empty() ? "" : ", ").append(std::to_string(line));
    if (unknown_ > unknown_lines_.size()) lines += ", ...";
    return "; " + std::to_string(unknown_) + " left out, of rules or limits that are not there (" +
           (unknown_ == 1 ? "line " : "lines ") + lines + ")";
  }

  void send(const OverridePart& part, std::string body, std::string query) {
    if (flags_.skip_unknown) query += query.empty() ? "skip_unknown=true" : "&skip_unknown=true";
    AdminClient::Answer answer;
    try {
      answer = client_.ask("POST", "/v1/overrides?" + query, std::move(body));
    } catch (const Failed& failed) {
      throw Failed(failed.what() + so_far(may_be_set_));
    }
    const auto json = json_of(answer);
    if (answer.status != 200) {
      const std::string what = refusal(part, answer, json.value_or(boost::json::object()));
      throw Failed(what + so_far(answer.status < 500 ? was_set_ : may_be_set_));
    }
    if (!json || !json->contains("count")) throw Failed(client_.strange() + so_far(may_be_set_));
    add(part, *json);
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

  void add(const OverridePart& part, const boost::json::object& json) {
    constexpr std::size_t kShown = 20;
    if (count_ == 0) room_ = number_in(json, "room");
    count_ += number_in(json, "count");
    ended_ += number_in(json, "ended");
    added_ += number_in(json, "new");
    unknown_ += number_in(json, "unknown");
    const auto* lines = json.if_contains("unknown_lines");
    if (lines == nullptr || !lines->is_array()) return;
    for (const boost::json::value& one : lines->as_array()) {
      const std::uint64_t line = one.is_int64() ? static_cast<std::uint64_t>(one.as_int64()) : 0;
      if (line == 0 || line > part.lines.size() || unknown_lines_.size() == kShown) continue;
      unknown_lines_.push_back(part.lines[line - 1]);
    }
  }

  AdminClient& client_;
  const ImportFlags& flags_;
  std::vector<OverridePart> parts_;
  // The last lines that are set, and that may be set. 0: none.
  std::uint32_t was_set_ = 0, may_be_set_ = 0;
  // Of check() or of set():
  std::uint64_t count_ = 0, ended_ = 0, added_ = 0, unknown_ = 0;
  std::uint64_t room_ = 0;                    // before the first part
  std::vector<std::uint32_t> unknown_lines_;  // the first of them
};

int import(const ImportFlags& flags) try {
  auto parts = read_parts(flags);
  AdminClient client(*flags.admin);
  Import import(client, flags, std::move(parts));
  import.check();
  if (!flags.dry_run) import.set();
  std::cout << flags.file << (flags.dry_run ? ": ok, " : ": set ") << import.text() << '\n';
  return 0;
} catch (const Failed& failed) {
  // Errors in a file are printed as FILE:LINE, without the name of the program.
  if (!std::string_view(failed.what()).starts_with(flags.file + ":")) throw;
  std::cerr << failed.what() << '\n';
  return failed.status;
}

// Prints the blocks as overrides. Returns why the export lacks some, or an empty text.
std::string print_blocks(AdminClient& client, const std::string& rule,
                         const std::function<bool(const boost::json::object&)>& print) try {
  const bool more = for_each_block(client, rule, [&](const boost::json::object& one) {
    if (one.contains("effective")) return true;
    return print({{"counter", one.at("counter")}, {"blocked", true}, {"until", one.at("until")}});
  });
  if (more) return "there are more blocks than a server can list (10000)";
  const boost::json::object status = client.ask_json("GET", "/v1/status");
  if (status.contains("overrides_unknown")) {
    return "this server has not read the overrides in Redis yet";
  }
  const auto* const lost = status.if_contains("overrides_lost");
  if (lost == nullptr) return {};
  return "Redis has lost overrides (" + std::to_string(number_in(lost->as_object(), "count")) +
         ") within the last hour; sluice key export --lost has them";
} catch (const Failed& failed) {
  return failed.what();
}

int print_all(const AdminFlags& admin, const std::string& rule, bool is_csv, bool lost) {
  AdminClient client(admin);
  if (is_csv) std::cout << csv_header();
  std::string line;
  std::uint64_t count = 0;
  const auto print = [&](const boost::json::object& one) {
    line.clear();
    if (is_csv) {
      append_csv(one, line);
    } else {
      line = boost::json::serialize(one) + "\n";
    }
    std::cout << line;
    ++count;
    return true;
  };
  for_each_override(client, rule, print, lost);
  if (lost) return 0;
  const std::string missing = print_blocks(client, rule, print);
  if (missing.empty()) return 0;
  throw Failed(missing + "; " + std::to_string(count) +
               " lines are printed, and others are missing");
}

}  // namespace

void add_key_import(Command key) {
  const Command command = key.add_subcommand("import", "Set the overrides in a file", kImportHelp);
  auto flags = std::make_shared<ImportFlags>();
  command.add_option("FILE", flags->file, "The file; - is standard input").required();
  command.add_flag("--csv", flags->csv, "The file is CSV, whatever its name");
  command.add_flag("--dry-run", flags->dry_run, "Check the file without a change");
  command.add_flag("--skip-unknown", flags->skip_unknown,
                   "Leave out lines of rules and limits that are not there");
  flags->admin = add_admin_flags(command);
  command.run("key import", [flags] { return import(*flags); });
}

void add_key_export(Command key) {
  const Command command =
      key.add_subcommand("export", "Print the overrides for a file", kExportHelp);
  auto rule = std::make_shared<std::string>();
  auto is_csv = std::make_shared<bool>(false);
  auto lost = std::make_shared<bool>(false);
  command.add_option("RULE", *rule, "Only those of this rule");
  command.add_flag("--csv", *is_csv, "Print CSV instead of JSON lines");
  command.add_flag("--lost", *lost, "Print those that the server knew and Redis has lost instead");
  auto admin = add_admin_flags(command);
  command.run("key export",
              [rule, is_csv, lost, admin] { return print_all(*admin, *rule, *is_csv, *lost); });
}

namespace {

using base::in_quotes;
using Cells = std::vector<std::string>;

constexpr std::size_t kLongestLine = 65'536;

// The columns of a CSV file with a meaning of their own; others are attributes.
constexpr std::array<std::string_view, 12> kColumns = {"counter", "limit",   "per",        "burst",
                                                       "plan",    "blocked", "unlimited",  "until",
                                                       "lease",   "rule",    "limit_name", "for"};
constexpr std::size_t kExported = 8;  // this many of them are in an export
// Begins the name of an attribute that has the name of a column.
constexpr std::string_view kMark = "attribute.";

Cells cells_of(std::string_view line) {
  Cells cells;
  base::CsvFields fields(line);
  for (std::string_view field; fields.next(field);) {
    cells.push_back(fields.doubled() ? base::undoubled(field) : std::string(field));
  }
  if (!fields.error().empty()) throw Failed(std::string(fields.error()));
  return cells;
}

bool is_column(std::string_view name) {
  return std::find(kColumns.begin(), kColumns.end(), name) != kColumns.end();
}

std::string attribute_of(const std::string& column) {
  return column.starts_with(kMark) ? column.substr(kMark.size()) : column;
}

// Whether two columns have the same meaning.
bool is_same(const std::string& a, const std::string& b) {
  return a == b || (!is_column(a) && !is_column(b) && attribute_of(a) == attribute_of(b));
}

void check_header(const Cells& names) {
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!has("counter") && !(has("rule") && has("limit_name"))) {
    throw Failed(
        "the first line names no counter; expected the column counter, or the columns rule, "
        "limit_name and those of attributes");
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty()) throw Failed("a column has no name; expected one in the first line");
    if (std::any_of(names.begin(), name, [&](const auto& one) { return is_same(one, *name); })) {
      throw Failed("the column " + in_quotes(*name) + " is there twice; expected it once");
    }
  }
}

std::uint64_t number_of(const std::string& column, const std::string& cell) {
  if (const auto number = base::read_number<std::uint64_t>(cell)) return *number;
  throw Failed(in_quotes(column) + " is " + in_quotes(cell) +
               "; expected a whole number from 0 to 9007199254740991");
}

void write_cell(const std::string& column, const std::string& cell, base::JsonWriter& json) {
  if (column == "limit" || column == "burst") {
    json.member(column, number_of(column, cell));
  } else if (column != "blocked" && column != "unlimited") {
    json.member(column, cell);
  } else if (cell == "true") {
    json.member(column, true);
  } else if (cell != "false") {
    throw Failed(in_quotes(column) + " is " + in_quotes(cell) +
                 "; expected true, false or nothing");
  }
}

std::string json_line(const Cells& names, const Cells& cells) {
  if (cells.size() != names.size()) {
    throw Failed("the line has " + std::to_string(cells.size()) + " fields; expected " +
                 std::to_string(names.size()) + " as in the first line");
  }
  base::JsonWriter json;
  json.begin_object();
  bool has_attributes = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (cells[i].empty()) continue;
    if (base::find_invalid_utf8(cells[i]) != cells[i].npos) {
      throw Failed(in_quotes(names[i]) + " is not UTF-8; expected UTF-8");
    }
    if (is_column(names[i])) {
      write_cell(names[i], cells[i], json);
    } else {
      has_attributes = true;
    }
  }
  if (has_attributes) {
    json.key("attributes").begin_object();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!cells[i].empty() && !is_column(names[i])) json.member(attribute_of(names[i]), cells[i]);
    }
    json.end_object();
  }
  return std::string(json.end_object().view());
}

// Returns a line as JSON; an empty text if it has no override. `names`: of the columns of a CSV
// file, which its first line sets.
std::string read_line(std::string_view line, bool is_csv, Cells& names) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > kLongestLine) {
    throw Failed("the line has " + std::to_string(line.size()) + " bytes; expected at most " +
                 std::to_string(kLongestLine));
  }
  if (!is_csv || line.empty()) return std::string(line);
  Cells cells = cells_of(line);
  if (!names.empty()) return json_line(names, cells);
  check_header(cells);
  names = std::move(cells);
  return {};
}

}  // namespace

Expected<std::vector<OverridePart>> read_override_lines(std::istream& in, const std::string& file,
                                                        bool is_csv, std::size_t part_bytes) {
  std::vector<OverridePart> parts;
  Cells names;
  std::uint32_t number = 0;
  std::size_t count = 0;
  try {
    for (std::string line; std::getline(in, line);) {
      if (++number == 1 && line.starts_with(base::kByteOrderMark)) {
        line.erase(0, base::kByteOrderMark.size());
      }
      const std::string json = read_line(line, is_csv, names);
      if (json.empty()) continue;
      if (++count > Overrides::kDefaultMost) {
        throw Failed("more overrides than a server can have; expected at most " +
                     std::to_string(Overrides::kDefaultMost));
      }
      if (parts.empty() || parts.back().body.size() + json.size() >= part_bytes) {
        parts.emplace_back();
      }
      parts.back().body.append(json).append("\n");
      parts.back().lines.push_back(number);
    }
  } catch (const Failed& wrong) {
    return Unexpected{file + ":" + std::to_string(number) + ": " + wrong.what()};
  }
  if (in.bad()) return Unexpected{file + ": cannot be read"};
  if (parts.empty()) return Unexpected{file + ": there are no overrides; expected at least one"};
  return parts;
}

std::string hint_for_column(std::string_view name) {
  return rules::did_you_mean(name, {kColumns.begin(), kColumns.end()});
}

std::string csv_header() {
  std::string out;
  for (std::size_t i = 0; i < kExported; ++i) out.append(i > 0 ? "," : "").append(kColumns[i]);
  return out + "\n";
}

void append_csv(const boost::json::object& one, std::string& out) {
  for (std::size_t i = 0; i < kExported; ++i) {
    if (i > 0) out += ',';
    const boost::json::value* value = one.if_contains(kColumns[i]);
    if (value == nullptr) continue;
    base::append_csv_field(
        out, value->is_string() ? std::string(value->as_string()) : boost::json::serialize(*value));
  }
  out += '\n';
}

void for_each_override(AdminClient& client, const std::string& rule,
                       const std::function<bool(const boost::json::object&)>& take, bool lost) {
  const std::string target = "/v1/overrides?count=10000" + std::string(lost ? "&lost=true" : "") +
                             (rule.empty() ? "" : "&rule=" + url_encoded(rule)) + "&cursor=";
  std::string cursor = "0";
  while (!cursor.empty()) {
    const boost::json::object page = client.ask_json("GET", target + cursor);
    const auto* next = page.if_contains("next");
    if (next != nullptr && !next->is_string()) throw Failed(client.strange());
    for (const boost::json::object* one : client.objects_in(page, "overrides")) {
      if (!take(*one)) return;
    }
    cursor = next != nullptr ? std::string(next->as_string()) : std::string();
  }
}

bool for_each_block(AdminClient& client, const std::string& rule,
                    const std::function<bool(const boost::json::object&)>& take) {
  const boost::json::object answer = client.ask_json("GET", "/v1/blocks?count=10000");
  for (const boost::json::object* one : client.objects_in(answer, "blocks")) {
    const bool is_meant = rule.empty() || rules::is_of_rule(text_in(*one, "counter"), rule);
    if (is_meant && !take(*one)) return true;
  }
  return is_true(answer, "more");
}

}  // namespace sluice::cli
