#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/server_address.h"

namespace sluice::redis {

// Which Sentinel to ask for the master, without I/O: first those that the options name, then those
// that Sentinels report. The one that answered last is asked first.
//
//   begin() -> ask to_ask() -> on_master(), or on_failed() -> ask to_ask() ... until there is none
class Sentinels {
 public:
  // `seeds`: one or more.
  Sentinels(std::vector<ServerAddress> seeds, std::string master);

  void begin();
  // Null: no Sentinel has helped since begin(). Valid until the next call of a member.
  const ServerAddress* to_ask() const noexcept;
  // The Sentinel that was asked did not help: another is next.
  void on_failed(std::string_view why);
  // Reads its reply to SENTINEL GET-MASTER-ADDR-BY-NAME. Empty: it knows no such master, and
  // another one is next.
  std::optional<ServerAddress> on_master(const redisReply& reply);
  // Reads its reply to SENTINEL SENTINELS: the other Sentinels.
  void on_others(const redisReply& reply);

  // Why each Sentinel since begin() did not help.
  const std::string& why() const noexcept { return why_; }

 private:
  std::vector<ServerAddress> all_;
  std::size_t seeds_;  // this many at the front are never removed
  std::string master_;
  std::size_t next_ = 0;
  std::size_t asked_ = 0;
  std::string why_;
};

}  // namespace sluice::redis
