#include "rules/counter_key.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/quoted.h"
#include "rules/diagnostics.h"

namespace sluice::rules {
namespace {

using Table = std::array<bool, 256>;

constexpr Table make_table(std::string_view special) {
  Table table{};
  for (std::size_t i = 0; i < 0x20; ++i) table[i] = true;
  table[0x7F] = true;
  for (const char c : special) table[static_cast<unsigned char>(c)] = true;
  return table;
}

constexpr Table kNameTable = make_table("%|{}=");
constexpr Table kValueTable = make_table("%|{}");
constexpr Table kWordTable = make_table("% ");

// Escapes the bytes of a table.
bool append_escaped(std::string& out, std::string_view text, const Table& table) {
  std::size_t clean = 0;
  bool changed = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!table[static_cast<unsigned char>(text[i])]) continue;
    out.append(text.substr(clean, i - clean));
    base::append_hex(out += '%', text[i]);
    clean = i + 1;
    changed = true;
  }
  out.append(text.substr(clean));
  return changed;
}

}  // namespace

bool append_name(std::string& out, std::string_view text) {
  return append_escaped(out, text, kNameTable);
}

bool append_value(std::string& out, std::string_view text) {
  return append_escaped(out, text, kValueTable);
}

bool append_word(std::string& out, std::string_view text) {
  return append_escaped(out, text, kWordTable);
}

bool is_of_rule(std::string_view key, std::string_view rule) {
  key.remove_prefix(std::min(key.find('|'), key.size()));
  std::string element = "|";
  append_name(element, rule);
  return key.starts_with(element += '|');
}

Expected<std::string> unescaped(std::string_view text) {
  auto decoded = base::strictly_decoded(text);
  if (decoded) return *std::move(decoded);
  return Unexpected{in_quotes(decoded.error()) +
                    " in the counter is not an escape; expected %25 for %"};
}

std::string CounterKey::text() const {
  std::string out;
  append_name(out, domain);
  append_name(out += '|', rule);
  append_name(out += '|', limit);
  for (const Part& part : parts) {
    append_name(out += '|', part.name);
    if (part.has_value) append_value(out += '=', part.value);
  }
  return out;
}

Expected<CounterKey> parse_counter_key(std::string_view text) {
  CounterKey key;
  std::size_t count = 0;
  for (bool is_last = false; !is_last; ++count) {
    const std::string_view element = text.substr(0, text.find('|'));
    is_last = element.size() == text.size();
    text.remove_prefix(std::min(element.size() + 1, text.size()));
    const std::size_t equals = count < 3 ? element.npos : element.find('=');
    auto name = unescaped(element.substr(0, equals));
    if (!name) return Unexpected{std::move(name.error())};
    if (count < 3) {
      (count == 0 ? key.domain : count == 1 ? key.rule : key.limit) = std::move(*name);
      continue;
    }
    CounterKey::Part& part = key.parts.emplace_back();
    part.name = std::move(*name);
    part.has_value = equals != element.npos;
    if (!part.has_value) continue;
    auto value = unescaped(element.substr(equals + 1));
    if (!value) return Unexpected{std::move(value.error())};
    part.value = std::move(*value);
  }
  if (count >= 3) return key;
  return Unexpected<std::string>{
      "the counter names no limit; expected DOMAIN|RULE|LIMIT and the parts of its key"};
}

std::string utf8_counter_key(std::string_view key) {
  std::string out;
  for (std::size_t at = find_invalid_utf8(key); at != key.npos; at = find_invalid_utf8(key)) {
    base::append_hex(out.append(key.substr(0, at)) += '%', key[at]);
    key.remove_prefix(at + 1);
  }
  return out.append(key);
}

}  // namespace sluice::rules
