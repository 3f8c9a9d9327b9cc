// gcc: Sluice needs C\+\+20
// clang: Sluice needs C\+\+20
// wrong: -std=c++17
#include "sluice/sluice.h"
