// The records of a snapshot, of arbitrary bytes in frames with right checksums: a store loads them
// or refuses them, stays within its bounds, and then decides with whatever it has loaded.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/block.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "stores/memory/snapshot.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

using namespace sluice;
using namespace std::chrono_literals;
namespace snapshot = sluice::memory::snapshot;

constexpr Instant kNow{1'700'000'000s};

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename Value>
void append(std::string& out, const Value& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Returns the file of the records that follow the first one. The secret is always the same, so that
// the keys below can name counters of the input.
std::string file_of(std::string_view records) {
  std::string all;
  append(all, snapshot::RecordHead{snapshot::RecordKind::kStart, 0, 0, {}});
  snapshot::StartBody start{};
  std::iota(std::begin(start.secret.bytes), std::end(start.secret.bytes), std::uint8_t{1});
  for (auto& salts : start.secret.salts) std::iota(std::begin(salts), std::end(salts), 1u);
  for (auto& salt : start.secret.salts[1]) salt += 100;
  start.saved = kNow.time_since_epoch().count();
  start.counters = records.size() / 48;
  append(all, start);
  all += records;
  std::string out(snapshot::kMagic, sizeof(snapshot::kMagic));
  append(out, snapshot::kVersion);
  for (std::uint32_t number = 0; !all.empty(); ++number) {
    const std::string_view part = std::string_view(all).substr(0, snapshot::kFrameBytes);
    append(out, snapshot::FrameHead{static_cast<std::uint32_t>(part.size()), number,
                                    XXH3_64bits_withSeed(part.data(), part.size(), number)});
    out += part;
    all.erase(0, part.size());
  }
  return out;
}

// A file in memory with a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("snapshot", MFD_CLOEXEC)) {
    require(fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) == std::ssize(bytes));
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

const std::vector<Limit>& limits() {
  static const std::vector<Limit> all = {
      fixed_window(3).per(1h),
      sliding_window_log(3).per(1h),
      sliding_window_counter(3).per(1h),
      sliding_window_hybrid(3).per(1h),
      leaky_bucket(3).per(1h),
      token_bucket(3).per(1h),
      token_bucket(3).per(1h).refilled_at_intervals(),
      gcra(3).per(1h),
      concurrency(3).lease(1h),
      budget(3).per(1h),
  };
  return all;
}

void decide(MemoryStore& store, Instant now) {
  static const Block block = *Block::make({.after = 2, .within = 1h, .time = 1h, .growth = 200});
  const PermitId permit(PermitId::Bytes{1});
  for (const Limit& limit : limits()) {
    const bool permits = holds_permits(limit.algorithm()) || holds_amounts(limit.algorithm());
    const Charge charge{
        .key = "k", .limit = limit, .permit = permits ? &permit : nullptr, .block = &block};
    for (const Verb verb :
         {Verb::kPeek, Verb::kTake, Verb::kRefund, Verb::kCharge, Verb::kTakeAtMost, Verb::kReserve,
          Verb::kTake, Verb::kRelease, Verb::kHold, Verb::kExtend, Verb::kSettle}) {
      const Decision decision = store.apply_one({verb, 1min}, charge, now);
      require(decision.remaining <= limit.capacity());
      require(decision.reset_after >= Duration{0});
      require(!decision.retry_after || *decision.retry_after >= Duration{0});
    }
  }
}

void load(const std::string& path, const MemoryStoreOptions& options) {
  MemoryStore store(options);
  const auto loaded = store.load(path, kNow);
  require(loaded || !loaded.error().empty());
  require(store.stats().keys <= options.max_keys);
  require(store.stats().log_bytes <= options.max_log_bytes);
  for (int i = 0; i < 3; ++i) decide(store, kNow + i * 30min);
  require(store.blocked(10, kNow).size() <= 10);
}

}  // namespace

// A record of one kind can have the key of an algorithm with another one, which no store writes.
// The memory of its window is then not freed.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const MemoryFile raw(input);
  require(!MemoryStore({.max_keys = 128}).load(raw.path(), kNow) || size > 400);
  const MemoryFile framed(file_of(input));
  load(framed.path(), {.max_keys = 256, .max_log_bytes = 4096, .shards = 1});
  load(framed.path(), {.max_keys = 512, .max_log_bytes = 1 << 20, .shards = 2});
  return 0;
}
