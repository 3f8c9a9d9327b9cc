#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

#include "rules/rule_changes.h"
#include "server/rules/rules_manager.h"

namespace sluice::cli {

// Returns a difference as a line without its end: "~ rule api, limit user: limit 5 -> 20".
std::string text_of(const rules::RuleDifference& one);

// Returns the `differences` of an answer of the administration.
std::vector<rules::RuleDifference> differences_in(const boost::json::object& answer);

// Returns the `temporary` changes of an answer.
std::vector<server::TemporaryChange> temporary_in(const boost::json::object& answer);

// Returns the texts with the changes that fit them.
std::vector<server::RulesText> texts_with(std::vector<server::RulesText> texts,
                                          const std::vector<server::TemporaryChange>& changes);

// Returns ", until INSTANT" if one of the changes made this difference and has an end, or nothing.
std::string until_of(const rules::RuleDifference& one,
                     const std::vector<server::TemporaryChange>& changes);

}  // namespace sluice::cli
