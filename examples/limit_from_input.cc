// A limit whose numbers come from the command line or a file.
//
//   example_limit_from_input ALGORITHM LIMIT SECONDS
#include <sluice/sluice.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>

// Returns whether the text is a number of at most 32 bits: more seconds overflow in microseconds.
bool read_number(std::string_view text, std::uint32_t& number) {
  const char* const end = text.data() + text.size();
  const auto [read_to, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && read_to == end;
}

// [start make]
sluice::Expected<sluice::Limit> limit_from(std::string_view algorithm, std::string_view limit,
                                           std::string_view seconds) {
  const auto known = sluice::algorithm_from(algorithm);
  std::uint32_t units = 0, period = 0;
  if (!known) return sluice::Unexpected{"unknown algorithm " + std::string(algorithm)};
  if (!read_number(limit, units) || !read_number(seconds, period)) {
    return sluice::Unexpected{"expected whole numbers of at most 4294967295"};
  }
  return sluice::Limit::make(
      {.algorithm = *known, .limit = units, .per = std::chrono::seconds{period}});
}
// [end make]

int main(int argc, char** argv) {
  const auto check = [](const char* algorithm, const char* units, const char* seconds) {
    const auto limit = limit_from(algorithm, units, seconds);
    std::puts(limit ? "valid" : limit.error().c_str());
  };
  if (argc == 4) return check(argv[1], argv[2], argv[3]), 0;
  check("gcra", "10", "0");
  check("gcra", "10", "18446744073710");
}
