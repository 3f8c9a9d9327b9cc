#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/rule_set.h"

namespace sluice {

namespace detail {
class RuleDeciders;
}

// Rules that can be replaced while guards use them. Give guards one of these, or a RuleSet that
// does not change.
//
// Thread-safety: any member from any thread. Ownership: a handle; copies share the rules, and each
// guard holds one. Cost: a guarded call reads one atomic number to see whether its rules are
// current.
class LiveRules {
 public:
  // Begins with these rules. A RuleSet converts to it.
  LiveRules(RuleSet rules);

  // The current rules.
  RuleSet current() const;
  // Replaces the rules. Guards use `next` from their next call on. Returns one problem for each
  // guard that could not work with `next`, because its rule is gone or reads an attribute that the
  // guard does not provide; then the rules stay as they are. Returns nothing if `next` is now
  // current.
  [[nodiscard]] std::vector<std::string> replace(RuleSet next);

 private:
  friend class detail::RuleDeciders;
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace sluice
