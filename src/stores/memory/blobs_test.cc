#include "stores/memory/blobs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <new>
#include <vector>

namespace sluice::memory {
namespace {

using namespace std::chrono_literals;
using core::Ticks;

constexpr Limit kPerMillisecond = sliding_window_log(1000).per(1ms);

// A log in memory of its own.
class OwnLog {
 public:
  OwnLog(std::uint32_t summary_room, std::uint32_t entry_room)
      : memory_(LogBlob::bytes_for(summary_room, entry_room) / sizeof(std::max_align_t) + 1),
        blob_(new (memory_.data()) LogBlob) {
    blob_->summary_room = summary_room;
    blob_->entry_room = entry_room;
  }
  LogBlob* operator->() { return blob_; }
  LogBlob& operator*() { return *blob_; }
  core::sliding_window_hybrid::View at(Ticks now) {
    return core::sliding_window_hybrid::advance(kPerMillisecond, blob_->view(), now);
  }
  std::vector<Ticks> instants() {
    std::vector<Ticks> all;
    for (const core::LogEntry& entry : blob_->view().log.entries) all.push_back(entry.at());
    return all;
  }

 private:
  std::vector<std::max_align_t> memory_;
  LogBlob* blob_;
};

TEST(LogBlob, EqualInstantsShareAnEntry) {
  OwnLog log(0, 2);
  log->push_units(5, 1);
  log->push_units(5, 2);
  EXPECT_EQ(log->entries, 1u);
  EXPECT_EQ(log->view().log.entries[0].units(), 3u);
  EXPECT_EQ(log->log_units, 3u);
}

TEST(LogBlob, DropsExpiredEntriesWithoutMovingAndReusesTheirRoom) {
  OwnLog log(0, 4);
  for (const Ticks at : {0, 1, 2, 3}) log->push_units(at, 1);
  EXPECT_FALSE(log->has_room(log.at(999), false));
  EXPECT_TRUE(log->has_room(log.at(1000), false));  // the first has gone: a quarter
  log->drop_expired(log.at(1001));
  EXPECT_EQ(log->head, 2u);
  EXPECT_EQ(log.instants(), (std::vector<Ticks>{2, 3}));
  log->push_units(1001, 7);
  EXPECT_EQ(log.instants(), (std::vector<Ticks>{2, 3, 1001}));
  EXPECT_EQ(log->head, 0u);
  EXPECT_EQ(log->log_units, 9u);
}

TEST(LogBlob, HasRoomWhereAllHasExpired) {
  OwnLog log(0, 3);
  for (const Ticks at : {0, 1, 2}) log->push_units(at, 1);
  EXPECT_TRUE(log->has_room(log.at(1002), false));
  log->drop_expired(log.at(1002));
  EXPECT_EQ(log->entries, 0u);
  EXPECT_EQ(log->head, 0u);
}

TEST(LogBlob, MovesEntriesOnlyWhenAQuarterIsFree) {
  OwnLog log(0, 100);
  for (Ticks at = 0; at < 100; ++at) log->push_units(at, 1);
  EXPECT_FALSE(log->has_room(log.at(1023), false));  // 24 have expired
  EXPECT_TRUE(log->has_room(log.at(1024), false));   // 25
}

TEST(LogBlob, NeedsASummarysRoomOnlyForASummary) {
  OwnLog log(1, 2);
  log->push_units(0, 1);
  log->push_units(1, 1);
  EXPECT_FALSE(log->has_room(log.at(1), false));
  EXPECT_TRUE(log->has_room(log.at(1), true));
  log->push_summary({0, 1, 2});
  EXPECT_EQ(log->entries, 0u);
  EXPECT_EQ(log->log_units, 0u);
  log->push_units(600, 1);
  EXPECT_FALSE(log->has_room(log.at(999), true));
  EXPECT_TRUE(log->has_room(log.at(1001), true));  // the summary has expired
}

TEST(LogBlob, CopiesWhatItHoldsWithoutTheFreeFront) {
  OwnLog from(2, 5);
  from->push_units(0, 1);
  from->push_summary({0, 0, 1});
  for (const Ticks at : {500, 600, 700}) from->push_units(at, 2);
  from->last = 900;
  from->drop_expired(from.at(1500));
  ASSERT_EQ(from->head, 1u);
  OwnLog to(3, 9);
  to->copy(*from);
  EXPECT_EQ(to.instants(), (std::vector<Ticks>{600, 700}));
  EXPECT_EQ(to->head, 0u);
  EXPECT_EQ(to->summaries, 0u);
  EXPECT_EQ(to->log_units, 4u);
  EXPECT_EQ(to->last, 900);
}

TEST(LogBlob, GivesBackNewestEntriesThenNewestSummaries) {
  OwnLog log(2, 4);
  log->push_units(0, 4);
  log->push_summary({0, 10, 4});
  log->push_units(20, 5);
  log->push_summary({20, 30, 5});
  log->push_units(40, 2);
  log->push_units(50, 3);
  log->give_back(60, 4);
  EXPECT_EQ(log.instants(), (std::vector<Ticks>{40}));
  EXPECT_EQ(log->log_units, 1u);
  EXPECT_EQ(log->last, 60);
  log->give_back(60, 3);
  EXPECT_EQ(log->entries, 0u);
  EXPECT_EQ(log->view().older[1].units, 3u);
  EXPECT_EQ(log->view().older[1].first, 20);
  log->give_back(60, 6);
  EXPECT_EQ(log->summaries, 1u);
  EXPECT_EQ(log->view().older[0].units, 1u);
  log->give_back(60, ~std::uint64_t{0});
  EXPECT_EQ(log->summaries, 0u);
}

TEST(SliceBlob, TakesTwentyBytesAndFourForEachCount) {
  EXPECT_EQ(SliceBlob::bytes_for(1), 28u);
  EXPECT_EQ(SliceBlob::bytes_for(10), 64u);
  EXPECT_EQ(SliceBlob::bytes_for(1000), 4024u);
}

}  // namespace
}  // namespace sluice::memory
