// gcc: cannot bind non-const lvalue reference of type 'sluice::Store&' to an rvalue
// clang: no matching (constructor for initialization|conversion).*'(const )?(sluice::)?Limiter'
#include "sluice/limiter.h"
#include "sluice/memory_store.h"

void ask() {
#ifdef WRONG
  const sluice::Limiter limiter{sluice::MemoryStore{}};
#else
  sluice::MemoryStore store;
  const sluice::Limiter limiter{store};
#endif
  (void)limiter.store();
}
