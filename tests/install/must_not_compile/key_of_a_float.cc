// gcc: no matching function for call to 'sluice::KeyBuilder::KeyBuilder.*double
// clang: no matching constructor for initialization of 'const sluice::KeyBuilder'
#include "sluice/key_builder.h"

std::size_t size() {
#ifdef WRONG
  const sluice::KeyBuilder key("user", 42.0);
#else
  const sluice::KeyBuilder key("user", 42);
#endif
  return key.size();
}
