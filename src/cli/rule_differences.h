#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

#include "rules/rule_changes.h"

namespace sluice::cli {

// Returns a difference as a line without its end: "~ rule api, limit user: limit 5 -> 20".
std::string text_of(const rules::RuleDifference& one);

// Returns the `differences` of an answer of the administration.
std::vector<rules::RuleDifference> differences_in(const boost::json::object& answer);

}  // namespace sluice::cli
