#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

inline constexpr std::string_view kProblemType = "application/problem+json";

// What is told of a request that was not done (RFC 9457). In UTF-8.
struct Problem {
  int status = 400;
  std::string_view detail = {};  // what is wrong, and what would be right
  std::string_view title = {};   // empty: that of the status
  std::string_view type = {};    // a URI; empty: "about:blank"
};

// The name of a status: "Not Found"; "Error" for one that has none here.
std::string_view status_title(int status) noexcept;

// Appends it as a JSON object. `members`, if any, are more of its members:  `"name":value,...`.
void append_problem(std::string& out, const Problem& problem, std::string_view members = {});

}  // namespace sluice::server
