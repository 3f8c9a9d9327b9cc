#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/protocol/http/message.h"

namespace sluice::server {

// Strings that are kept from request to request. What was written to one stays until clear().
class Buffers {
 public:
  // An empty one.
  std::string& next() {
    if (used_ == strings_.size()) strings_.emplace_back();
    std::string& string = strings_[used_++];
    string.clear();
    return string;
  }
  void clear() noexcept { used_ = 0; }

 private:
  std::deque<std::string> strings_;  // a deque: strings do not move
  std::size_t used_ = 0;
};

// Of two names of the same length.
bool same_letters(std::string_view sent, std::string_view lower_case_name) noexcept;

inline bool has_name(const http::Field& field, std::string_view lower_case_name) noexcept {
  return field.name.size() == lower_case_name.size() && same_letters(field.name, lower_case_name);
}

// The values of all fields of that name, joined by ", " ("; " for cookies): one field and several
// mean the same. Absent where there is none.
std::optional<std::string_view> find_header(std::span<const http::Field> fields,
                                            std::string_view lower_case_name, Buffers& buffers);

// The value of the first cookie of that name in all fields Cookie, as it was sent.
std::optional<std::string_view> find_cookie(std::span<const http::Field> fields,
                                            std::string_view name) noexcept;

// Without spaces and tabs at its ends.
std::string_view trimmed(std::string_view text) noexcept;

}  // namespace sluice::server
