#include "core/log.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstddef>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "core/sliding_window_hybrid.h"

namespace sluice::core {
namespace {

using namespace std::chrono_literals;

// Ten slices of 100 ticks.
constexpr Limit kPerMillisecond = sluice::sliding_window_hybrid(1000).per(1ms);
constexpr Limit kLog = sluice::sliding_window_log(1000).per(1ms);

// A log in memory of its own.
class OwnLog {
 public:
  OwnLog(std::uint32_t summary_room, std::uint32_t entry_room)
      : memory_(LogBuffer::bytes_for(summary_room, entry_room) / sizeof(std::max_align_t) + 1),
        buffer_(new(memory_.data()) LogBuffer) {
    buffer_->summary_room = summary_room;
    buffer_->entry_room = entry_room;
  }
  LogBuffer* operator->() { return buffer_; }
  LogBuffer& operator*() { return *buffer_; }

  // The step of a plain log and of a hybrid.
  NextLog next(Verb verb, Ticks now, std::uint64_t cost = 1) {
    const Limit limit = sluice::sliding_window_log(1000).per(1ms);
    return sliding_window_log::step(verb, limit, kept(), now, cost).next;
  }
  NextLog next_of_hybrid(Ticks now) {
    return sliding_window_hybrid::step(Verb::kTake, kPerMillisecond, kept(), now, 1).next;
  }
  void take(Ticks now, std::uint64_t cost = 1) {
    buffer_->write(next(Verb::kTake, now, cost), now);
  }
  void take_from_hybrid(Ticks now) { buffer_->write(next_of_hybrid(now), now); }
  bool has_room(Ticks now) { return buffer_->has_room(next(Verb::kTake, now)); }
  bool hybrid_has_room(Ticks now) { return buffer_->has_room(next_of_hybrid(now)); }
  std::vector<Ticks> instants() {
    std::vector<Ticks> all;
    for (const LogEntry& entry : buffer_->view().entries) all.push_back(entry.at());
    return all;
  }

 private:
  Kept<Log> kept() { return {buffer_->view(), Forgotten(Forgotten::kNever)}; }

  std::vector<std::max_align_t> memory_;
  LogBuffer* buffer_;
};

TEST(LogBuffer, SharesAnEntryBetweenEqualInstants) {
  OwnLog log(0, 2);
  log.take(5, 1);
  log.take(5, 2);
  EXPECT_EQ(log->entries, 1u);
  EXPECT_EQ(log->view().entries[0].units(), 3u);
  EXPECT_EQ(log->log_units, 3u);
}

TEST(LogBuffer, DropsExpiredEntriesAndReusesTheirRoom) {
  OwnLog log(0, 4);
  for (const Ticks at : {0, 1, 2, 3}) log.take(at);
  EXPECT_FALSE(log.has_room(999));
  EXPECT_TRUE(log.has_room(1000));  // the first entry has expired: a quarter
  log.take(1001, 7);
  EXPECT_EQ(log.instants(), (std::vector<Ticks>{2, 3, 1001}));
  EXPECT_EQ(log->head, 0u);
  EXPECT_EQ(log->log_units, 9u);
  EXPECT_EQ(log->last, 1001);
}

TEST(LogBuffer, DropsExpiredEntriesWithoutMovingTheOthers) {
  OwnLog log(0, 8);
  for (const Ticks at : {0, 1, 2, 3}) log.take(at);
  log.take(1001);
  EXPECT_EQ(log->head, 2u);
  EXPECT_EQ(log.instants(), (std::vector<Ticks>{2, 3, 1001}));
}

TEST(LogBuffer, HasRoomIfAllEntriesHaveExpired) {
  OwnLog log(0, 3);
  for (const Ticks at : {0, 1, 2}) log.take(at);
  EXPECT_TRUE(log.has_room(1002));
  log.take(1002);
  EXPECT_EQ(log->entries, 1u);
  EXPECT_EQ(log->head, 0u);
}

TEST(LogBuffer, MovesEntriesOnlyIfAQuarterIsFree) {
  OwnLog log(0, 100);
  for (Ticks at = 0; at < 100; ++at) log.take(at);
  EXPECT_FALSE(log.has_room(1023));  // 24 have expired
  EXPECT_TRUE(log.has_room(1024));   // 25
}

TEST(LogBuffer, NeedsRoomForASummaryOnlyIfASliceBegins) {
  OwnLog log(1, 2);
  log.take_from_hybrid(0);
  log.take_from_hybrid(1);
  EXPECT_FALSE(log.hybrid_has_room(2));
  EXPECT_TRUE(log.hybrid_has_room(600));
  log.take_from_hybrid(600);
  EXPECT_EQ(log->entries, 1u);
  EXPECT_EQ(log->log_units, 1u);
  ASSERT_EQ(log->summaries, 1u);
  EXPECT_EQ(log->view().older[0].units, 2u);
  EXPECT_FALSE(log.hybrid_has_room(999));
  EXPECT_TRUE(log.hybrid_has_room(1001));  // the summary has expired
}

TEST(LogBuffer, NeedsNoRoomForARefund) {
  OwnLog log(0, 1);
  log.take(0, 5);
  EXPECT_FALSE(log.has_room(1));
  EXPECT_TRUE(log->has_room(log.next(Verb::kRefund, 1, 2)));
}

TEST(LogBuffer, CopiesALogToTheFront) {
  OwnLog from(2, 5);
  from.take_from_hybrid(0);
  for (const Ticks at : {500, 510, 520}) from.take_from_hybrid(at);
  from->write({.expired_summaries = 1, .expired_entries = 1, .units = 2}, 1500);
  ASSERT_EQ(from->head, 1u);
  OwnLog to(3, 9);
  to->copy(*from);
  EXPECT_EQ(to.instants(), (std::vector<Ticks>{510, 520}));
  EXPECT_EQ(to->head, 0u);
  EXPECT_EQ(to->summaries, 0u);
  EXPECT_EQ(to->log_units, 2u);
  EXPECT_EQ(to->last, 1500);
}

TEST(LogBuffer, GivesBackTheNewestEntriesAndThenTheNewestSummaries) {
  OwnLog log(2, 4);
  const auto add = [&](Ticks at, std::uint32_t units, bool begins_slice) {
    log->write({.units = log->log_units, .summarizes = begins_slice, .added = units}, at);
  };
  const auto give_back = [&](std::uint64_t units) {
    log->write({.units = log->log_units, .given_back = units}, 60);
  };
  add(0, 4, false);
  add(20, 5, true);
  add(40, 2, true);
  add(50, 3, false);
  give_back(4);
  EXPECT_EQ(log.instants(), (std::vector<Ticks>{40}));
  EXPECT_EQ(log->log_units, 1u);
  EXPECT_EQ(log->last, 60);
  give_back(3);
  EXPECT_EQ(log->entries, 0u);
  EXPECT_EQ(log->view().older[1].units, 3u);
  EXPECT_EQ(log->view().older[1].first, 20);
  give_back(6);
  EXPECT_EQ(log->summaries, 1u);
  EXPECT_EQ(log->view().older[0].units, 1u);
  give_back(~std::uint64_t{0});
  EXPECT_EQ(log->summaries, 0u);
}

// --- merge ---

TEST(LogBuffer, MergesTheEntriesOfASliceAtItsNewestInstant) {
  OwnLog log(0, 4);  // for slices of 512 ticks
  for (const Ticks at : {520, 530, 990, 1025}) log.take(at, static_cast<std::uint64_t>(at % 7) + 1);
  const std::uint64_t units = log->log_units;
  EXPECT_FALSE(log.has_room(1100));
  log->merge(log.next(Verb::kTake, 1100), kLog);
  EXPECT_EQ(log.instants(), (std::vector<Ticks>{990, 1025}));
  EXPECT_EQ(log->log_units, units);
  EXPECT_EQ(log->last, 1025);
  EXPECT_TRUE(log.has_room(1100));
}

TEST(LogBuffer, MergesAllEntriesIfThereIsRoomForTwo) {
  OwnLog log(0, 2);
  log.take(0, 3);
  log.take(999, 4);
  log->merge(log.next(Verb::kTake, 999), kLog);
  EXPECT_EQ(log.instants(), (std::vector<Ticks>{999}));
  EXPECT_EQ(log->log_units, 7u);
}

TEST(LogBuffer, MergesSummariesOfASliceSoThatAllTheirUnitsCountUntilTheNewestHasExpired) {
  OwnLog log(3, 8);  // for slices of 1024 ticks
  for (const Ticks at : {1110, 1120, 1210, 1220, 1310, 1320, 1410}) log.take_from_hybrid(at);
  EXPECT_FALSE(log.hybrid_has_room(1510));
  log->merge(log.next_of_hybrid(1510), kPerMillisecond);
  EXPECT_TRUE(log.hybrid_has_room(1510));
  ASSERT_EQ(log->summaries, 1u);
  const Summary merged = log->view().older[0];
  EXPECT_EQ(merged.first, 1320);
  EXPECT_EQ(merged.last, 1320);
  EXPECT_EQ(merged.units, 6u);
}

TEST(LogBuffer, MergedLogIsNeverLooserThanAnExactOneAndStricterByASliceAtMost) {
  std::mt19937_64 random(11);
  for (std::uint32_t room = 4; room < 40; ++room) {
    const auto slice = static_cast<Ticks>(std::bit_ceil(1 + 999 / (room / 2)));
    const Limit limit = sluice::sliding_window_log(1 + random() % 100).per(1ms);
    OwnLog log(0, room);
    std::vector<std::pair<Ticks, std::uint64_t>> admitted;
    const auto units_since = [&](Ticks since) {
      std::uint64_t units = 0;
      for (const auto& [at, cost] : admitted) units += at > since ? cost : 0;
      return units;
    };
    Ticks now = 5000;
    for (int i = 0; i < 3000; ++i) {
      now += static_cast<Ticks>(random() % 50);
      const std::uint64_t cost = 1 + random() % 3;
      const auto decide = [&] {
        const Kept<Log> kept{log->view(), Forgotten(Forgotten::kNever)};
        return sliding_window_log::step(Verb::kTake, limit, kept, now, cost);
      };
      if (!decide().answer.admitted) {
        EXPECT_GT(units_since(now - 1000 - slice) + cost, limit.limit()) << room;
        continue;
      }
      admitted.emplace_back(now, cost);
      EXPECT_LE(units_since(now - 1000), limit.limit()) << room;
      if (!log->has_room(decide().next)) log->merge(decide().next, limit);
      ASSERT_TRUE(log->has_room(decide().next));
      log->write(decide().next, now);
    }
  }
}

TEST(LogReport, IsAnsweredAsALogOfTheSameUnits) {
  const Limit limit = sluice::sliding_window_log(5).per(1ms);
  const Kept<LogReport> kept{{.digest = {.at = 700, .units = 4, .newest = 600}, .wait = 123},
                             Forgotten(Forgotten::kNever)};
  const Answer taken = step(Verb::kTake, limit, kept, 700, 1).answer;
  EXPECT_TRUE(taken.admitted);
  EXPECT_EQ(taken.remaining, 0u);
  EXPECT_EQ(taken.reset_after, 1000);
  const Answer denied = step(Verb::kTake, limit, kept, 700, 2).answer;
  EXPECT_FALSE(denied.admitted);
  EXPECT_EQ(denied.wait, 123);
  EXPECT_EQ(denied.reset_after, 900);
  EXPECT_EQ(step(Verb::kRefund, limit, kept, 700, 2).answer.remaining, 1u);
  EXPECT_EQ(step(Verb::kReset, limit, kept, 700, 2).answer, untouched(limit));
}

}  // namespace
}  // namespace sluice::core
