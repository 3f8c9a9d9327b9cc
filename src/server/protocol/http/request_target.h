#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/quoted.h"
#include "base/request_target.h"
#include "server/protocol/http/fields.h"

namespace sluice::server {

// Returns the text with each %XX decoded.
inline std::string decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) out += base::take_decoded(text);
  return out;
}

using base::normalized_path;
using base::RequestTarget;
using base::split_target;

// Returns base::find_query(), decoded. Uses a buffer if there is something to decode.
std::optional<std::string_view> find_query(std::string_view query, std::string_view name,
                                           Buffers& buffers);

}  // namespace sluice::server
