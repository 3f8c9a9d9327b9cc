// The same arrivals under each algorithm, 10 units per second: the picture in docs/algorithms.md.
#include <sluice/sluice.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using sluice::Instant;

constexpr int kColumns = 64;  // of 50 ms
constexpr sluice::Duration kColumn = 50ms;
constexpr Instant kStart{24h * 365};  // on a whole second

// How many arrive in a column: a burst over the edge of a second, a pause, then 20 a second.
int arrivals(int column) {
  if (column >= 16 && column < 24) return 4;
  return column >= 40 ? 1 : 0;
}

std::string row_of(const sluice::Limit& limit) {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  std::string row;
  for (int column = 0; column < kColumns; ++column) {
    int admitted = 0;
    for (int i = 0; i < arrivals(column); ++i) {
      const Instant now = kStart + column * kColumn + i * kColumn / arrivals(column);
      admitted += limiter.try_acquire("key", limit, 1, now).allowed();
    }
    if (arrivals(column) == 0)
      row += ' ';
    else
      row += admitted > 0 ? static_cast<char>('0' + admitted) : '.';
  }
  return row;
}

void print(const char* name, const sluice::Limit& limit) {
  std::string row = row_of(limit);
  int admitted = 0;
  for (const char c : row) admitted += c >= '0' && c <= '9' ? c - '0' : 0;
  std::printf("%-24s|%s| %2d\n", name, row.c_str(), admitted);
}

int main() {
  std::string all;
  int sum = 0;
  for (int column = 0; column < kColumns; ++column) {
    all += arrivals(column) > 0 ? static_cast<char>('0' + arrivals(column)) : ' ';
    sum += arrivals(column);
  }
  std::printf("%-24s|0s                 |1s                 |2s                 |3s  \n", "");
  std::printf("%-24s|%s| %2d\n", "arrivals", all.c_str(), sum);
  print("fixed_window", sluice::fixed_window(10).per(1s));
  print("  align: clock", sluice::fixed_window(10).per(1s).aligned_to_clock());
  print("sliding_window_log", sluice::sliding_window_log(10).per(1s));
  print("sliding_window_counter", sluice::sliding_window_counter(10).per(1s));
  print("  slices: 1", sluice::sliding_window_counter(10).per(1s).slices(1));
  print("sliding_window_hybrid", sluice::sliding_window_hybrid(10).per(1s));
  print("leaky_bucket, burst 5", sluice::leaky_bucket(10).per(1s).burst(5));
  print("token_bucket, burst 10", sluice::token_bucket(10).per(1s).burst(10));
  print("token_bucket, burst 20", sluice::token_bucket(10).per(1s).burst(20));
  print("  refill: interval", sluice::token_bucket(10).per(1s).refilled_at_intervals());
  print("gcra, burst 4", sluice::gcra(10).per(1s).burst(4));
}
