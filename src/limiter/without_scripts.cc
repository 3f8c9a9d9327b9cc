#include "limiter/without_scripts.h"

#include <vector>

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
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 == names.size() ? ", or " : ", ";
    list += names[i];
  }
  return list;
}

}  // namespace sluice
