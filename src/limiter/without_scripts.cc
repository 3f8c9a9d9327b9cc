#include "limiter/without_scripts.h"

#include <vector>

#include "base/quoted.h"

namespace sluice {

std::string algorithms_without_scripts(std::string_view if_aligned) {
  std::vector<std::string> names;
  for (const Align align : {Align::kFirstRequest, Align::kClock}) {
    for (const AlgorithmInfo& row : kAlgorithms) {
      const bool always_works = works_without_scripts(row.state, Align::kFirstRequest);
      if (align == Align::kFirstRequest && always_works) names.emplace_back(row.name);
      if (align == Align::kClock && !always_works && works_without_scripts(row.state, align)) {
        names.emplace_back(row.name).append(if_aligned);
      }
    }
  }
  return base::joined(names, ", or ");
}

}  // namespace sluice
