#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/event_loop.h"
#include "stores/redis/cluster/slot_map.h"

namespace sluice::redis {

struct TopologyOptions {
  using Duration = std::chrono::steady_clock::duration;

  Duration first_backoff = std::chrono::milliseconds(20);  // after a round without an answer
  Duration longest_backoff = std::chrono::seconds(2);
  Duration shortest_interval = std::chrono::milliseconds(100);  // between rounds, whatever happens
  Duration longest_interval = std::chrono::seconds(60);         // also where nothing happens
  Duration patience = std::chrono::milliseconds(100);  // with one server, before another is asked
};

// When to ask whom for the map of the slots, and what is known of it. Knows neither sockets nor
// clocks: it is told what happens and when, and says what to do.
//
// It asks in rounds: servers that can be reached first, then those that are known, then the seeds,
// one after the other and none twice, until one knows of a master for every slot. Every wait is
// drawn from half of it to all of it, so that many clients do not ask at once.
class Topology {
 public:
  using Random = std::function<std::uint64_t()>;  // of 64 bits, for the waits

  struct Action {
    enum class Kind : std::uint8_t { kAsk, kWait };
    Kind kind = Kind::kWait;
    ServerAddress address = {};  // whom to ask
    std::uint64_t question = 0;  // its number, to come back with the answer
    Time until = Time::max();    // what to wait for, if nothing else happens
  };

  Topology(std::vector<ServerAddress> seeds, TopologyOptions options, Random random);

  // What is to be done now. Ask again until it says kWait.
  Action next(Time now);

  // A sign that the map is out of date. Returns when the next round begins: soon, and Time::max()
  // while there is one.
  Time hint(Time now);
  // The server can be asked without connecting first, or no longer.
  void set_reachable(const ServerAddress& address, bool reachable);
  // What came of a question. True: the slots are served differently than was told before.
  bool answered(std::uint64_t question, SlotMap map, Time now);
  bool failed(std::uint64_t question, std::string_view why, Time now);

  const SlotMap& map() const noexcept { return map_; }
  // Enters a MOVED in the map; a hint should follow, as others may have moved too.
  void moved(std::uint16_t slot, const ServerAddress& address);

  bool is_known() const noexcept { return is_known_; }
  // The last round brought no answer. `why`: of the last question that failed.
  bool is_failing() const noexcept { return failures_ > 0; }
  const std::string& why() const noexcept { return why_; }

 private:
  void begin_round();
  void end_round(bool is_answered, Time now);
  bool end_if_exhausted(Time now);
  bool take_back(std::uint64_t question) noexcept;
  bool adopt(SlotMap map);
  Time drawn(Time from, TopologyOptions::Duration wait);

  std::vector<ServerAddress> seeds_;
  TopologyOptions options_;
  Random random_;
  std::vector<ServerAddress> reachable_;

  SlotMap map_;
  bool is_known_ = false;
  bool has_moved_ = false;  // since the map was told

  bool in_round_ = false;
  bool is_hinted_ = false;       // during the round
  bool is_answered_ = false;     // by anyone in this round
  std::optional<SlotMap> best_;  // of this round, where nobody has told as much as is known
  std::vector<ServerAddress> candidates_;
  std::size_t next_candidate_ = 0;
  std::size_t asked_ = 0;  // without an answer yet
  Time ask_next_at_ = {};
  std::uint64_t first_question_ = 0;  // of this round
  std::uint64_t next_question_ = 0;
  std::uint64_t rounds_ = 0;

  Time due_ = {};       // the next round
  Time earliest_ = {};  // it must not come before
  unsigned failures_ = 0;
  std::string why_;
};

}  // namespace sluice::redis
