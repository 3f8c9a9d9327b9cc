#pragma once

#include <functional>
#include <string>

#include "server/api/quota/quota_service.h"
#include "stores/redis/client/client.h"

namespace sluice::server {

// Divides limits among the servers of one Redis: a text for each counter says what each server asks
// for and what it and its proxies may use. A script changes it in one step, by the time of Redis.
//
// Thread-safety: the loop's thread only, on a fiber. Ownership: borrows the client that `client`
// returns for the call.
class RedisShares final : public QuotaShares {
 public:
  // `prefix`: of all keys. `server`: a name that no other server has.
  RedisShares(std::function<redis::Client*()> client, std::string prefix, std::string server)
      : client_(std::move(client)), prefix_(std::move(prefix)), server_(std::move(server)) {}

  std::optional<std::uint64_t> claim(const Charge& counter, std::uint64_t asked, std::uint64_t held,
                                     Duration ttl) override;

 private:
  const std::function<redis::Client*()> client_;
  const std::string prefix_;
  const std::string server_;
};

}  // namespace sluice::server
