#include "rules/key_template.h"

#include <algorithm>

#include "rules/counter_key.h"
#include "rules/diagnostics.h"

namespace sluice::rules {
namespace {

std::string part_name(std::string_view name, char end) {
  std::string out = "|";
  rules::append_name(out, name);
  if (end != 0) out += end;
  return out;
}

// Parses a number of bits of at most three digits.
std::optional<unsigned> bits_of(std::string_view text) {
  return text.size() > 3 ? std::nullopt : base::read_number<unsigned>(text);
}

// Errors: "WHAT; EXPECTED".
Expected<base::PrefixBits> parse_bits(std::string_view written) {
  const std::size_t slash = written.find('/');
  const bool both = slash != written.npos;
  const auto first = bits_of(written.substr(0, slash));
  const auto v6 = both ? bits_of(written.substr(slash + 1)) : first;
  if (!first || !v6 || *v6 > 128 || (both && *first > 32)) {
    return Unexpected{in_quotes("/" + std::string(written)) +
                      " is not an address prefix; expected /64 (bits of IPv6), or /24/64 (of IPv4 "
                      "and of IPv6)"};
  }
  if (!both && *first <= 32) {
    const std::string bits = std::to_string(*first);
    return Unexpected{"'/" + bits + "' could mean IPv4 or IPv6; expected both, such as /" + bits +
                      "/64, or more than 32 bits for IPv6 alone"};
  }
  return base::PrefixBits{static_cast<std::uint8_t>(both ? *first : 32),
                          static_cast<std::uint8_t>(*v6)};
}

}  // namespace

Expected<KeyTemplate, TemplateError> KeyTemplate::compile(std::string_view text,
                                                          AttributeTable& attributes) {
  KeyTemplate out;
  std::string literal;
  const auto fail = [](std::size_t at, const char* message) {
    return Unexpected{TemplateError{at, message}};
  };
  const auto end_literal = [&] {
    if (!literal.empty()) out.parts_.push_back({literal, part_name(literal, 0), {}});
    literal.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const bool is_brace = c == '{' || c == '}';
    const bool is_doubled = is_brace && text.substr(at + 1, 1) == text.substr(at, 1);
    if (!is_brace || is_doubled) {
      literal += c;
      at += is_doubled ? 2 : 1;
      continue;
    }
    if (c == '}') return fail(at, "'}' without '{'; expected '}}' for the character itself");
    const std::size_t end = text.find_first_of("{}", at + 1);
    if (end == text.npos || text[end] == '{') {
      return fail(at, "'{' without '}'; expected {ATTRIBUTE}, or '{{' for the character itself");
    }
    end_literal();
    Part& part = out.parts_.emplace_back();
    for (std::size_t begin = at + 1; begin <= end;) {
      const std::size_t next = std::min(text.find('|', begin), end);
      auto one = parse_alternative(begin, text.substr(begin, next - begin), attributes);
      if (!one) return Unexpected{std::move(one.error())};
      part.alternatives.push_back(std::move(*one));
      begin = next + 1;
    }
    at = end + 1;
  }
  end_literal();
  return out;
}

Expected<KeyTemplate::Alternative, TemplateError> KeyTemplate::parse_alternative(
    std::size_t at, std::string_view written, AttributeTable& attributes) {
  const std::size_t slash = written.find('/');
  const std::string name = normalized(written.substr(0, slash));
  if (auto wrong = find_name_error(name)) return Unexpected{TemplateError{at, *std::move(wrong)}};
  Alternative out;
  if (slash != written.npos) {
    const auto bits = parse_bits(written.substr(slash + 1));
    if (!bits) return Unexpected{TemplateError{at + slash, bits.error()}};
    out.bits = *bits;
    out.grouped = part_name(name + std::string(written.substr(slash)), '=');
  }
  out.whole = part_name(name, '=');
  out.attribute = attributes.number(name);
  return out;
}

std::optional<std::string_view> KeyTemplate::append_name(const Part& part, AttributeValues& values,
                                                         std::string& text,
                                                         base::AddressText& address) {
  for (const Alternative& alternative : part.alternatives) {
    const auto& value = values.get(alternative.attribute);
    if (!value || value->empty()) continue;
    const auto network =
        alternative.grouped.empty() ? std::nullopt : base::network_of(*value, alternative.bits);
    text.append(network ? alternative.grouped : alternative.whole);
    if (!network) return value;
    address = *network;
    return address.view();
  }
  return std::nullopt;
}

std::optional<std::size_t> KeyTemplate::fill(AttributeValues& values, std::string& text,
                                             std::size_t& key_end, std::string& scratch) const {
  scratch.clear();
  base::AddressText address;
  for (const Part& part : parts_) {
    if (part.alternatives.empty()) {
      text.append(part.encoded_literal);
      scratch.append(part.literal);
      continue;
    }
    const auto value = append_name(part, values, text, address);
    if (!value) return std::nullopt;
    const std::size_t at = text.size();
    const bool is_changed = append_value(text, *value);
    if (parts_.size() == 1 && !is_changed) {
      key_end = text.size();
      return at;
    }
    scratch.append(*value);
  }
  key_end = text.size();
  text.append(scratch);
  return key_end;
}

void KeyTemplate::fill_tag(AttributeValues& values, std::string& text) const {
  const std::size_t begin = text.size();
  base::AddressText address;
  for (const Part& part : parts_) {
    if (part.alternatives.empty()) {
      text.append(part.encoded_literal);
    } else if (const auto value = append_name(part, values, text, address)) {
      append_value(text, *value);
    } else {
      text.append(part.alternatives.front().whole);
    }
  }
  if (text.size() > begin) text.erase(begin, 1);  // every part begins with '|'
}

bool KeyTemplate::is_one_value() const noexcept {
  return parts_.size() == 1 && !parts_.front().alternatives.empty() &&
         std::ranges::all_of(parts_.front().alternatives,
                             [](const Alternative& one) { return one.grouped.empty(); });
}

bool KeyTemplate::reads(std::uint32_t attribute) const noexcept {
  return std::ranges::any_of(parts_, [&](const Part& part) {
    return std::ranges::any_of(part.alternatives,
                               [&](const Alternative& one) { return one.attribute == attribute; });
  });
}

std::vector<std::vector<std::uint32_t>> KeyTemplate::needs() const {
  std::vector<std::vector<std::uint32_t>> needs;
  for (const Part& part : parts_) {
    if (part.alternatives.empty()) continue;
    auto& one_of = needs.emplace_back();
    for (const Alternative& one : part.alternatives) one_of.push_back(one.attribute);
  }
  return needs;
}

std::optional<std::string_view> KeyTemplate::one_value(AttributeValues& values) const {
  if (parts_.size() != 1) return std::nullopt;
  for (const Alternative& alternative : parts_.front().alternatives) {
    const auto& value = values.get(alternative.attribute);
    if (value && !value->empty()) return value;
  }
  return std::nullopt;
}

}  // namespace sluice::rules
