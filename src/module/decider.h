#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "module/block_value.h"
#include "module/counter.h"
#include "module/key.h"
#include "module/request.h"

namespace sluice::redis_module {

// Decides requests on keys of the server: reads all, decides, then writes all changes or none, as
// the scripts do. The server runs one command after the other, so nothing comes in between. Reused,
// so that it seldom allocates.
//
//   open() -> decide() -> reply from outcomes() -> write()
class Decider {
 public:
  enum class Result : std::uint8_t {
    kDecided,
    kForeign,    // key(failed()) holds something else
    kWindow,     // counter failed() needs other windows of its calendar
    kStoreFull,  // counters that must exist do not: new_counters()
  };

  // Opens the keys: those of the counters of a request, then those of its blocks.
  bool open(RedisModuleCtx* context, std::span<RedisModuleString*> names);
  // Decides the request at its time, or at the server's.
  Result decide(const Request& request);
  // Makes the changes.
  void write(const Request& request);
  // Closes the keys.
  void close() noexcept { keys_.clear(); }

  static core::Ticks server_time() noexcept;
  core::Ticks now() const noexcept { return now_; }
  bool admits() const noexcept { return admits_; }
  const Key& key(std::size_t i) const noexcept { return keys_[i]; }
  const Outcome& outcome(std::size_t i) const noexcept { return outcomes_[i]; }
  std::size_t failed() const noexcept { return failed_; }
  const std::vector<std::size_t>& new_counters() const noexcept { return new_; }

 private:
  Result read_blocks(const Request& request);
  Result share_units(const Request& request);
  Result decide_counters(const Request& request);
  Result failure_of(std::size_t i) noexcept;
  bool changes_block(const Request& request, const AskedBlock& asked) const noexcept;
  void write_block(const Request& request, std::size_t j);
  long long end_of_key(const Request& request, core::Ticks keep_until) const noexcept;

  std::vector<Key> keys_;
  std::vector<Outcome> outcomes_;
  std::vector<BlockValue> blocks_;
  std::vector<std::size_t> new_;
  std::string block_text_;
  core::Ticks now_ = 0;
  std::optional<std::uint64_t> units_for_each_;
  bool is_blocked_ = false;
  bool admits_ = false;
  std::size_t failed_ = 0;
};

}  // namespace sluice::redis_module
