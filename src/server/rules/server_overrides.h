#pragma once

#include <sys/types.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/net/file_lock.h"
#include "sluice/expected.h"
#include "sluice/overrides.h"

namespace sluice::server {

// Which version of a file is under a path: each new file has another mark. A plain value.
struct FileMark {
  // That of the file now; of no file if there is none.
  static FileMark of(const std::string& path) noexcept;

  static constexpr off_t kNoFile = -1, kUnknown = -2;

  dev_t device = 0;
  ino_t number = 0;
  off_t size = kNoFile;
  std::int64_t changed = 0;

  friend bool operator==(const FileMark&, const FileMark&) = default;
};

}  // namespace sluice::server

namespace boost::asio {
class io_context;
}

namespace sluice::redis {
class Client;
}

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
  // Return whether there was none before, and whether there was one. Errors: why it was not
  // changed.
  virtual Expected<bool> set(std::string_view counter, const Override& given);
  virtual Expected<bool> unset(std::string_view counter);
  // The same on a fiber of another loop, whose connection to Redis is `client`; null if there is
  // none. Without Redis, they block the thread only while this process writes the file.
  virtual Expected<bool> set_through(redis::Client* client, std::string_view counter,
                                     const Override& given);
  virtual Expected<bool> unset_through(redis::Client* client, std::string_view counter);
  // Sets them in this order, all or none. With `more`, the file is not written; the next change
  // does that, or keep().
  using Entries = std::span<const Overrides::Page::Entry>;
  virtual Expected<bool> set_all(Entries entries, bool more);
  // Follows the changes of other servers, until stop(). `on_trouble` is called with the reason when
  // overrides cannot be read, once per problem, and with an empty text when they can be read again.
  using OnTrouble = std::function<void(std::string_view why)>;
  virtual void follow(boost::asio::io_context&, const OnTrouble&) {}
  virtual void stop() noexcept {}
  // Writes what set_all() has not written, for a server that ends or is succeeded; from then on,
  // set_all() always writes. Errors: why not.
  virtual Expected<bool> keep();
  // Reads the file again if another process has written it. Returns whether it has; if the file is
  // wrong, an error, once, and they stay as they are.
  virtual Expected<bool> reread();
  // Drops those that have ended; the file drops them with its next change.
  void drop_ended(Instant now) { overrides_.drop_ended(now); }

 protected:
  explicit ServerOverrides(std::string path, std::size_t most = Overrides::kDefaultMost)
      : overrides_(most), path_(std::move(path)) {}

  Overrides overrides_;

 private:
  // The right to change the overrides and the file.
  struct Change {
    std::unique_lock<std::mutex> threads;
    std::optional<net::FileLock> processes;  // none without a file
  };

  // Begins a change, with the overrides in the file. Errors: why there can be none.
  Expected<Change> begin(std::chrono::milliseconds patience);
  Expected<std::optional<Change>> try_begin();
  Expected<bool> set(std::string_view counter, const Override& given,
                     std::chrono::milliseconds patience);
  Expected<bool> unset(std::string_view counter, std::chrono::milliseconds patience);
  Expected<bool> save();
  Expected<bool> read_if_changed();
  void put_back(std::string_view counter, const std::optional<Override>& before);

  const std::string path_;
  std::mutex mutex_;          // held while they are changed and written; never while waiting
  FileMark known_;            // the file that was read or written last
  bool has_unsaved_ = false;  // the file lacks some
  bool saves_all_ = false;
};

}  // namespace sluice::server
