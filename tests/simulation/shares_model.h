#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "quota/allocator.h"

namespace sluice::quota_simulation {

// The rule of the script in redis_shares.cc, for one counter: a server keeps what is in use there,
// and gets a fair share, but at most what the others do not keep. redis_shares_test compares it
// with the script.
struct SharesModel {
  struct Kept {
    std::uint64_t asked, keeps;
    std::int64_t until;  // milliseconds, as all times here

    friend bool operator==(const Kept&, const Kept&) = default;
  };

  std::uint64_t claim(const std::string& server, std::uint64_t asked, std::uint64_t held,
                      std::int64_t ttl, std::int64_t now) {
    std::erase_if(all, [&](const auto& one) { return one.second.until <= now; });
    all.erase(server);
    std::vector<std::pair<std::uint64_t, std::string>> claims{{asked, server}};
    for (const auto& [name, other] : all) claims.emplace_back(other.asked, name);
    std::sort(claims.begin(), claims.end());
    std::uint64_t left = quota::kWhole;
    std::uint64_t fair = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const std::uint64_t part = std::min(claims[i].first, left / (claims.size() - i));
      left -= part;
      if (claims[i].second == server) fair = part;
    }
    const std::uint64_t share = std::min(fair, quota::kWhole - std::min(kept(), quota::kWhole));
    all[server] = {asked, std::max(share, held), now + ttl};
    return share;
  }
  std::uint64_t kept() const {
    std::uint64_t sum = 0;
    for (const auto& [name, one] : all) sum += one.keeps;
    return sum;
  }

  std::map<std::string, Kept> all;  // by server
};

}  // namespace sluice::quota_simulation
