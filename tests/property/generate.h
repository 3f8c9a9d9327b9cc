#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <vector>

#include "tests/oracle/oracle.h"
#include "tests/property/history.h"

// Random limits and histories. Equal seeds give equal results on every platform.
namespace sluice_property {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  // Returns a number from 0 to n - 1.
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  // Returns a number from low to high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  // Returns a number up to `most` whose magnitude is uniform: small ones are as likely as large.
  std::uint64_t magnitude(std::uint64_t most);
  template <typename T>
  T any_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::mt19937_64 engine_;
};

inline constexpr std::int64_t kLastTick = (std::int64_t{1} << 52) - 1;

sluice_oracle::Algorithm random_algorithm(Dice& dice);
// Returns a valid limit: mostly small numbers, sometimes the largest or the least round ones.
sluice_oracle::Spec random_spec(Dice& dice, sluice_oracle::Algorithm algorithm);
// Returns the same limit with one or two numbers changed.
sluice_oracle::Spec varied(Dice& dice, const sluice_oracle::Spec& spec);

// A history and the oracle's answers. Both are made together because later steps depend on the
// waits in earlier answers.
struct ToldHistory {
  History steps;
  std::vector<sluice_oracle::Answer> answers;
};
// Which verbs a history contains.
enum class Verbs {
  kBasic,  // take, peek, refund, reset
  kAll,
};
ToldHistory random_history(Dice& dice, std::size_t steps, Verbs verbs = Verbs::kBasic);

}  // namespace sluice_property
