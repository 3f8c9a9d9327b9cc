// The most asked and most denied keys. Each loop counts them without a lock in sketches of its own,
// one per limit (Space-Saving: bounded, with a bound on the error), and hands these over twice per
// second while it fills the other ones of a pair. The main thread adds them to frames of 10 s, 10
// min and 4 h per limit, six each, and adds those up when somebody asks. It spends at most a
// twentieth of its time on that; if it is late, loops count on.
#include "insight/top_keys.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "sluice/clock.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice::insight {

// The sketches of a limit in one loop: of all requests, and of those that were denied (TopBy).
using CountedKeys = std::array<KeySketch, 2>;

// A limit in one loop. The loop fills `live`. In between, the collector empties `handed`. A loop
// that has left the slot hands `live` over, too.
struct KeySlot {
  std::string_view rule, limit;  // their names
  std::size_t keys = 0;          // that are counted
  std::unique_ptr<CountedKeys> live;
  std::unique_ptr<CountedKeys> handed;
  std::atomic<bool> is_handed{false};  // `handed` belongs to the collector
  bool is_used = false;                // since the last hand_over()
};

// The limits of one set of rules in one loop, and for each algorithm the limits that requests bring
// along.
struct KeyTable {
  KeyTable(const RuleSet& of, const TopKeys& to) : rules(of), all(rules.rules()) {
    first_limit.reserve(all.size());
    for (const Rule& rule : all) {
      first_limit.push_back(of_rules);
      of_rules += rule.limits.size();
    }
    slots = std::make_unique<KeySlot[]>(size());
    used.reserve(size());
    KeySlot* slot = slots.get();
    const auto name = [&](std::string_view rule, std::string_view limit) {
      slot->rule = rule;
      slot->limit = limit;
      slot++->keys = to.keys_of_each(of_rules);
    };
    for (const Rule& rule : all) {
      for (const RuleLimit& limit : rule.limits) name(rule.name, limit.name);
    }
    for (const AlgorithmInfo& algorithm : kAlgorithms) name("", algorithm.name);
  }
  std::size_t size() const noexcept { return of_rules + kAlgorithms.size(); }
  // Returns a limit's slot. For a limit of other rules it is the slot of the limit with the same
  // names, which takes longer; null if there is none.
  KeySlot* find(const LimitAnswer& answer) const noexcept {
    const auto rule = static_cast<std::size_t>(answer.rule - all.data());
    if (rule < all.size()) {
      const auto limit = static_cast<std::size_t>(answer.limit - all[rule].limits.data());
      if (limit < all[rule].limits.size()) return &slots[first_limit[rule] + limit];
    }
    const auto is_same = [&](const KeySlot& known) {
      return known.rule == answer.rule->name && known.limit == answer.limit->name;
    };
    KeySlot* const end = slots.get() + size();
    KeySlot* const same = std::find_if(slots.get(), end, is_same);
    return same != end ? same : nullptr;
  }
  KeySlot& find(Algorithm algorithm) const noexcept {
    return slots[of_rules + static_cast<std::size_t>(algorithm)];
  }

  const RuleSet rules;
  const std::span<const Rule> all;
  std::vector<std::size_t> first_limit;  // of each rule
  std::size_t of_rules = 0;              // the number of slots for limits of rules
  std::unique_ptr<KeySlot[]> slots;
  std::vector<KeySlot*> used;  // those with is_used
};

namespace {

using namespace std::chrono_literals;

constexpr std::array<Duration, kSpans> kLengths = {10s, 10min, 4h};  // of a frame
constexpr auto kFrameCount = static_cast<std::int64_t>(KeyHistory::kFrames);

std::int64_t frame_at(std::size_t span, Duration time) noexcept {
  return std::max(time, Duration{0}) / kLengths[span];
}

}  // namespace

void KeyHistory::add(const KeyFrame& frame, Duration now) {
  add(0, std::max(frame_at(0, now), newest_[0]), frame);
}

void KeyHistory::add(std::size_t span, std::int64_t number, const KeyFrame& frame) {
  Slot& slot = slots_[span][static_cast<std::size_t>(number) % kFrames];
  if (number > newest_[span]) {
    if (newest_[span] >= 0 && span + 1 < kSpans) {
      add(span + 1, frame_at(span + 1, newest_[span] * kLengths[span]), newest(span).frame);
    }
    slot = {number, {}};
    newest_[span] = number;
  }
  slot.frame.add(frame, most_);
}

// The newest frame of each shorter span is not yet in the frames of the longer ones.
KeyFrame KeyHistory::over(Span span, Duration now) const {
  const auto wanted = static_cast<std::size_t>(span);
  const std::int64_t first = frame_at(wanted, now) - kFrameCount + 1;
  KeyFrame sum;
  for (const Slot& slot : slots_[wanted]) {
    if (slot.number >= 0 && slot.number >= first) sum.add(slot.frame, most_);
  }
  for (std::size_t shorter = 0; shorter < wanted; ++shorter) {
    const std::int64_t number = newest_[shorter];
    if (number < 0 || frame_at(wanted, number * kLengths[shorter]) < first) continue;
    sum.add(newest(shorter).frame, most_);
  }
  return sum;
}

Duration KeyHistory::covered(Span span, Duration now) noexcept {
  const auto which = static_cast<std::size_t>(span);
  const std::int64_t first = std::max<std::int64_t>(frame_at(which, now) - kFrameCount + 1, 0);
  return std::max(now, Duration{0}) - first * kLengths[which];
}

bool KeyHistory::is_over(Duration now) const noexcept {
  const std::size_t day = kSpans - 1;
  const std::int64_t last = frame_at(day, newest_[0] * kLengths[0]);
  return newest_[0] < 0 || last < frame_at(day, now) - kFrameCount + 1;
}

namespace {

constexpr std::size_t kFewestKeys = 8;               // per limit
constexpr std::size_t kMostKeysInAll = 256UL * 256;  // of 4 KB each

std::set<std::pair<std::string, std::string>> names_in(const RuleSet& rules) {
  std::set<std::pair<std::string, std::string>> names;
  for (const Rule& rule : rules.rules()) {
    for (const RuleLimit& limit : rule.limits) names.emplace(rule.name, limit.name);
  }
  return names;
}

template <typename Enum, std::size_t N>
Expected<Enum> read_name(std::string_view name, const std::array<std::string_view, N>& names) {
  for (std::size_t i = 0; i < N; ++i) {
    if (base::same_word(name, names[i])) return static_cast<Enum>(i);
  }
  return Unexpected{base::joined(names, " or ")};
}

}  // namespace

Expected<TopBy> read_top_by(std::string_view name) { return read_name<TopBy>(name, kTopByNames); }
Expected<Span> read_span(std::string_view name) { return read_name<Span>(name, kSpanNames); }

// The time since the start. It never goes back: a step back of the clock does not change it, and it
// continues from there.
Duration TopKeys::running() const {
  const std::lock_guard lock(time_mutex_);
  const Instant now = clock_.now();
  if (now > last_) passed_ += now - last_;
  last_ = now;
  return passed_;
}

// Returns how many keys of each limit are counted if there are `number` limits.
std::size_t TopKeys::keys_of_each(std::size_t number) const noexcept {
  return std::min(options_.keys,
                  std::max(kFewestKeys, kMostKeysInAll / std::max(number, std::size_t{1})));
}

// Returns how many of them fit into the sketch of one loop.
std::size_t TopKeys::sketch_size(std::size_t keys) const noexcept {
  return std::clamp(4 * keys / std::max(options_.loops, std::size_t{1}), kFewestKeys,
                    std::max(keys, kFewestKeys));
}

std::string TopKeys::text_of(const CountedKey& key) const {
  if (options_.hashed) return KeyHash::text(key.hash);
  std::string text(key.text);
  if (key.is_cut) text.append("… ").append(KeyHash::text(key.hash));
  return text;
}

void KeyRecorder::count(std::string_view label, const Decision& decision, KeySlot& slot) {
  if (!slot.is_used) {
    if (!slot.live) {
      const std::size_t size = all_.sketch_size(slot.keys);
      slot.live = std::make_unique<CountedKeys>(CountedKeys{KeySketch(size), KeySketch(size)});
    }
    slot.is_used = true;
    table_->used.push_back(&slot);
  }
  auto& [asked, denied] = *slot.live;
  const bool is_denied = decision.outcome == Outcome::kDenied;
  if (label.empty()) {
    asked.add_keyless();
    if (is_denied) denied.add_keyless();
    return;
  }
  const std::uint64_t key = hash_(label);
  const std::string_view text = is_hashed_ ? std::string_view() : label;
  asked.add(key, text);
  if (is_denied) denied.add(key, text);
}

// The collector also gets what it could not have been given, because it was late.
void KeyRecorder::leave_table() {
  if (!table_) return;
  const std::lock_guard lock(all_.inbox_mutex_);
  for (KeySlot* const slot : table_->used) all_.inbox_.emplace_back(table_, slot);
  table_.reset();
}

KeyRecorder::KeyRecorder(TopKeys& all)
    : all_(all), hash_(all.hash_), is_hashed_(all.options_.hashed) {}
KeyRecorder::~KeyRecorder() = default;

void KeyRecorder::use(const RuleSet& rules) {
  if (table_ && table_->all.data() == rules.rules().data()) return;
  auto next = std::make_shared<KeyTable>(rules, all_);
  leave_table();
  table_ = std::move(next);
}

void KeyRecorder::count(const RuleAnswer& answer) noexcept try {
  if (!table_) return;
  for (const LimitAnswer& limit : answer.limits) {
    KeySlot* const slot = table_->find(limit);
    if (slot != nullptr && !limit.decision.passed_over) count(limit.label, limit.decision, *slot);
  }
} catch (const std::bad_alloc&) {
}

void KeyRecorder::count(const Limit& limit, std::string_view key, const Decision& decision) noexcept
    try {
  if (table_) count(key, decision, table_->find(limit.algorithm()));
} catch (const std::bad_alloc&) {
}

void KeyRecorder::hand_over() {
  if (!table_ || table_->used.empty()) return;
  const std::lock_guard lock(all_.inbox_mutex_);
  std::erase_if(table_->used, [&](KeySlot* slot) {
    if (slot->is_handed.load(std::memory_order_acquire)) return false;  // the collector is late
    try {
      all_.inbox_.emplace_back(table_, slot);
    } catch (const std::bad_alloc&) {
      return false;  // the next time
    }
    std::swap(slot->live, slot->handed);
    slot->is_used = false;
    slot->is_handed.store(true, std::memory_order_release);
    return true;
  });
}

TopKeys::Handed TopKeys::take(std::size_t most) {
  const std::lock_guard lock(inbox_mutex_);
  if (most >= inbox_.size()) return std::exchange(inbox_, {});
  const auto end = inbox_.begin() + static_cast<std::ptrdiff_t>(most);
  Handed taken(inbox_.begin(), end);
  inbox_.erase(inbox_.begin(), end);
  return taken;
}

void TopKeys::add(const KeySlot& from, bool is_handed, Duration now) {
  const auto& [asked, denied] = is_handed ? *from.handed : *from.live;
  const KeyFrame frames[] = {KeyFrame(asked, from.keys), KeyFrame(denied, from.keys)};
  const std::lock_guard lock(mutex_);
  const LimitNames names(from.rule, from.limit);
  auto found = limits_.find(names);
  if (found == limits_.end()) {
    found = limits_.emplace(names, std::array{KeyHistory(from.keys), KeyHistory(from.keys)}).first;
  }
  auto& history = found->second;
  for (std::size_t by = 0; by < history.size(); ++by) {
    if (by == 0 || !frames[by].empty()) history[by].add(frames[by], now);
  }
}

void TopKeys::forget_others(const RuleSet& active, Duration now) {
  const bool is_new = !last_active_ || last_active_->rules().data() != active.rules().data();
  if (!is_new && now < last_forgot_ + 10min) return;
  last_active_ = active;
  last_forgot_ = now;
  const auto names = names_in(active);
  const std::lock_guard lock(mutex_);
  std::erase_if(limits_, [&](const auto& entry) {
    const bool has_rule = !entry.first.first.empty();
    return entry.second[0].is_over(now) || (has_rule && !names.contains(entry.first));
  });
}

TopKeys::TopKeys(const TopKeysOptions& options, const KeyHash& hash, const Clock& clock)
    : options_(options), hash_(hash), clock_(clock), last_(clock.now()) {}
TopKeys::~TopKeys() = default;

bool TopKeys::is_on() const noexcept { return options_.keys > 0; }
bool TopKeys::is_hashed() const noexcept { return options_.hashed; }

KeyRecorder& TopKeys::make_recorder() {
  const std::lock_guard lock(inbox_mutex_);
  return *recorders_.emplace_back(std::make_unique<KeyRecorder>(*this));
}

// Without memory, what cannot be kept is lost.
bool TopKeys::collect(const RuleSet& active, std::size_t most) try {
  const std::lock_guard lock(collect_mutex_);
  const Duration now = running();
  for (const auto& slot : take(most)) {
    const bool is_handed = slot->is_handed.load(std::memory_order_acquire);
    try {
      add(*slot, is_handed, now);
    } catch (const std::bad_alloc&) {
    }
    if (!is_handed) continue;
    for (KeySketch& sketch : *slot->handed) sketch.clear();
    slot->is_handed.store(false, std::memory_order_release);
  }
  forget_others(active, now);
  const std::lock_guard inbox_lock(inbox_mutex_);
  return !inbox_.empty();
} catch (const std::bad_alloc&) {
  return false;
}

std::vector<TopLimit> TopKeys::top(const TopKeysQuery& query) const {
  const Duration now = running();
  std::vector<TopLimit> limits;
  const std::lock_guard lock(mutex_);
  for (const auto& [names, history] : limits_) {
    if (!query.rule.empty() && names.first != query.rule) continue;
    if (!query.limit.empty() && names.second != query.limit) continue;
    const KeyFrame frame = history[static_cast<std::size_t>(query.by)].over(query.over, now);
    if (frame.empty()) continue;
    TopLimit& limit = limits.emplace_back();
    limit.rule = names.first;
    limit.limit = names.second;
    limit.total = frame.total();
    for (const CountedKey& key : frame.top(query.most)) {
      limit.keys.push_back({text_of(key), key.count, key.error, key.is_cut});
    }
  }
  return limits;
}

Duration TopKeys::covered(Span span) const { return KeyHistory::covered(span, running()); }

}  // namespace sluice::insight
