#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "quota/allocator.h"
#include "server/api/quota/quota_service.h"

namespace sluice::quota_simulation {

// The rule of the script in redis_shares.cc, for one counter: a server keeps what is in use there,
// and gets a fair share, but at most what the others do not keep. redis_shares_test compares it
// with the script.
struct SharesModel {
  struct Kept {
    std::uint64_t asked, weight, keeps;
    std::int64_t until;  // milliseconds, as all times here

    friend bool operator==(const Kept&, const Kept&) = default;
  };

  using Share = server::QuotaShare;

  Share claim(const std::string& server, const quota::Claim& claim, std::uint64_t most_weight,
              std::uint64_t held, std::int64_t ttl, std::int64_t now) {
    std::erase_if(all, [&](const auto& one) { return one.second.until <= now; });
    all.erase(server);
    const std::uint64_t most = quota::kWhole - std::min(kept(), quota::kWhole);
    Kept& own = all[server] = {quota::kWhole, most_weight, 0, now + ttl};
    Share share{.most = fair(server)};
    own.asked = claim.asked;
    own.weight = claim.weight;
    share.fair = fair(server);
    share.part = std::min(share.fair, most);
    own.keeps = std::max(share.part, held);
    return share;
  }
  // With the floating-point numbers of Redis.
  std::uint64_t fair(const std::string& server) const {
    std::vector<std::pair<double, std::string>> order;
    double weights = 0;
    for (const auto& [name, one] : all) {
      order.emplace_back(static_cast<double>(one.asked) / static_cast<double>(one.weight), name);
      weights += static_cast<double>(one.weight);
    }
    std::sort(order.begin(), order.end());
    std::uint64_t left = quota::kWhole;
    for (const auto& [level, name] : order) {
      const auto weight = static_cast<double>(all.at(name).weight);
      const double fair = std::floor(static_cast<double>(left) * weight / weights);
      const std::uint64_t part =
          std::min({all.at(name).asked, left, static_cast<std::uint64_t>(fair)});
      left -= part;
      weights -= weight;
      if (name == server) return part;
    }
    return 0;
  }
  std::uint64_t kept() const {
    std::uint64_t sum = 0;
    for (const auto& [name, one] : all) sum += one.keeps;
    return sum;
  }

  std::map<std::string, Kept> all;  // by server
};

}  // namespace sluice::quota_simulation
