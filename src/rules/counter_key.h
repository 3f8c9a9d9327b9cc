#pragma once

#include <string>
#include <string_view>

// The grammar of counter keys in a store:
//
//   key   = domain "|" rule "|" limit *("|" part)
//   part  = attribute "=" value             the value of an attribute
//         / attribute "/" bits "=" value    a network: ip/24/64=2001:db8::/64
//         / literal                         text of the template
//
// Every element is escaped: '%', '|', '{', '}' and control bytes are written as %XX. Names also
// escape '='. A key can therefore be read in one way only: no byte of a request can end a part,
// begin another part, or set the hash tag of a cluster. The numbers and the algorithm of a limit
// are not part of its key.
namespace sluice::rules {

enum class Escape : unsigned char { kName, kValue };  // kName also escapes '='

// Appends `text`, escaped. Returns whether escaping changed it.
bool append_escaped(std::string& out, std::string_view text, Escape escape);

}  // namespace sluice::rules
