#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "rules/attributes.h"
#include "sluice/expected.h"

namespace sluice::rules {

struct TemplateError {
  std::size_t at = 0;   // offset in the template, in bytes
  std::string message;  // "WHAT; EXPECTED"
};

// A compiled key template (docs/rules.md, Keys):
//
//   {ip}                 the value of an attribute
//   {header.x-user|ip}   the first of these attributes that is present and not empty
//   {ip/64}              an address: the first 64 bits of IPv6, all bits of IPv4
//   {ip/24/64}           the first 24 bits of IPv4, the first 64 bits of IPv6
//   text {{ }}           literal text; braces are doubled
//
// Thread-safety: immutable; use it from any thread. Cost: copies the values; allocates nothing once
// the caller's buffers have grown.
class KeyTemplate {
 public:
  static Expected<KeyTemplate, TemplateError> compile(std::string_view text,
                                                      AttributeTable& attributes);

  // Appends the parts of a counter's key to `text` (counter_key.h) and sets `key_end` to the end of
  // the key. Appends the label after it, unless the label is part of the key. Overwrites `scratch`.
  // Returns the offset of the label, which ends with the text; nothing if an attribute is missing:
  // `text` then holds an incomplete key.
  std::optional<std::size_t> fill(AttributeValues& values, std::string& text, std::size_t& key_end,
                                  std::string& scratch) const;
  // Appends a tag: the parts as in a key, with one '|' between them and none before the first. A
  // missing attribute gets an empty value under the name of the first alternative; a value that is
  // present is never empty.
  void fill_tag(AttributeValues& values, std::string& text) const;

  // Whether the template is one attribute, used whole, and nothing else.
  bool is_one_value() const noexcept;
  // The attributes of each part that has some: a request needs one of each.
  std::vector<std::vector<std::uint32_t>> needs() const;
  bool is_empty() const noexcept { return parts_.empty(); }
  // Whether it reads the attribute with this number.
  bool reads(std::uint32_t attribute) const noexcept;
  // The value of such a template; absent if all its attributes are missing. Any other template has
  // none.
  std::optional<std::string_view> one_value(AttributeValues& values) const;

 private:
  struct Alternative {
    std::uint32_t attribute = 0;
    std::string whole;    // "|ip="
    std::string grouped;  // "|ip/24/64="; empty if the value is used whole
    base::PrefixBits bits;
  };
  struct Part {
    std::string literal;                    // unescaped
    std::string encoded_literal;            // "|text"
    std::vector<Alternative> alternatives;  // empty for a literal
  };

  static Expected<Alternative, TemplateError> parse_alternative(std::size_t at,
                                                                std::string_view written,
                                                                AttributeTable& attributes);
  // Appends the name of the first attribute of the part that has a value, and returns the value,
  // which may be in `address`.
  static std::optional<std::string_view> append_name(const Part& part, AttributeValues& values,
                                                     std::string& text, base::AddressText& address);

  std::vector<Part> parts_;
};

}  // namespace sluice::rules
