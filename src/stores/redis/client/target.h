#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"
#include "sluice/redis_store.h"
#include "stores/redis/client/link.h"

namespace sluice::redis {

// Replaces each %XX by its byte. Errors: a '%' without two hexadecimal digits.
Expected<std::string> percent_decoded(std::string_view text, std::string_view what);

}  // namespace sluice::redis

namespace boost::asio::ssl {
class context;  // NOLINT(readability-identifier-naming)
}

namespace sluice::redis {

// RedisOptions with a parsed and checked URL.
struct Target {
  enum class Kind : std::uint8_t { kStandalone, kSentinel, kCluster };

  Kind kind = Kind::kStandalone;
  RedisOptions options;  // with username and password of the URL, which `url` has not any more
  std::vector<ServerAddress> servers;  // one; the Sentinels; or the seeds of the cluster
  std::string master;                  // the Sentinels' name for it
  int database = 0;
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: plain
  std::string shown;  // the URL without passwords, for logs and status pages
};

// Checks the options. Errors: what is wrong and what is right.
Expected<std::shared_ptr<const Target>> make_target(const RedisOptions& options);

// How to connect to a server of the target, except for a Sentinel.
LinkOptions link_options(const Target& target);

}  // namespace sluice::redis
