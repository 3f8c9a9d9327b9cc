#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rules/rule_changes.h"
#include "server/rules/rules_manager.h"

namespace sluice::cli {

class AdminClient;

// Returns a difference as a line without its end: "~ rule api, limit user: limit 5 -> 20".
std::string text_of(const rules::RuleDifference& one);

// Returns the `differences` of an answer of the administration.
std::vector<rules::RuleDifference> differences_in(const boost::json::object& answer);

// Returns the `temporary` changes of an answer.
std::vector<server::TemporaryChange> temporary_in(const boost::json::object& answer);

// Returns the texts of a version of the rules of a server.
std::vector<server::RulesText> texts_of(AdminClient& client, std::uint64_t version);

// Returns the texts with the changes that fit them.
std::vector<server::RulesText> texts_with(std::vector<server::RulesText> texts,
                                          const std::vector<server::TemporaryChange>& changes);

// Returns how the rules of two sets of texts differ by what they mean.
std::vector<rules::RuleDifference> compare_texts(const std::vector<server::RulesText>& before,
                                                 const std::vector<server::RulesText>& after);

// Returns ", until INSTANT" if one of the changes made this difference and has an end, or nothing.
std::string until_of(const rules::RuleDifference& one,
                     const std::vector<server::TemporaryChange>& changes);

// Returns a line for each of the changes: "temporary: rule a/b has all.limit 20 until INSTANT".
std::string temporary_text(const std::vector<server::TemporaryChange>& changes);

// Returns lines that say that the changes stay active with other rules, or nothing if there are
// none.
std::string on_top_text(const std::vector<server::TemporaryChange>& changes);

// Prints the differences, each as a line.
void print_text(const std::vector<rules::RuleDifference>& all);

// Print warnings to standard error, after what was printed before: these, or those of an answer.
void print_warnings(std::span<const RuleError> warnings);
void print_warnings(const boost::json::object& answer);

// Prints the differences that the administration answers, the version, and the warnings that the
// change causes; or that nothing has changed. Returns the exit status.
int print_changed(AdminClient& client, const boost::json::object& answer);
int print_same();

// Returns "user@host".
std::string who();

// Returns the parameter that says who asks: `by`, or else who().
std::string by_query(const std::string& by);

}  // namespace sluice::cli
