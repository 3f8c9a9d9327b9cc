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
  Duration shortest_interval = std::chrono::milliseconds(100);  // between two rounds
  Duration longest_interval = std::chrono::seconds(60);         // between two rounds without a hint
  Duration patience = std::chrono::milliseconds(100);  // before another server is asked too
};

// When to ask which server for the map of the slots, and the map. A state machine without sockets
// and clocks: events and times in, actions out.
//
// It asks in rounds: first servers that are connected, then those that are known, then the seeds,
// each once, until one reports a master for every slot. Every wait is random between half of it and
// all of it, so that many clients do not ask at the same time.
class Topology {
 public:
  using Random = std::function<std::uint64_t()>;  // 64 random bits

  struct Action {
    enum class Kind : std::uint8_t { kAsk, kWait };
    Kind kind = Kind::kWait;
    ServerAddress address = {};  // the server to ask
    std::uint64_t question = 0;  // its number, to report the answer with
    Time until = Time::max();    // when to call next() again, without another event
  };

  Topology(std::vector<ServerAddress> seeds, TopologyOptions options, Random random);

  // What to do now. Call it again until it returns kWait.
  Action next(Time now);

  // Reports that the map seems out of date. Returns when the next round begins; Time::max() during
  // a round.
  Time hint(Time now);
  // Reports whether the server can be asked without connecting first.
  void set_reachable(const ServerAddress& address, bool reachable);
  // Report the result of a question. True: the slots are served by other masters than before.
  bool answered(std::uint64_t question, SlotMap map, Time now);
  bool failed(std::uint64_t question, std::string_view why, Time now);

  const SlotMap& map() const noexcept { return map_; }
  // Enters a MOVED in the map. A hint should follow, because other slots may have moved too.
  void moved(std::uint16_t slot, const ServerAddress& address);

  bool is_known() const noexcept { return is_known_; }
  // The last round had no answer. `why`: the reason of the last question that failed.
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
  bool has_moved_ = false;  // since the map was received

  bool in_round_ = false;
  bool is_hinted_ = false;       // during this round
  bool is_answered_ = false;     // by any server in this round
  std::optional<SlotMap> best_;  // of this round, if every map has fewer slots than map_
  std::vector<ServerAddress> candidates_;
  std::size_t next_candidate_ = 0;
  std::size_t asked_ = 0;  // questions without an answer
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
