// Random requests to budgets, for the memory store and the oracle.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>

#include "sluice/memory_store.h"
#include "tests/property/arbitrary.h"
#include "tests/property/budget_history.h"

namespace sluice_property {
namespace {

RC_GTEST_PROP(Budgets, MemoryStoreAnswersAsTheOracle, ()) {
  const std::uint64_t seed = *any_seed();
  for (std::uint64_t i = 0; i < 3; ++i) {
    sluice::MemoryStore store({.max_keys = 1024, .shards = 1});
    BudgetHistory history(seed + i, store);
    std::string differs;
    for (int step = 0; step < 80 && differs.empty(); ++step) differs = history.step();
    if (!differs.empty()) RC_FAIL(differs);
  }
}

}  // namespace
}  // namespace sluice_property
