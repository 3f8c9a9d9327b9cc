#include "stores/redis/script/state_reader.h"

#include <array>
#include <chrono>
#include <cstdio>

#include "core/period.h"

namespace sluice::redis {
namespace {

constexpr std::uint64_t kTickBits = 48;  // of the instants within a log
constexpr std::uint64_t kGrid = std::uint64_t{1} << 20;
constexpr std::uint64_t kNever = 0xFFFFFFFE;
constexpr std::size_t kMostDetails = 100;

// Little-endian numbers, one behind the other, in a text that is long enough.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t next(std::size_t size) noexcept {
    std::uint64_t number = 0;
    for (std::size_t i = size; i-- > 0;) {
      number = number << 8 | static_cast<unsigned char>(bytes_[i]);
    }
    bytes_.remove_prefix(size);
    return number;
  }

 private:
  std::string_view bytes_;
};

std::string count_of(std::uint64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string duration_text(std::uint64_t ticks) {
  return core::format_period(Duration{static_cast<std::int64_t>(ticks)});
}

Instant instant_of(std::uint64_t ticks) {
  return Instant{Duration{static_cast<std::int64_t>(ticks)}};
}

// What every state begins with, behind its first two bytes.
bool set_times(CounterState& state, std::uint64_t changed, std::uint64_t forgotten) {
  state.changed = instant_of(changed);
  if (forgotten < kNever) state.forgotten_from = instant_of(forgotten * kGrid);
  return state.changed <= kLastInstant;
}

void add_detail(CounterState& state, std::size_t index, std::size_t count, std::string text) {
  if (index < kMostDetails) state.details.push_back(std::move(text));
  if (index == kMostDetails) {
    state.details.push_back("and " + std::to_string(count - kMostDetails) + " more");
  }
}

// --- one reader for each layout ---

constexpr std::size_t kFixedSize = 27;

std::optional<CounterState> read_bucket(std::string_view value) {
  if (value.size() != kFixedSize) return std::nullopt;
  Fields fields(value.substr(2));
  CounterState state;
  const std::uint64_t changed = fields.next(7);
  const std::uint64_t aux = fields.next(6);
  const std::uint64_t units = fields.next(4);
  const bool by_interval = (fields.next(4) & 1) != 0;
  if (!set_times(state, changed, fields.next(4)) || aux >> 45 != 0) return std::nullopt;
  state.summary = count_of(units, "unit") + " spent";
  if (by_interval) {
    if (units > 0) state.details.push_back(duration_text(aux) + " since the last refill");
  } else if (aux > 0) {
    state.summary += " and a part of one";
  }
  return state;
}

std::optional<CounterState> read_window(std::string_view value) {
  if (value.size() != kFixedSize) return std::nullopt;
  Fields fields(value.substr(2));
  CounterState state;
  const std::uint64_t changed = fields.next(7);
  const std::uint64_t since = fields.next(6);
  const std::uint64_t units = fields.next(4);
  fields.next(4);
  if (!set_times(state, changed, fields.next(4)) || since >> 45 != 0) return std::nullopt;
  state.summary = count_of(units, "unit") + " used";
  if (units > 0 && since <= changed) {
    state.summary += " in the window since " + to_text(instant_of(changed - since));
  }
  return state;
}

constexpr std::size_t kSlicesHead = 21;
constexpr std::size_t kMostSlices = kMaxSlices + 1;

std::optional<CounterState> read_slices(std::string_view value) {
  if (value.size() < kSlicesHead || (value.size() - kSlicesHead) % 4 != 0) return std::nullopt;
  const std::size_t count = (value.size() - kSlicesHead) / 4;
  Fields fields(value.substr(2));
  CounterState state;
  const std::uint64_t changed = fields.next(7);
  const std::uint64_t period = fields.next(6);
  const std::uint64_t slices = fields.next(2);
  const std::uint64_t forgotten = fields.next(4);
  const bool is_ours = slices >= 1 && slices <= kMaxSlices && period >= 1000 && period >> 45 == 0 &&
                       count <= slices + 1 && count <= kMostSlices;
  if (!set_times(state, changed, forgotten) || !is_ours) return std::nullopt;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t units = fields.next(4);
    sum += units;
    const std::string age = i == 0 ? "newest slice" : count_of(i, "slice") + " before";
    add_detail(state, i, count, age + ": " + count_of(units, "unit"));
  }
  state.summary = count_of(sum, "unit") + " in the " + count_of(slices, "slice") + " of " +
                  duration_text(period) + ", and the one before them";
  return state;
}

constexpr std::size_t kLogHead = 64;
constexpr std::size_t kBlocksSize = 320;
constexpr std::size_t kSummarySize = 16;
constexpr std::size_t kEntrySize = 10;

// The head of a log. Behind it lie, in a long one, two blocks, of which the first holds the `back`
// newest entries; `space` summaries; and a ring of `room` entries, which holds the others.
struct LogHead {
  std::uint64_t changed, forgotten, space, summaries, room, head, count, before, after;
  std::uint64_t blocks, back;

  explicit LogHead(std::string_view value) {
    Fields fields(value.substr(2));
    changed = fields.next(7);
    forgotten = fields.next(4);
    fields.next(7);
    space = fields.next(2);
    summaries = fields.next(2);
    room = fields.next(4);
    head = fields.next(4);
    count = fields.next(4);
    before = fields.next(4);
    after = fields.next(4);
    fields.next(6 + 6 + 4);
    blocks = fields.next(1);
    fields.next(2);
    back = fields.next(1);
  }

  bool is_of(std::string_view value) const noexcept {
    return summaries <= space && blocks <= 1 && back <= 16 * blocks && back <= count &&
           count - back <= room && head <= room && value.size() == ring() + room * kEntrySize;
  }
  std::size_t ring() const noexcept { return summary() + space * kSummarySize; }
  std::size_t summary() const noexcept { return kLogHead + blocks * kBlocksSize; }
  // Where entry i lies; 0 is the oldest.
  std::size_t entry(std::uint64_t i) const noexcept {
    const std::uint64_t in_ring = count - back;
    if (i >= in_ring) return kLogHead + (i - in_ring) * kEntrySize;
    return ring() + (head + i) % room * kEntrySize;
  }
  // An instant of which the value has the lowest bits: at most a period before the last change.
  Instant instant(std::uint64_t low) const {
    const std::uint64_t mask = (std::uint64_t{1} << kTickBits) - 1;
    return instant_of(changed - ((changed - low) & mask));
  }
};

std::uint64_t read_summaries(std::string_view value, const LogHead& head, CounterState& state) {
  Fields fields(value.substr(head.summary()));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < head.summaries; ++i) {
    const Instant first = head.instant(fields.next(6));
    const Instant last = head.instant(fields.next(6));
    const std::uint64_t units = fields.next(4);
    sum += units;
    add_detail(state, i, head.summaries,
               to_text(first) + " to " + to_text(last) + ": " + count_of(units, "unit"));
  }
  return sum;
}

void read_entries(std::string_view value, const LogHead& head, CounterState& state) {
  std::uint64_t before = head.before;
  for (std::size_t i = 0; i < head.count; ++i) {
    Fields fields(value.substr(head.entry(i)));
    const Instant at = head.instant(fields.next(6));
    const std::uint64_t sum = fields.next(4);
    const std::uint64_t units = (sum - before) & 0xFFFFFFFF;
    before = sum;
    add_detail(state, i, head.count, to_text(at) + ": " + count_of(units, "unit"));
  }
}

std::optional<CounterState> read_log(std::string_view value) {
  if (value.size() < kLogHead) return std::nullopt;
  const LogHead head(value);
  CounterState state;
  if (!set_times(state, head.changed, head.forgotten) || !head.is_of(value)) return std::nullopt;
  const std::uint64_t older = read_summaries(value, head, state);
  read_entries(value, head, state);
  const std::uint64_t units = ((head.after - head.before) & 0xFFFFFFFF) + older;
  state.summary = count_of(units, "unit") + " in " + std::to_string(head.count) +
                  (head.count == 1 ? " entry" : " entries");
  if (head.summaries > 0) {
    state.summary += " and " + std::to_string(head.summaries) + " older " +
                     (head.summaries == 1 ? "slice" : "slices");
  }
  return state;
}

std::optional<std::string> decoded_tag(std::string_view text) {
  std::string tag;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      tag += text[i];
    } else if (text.substr(i, 3) == "%25") {
      tag += '%';
      i += 2;
    } else if (text.substr(i, 3) == "%7D") {
      tag += '}';
      i += 2;
    } else {
      return std::nullopt;
    }
  }
  return tag;
}

std::optional<Algorithm> algorithm_of(char letter) {
  switch (letter) {
    case 'f': return Algorithm::kFixedWindow;
    case 'l': return Algorithm::kSlidingWindowLog;
    case 'c': return Algorithm::kSlidingWindowCounter;
    case 'h': return Algorithm::kSlidingWindowHybrid;
    case 'b': return Algorithm::kLeakyBucket;
    case 't': return Algorithm::kTokenBucket;
    case 'g': return Algorithm::kGcra;
    default: return std::nullopt;
  }
}

// The second byte of a state: version and layout.
char layout_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kFixedWindow: return '\x12';
    case Algorithm::kSlidingWindowLog: return '\x13';
    case Algorithm::kSlidingWindowCounter: return '\x14';
    case Algorithm::kSlidingWindowHybrid: return '\x15';
    default: return '\x11';
  }
}

}  // namespace

std::optional<CounterName> read_counter_name(std::string_view redis_key) {
  if (redis_key.size() < 3 || redis_key[1] != '{') return std::nullopt;
  const std::optional<Algorithm> algorithm = algorithm_of(redis_key[0]);
  const std::size_t end = redis_key.find('}');
  if (!algorithm || end == redis_key.npos) return std::nullopt;
  std::optional<std::string> tag = decoded_tag(redis_key.substr(2, end - 2));
  if (!tag) return std::nullopt;
  return CounterName{*algorithm, std::move(*tag), std::string(redis_key.substr(end + 1))};
}

std::optional<CounterState> read_counter_state(Algorithm algorithm, std::string_view value) {
  if (value.size() < 2 || value[0] != '\xC1' || value[1] != layout_of(algorithm)) {
    return std::nullopt;
  }
  switch (algorithm) {
    case Algorithm::kFixedWindow: return read_window(value);
    case Algorithm::kSlidingWindowCounter: return read_slices(value);
    case Algorithm::kSlidingWindowLog:
    case Algorithm::kSlidingWindowHybrid: return read_log(value);
    default: return read_bucket(value);
  }
}

std::string to_text(Instant instant) {
  const auto day = std::chrono::floor<std::chrono::days>(instant);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss<Duration> time(std::chrono::duration_cast<Duration>(instant - day));
  std::array<char, 40> text;
  const int size = std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02ld:%02ld:%02ld.%06ldZ",
      static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()), static_cast<long>(time.hours().count()),
      static_cast<long>(time.minutes().count()), static_cast<long>(time.seconds().count()),
      static_cast<long>(time.subseconds().count()));
  return std::string(text.data(), static_cast<std::size_t>(size));
}

}  // namespace sluice::redis
