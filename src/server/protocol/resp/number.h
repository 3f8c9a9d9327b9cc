#pragma once

#include "limiter/whole_number.h"

namespace sluice::server::resp {

using sluice::small_number;
using sluice::whole_number;

}  // namespace sluice::server::resp
