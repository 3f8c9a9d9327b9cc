#include "limiter/client_throttle.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/http_fields.h"
#include "sluice/limit_builder.h"

namespace {

using namespace std::chrono_literals;
using sluice::Duration;
using sluice::Instant;

constexpr Duration kMost = 1'000'000'000s;

void check_range(Duration wait) {
  if (wait < Duration{0} || wait > kMost) std::abort();
}

// A limit of any name is read as it was written.
void check_written(std::string_view name) {
  static sluice::HttpFields fields;
  const std::uint32_t remaining = name.size() % 2;
  const Duration reset = std::chrono::seconds(1 + name.size() * 7919 % 100'000);
  const sluice::Decision decision{.capacity = 5, .remaining = remaining, .reset_after = reset};
  // Of a bucket, `t` is the time until its next unit.
  constexpr sluice::Limit kLimit = sluice::fixed_window(5).per(1min);
  for (const auto& [field, value] : fields.of(name, kLimit, decision)) {
    if (field != "RateLimit") continue;
    if (sluice::read_rate_limit(value) != (remaining == 0 ? reset : 0s)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_range(sluice::read_rate_limit(text));
  if (const auto wait = sluice::read_retry_after(text, Instant{784'111'777s})) check_range(*wait);
  check_written(text);
  return 0;
}
