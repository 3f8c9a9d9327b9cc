#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/attributes.h"
#include "rules/cost_template.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/key_template.h"
#include "sluice/rule.h"

namespace sluice::rules {

// Whether a key belongs to the numbers of a limit, which a plan can have instead of the limit.
bool is_number(std::string_view key);
// Whether the limit has such a key. The quota lease of a limit without permits is none.
bool has_numbers(const Fields& limit);

// The plans of one file. Borrows the document.
class FilePlans {
 public:
  struct Numbers {
    std::string_view limit;
    std::size_t at = 0;
    Fields fields;
    std::shared_ptr<const PriceTable> prices;  // null: those of the file
  };
  struct Plan {
    std::string name;
    std::size_t at = 0;
    std::vector<Numbers> limits;

    const Numbers* find(std::string_view limit) const;
  };

  // The most numbers of a file: each limit with a plan has those of every plan.
  static constexpr std::size_t kMostNumbers = 100'000;

  // `keys` is the schema of the numbers of a limit, `prices` are those of the file.
  static FilePlans read(const Node& node, const schema::Map& keys, const PriceTable& prices,
                        Diagnostics& diagnostics);

  // In the order of their names.
  const std::vector<Plan>& all() const noexcept { return plans_; }
  // Checks the `plan` of a rule, and gives the rule the plans of the file.
  void choose(const Fields& fields, Rule& rule, const KeyTemplate& from,
              Diagnostics& diagnostics) const;
  // Reports that a plan lacks numbers for a limit that has none of its own.
  static void explain_lack(const Plan& plan, std::string_view rule, std::string_view limit,
                           Diagnostics& diagnostics);
  // Warns about a limit of 0, in every plan if there are plans. In a row of budgets another one may
  // allow the request.
  static void warn_of_zero(const Fields& fields, const Rule& rule, const RuleLimit& limit,
                           const Warn& warn);
  // Notes that a limit of a rule with a plan has that name.
  void use(std::string_view limit) { used_.emplace(limit); }
  // Calls `report` with the place of the numbers of each other name, and what is wrong with them.
  template <typename Report>
  void each_unused(Report&& report) const {
    for (const Plan& plan : plans_) {
      for (const Numbers& numbers : plan.limits) {
        if (used_.contains(numbers.limit)) continue;
        report(numbers.at, "the plan " + in_quotes(plan.name) + " has numbers for " +
                               in_quotes(numbers.limit) + ", which no limit with a plan is called");
      }
    }
  }

 private:
  std::vector<Plan> plans_;
  std::set<std::string, std::less<>> used_;  // names of limits
};

// Returns the index of the plan of that name in Rule::plans.
std::optional<std::size_t> find_plan(const Rule& rule, std::string_view name) noexcept;

}  // namespace sluice::rules
