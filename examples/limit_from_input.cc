// A limit whose numbers come from the command line or a file.
//
//   example_limit_from_input ALGORITHM LIMIT SECONDS
#include <sluice/sluice.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

// [start make]
sluice::Expected<sluice::Limit> limit_from(const char* algorithm, const char* limit,
                                           const char* seconds) {
  const auto known = sluice::algorithm_from(algorithm);
  if (!known) return sluice::Unexpected{std::string("unknown algorithm ") + algorithm};
  return sluice::Limit::make({.algorithm = *known,
                              .limit = std::strtoull(limit, nullptr, 10),
                              .per = std::chrono::seconds{std::strtoll(seconds, nullptr, 10)}});
}
// [end make]

int main(int argc, char** argv) {
  const bool given = argc == 4;
  const auto limit =
      limit_from(given ? argv[1] : "gcra", given ? argv[2] : "10", given ? argv[3] : "0");
  std::puts(limit ? "valid" : limit.error().c_str());
}
