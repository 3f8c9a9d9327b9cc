#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "insight/key_sketch.h"
#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice::insight {

// The time over which keys are counted.
enum class Span : std::uint8_t { kMinute, kHour, kDay };
inline constexpr std::size_t kSpans = 3;
inline constexpr std::array<std::string_view, kSpans> kSpanNames = {"minute", "hour", "day"};

// The most frequent keys of the last minute, hour and day. Each consists of six frames: of 10 s,
// 10 min and 4 h. The newest is still being filled, so a span covers between 5/6 of its length and
// all of it; covered() says how much. A frame that ends is added to the frame of the next span, so
// nothing is counted twice.
//
// Time is how long the process has run: it does not go back and does not follow the date. Steps
// backward are read as standing still.
//
// Thread-safety: one thread at a time. Cost: at most 18 frames.
class KeyHistory {
 public:
  static constexpr std::size_t kFrames = 6;

  // `most`: of the keys of a frame.
  explicit KeyHistory(std::size_t most = KeyFrame::kMostKeys) : most_(most) {}

  void add(const KeyFrame& frame, Duration now);
  KeyFrame over(Span span, Duration now) const;
  static Duration covered(Span span, Duration now) noexcept;
  // Returns whether nothing was added within the last day.
  bool is_over(Duration now) const noexcept;

 private:
  struct Slot {
    std::int64_t number = -1;  // counts the frames of the span from time 0
    KeyFrame frame;
  };

  void add(std::size_t span, std::int64_t number, const KeyFrame& frame);
  const Slot& newest(std::size_t span) const noexcept {
    return slots_[span][static_cast<std::size_t>(newest_[span]) % kFrames];
  }

  std::size_t most_;
  std::array<std::array<Slot, kFrames>, kSpans> slots_;
  std::array<std::int64_t, kSpans> newest_ = {-1, -1, -1};  // the numbers of the newest frames
};

// Which requests of a key are counted: all, or those that the limit denied (in shadow mode: would
// have denied).
enum class TopBy : std::uint8_t { kAsked, kDenied };
inline constexpr std::array<std::string_view, 2> kTopByNames = {"asked", "denied"};

inline std::string_view name_of(TopBy by) { return kTopByNames[static_cast<std::size_t>(by)]; }
inline std::string_view name_of(Span span) { return kSpanNames[static_cast<std::size_t>(span)]; }

// Returns the enumerator with that name, in any case of letters. Error: the names, as "asked or
// denied".
Expected<TopBy> read_top_by(std::string_view name);
Expected<Span> read_span(std::string_view name);

struct TopKeysOptions {
  std::size_t keys = 256;  // that are counted per limit, 0 to KeyFrame::kMostKeys; 0: none
  std::size_t loops = 1;   // the number of recorders that share the memory of a limit
  bool hashed = false;     // keep no texts of keys; a key is shown as its hash
};

class TopKeys;
struct KeySlot;
struct KeyTable;

// The keys of the decisions of one event loop.
//
// Thread-safety: one thread calls the members. Ownership: TopKeys owns it. Cost: count() takes some
// ns per limit of the answer, without locks and atomic read-modify-write operations; it allocates
// when a limit is first used, and while a limit sees more keys than ever.
class KeyRecorder final {
 public:
  explicit KeyRecorder(TopKeys& all);  // for TopKeys
  KeyRecorder(const KeyRecorder&) = delete;
  KeyRecorder& operator=(const KeyRecorder&) = delete;
  ~KeyRecorder();

  // Sets the rules of the following answers. Does nothing if they are already set.
  void use(const RuleSet& rules);
  // Counts the key of each limit of an answer. A limit of other rules than those of use(), whose
  // request has waited while the rules changed, counts as the limit with the same names, if there
  // is one. Without memory, keys are not counted.
  void count(const RuleAnswer& answer) noexcept;
  // Counts the key of a limit that a request has brought along. It has no rule, and the name of its
  // algorithm.
  void count(const Limit& limit, std::string_view key, const Decision& decision) noexcept;
  // Passes on what was counted since the last call. To be called about once per second. Cost: some
  // ns per limit that was used since then, and a lock.
  void hand_over();

 private:
  void count(std::string_view label, const Decision& decision, KeySlot& slot);
  void leave_table();

  TopKeys& all_;
  const KeyHash& hash_;
  const bool is_hashed_;
  std::shared_ptr<KeyTable> table_;
};

struct TopKeysQuery {
  TopBy by = TopBy::kDenied;
  Span over = Span::kMinute;
  std::string rule = {};   // empty: all rules
  std::string limit = {};  // empty: all limits of the rule
  std::size_t most = 20;   // keys per limit
};

// A key as people read it. The true number is at most `count` and at least `count - error`.
struct TopKey {
  std::string text;
  std::uint64_t count = 0;
  std::uint64_t error = 0;
  bool is_cut = false;  // `text` is the beginning of the key, "… " and its hash

  bool operator==(const TopKey&) const = default;
};

struct TopLimit {
  std::string rule;
  std::string limit;
  std::uint64_t total = 0;  // of all keys, exact
  std::vector<TopKey> keys;
};

// The most asked and the most denied keys of each limit over the last minute, hour and day.
//
// Each loop counts in its own sketches, which it hands over about once per second; collect() adds
// them to the history of the limit. With at most 64 loops a limit takes at most 1 MB: 4 * 256 keys
// of 120 bytes in the sketches of all loops, four times (asked and denied; one set is filled while
// the other one is collected), and 36 frames of 12 KiB. Limits with few keys take little: a key
// takes about 120 bytes per loop, and 32 bytes and its text in each frame. With more than 256
// limits each has fewer keys, at least 8, so that up to 8192 limits take at most 256 MB together.
//
// Thread-safety: any member from any thread. Ownership: borrows the hash and the clock.
class TopKeys {
 public:
  TopKeys(const TopKeysOptions& options, const KeyHash& hash,
          const Clock& clock = SteadyClock::instance());
  ~TopKeys();
  TopKeys(const TopKeys&) = delete;
  TopKeys& operator=(const TopKeys&) = delete;

  bool is_on() const noexcept;
  bool is_hashed() const noexcept;
  // Creates a recorder for one thread. It lives as long as this object.
  KeyRecorder& make_recorder();
  // Adds at most `most` of the sketches that were handed over to the history, and forgets limits
  // that are not in the active rules. Returns whether more are waiting. Cost: some 10 µs per
  // sketch.
  bool collect(const RuleSet& active, std::size_t most = SIZE_MAX);
  // Returns the limits with requests in that time in the order of their names. Those keys
  // come first that were counted most for certain. Cost: up to 100 µs per limit.
  std::vector<TopLimit> top(const TopKeysQuery& query) const;
  // Returns how much of that time the counts cover: 5/6 to all of it, less after the start.
  Duration covered(Span span) const;

 private:
  friend class KeyRecorder;
  friend struct KeyTable;
  using LimitNames = std::pair<std::string, std::string>;  // of a rule and a limit
  using Handed = std::vector<std::shared_ptr<KeySlot>>;

  Duration running() const;
  std::size_t keys_of_each(std::size_t number) const noexcept;
  std::size_t sketch_size(std::size_t keys) const noexcept;
  std::string text_of(const CountedKey& key) const;
  Handed take(std::size_t most);
  void add(const KeySlot& from, bool is_handed, Duration now);
  void forget_others(const RuleSet& active, Duration now);

  const TopKeysOptions options_;
  const KeyHash& hash_;
  const Clock& clock_;
  mutable std::mutex time_mutex_;  // of the two members below
  mutable Instant last_;
  mutable Duration passed_{0};  // since the start
  std::mutex inbox_mutex_;      // of the two members below
  Handed inbox_;
  std::vector<std::unique_ptr<KeyRecorder>> recorders_;
  std::mutex collect_mutex_;                                // one thread collects
  mutable std::mutex mutex_;                                // of `limits_`
  std::map<LimitNames, std::array<KeyHistory, 2>> limits_;  // by TopBy
  std::optional<RuleSet> last_active_;                      // these are of the thread that collects
  Duration last_forgot_{0};
};

}  // namespace sluice::insight
