#include "rules/key_template.h"

#include <algorithm>
#include <charconv>

#include "rules/counter_key.h"
#include "rules/diagnostics.h"

namespace sluice::rules {
namespace {

std::string part_name(std::string_view name, char end) {
  std::string out = "|";
  append_escaped(out, name, Escape::kName);
  if (end != 0) out += end;
  return out;
}

// Parses a number of bits of at most three digits.
std::optional<unsigned> bits_of(std::string_view text) {
  unsigned value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || text.size() > 3 || result.ec != std::errc{} || result.ptr != end) return {};
  return value;
}

}  // namespace

class TemplateParser {
 public:
  TemplateParser(std::string_view text, AttributeTable& attributes)
      : text_(text), attributes_(attributes) {}

  Expected<KeyTemplate, TemplateError> parse() {
    while (at_ < text_.size() && !error_) {
      const char c = text_[at_];
      const bool doubled =
          (c == '{' || c == '}') && text_.substr(at_ + 1, 1) == text_.substr(at_, 1);
      if (doubled) {
        literal_ += c;
        at_ += 2;
      } else if (c == '{') {
        parse_attribute();
      } else if (c == '}') {
        fail(at_, "'}' without '{'; expected '}}' for the character itself");
      } else {
        literal_ += c;
        ++at_;
      }
    }
    end_literal();
    if (error_) return Unexpected{*std::move(error_)};
    return std::move(template_);
  }

 private:
  void fail(std::size_t at, std::string message) {
    if (!error_) error_ = TemplateError{at, std::move(message)};
  }

  void end_literal() {
    if (literal_.empty()) return;
    template_.parts_.push_back({literal_, part_name(literal_, 0), {}});
    literal_.clear();
  }

  void parse_attribute() {
    const std::size_t end = text_.find_first_of("{}", at_ + 1);
    if (end == text_.npos || text_[end] == '{') {
      return fail(at_, "'{' without '}'; expected {ATTRIBUTE}, or '{{' for the character itself");
    }
    end_literal();
    KeyTemplate::Part& part = template_.parts_.emplace_back();
    for (std::size_t begin = at_ + 1; begin <= end && !error_;) {
      const std::size_t next = std::min(text_.find('|', begin), end);
      parse_alternative(begin, text_.substr(begin, next - begin), part);
      begin = next + 1;
    }
    at_ = end + 1;
  }

  void parse_alternative(std::size_t begin, std::string_view written, KeyTemplate::Part& part) {
    const std::size_t slash = written.find('/');
    const std::string name = normalized(written.substr(0, slash));
    if (auto wrong = find_name_error(name)) return fail(begin, *std::move(wrong));
    KeyTemplate::Alternative alternative;
    if (slash != written.npos) {
      const auto bits = parse_bits(begin + slash, written.substr(slash + 1));
      if (!bits) return;
      alternative.bits = *bits;
      alternative.grouped = part_name(name + std::string(written.substr(slash)), '=');
    }
    alternative.whole = part_name(name, '=');
    alternative.attribute = attributes_.number(name);
    part.alternatives.push_back(std::move(alternative));
  }

  std::optional<PrefixBits> parse_bits(std::size_t at, std::string_view written) {
    const std::size_t slash = written.find('/');
    const bool both = slash != written.npos;
    const auto first = bits_of(written.substr(0, slash));
    const auto v6 = both ? bits_of(written.substr(slash + 1)) : first;
    if (!first || !v6 || *v6 > 128 || (both && *first > 32)) {
      fail(at, in_quotes("/" + std::string(written)) +
                   " is not an address prefix; expected /64 (bits of IPv6), or /24/64 (of IPv4 and "
                   "of IPv6)");
      return {};
    }
    if (!both && *first <= 32) {
      const std::string bits = std::to_string(*first);
      fail(at, "'/" + bits + "' could mean IPv4 or IPv6; expected both, such as /" + bits +
                   "/64, or more than 32 bits for IPv6 alone");
      return {};
    }
    return PrefixBits{static_cast<std::uint8_t>(both ? *first : 32),
                      static_cast<std::uint8_t>(*v6)};
  }

  std::string_view text_;
  AttributeTable& attributes_;
  std::size_t at_ = 0;
  std::string literal_;
  KeyTemplate template_;
  std::optional<TemplateError> error_;
};

Expected<KeyTemplate, TemplateError> KeyTemplate::compile(std::string_view text,
                                                          AttributeTable& attributes) {
  return TemplateParser(text, attributes).parse();
}

std::optional<KeyTemplate::Filled> KeyTemplate::fill_part(const Part& part, AttributeValues& values,
                                                          std::string& text, AddressText& address) {
  for (const Alternative& alternative : part.alternatives) {
    const auto& value = values.get(alternative.attribute);
    if (!value || value->empty()) continue;
    Filled filled;
    filled.value = *value;
    const auto network =
        alternative.grouped.empty() ? std::nullopt : network_of(*value, alternative.bits);
    if (network) {
      address = *network;
      filled.value = address.view();
    }
    text.append(network ? alternative.grouped : alternative.whole);
    filled.at = text.size();
    filled.as_is = !append_escaped(text, filled.value, Escape::kValue);
    return filled;
  }
  return std::nullopt;
}

std::optional<KeyTemplate::Label> KeyTemplate::fill(AttributeValues& values, std::string& text,
                                                    std::size_t& key_end,
                                                    std::string& scratch) const {
  scratch.clear();
  AddressText address;
  for (const Part& part : parts_) {
    if (part.alternatives.empty()) {
      text.append(part.encoded_literal);
      scratch.append(part.literal);
      continue;
    }
    const auto filled = fill_part(part, values, text, address);
    if (!filled) return std::nullopt;
    if (parts_.size() == 1 && filled->as_is) {
      key_end = text.size();
      return Label{filled->at, key_end - filled->at};
    }
    scratch.append(filled->value);
  }
  key_end = text.size();
  text.append(scratch);
  return Label{key_end, scratch.size()};
}

void KeyTemplate::fill_tag(AttributeValues& values, std::string& text) const {
  const std::size_t begin = text.size();
  AddressText address;
  for (const Part& part : parts_) {
    if (part.alternatives.empty()) {
      text.append(part.encoded_literal);
    } else if (!fill_part(part, values, text, address)) {
      text.append(part.alternatives.front().whole);
    }
  }
  if (text.size() > begin) text.erase(begin, 1);  // every part begins with '|'
}

bool KeyTemplate::is_one_value() const noexcept {
  return parts_.size() == 1 && !parts_.front().alternatives.empty() &&
         std::all_of(parts_.front().alternatives.begin(), parts_.front().alternatives.end(),
                     [](const Alternative& one) { return one.grouped.empty(); });
}

bool KeyTemplate::reads(std::uint32_t attribute) const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return std::any_of(part.alternatives.begin(), part.alternatives.end(),
                       [&](const Alternative& one) { return one.attribute == attribute; });
  });
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
