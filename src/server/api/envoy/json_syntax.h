#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// Returns why a text is not JSON (RFC 8259) in UTF-8 with at most 32 levels and without repeated
// members in an object, or an empty text. Protobuf's own reader is less strict. As in Protobuf,
// `hits_addend` and `hitsAddend` are the same name.
std::string find_json_mistake(std::string_view text);

}  // namespace sluice::server
