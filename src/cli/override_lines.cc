#include "cli/override_lines.h"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "core/quoted.h"
#include "rules/diagnostics.h"
#include "server/api/admin/json_writer.h"
#include "sluice/overrides.h"

namespace sluice::cli {
namespace {

using core::in_quotes;
using Cells = std::vector<std::string>;

constexpr std::size_t kLongestLine = 65'536;

// The columns of a CSV file with a meaning of their own; others are attributes.
constexpr std::array<std::string_view, 11> kColumns = {"counter", "limit",   "per",       "burst",
                                                       "plan",    "blocked", "unlimited", "until",
                                                       "lease",   "rule",    "limit_name"};
constexpr std::size_t kExported = 8;  // so many of them are in an export
// Begins the name of an attribute that has the name of a column.
constexpr std::string_view kMark = "attribute.";

struct Wrong {
  std::string message;
};

// Takes one cell and the comma after it. Sets `is_last` if there is no comma.
std::string take_cell(std::string_view& rest, bool& is_last) {
  std::string cell;
  if (rest.starts_with('"')) {
    for (rest.remove_prefix(1);; rest.remove_prefix(1)) {
      if (rest.empty()) throw Wrong{"a quote is not closed; expected \" at the end of the field"};
      if (rest.starts_with("\"\"")) {
        rest.remove_prefix(1);
      } else if (rest.front() == '"') {
        break;
      }
      cell += rest.front();
    }
    rest.remove_prefix(1);
    if (!rest.empty() && rest.front() != ',') {
      throw Wrong{"text follows a closed quote; expected a comma, or \"\" for a quote"};
    }
  } else {
    cell = rest.substr(0, rest.find(','));
    rest.remove_prefix(cell.size());
  }
  is_last = rest.empty();
  if (!is_last) rest.remove_prefix(1);
  return cell;
}

Cells cells_of(std::string_view line) {
  Cells cells;
  for (bool is_last = false; !is_last;) cells.push_back(take_cell(line, is_last));
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
    throw Wrong{
        "the first line names no counter; expected the column counter, or the columns rule, "
        "limit_name and those of attributes"};
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty()) throw Wrong{"a column has no name; expected one in the first line"};
    if (std::any_of(names.begin(), name, [&](const auto& one) { return is_same(one, *name); })) {
      throw Wrong{"the column " + in_quotes(*name) + " is there twice; expected it once"};
    }
  }
}

std::uint64_t number_of(const std::string& column, const std::string& cell) {
  std::uint64_t number = 0;
  const char* end = cell.data() + cell.size();
  const auto read = std::from_chars(cell.data(), end, number);
  if (read.ec == std::errc{} && read.ptr == end) return number;
  throw Wrong{in_quotes(column) + " is " + in_quotes(cell) +
              "; expected a whole number from 0 to 4294967295"};
}

void write_cell(const std::string& column, const std::string& cell, server::JsonWriter& json) {
  if (column == "limit" || column == "burst") {
    json.member(column, number_of(column, cell));
  } else if (column != "blocked" && column != "unlimited") {
    json.member(column, cell);
  } else if (cell == "true") {
    json.member(column, true);
  } else if (cell != "false") {
    throw Wrong{in_quotes(column) + " is " + in_quotes(cell) + "; expected true, false or nothing"};
  }
}

std::string json_of(const Cells& names, const Cells& cells) {
  if (cells.size() != names.size()) {
    throw Wrong{"the line has " + std::to_string(cells.size()) + " fields; expected " +
                std::to_string(names.size()) + " as in the first line"};
  }
  server::JsonWriter json;
  json.begin_object();
  bool has_attributes = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (cells[i].empty()) continue;
    if (server::as_utf8(cells[i]) != cells[i]) {
      throw Wrong{in_quotes(names[i]) + " is not UTF-8; expected UTF-8"};
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

// Reads the lines of a file into parts.
class Reader {
 public:
  Reader(OverrideFormat format, std::size_t part_bytes)
      : is_csv_(format == OverrideFormat::kCsv), part_bytes_(part_bytes) {}

  void take(std::string_view line) {
    constexpr std::string_view kByteOrder = "\xEF\xBB\xBF";
    if (++number_ == 1 && line.starts_with(kByteOrder)) line.remove_prefix(kByteOrder.size());
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) return;
    if (line.size() > kLongestLine) {
      throw Wrong{"the line has " + std::to_string(line.size()) + " bytes; expected at most " +
                  std::to_string(kLongestLine)};
    }
    if (!is_csv_) return add(line);
    Cells cells = cells_of(line);
    if (!names_.empty()) return add(json_of(names_, cells));
    check_header(cells);
    names_ = std::move(cells);
  }
  std::uint32_t number() const noexcept { return number_; }
  std::vector<OverridePart> parts() && { return std::move(parts_); }

 private:
  void add(std::string_view json) {
    if (++count_ > Overrides::kDefaultMost) {
      throw Wrong{"more overrides than a server can have; expected at most " +
                  std::to_string(Overrides::kDefaultMost)};
    }
    if (parts_.empty() || parts_.back().body.size() + json.size() >= part_bytes_) {
      parts_.emplace_back();
    }
    parts_.back().body.append(json).append("\n");
    parts_.back().lines.push_back(number_);
  }

  const bool is_csv_;
  const std::size_t part_bytes_;
  Cells names_;
  std::uint32_t number_ = 0;
  std::size_t count_ = 0;
  std::vector<OverridePart> parts_;
};

void append_cell(std::string_view text, std::string& out) {
  if (text.find_first_of(",\"\r\n") == text.npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

}  // namespace

Expected<std::vector<OverridePart>> read_override_lines(std::istream& in, const std::string& file,
                                                        OverrideFormat format,
                                                        std::size_t part_bytes) {
  Reader reader(format, part_bytes);
  try {
    for (std::string line; std::getline(in, line);) reader.take(line);
  } catch (const Wrong& wrong) {
    return Unexpected{file + ":" + std::to_string(reader.number()) + ": " + wrong.message};
  }
  if (in.bad()) return Unexpected{file + ": cannot be read"};
  auto parts = std::move(reader).parts();
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
    append_cell(
        value->is_string() ? std::string(value->as_string()) : boost::json::serialize(*value), out);
  }
  out += '\n';
}

}  // namespace sluice::cli
