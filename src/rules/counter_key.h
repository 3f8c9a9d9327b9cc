#pragma once

#include <string>
#include <string_view>

// The keys of counters, as stores see them:
//
//   key   = domain "|" rule "|" limit *("|" part)
//   part  = attribute "=" value          what an attribute gave
//         / attribute "/" bits "=" value of an address, grouped: 2001:db8::/64
//         / literal                      text of the template
//
// Each of them is escaped: '%', '|', '{', '}' and control bytes are written as %XX, and so is '='
// but in values. So a key reads back in one way only, and no byte of a request can end a part,
// begin another, or set the hash tag of a cluster. Numbers and algorithms of limits are no part of
// it.
namespace sluice::rules {

enum class Escape : unsigned char { kName, kValue };  // a name escapes '=' as well

// Appends `text`, escaped. Whether it had to be changed.
bool append_escaped(std::string& out, std::string_view text, Escape escape);

}  // namespace sluice::rules
