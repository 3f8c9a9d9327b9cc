#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "metrics/counts.h"
#include "metrics/metrics.h"
#include "server/api/admin/status_page.h"
#include "server/net/loop_clock.h"
#include "server/protocol/http/broadcast.h"
#include "server/protocol/http/message.h"
#include "server/rules/rules_manager.h"
#include "sluice/clock.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// What all rules, each rule and each limit have counted in the last ten minutes, by the second, and
// in the last day, by the minute. A change of the rules keeps the past of the names that stay.
//
// Memory: one kind of count of one of them is a column. A column takes kColumnBytes from its first
// count other than 0 on; there are at most kMostColumns, and those that come later are 0.
//
// Thread-safety: one thread. Ownership: none. Cost: add() takes some 10 ns per rule, limit and
// column.
class History {
 public:
  static constexpr std::size_t kSeconds = 600, kMinutes = 1440;
  static constexpr std::size_t kColumnBytes = (kSeconds + kMinutes) * sizeof(std::uint32_t);
  static constexpr std::size_t kMostColumns = 2000;  // 16.3 MB
  static constexpr auto kCounts = std::to_array<std::string_view>(
      {"asked", "denied", "would_deny", "failed", "near", "skipped"});

  // Adds what was counted since the previous call, which is one point by the second. `all` is of
  // these rules. The first call only sets when the first point begins.
  void add(net::SteadyTime now, Instant date, const RuleSet& rules, const metrics::Activity& all);
  // Writes the members of GET /v1/history (docs/reference/http.md) of the last day or ten minutes,
  // and of one rule if it is not null.
  void write(base::JsonWriter& json, bool of_day, const RuleSet& rules, const Rule* rule) const;
  // How many requests the store could not decide from one instant to another, at most a day ago; by
  // the second in the last ten minutes, else by the minute.
  std::uint64_t failed(Instant from, Instant to) const;
  std::size_t columns() const noexcept { return columns_; }

 private:
  using Counts = std::array<std::uint64_t, kCounts.size()>;
  using Column = std::array<std::uint32_t, kSeconds + kMinutes>;
  using Names = std::pair<std::string, std::string>;  // of rule and limit; "": all rules, the rule
  struct Series {
    Counts before{};  // what was counted at the last point
    std::array<std::unique_ptr<Column>, kCounts.size()> columns;
  };
  struct Point {
    Instant end;
    std::chrono::milliseconds took{0};
  };
  // A part of each column.
  struct Ring {
    std::size_t first, size;
    std::size_t newest = 0, used = 0;
    std::vector<Point> points = std::vector<Point>(size);
    // The place in a column of a point by its age, 0 for the oldest.
    std::size_t place(std::size_t i) const noexcept {
      return first + (newest + size + 1 - used + i) % size;
    }
    const Point& point(std::size_t i) const noexcept { return points[place(i) - first]; }
  };

  void use(const RuleSet& rules);
  void begin_point(Ring& ring);
  void put(Series& series, const Counts& counts);
  void write_series(base::JsonWriter& json, const Series* series, const Ring& ring,
                    std::size_t group) const;
  void write_sums(base::JsonWriter& json, const Series* series, const Ring& ring) const;
  void write_rules(base::JsonWriter& json, const Ring& ring, const RuleSet& rules) const;
  const Series* find(const std::string& rule, const std::string& limit) const;

  std::map<Names, Series> series_;
  std::vector<Series*> places_;    // of all rules; then each rule, followed by its limits
  std::optional<RuleSet> active_;  // of `places_`
  std::optional<net::SteadyTime> last_;
  Ring seconds_{.first = 0, .size = kSeconds};
  Ring minutes_{.first = kSeconds, .size = kMinutes};
  std::size_t columns_ = 0;
};

// The events of GET /v1/events (docs/reference/http.md): what the server does, once a second, made
// once for all viewers and only while there are viewers; and the history, which needs none.
//
// Thread-safety: one loop's thread. Ownership: borrows its parts; outlives the connections of the
// viewers. Cost: an event has at most 100 rules; see Registry::activity().
class LiveEvents {
 public:
  static constexpr std::size_t kMostViewers = 50;

  LiveEvents(const metrics::Registry& registry, const RulesManager& rules,
             std::function<ServerStatus()> status, const net::LoopClock& clock)
      : registry_(registry), rules_(rules), status_(std::move(status)), clock_(clock) {}

  http::Broadcast& viewers() noexcept { return viewers_; }
  // The latest event, made now if there is no viewer yet.
  const std::string& latest();
  // Adds to the history, and sends the next event, once a second. Call it twice a second.
  void tick();
  // Ends all streams. Later requests are refused.
  void end() { viewers_.end(); }
  // Ends all streams, because the token has changed. Viewers may connect again.
  void end_current() { viewers_.end_current(); }
  const History& history() const noexcept { return history_; }
  // Whether there is a viewer, or was one in the last ten minutes.
  bool is_watched() const noexcept;

 private:
  void make(net::SteadyTime now, const RuleSet& rules, const metrics::Activity& all);

  const metrics::Registry& registry_;
  const RulesManager& rules_;
  const std::function<ServerStatus()> status_;
  const net::LoopClock& clock_;
  http::Broadcast viewers_{kMostViewers};
  std::string event_;
  net::SteadyTime made_{};
  History history_;
  std::optional<net::SteadyTime> sampled_, watched_;
  std::vector<std::uint64_t> before_;  // the requests of each rule in the previous event
};

// Answers a request for the live page (docs/see.md) or one of its files. They are the same
// for everybody and need no token; the page asks for it. Returns false if the path is none of them.
bool answer_live_page(std::string_view path, const http::Request& request,
                      http::Response& response);

}  // namespace sluice::server
