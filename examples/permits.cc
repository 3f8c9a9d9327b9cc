// Limits what runs at the same time: permits that end with an object, with a call, or by their text
// in another process.
#include <sluice/sluice.h>

#include <cstdio>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

// [start limit]
// At most two exports of a customer at the same time. If the process of one dies, its place is free
// again after five minutes.
constexpr auto kExports = sluice::concurrency(2).lease(5min);
// [end limit]

void write_part(std::string_view customer) { std::printf("export for %s\n", customer.data()); }

// [start hold]
void run_export(sluice::Limiter& limiter, std::string_view customer) {
  sluice::Permit place = limiter.hold(customer, kExports);
  if (!place) {
    std::puts("two exports are running");
    return;
  }
  write_part(customer);
  // A long export extends its lease while it runs. If the lease has ended, another export may have
  // the place.
  if (!place.extend()) return;
  write_part(customer);
}  // the place is free
// [end hold]

// The web server takes the place, and a worker gives it back when the job is done.
std::string enqueue(sluice::Limiter& limiter, std::string_view customer) {
  sluice::Permit place = limiter.hold(customer, kExports);
  return place.detach();  // empty if there is no place
}

void finish(sluice::Limiter& limiter, std::string_view permit) {
  const sluice::Decision ended = limiter.release(permit);
  if (ended.reason == sluice::Reason::kGone) std::puts("the job took longer than its lease");
}

auto guarded_export(sluice::Limiter& limiter) {
  return sluice::guarded(limiter, "export", kExports)
      .key([](std::string_view customer) { return customer; })
      .holding()
      .otherwise([](const sluice::Decision&) { std::puts("not now"); }, write_part);
}

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  run_export(limiter, "alice");
  const std::string first = enqueue(limiter, "alice");
  const std::string second = enqueue(limiter, "alice");
  run_export(limiter, "alice");
  finish(limiter, first);
  finish(limiter, first);
  run_export(limiter, "alice");
  guarded_export(limiter)("bob");
}
