#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "sluice/expected.h"
#include "stores/redis/script/state_reader.h"

// The parts of `sluice key` (key_command.cc, key_import.cc, key_dump.cc).
namespace sluice::cli {

class AdminClient;

// Add the subcommands import and export, and dump.
void add_key_import(Command key);
void add_key_export(Command key);
void add_key_dump(Command key);

// Calls `take` with each override of a server, as GET /v1/overrides answers it, until it returns
// false; of one rule if `rule` is not empty; with `lost`, those that Redis has lost.
void for_each_override(AdminClient& client, const std::string& rule,
                       const std::function<bool(const boost::json::object&)>& take,
                       bool lost = false);

// The same with the blocks that the store keeps, as GET /v1/blocks answers them: at most 10,000.
// Returns whether there may be more.
bool for_each_block(AdminClient& client, const std::string& rule,
                    const std::function<bool(const boost::json::object&)>& take);

// Formats a duration in its two largest units: "23h 59m", "1s 200ms".
std::string in_two_units(std::int64_t ms);

// Some lines of a file, as the body of POST /v1/overrides.
struct OverridePart {
  std::string body;                  // one JSON object a line
  std::vector<std::uint32_t> lines;  // the line of the file for each line of the body
};

// Reads a file of at most as many overrides as a server can have, which is CSV or has JSON lines
// (docs/keys.md). `file` is its name for errors.
// Errors: "FILE:LINE: WHAT; EXPECTED"; a file without overrides. Cost: keeps the whole file in
// memory.
Expected<std::vector<OverridePart>> read_override_lines(std::istream& in, const std::string& file,
                                                        bool is_csv,
                                                        std::size_t part_bytes = 256U << 10);

// Returns "; did you mean 'limit'?" if a column of a CSV file has a similar name, else "".
std::string hint_for_column(std::string_view name);

// The first line of a CSV file of counters, and the line of an override as GET /v1/overrides
// answers it. Both end in "\n".
std::string csv_header();
void append_csv(const boost::json::object& one, std::string& out);

// What the key of a counter says, or that of one slice of a window, for counters without scripts.
struct KeyName : redis::CounterName {
  bool is_block = false;
  std::string period_us, slices, slice;  // of a slice; empty: it is none
};
// Parses a key without the prefix: "F{key}!:60000000/1:29384". Returns nothing for other keys.
std::optional<KeyName> read_slice_name(std::string_view redis_key);

// Returns whether a pattern in the syntax of Redis matches the whole text: `*`, `?`, `[a-z]`,
// `[^a]`, and `\` before a literal character. Compares bytes. Cost: at worst the product of both
// lengths.
bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

// Returns whether the pattern matches only one text.
bool is_literal(std::string_view pattern) noexcept;

// Returns the pattern that matches only this text.
std::string as_glob(std::string_view text);

}  // namespace sluice::cli
