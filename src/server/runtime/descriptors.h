#pragma once

#include <cstddef>
#include <string>

namespace sluice::server {

// How the file descriptors of the process are divided.
struct DescriptorPlan {
  struct Needs {
    std::size_t limit;  // of the process
    std::size_t open;   // before the first connection
    std::size_t loops;
    bool redis;               // the loops connect to Redis
    std::size_t connections;  // the sum of the listeners' maximums
  };
  std::size_t connections;  // that the descriptors suffice for
  std::size_t reserve;      // the part of them that is for administration only
  std::string warning;      // if the listeners together may need more; or empty
};
DescriptorPlan plan_descriptors(const DescriptorPlan::Needs& needs);

// Raises the soft limit of open files to the hard limit. Returns the limit.
std::size_t raise_descriptor_limit() noexcept;
// Returns how many descriptors are open, or 0 if /proc is not mounted.
std::size_t count_open_descriptors();

}  // namespace sluice::server
