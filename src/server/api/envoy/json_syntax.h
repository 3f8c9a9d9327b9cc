#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// What keeps a text from being JSON (RFC 8259) in UTF-8, of at most 32 levels, without a member
// twice in one object; empty: nothing. Protobuf's own reader is not that strict. To it
// `hits_addend` and `hitsAddend` are one name, so they are here.
std::string find_json_mistake(std::string_view text);

}  // namespace sluice::server
