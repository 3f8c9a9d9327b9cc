#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "sluice/clock.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice::testing {

// Returns every algorithm whose takes need no permit.
inline std::vector<Algorithm> all_algorithms() {
  std::vector<Algorithm> all;
  all.reserve(std::size(kAlgorithms));
  for (const AlgorithmInfo& row : kAlgorithms) {
    if (!holds_permits(row.algorithm)) all.push_back(row.algorithm);
  }
  return all;
}

// How check_store() makes a store, and what it may request of it. A plain value.
struct StoreConformance {
  // Makes an empty store. The suite moves the clock, which outlives the store. A store with a time
  // of its own ignores it; then set `follows_clock` to false.
  std::function<std::unique_ptr<Store>(const Clock& clock)> make;

  // Whether the store decides a request without a time at the clock's time. If not, the suite gives
  // a time with every request.
  bool follows_clock = true;
  // The algorithms that the store knows. Default: all.
  std::vector<Algorithm> algorithms = all_algorithms();
  // Whether the store has permits (`concurrency`).
  bool permits = false;
  // The longest key that the suite uses, in bytes.
  std::size_t longest_key = std::size_t{1} << 20;
  // Threads that send requests at once, and requests of each. More find races sooner.
  int threads = 8;
  int requests_per_thread = 500;
};

// Checks that a store decides as every store must (Store::apply, docs/algorithms.md): all verbs,
// the exact numbers of every algorithm, all or nothing, clocks that go back, changed numbers, odd
// keys and requests, threads. For authors of stores, in any test framework:
//
//   for (const auto& failure : check_store({.make = make_my_store})) ADD_FAILURE() << failure;
//
// Returns one sentence for each error; none if the store conforms. Cost: some thousand requests, on
// a few dozen stores, one after another; it does not sleep. Errors: throws what `make` throws.
std::vector<std::string> check_store(const StoreConformance& conformance);

}  // namespace sluice::testing

#include "sluice/testing/store_conformance_impl.h"
