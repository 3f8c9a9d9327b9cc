#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/admin_client.h"
#include "insight/top_keys.h"
#include "sluice/clock.h"

namespace sluice::cli {

// Counts since the start of the server: of the requests that a rule decided, or of the decisions of
// one limit.
struct RequestCounts {
  std::uint64_t requests = 0;
  std::uint64_t denied = 0;   // or failed
  std::uint64_t failed = 0;   // the store could not decide; a failure policy may have answered
  std::uint64_t shadow = 0;   // a shadow rule would have denied them
  std::uint64_t skipped = 0;  // the limit did not apply, because an attribute was missing
};

// By the names of a rule, "" for none, and of a limit, "" for the requests of the rule.
using CountsByLimit = std::map<std::pair<std::string, std::string>, RequestCounts>;

// Reads the counters of a text for Prometheus.
CountsByLimit read_counts(std::string_view metrics);

// Says what is wrong with a server, and what it does meanwhile, by an answer of GET /v1/status.
// Returns no lines if nothing is. `now` is for how long it is so.
std::vector<std::string> trouble_of(const boost::json::object& status, Instant now);
// Says if the store of the server is full: a look at a key does not show that a key without a
// counter gets none.
void print_full_store(AdminClient& client, std::ostream& out);

// One key of one limit.
struct TopRow {
  std::string rule, limit, key;
  std::uint64_t count = 0;
  std::uint64_t error = 0;
  bool is_shadow = false;  // the rule denies nothing now, and would have denied some
};

// What one bucket of a proxy has of one limit, in units a second.
struct TopPart {
  std::string rule, limit, key, peer;
  double demand = 0, part = 0, whole = 0;
  std::uint64_t expires_ms = 0;
};

// What the server said at one time.
struct TopSample {
  std::chrono::steady_clock::time_point at;
  CountsByLimit counts;
  std::set<std::string> shadow;      // the names of rules in shadow mode
  std::string server;                // "sluice 1.2.3, up 2 h, store memory, rules version 3"
  std::vector<std::string> trouble;  // trouble_of()
  std::vector<TopRow> keys;          // the highest counts first
  std::string no_keys;               // why the server shows no keys; empty: it does
  std::uint64_t seconds = 0;         // that the counts of keys cover
  std::vector<TopPart> parts;        // with --quota, instead of keys
  std::string no_parts;              // why there are none
};

// "sluice 1.2.3, up 2 h 3 min, store redis with 3 connections", by an answer of GET /v1/status.
std::string server_line(const boost::json::object& status);

// The samples of several servers as one: what the requests, denials and keys of all are together.
// Not thread-safe.
class TopSum {
 public:
  // Adds the answer of one server, which may have been started again since the last one.
  void add(const std::string& address, TopSample sample);
  // Notes that one gave no answer: it counts nothing meanwhile.
  void fail(const std::string& address, std::string_view why);
  // Returns the sum of what was added since the last call.
  TopSample take();

 private:
  std::map<std::string, CountsByLimit> last_;  // of each server
  CountsByLimit counts_;                       // since its first sample, of all
  TopSample sum_;
};

// What `sluice top` shows, without a terminal: it reads samples and keys of the keyboard, and
// writes lines. No line has a control character or is wider than the screen.
//
// Not thread-safe.
class TopView {
 public:
  enum class Sort { kDenied, kRequests, kName };
  enum class Pressed { kNothing, kRedraw, kAsk, kQuit };  // kAsk: the query has changed

  // `quota`: the parts of limits that proxies have, instead of keys.
  explicit TopView(const insight::TopKeysQuery& query, bool quota = false)
      : query_(query), quota_(quota) {}

  // Shows the rates between this sample and the one before. Does nothing while paused.
  void add(TopSample sample);
  void fail(std::string why) { error_ = std::move(why); }
  // Handles what the keyboard has sent at once.
  Pressed press(std::string_view bytes);

  const insight::TopKeysQuery& query() const noexcept { return query_; }
  bool shows_quota() const noexcept { return quota_; }
  // Returns the screen, `height` lines at most.
  std::vector<std::string> screen(std::size_t width, std::size_t height) const;
  // Returns a report of any height, without the help for the keyboard.
  std::vector<std::string> report(std::size_t width) const;

 private:
  struct Rates {
    std::string rule;
    double requests = 0, denied = 0, failed = 0, skipped = 0;
    double shown = 0;  // denied, or what a rule in shadow mode would deny
  };

  Pressed press_one(char key);
  Pressed type(char key);
  std::vector<Rates> rates() const;
  bool is_shown(std::string_view text) const;
  // What is wrong is on several lines if it is wider.
  std::vector<std::string> head(std::size_t width) const;
  std::vector<std::string> rule_lines() const;
  std::vector<std::string> key_lines(std::size_t width) const;
  std::vector<std::string> part_lines(std::size_t width) const;

  insight::TopKeysQuery query_;
  const bool quota_;
  Sort sort_ = Sort::kDenied;
  bool is_paused_ = false;
  bool is_typing_ = false;  // the filter
  std::string filter_;
  std::string error_;
  std::optional<TopSample> last_, before_;
};

}  // namespace sluice::cli
