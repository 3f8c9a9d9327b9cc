#pragma once

#include "limiter/limit_arguments.h"

namespace sluice::server::resp {

using sluice::small_number;
using sluice::whole_number;

}  // namespace sluice::server::resp
