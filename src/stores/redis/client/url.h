#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"
#include "stores/redis/client/link.h"

namespace sluice::redis {

// A URL of Redis taken apart, by RedisOptions::url's forms; what its parts mean is target.cc's.
struct Url {
  std::string scheme;    // "redis", "rediss+sentinel", ...
  std::string username;  // decoded; empty if there is none
  std::string password;
  std::vector<ServerAddress> servers;  // one or more; port 0 if none is written
  std::string path;                    // as written, with its '/'; decoded if it is a socket
  std::string query;                   // as written, without '?'
  std::string shown;                   // as written, without the password
};

// Errors: what is wrong and what would be right, without any part of the password.
Expected<Url> parse_url(std::string_view text);

// Each %XX as its byte. Errors: a '%' that two hexadecimal digits do not follow.
Expected<std::string> percent_decoded(std::string_view text, std::string_view what);

}  // namespace sluice::redis
