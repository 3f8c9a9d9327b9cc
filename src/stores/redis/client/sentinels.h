#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/server_address.h"

namespace sluice::redis {

// Whom to ask for the master, in turn, without I/O: those that the options name, and those that
// they name themselves. The one that answered last is asked first.
//
//   begin() -> ask to_ask() -> on_master(), or on_failed() -> ask to_ask() ... until there is none
class Sentinels {
 public:
  // `seeds`: one or more.
  Sentinels(std::vector<ServerAddress> seeds, std::string master);

  void begin();
  // Null: all have been asked in vain since begin(). Valid until the next call of a member.
  const ServerAddress* to_ask() const noexcept;
  // The one that was to be asked did not help: another is next.
  void on_failed(std::string_view why);
  // Its reply to SENTINEL GET-MASTER-ADDR-BY-NAME. Nothing: it knows no such master, and another is
  // next.
  std::optional<ServerAddress> on_master(const redisReply& reply);
  // Its reply to SENTINEL SENTINELS: which others there are.
  void on_others(const redisReply& reply);

  // Why each one that was asked since begin() did not help.
  const std::string& why() const noexcept { return why_; }

 private:
  std::vector<ServerAddress> all_;
  std::size_t seeds_;  // as many at the front are never forgotten
  std::string master_;
  std::size_t next_ = 0;
  std::size_t asked_ = 0;
  std::string why_;
};

}  // namespace sluice::redis
