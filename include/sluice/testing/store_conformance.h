#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/clock.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice::testing {

inline std::vector<Algorithm> all_algorithms() {
  std::vector<Algorithm> all;
  for (const AlgorithmInfo& row : kAlgorithms) all.push_back(row.algorithm);
  return all;
}

// What check_store() may ask of a store.
struct StoreConformance {
  // Makes a store that holds nothing. The clock, which the suite moves, outlives the store; a store
  // with a time of its own ignores it (then set `follows_clock` to false).
  std::function<std::unique_ptr<Store>(const Clock& clock)> make;

  // Whether a request without an instant is decided at the clock's time. A store that says no is
  // asked with an instant every time.
  bool follows_clock = true;
  // The algorithms that the store knows. Default: all.
  std::vector<Algorithm> algorithms = all_algorithms();
  // The longest key that is tried, in bytes.
  std::size_t longest_key = std::size_t{1} << 20;
  // Threads that ask at once, and requests of each. More find races sooner.
  int threads = 8;
  int requests_per_thread = 500;
};

// Checks that a store means what every store has to mean (Store::apply, docs/algorithms.md): all
// verbs, exact numbers of every algorithm, all or nothing, clocks that go back, changed numbers,
// odd keys and requests, threads. For authors of stores, in whatever test framework:
//
//   for (const auto& failure : check_store({.make = make_my_store})) ADD_FAILURE() << failure;
//
// Answers one sentence for each thing that is wrong; none: the store conforms. Cost: some thousand
// requests, on a few dozen stores, one after another; it does not sleep. Errors: what `make`
// throws.
std::vector<std::string> check_store(const StoreConformance& conformance);

}  // namespace sluice::testing

#include "sluice/testing/store_conformance_impl.h"
