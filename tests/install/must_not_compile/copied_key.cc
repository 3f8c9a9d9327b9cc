// gcc: use of deleted function 'sluice::KeyBuilder::KeyBuilder
// clang: call to deleted constructor of 'const sluice::KeyBuilder'
#include "sluice/key_builder.h"

std::size_t size(const sluice::KeyBuilder& key) {
#ifdef WRONG
  const sluice::KeyBuilder copy = key;
#else
  sluice::KeyBuilder copy;
  copy.add_composed(key.view());
#endif
  return copy.size();
}
