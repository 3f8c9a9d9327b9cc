#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/oracle/counter.h"
#include "tests/oracle/spec.h"

// A second reading of what the limits mean, for tests to compare with: exact rationals, plain
// lists, and waits found by looking for the first tick at which the answer changes. It is slow, it
// knows no trick, and it shares no code with the library.
namespace sluice_oracle {

enum class Verb { kTake, kPeek, kRefund, kReset };

struct Charge {
  std::string key;
  Spec spec;
  std::uint64_t cost = 1;
};

struct LimitAnswer {
  bool denied = false;
  std::string reason = "ok";  // "ok", "limited", "never"
  std::uint64_t limit = 0;
  std::uint64_t remaining = 0;
  std::int64_t reset_after_us = 0;
  std::optional<std::int64_t> retry_after_us = {};
  std::optional<std::int64_t> delay_us = {};
};

struct Answer {
  bool allowed = true;
  std::string reason = "ok";  // "ok", "limited", "never", "invalid"
  std::optional<std::int64_t> retry_after_us = {};
  std::optional<std::int64_t> delay_us = {};
  std::vector<LimitAnswer> limits = {};  // one for each charge; none when invalid
};

// All counters, and the four verbs on them. Instants are microseconds since the Unix epoch; waits
// are from that instant, or from a counter's last change where that is later.
class Oracle {
 public:
  Answer apply(Verb verb, const std::vector<Charge>& charges, std::int64_t at_us);

  // The latest instant, not after `seen_us`, at which a counter was forgotten; 0 if none was.
  // Behind it a clock that is set back finds that counter fresh or as it was, as the store likes.
  std::int64_t last_forgotten(std::int64_t seen_us) const;

 private:
  using Name = std::pair<std::string, Algorithm>;
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  struct Kept {
    Counter counter;
    std::int64_t forgotten_from = kNever;
  };
  // What all charges of a request on one counter come to.
  struct Share {
    Spec spec;
    Integer cost;
    std::int64_t instant = 0;
    std::int64_t forgotten_from = kNever;  // what `before` says ends here
    Counter before;
    Counter after;
    LimitAnswer answer;
  };

  Share find(const Charge& charge, std::int64_t at_us) const;
  void keep(const Name& name, const Share& share);

  static void decide(Share& share);
  static void describe(Verb verb, bool allowed, Share& share);

  std::map<Name, Kept> counters_;
};

}  // namespace sluice_oracle
