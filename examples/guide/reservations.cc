// Units that are reserved ahead: when they come, and how to give them back.
#include <sluice/reservation.h>
#include <sluice/sluice.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

using namespace std::chrono_literals;

// [start reserve]
// One unit is a page.
constexpr auto kPrinter = sluice::token_bucket(10).per(1min).burst(50);

void print(const char* what, const sluice::Reservation& job) {
  if (job) {
    const auto delay = std::chrono::ceil<std::chrono::minutes>(job.delay());
    std::printf("%s: starts in %d min\n", what, static_cast<int>(delay.count()));
  } else {
    std::printf("%s: the queue is too long\n", what);
  }
}

void queue_jobs(sluice::Limiter& limiter) {
  print("catalogue", limiter.reserve("printer", kPrinter, 50, 30min));
  sluice::Reservation book = limiter.reserve("printer", kPrinter, 50, 30min);
  print("book", book);
  print("poster", limiter.reserve("printer", kPrinter, 10, 3min));

  book.cancel();  // before its pages are printed, so they come back
  print("poster, again", limiter.reserve("printer", kPrinter, 10, 3min));
}
// [end reserve]

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  queue_jobs(limiter);
}
