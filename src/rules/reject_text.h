#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "sluice/reject.h"

namespace sluice::rules {

// The names that a number replaces, in the order of RejectPart::Kind.
inline constexpr std::array<std::string_view, 4> kRejectNames{"retry_after", "limit", "remaining",
                                                              "reset_at"};

// The names in braces of a text for a rejection (docs/rules.md, Rejections). Borrows the text.
struct RejectText {
  struct Unknown {
    std::size_t at;
    std::string_view name;
  };
  std::vector<RejectPart> parts;
  std::vector<Unknown> unknown;  // what looks like a name, and is sent as it is

  static RejectText parse(std::string_view text, bool is_json);
};

}  // namespace sluice::rules
