// Random requests with permits, for the memory store and the oracle.

#include "tests/property/permit_history.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sluice/memory_store.h"
#include "tests/property/arbitrary.h"

namespace sluice_property {
namespace {

RC_GTEST_PROP(Permits, MemoryStoreAnswersAsTheOracle, ()) {
  const std::uint64_t seed = *any_seed();
  for (std::uint64_t i = 0; i < 3; ++i) {
    sluice::MemoryStore store({.max_keys = 1024, .shards = 1});
    PermitHistory history(seed + i, store);
    std::string differs;
    for (int step = 0; step < 60 && differs.empty(); ++step) differs = history.step();
    if (differs.empty()) differs = history.what_is_left();
    if (!differs.empty()) RC_FAIL(differs);
  }
}

}  // namespace
}  // namespace sluice_property
