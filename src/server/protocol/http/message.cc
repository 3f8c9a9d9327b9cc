#include "server/protocol/http/message.h"

#include <algorithm>

namespace sluice::server::http {
namespace {

char lowered(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

}  // namespace

bool equal_names(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return lowered(x) == lowered(y);
         });
}

const std::string_view* Request::find(std::string_view lower_case_name) const noexcept {
  for (const Field& field : fields) {
    if (equal_names(field.name, lower_case_name)) return &field.value;
  }
  return nullptr;
}

}  // namespace sluice::server::http
