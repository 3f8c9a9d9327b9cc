#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/attribute_table.h"
#include "rules/ip_prefix.h"
#include "sluice/expected.h"

namespace sluice::rules {

struct TemplateError {
  std::size_t at = 0;   // a byte of the template
  std::string message;  // "WHAT; EXPECTED"
};

// A key template, compiled (docs/rules.md, Keys):
//
//   {ip}                 the value of an attribute
//   {header.x-user|ip}   of the first of them that is present and not empty
//   {ip/64}              an address: of IPv6 its first 64 bits, of IPv4 all
//   {ip/24/64}           of IPv4 the first 24 bits, of IPv6 the first 64
//   text {{ }}           itself; braces are doubled
//
// Thread-safety: const, so any thread. Cost: copying the values; nothing is allocated once the
// caller's buffers have grown.
class KeyTemplate {
 public:
  static Expected<KeyTemplate, TemplateError> compile(std::string_view text,
                                                      AttributeTable& attributes);

  // Where the label of a filled template stands in the caller's text.
  struct Label {
    std::size_t at = 0;
    std::size_t size = 0;
  };
  // Appends the parts of a counter's key to `text` (counter_key.h), where the key then ends at
  // `key_end`, and behind it the label, unless that is a piece of the key. `scratch` is
  // overwritten. Absent where an attribute is missing; then `text` holds a part of it.
  std::optional<Label> fill(AttributeValues& values, std::string& text, std::size_t& key_end,
                            std::string& scratch) const;
  // Appends a tag: the parts as in a key, with one '|' between them and none before the first. Of
  // an attribute that is missing the value is empty, which no value that is there can be, under the
  // name of the first alternative.
  void fill_tag(AttributeValues& values, std::string& text) const;

 private:
  friend class TemplateParser;

  struct Alternative {
    std::uint32_t attribute = 0;
    std::string whole;    // "|ip="
    std::string grouped;  // "|ip/24/64=", or empty where the value counts as it is
    PrefixBits bits;
  };
  struct Part {
    std::string literal;                    // as a person reads it
    std::string encoded_literal;            // "|text"
    std::vector<Alternative> alternatives;  // of an attribute; else it is a literal
  };
  // What an attribute's part appended to the text.
  struct Filled {
    std::size_t at = 0;  // where its value begins in the text
    bool as_is = false;  // the value stands there unescaped
    std::string_view value;
  };

  static std::optional<Filled> fill_part(const Part& part, AttributeValues& values,
                                         std::string& text, AddressText& address);

  std::vector<Part> parts_;
};

}  // namespace sluice::rules
