#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/net/file_lock.h"
#include "server/rules/rules_files.h"
#include "sluice/expected.h"
#include "sluice/overrides.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/command.h"

namespace sluice::server {

// The overrides of a server, and the file that keeps them. Each change is a new file, which is
// flushed to the disk and then renamed: whenever the process ends, the file is whole, with every
// change that was reported as done. A server and the one that it succeeds share the file: a change
// begins with the overrides in it. RedisOverrides keeps them in Redis instead.
//
// Thread-safety: any member from any thread. Cost: a change writes the whole file.
class ServerOverrides {
 public:
  static constexpr std::chrono::seconds kPatience{1};

  // Reads the file, if there is one. An empty path: they are kept in memory only. There may be at
  // most `most`. Errors: "FILE:LINE: WHAT; EXPECTED".
  static Expected<std::unique_ptr<ServerOverrides>> open(
      std::string path, std::size_t most = Overrides::kDefaultMost);

  virtual ~ServerOverrides() = default;
  ServerOverrides(const ServerOverrides&) = delete;
  ServerOverrides& operator=(const ServerOverrides&) = delete;

  const Overrides& all() const noexcept { return overrides_; }
  const std::string& path() const noexcept { return path_; }
  // Whether they are known: in Redis, they were read once. In the thread of follow().
  virtual bool is_read() const noexcept { return true; }
  // Since when Redis has owed an answer. In the thread of follow().
  virtual std::optional<Instant> waits_since() const noexcept { return std::nullopt; }
  // Return what the counter had before; in Redis, by any server. Errors: why it was not changed.
  using Before = std::optional<Override>;
  Expected<Before> set(std::string_view counter, const Override& given) {
    return change(counter, &given, {});
  }
  Expected<Before> unset(std::string_view counter) { return change(counter, nullptr, {}); }
  // The same on a fiber of another loop, whose connection to Redis is `client`; null if there is
  // none. Without Redis, they block the thread while this process writes the file, and do not wait
  // for another process.
  Expected<Before> set_through(redis::Client* client, std::string_view counter,
                               const Override& given) {
    return change(counter, &given, client);
  }
  Expected<Before> unset_through(redis::Client* client, std::string_view counter) {
    return change(counter, nullptr, client);
  }
  // Sets them in this order, all or none. With `more`, the file is not written; the next change
  // does that, or keep().
  using Entries = std::span<const Overrides::Page::Entry>;
  virtual Status set_all(Entries entries, bool more);
  // Follows the changes of other servers, until stop(). `on_trouble` is called with the reason when
  // overrides cannot be read, once per problem, and with an empty text when they can be read again.
  // `on_lost` is called with the overrides that this process knew, had not ended, and were
  // forgotten because Redis has lost its data.
  using OnTrouble = std::function<void(std::string_view why)>;
  using OnLost = std::function<void(Entries lost)>;
  virtual void follow(boost::asio::io_context&, const OnTrouble&, const OnLost&) {}
  virtual void stop() noexcept {}
  // Writes what set_all() has not written, for a server that ends or is succeeded; from then on,
  // set_all() always writes. Errors: why not.
  virtual Status keep();
  // Reads the file again if another process has written it. Returns whether it has; if the file is
  // wrong, an error, once, and they stay as they are.
  virtual Expected<bool> reread();
  // Drops those that have ended; the file drops them with its next change. If the clock has gone
  // back since the last call, all are read again: some that were dropped have not ended.
  // In Redis, soon. In the thread of follow().
  virtual void drop_ended(Instant now);

 protected:
  explicit ServerOverrides(std::string path, std::size_t most = Overrides::kDefaultMost)
      : overrides_(most), path_(std::move(path)), known_{.path = path_, .error = ENOENT} {}

  // Sets the override, or removes it if `given` is null. `through`: on a fiber of another loop.
  virtual Expected<Before> change(std::string_view counter, const Override* given,
                                  std::optional<redis::Client*> through);

  // Whether `now` is before that of the last call.
  bool has_gone_back(Instant now) {
    return now + std::chrono::seconds(1) < std::exchange(dropped_at_, now);
  }

  Overrides overrides_;

 private:
  // The right to change the overrides and the file.
  struct Change {
    std::unique_lock<std::mutex> threads;
    std::optional<net::FileDescriptor> processes;  // none without a file
  };

  // Begins a change, with the overrides in the file. Errors: why there can be none.
  Expected<Change> begin(std::chrono::milliseconds patience);
  Expected<std::optional<Change>> try_begin();
  Status save();
  Expected<bool> read_if_changed();
  void put_back(std::string_view counter, const Before& before);

  const std::string path_;
  Instant dropped_at_{};
  std::mutex mutex_;          // held while they are changed and written; never while waiting
  FileLook known_;            // the file that was read or written last
  bool has_unsaved_ = false;  // the file lacks some
  bool saves_all_ = false;
};

// The overrides in Redis are three keys in one slot: a hash from counters to overrides
// (rules/override_text.h); a stream of the latest changes, whose entry N-0 is change number N; and
// a hash with the number of the latest change, its random token (`last`), and an `epoch`, which
// differs after a loss of all data. After a loss of the latest changes, others get their numbers:
// the tokens differ.

struct OverrideKeys {
  explicit OverrideKeys(const std::string& prefix)
      : all(prefix + "{overrides}"), changes(all + ":changes"), head(all + ":head") {}

  std::string all, changes, head;
};

// The state of the overrides: no change has the number 0.
struct OverrideHead {
  std::string epoch;
  std::uint64_t number = 0;
  std::string last = {};  // the token of the latest change that has one

  friend bool operator==(const OverrideHead&, const OverrideHead&) = default;
};

struct OverrideChange;
struct OverrideMade;

// The overrides of a fleet, which are in Redis. Follows their changes: polls the number of the
// latest change every 250 ms, and reads the changes from the known one on. If these are not all
// there (the stream was trimmed, Redis lost data), it reads all overrides again, page by page.
//
// A change of this server counts at once, unless the follower has read it already: then later
// changes of the same counter may have been read too.
//
// Thread-safety: set(), unset() and set_all() on a fiber of the loop that follow() was given;
// the rest like ServerOverrides. Cost: a poll is one small command.
class RedisOverrides final : public ServerOverrides {
 public:
  // `every`: the time between two polls.
  explicit RedisOverrides(std::shared_ptr<const redis::Target> target,
                          std::chrono::milliseconds every = std::chrono::milliseconds(250));
  ~RedisOverrides() override;

  // Reads all overrides, if Redis answers within a second. Ends at the first error of Redis. Runs
  // its own event loop.
  void read_all();
  void follow(boost::asio::io_context& loop, const OnTrouble& on_trouble,
              const OnLost& on_lost) override;
  void stop() noexcept override;
  std::optional<Instant> waits_since() const noexcept override { return looks_since_; }
  bool is_read() const noexcept override { return was_read_; }

  // Sends them in groups. After an error, the groups before it are set.
  Status set_all(Entries entries, bool more) override;
  void drop_ended(Instant now) override;

 private:
  enum class Step : std::uint8_t { kHead, kChanges, kScan };
  enum class State : std::uint8_t { kFine, kUnreachable, kWrong };

  Expected<Before> change(std::string_view counter, const Override* given,
                          std::optional<redis::Client*> through) override;
  void start(boost::asio::io_context& loop);
  void look(Step step);
  void looked(const redis::Answer& answer);
  bool see_head(const redis::Reply& reply);
  void look_for_changes(std::uint64_t known);
  bool see_changes(const redis::Reply& reply);
  bool see_page(const redis::Reply& reply);
  void scan(OverrideHead head);
  bool has_moved();
  void finish_scan();
  void apply(const OverrideChange& change);
  void add_ended(std::string_view counter, std::string text);
  void remove_ended();
  void removed(const redis::Answer& answer);
  bool apply_next(const OverrideChange& change);
  void adopt_first(std::string_view epoch);
  bool has_lost_first(const OverrideHead& head);
  OverrideHead known() const;
  std::uint64_t scans() const;
  void apply_own(std::uint64_t scans, const OverrideMade& made,
                 const std::function<void()>& change);
  void wait();
  void trouble(State state, std::string_view why);
  std::string read_key(Step step) const;

  const std::shared_ptr<const redis::Target> target_;
  const std::chrono::milliseconds every_;
  const OverrideKeys keys_;
  OnTrouble on_trouble_;
  OnLost on_lost_;
  mutable std::mutex mutex_;  // of the next three, and of changes that depend on them
  OverrideHead known_;
  std::uint64_t scans_ = 0;  // that have begun
  bool has_first_ = false;   // a change of this server, when no epoch was known
  bool is_synced_ = false;
  bool is_replaced_ = false;  // Redis has another change instead of a known one
  bool was_read_ = false;
  State state_ = State::kFine;
  bool has_answered_ = false;
  bool is_read_or_not_ = false;  // all overrides were read, or Redis refused that
  Step step_ = Step::kHead;
  OverrideHead scanned_;  // the head before the scan
  std::string cursor_;
  std::vector<std::uint64_t> seen_;          // hashes of the counters of the scan
  std::uint64_t moves_ = 0;                  // connections and redirects until its latest page
  std::optional<std::uint64_t> page_moves_;  // of these, for that page
  OverrideHead asked_;                       // was known when the head was asked for
  std::uint64_t read_from_ = 0;              // the changes from this number on were asked for,
  std::uint64_t latest_ = 0;                 // and this was the latest one
  std::optional<Instant> looks_since_;
  redis::AskCommand look_{[this](const redis::Answer& answer) { looked(answer); }};
  std::deque<std::pair<std::string, std::string>> ended_;  // counters and texts, to be removed
  std::size_t removing_ = 0;                               // the first of them, at present
  std::chrono::steady_clock::time_point remove_at_{};
  redis::AskCommand remove_{[this](const redis::Answer& answer) { removed(answer); }};
  boost::asio::io_context* loop_ = nullptr;
  std::unique_ptr<boost::asio::steady_timer> timer_;
  std::unique_ptr<redis::Client> client_;
};

}  // namespace sluice::server
