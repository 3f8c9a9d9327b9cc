#include "rules/counter_key.h"

#include <array>

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

}  // namespace

bool append_escaped(std::string& out, std::string_view text, Escape escape) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  const Table& table = escape == Escape::kName ? kNameTable : kValueTable;
  std::size_t clean = 0;
  bool changed = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (!table[byte]) continue;
    out.append(text.substr(clean, i - clean));
    const char escaped[3] = {'%', kHex[byte >> 4], kHex[byte & 15]};
    out.append(escaped, sizeof escaped);
    clean = i + 1;
    changed = true;
  }
  out.append(text.substr(clean));
  return changed;
}

}  // namespace sluice::rules
