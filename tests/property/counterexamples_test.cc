#include <gtest/gtest.h>

namespace sluice_property {
namespace {}  // namespace
}  // namespace sluice_property
