#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"

// The grammar of counter keys in a store:
//
//   key   = domain "|" rule "|" limit *("|" part)
//   part  = attribute "=" value             the value of an attribute
//         / attribute "/" bits "=" value    a network: ip/24/64=2001:db8::/64
//         / literal                         text of the template
//
// Every element is escaped: '%', '|', '{', '}' and control bytes are written as %XX. Names also
// escape '='. A key can therefore be read in one way only: no byte of a request can end a part,
// begin another part, or set the hash tag of a cluster. The numbers and the algorithm of a limit
// are not part of its key.
namespace sluice::rules {

// Append a name or a value, escaped. Return whether escaping changed it.
bool append_name(std::string& out, std::string_view text);
bool append_value(std::string& out, std::string_view text);
// The same for a word in a text of words: '%', spaces and control bytes.
bool append_word(std::string& out, std::string_view text);
// Returns the text without escapes. Errors: an escape is wrong.
Expected<std::string> unescaped(std::string_view text);

// A key without escapes.
struct CounterKey {
  struct Part {
    std::string name;  // with the bits of a network; or a literal
    std::string value;
    bool has_value = false;  // false: a literal
  };
  std::string domain, rule, limit;
  std::vector<Part> parts;

  // The key in the grammar.
  std::string text() const;
};
// Reads a key in which other bytes may be escaped too. Errors: "WHAT; EXPECTED".
Expected<CounterKey> parse_counter_key(std::string_view text);

// Whether a key, or its beginning up to the limit, is of a rule with this name, in any domain.
bool is_of_rule(std::string_view key, std::string_view rule);

// Returns the key with escapes for the bytes that are not UTF-8. parse_counter_key() reads it.
std::string utf8_counter_key(std::string_view key);

}  // namespace sluice::rules
