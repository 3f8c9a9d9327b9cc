#pragma once

#include <cstdint>

namespace sluice {

// What answers where the store cannot decide.
enum class FailurePolicy : std::uint8_t {
  kAllow,  // let pass
  kDeny,   // deny
  kLocal,  // limit in this process's memory, each limit at its share of 1/nodes
};

}  // namespace sluice
