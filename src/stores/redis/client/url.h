#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"
#include "stores/redis/client/link.h"

namespace sluice::redis {

// The parts of a URL in one of the forms of RedisOptions::url. target.cc interprets them.
struct Url {
  std::string scheme;    // "redis", "rediss+sentinel", ...
  std::string username;  // decoded; empty if the URL has none
  std::string password;
  std::vector<ServerAddress> servers;  // one or more; port 0 if none is written
  std::string path;                    // as written, with its '/'; of a socket: decoded
  std::string query;                   // as written, without '?'
  std::string shown;                   // as written, without the password
};

// Parses a URL. Errors: what is wrong and what is right, without any part of the password.
Expected<Url> parse_url(std::string_view text);

// Replaces each %XX by its byte. Errors: a '%' without two hexadecimal digits.
Expected<std::string> percent_decoded(std::string_view text, std::string_view what);

}  // namespace sluice::redis
