#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_line.h"

namespace sluice::replay {

// The most frequent of the added values, in constant memory (Space-Saving with kKept values).
//
// Not thread-safe. Cost: one comparison for a value that is the same as the one before, else at
// most kKept.
class FrequentValues {
 public:
  static constexpr std::size_t kKept = 8;
  static constexpr std::size_t kLongest = 256;  // longer values are cut

  struct Value {
    std::string text;
    std::uint64_t least = 0;  // it was added at least this often,
    std::uint64_t before =
        0;  // and at most this much more: the count of the value that it replaced
  };

  void add(std::string_view value);
  std::uint64_t added() const noexcept { return added_; }
  // Returns the `count` most frequent values, ordered by `least`.
  std::vector<Value> most(std::size_t count) const;

 private:
  Value& place_of(std::string_view value);

  std::vector<Value> values_;
  std::size_t last_ = 0;
  std::uint64_t added_ = 0;
};

// What the requests of a key have in common: enough to see whether it is a customer or a robot.
struct Traits {
  std::string label;         // of the key, if the user sets it
  std::uint64_t weight = 0;  // of the key, in TraitsByKey
  FrequentValues agents;
  FrequentValues requests;  // "POST /login"
  FrequentValues statuses;

  void add(const LogLine& line);
};

// The most frequent traits as text. Empty: the log has none.
std::string agent_of(const Traits& traits);
// "POST /login (80.0 %), GET / (20.0 %); status 401"
std::string requests_of(const Traits& traits);

// Returns what distinguishes a user agent from others: the token after "compatible;", or that of a
// robot, or the last product that not all browsers name. Else the whole text.
std::string agent_name(std::string_view agent);

// Returns the traits in at most `columns` characters, for a terminal: the requests, and the user
// agent if it differs from `label`. An agent that does not fit is its name.
std::string fitted_text(const Traits& traits, std::string_view label, std::size_t columns);

// The traits of those keys that weigh most, at most kMost keys.
//
// Not thread-safe. Cost: about 3 KB for a key. A key that comes to weigh enough later lacks its
// first requests.
class TraitsByKey {
 public:
  static constexpr std::size_t kMost = 512;

  // Keys that weigh less than `least` have no traits.
  explicit TraitsByKey(std::uint64_t least = 1) : least_(least) {}

  // Adds a request of the key with this number. The weight of a key should never become smaller.
  // Returns the traits of the key, valid until the next add(); null: it has none.
  Traits* add(std::uint32_t key, std::uint64_t weight, const LogLine& line) {
    return weight >= least_ ? add_heavy(key, weight, line) : nullptr;
  }
  // Returns null if the key has none. Valid until the next add().
  const Traits* find(std::uint32_t key) const;

 private:
  Traits* add_heavy(std::uint32_t key, std::uint64_t weight, const LogLine& line);
  void make_room();

  std::uint64_t least_;
  boost::unordered_flat_map<std::uint32_t, std::unique_ptr<Traits>> traits_;
};

}  // namespace sluice::replay
