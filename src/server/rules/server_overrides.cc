#include "server/rules/server_overrides.h"

#include <sys/stat.h>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::server {

FileMark FileMark::of(const std::string& path) noexcept {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) {
    return {.size = errno == ENOENT || errno == ENOTDIR ? kNoFile : kUnknown};
  }
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return {found.st_dev, found.st_ino, found.st_size,
          found.st_ctim.tv_sec * kNanoseconds + found.st_ctim.tv_nsec};
}

namespace {

constexpr std::chrono::milliseconds kLook{5};  // between two tries to lock the file

}  // namespace

Expected<std::unique_ptr<ServerOverrides>> ServerOverrides::open(std::string path,
                                                                 std::size_t most) {
  std::unique_ptr<ServerOverrides> made(new ServerOverrides(std::move(path), most));
  if (auto read = made->read_if_changed(); !read) return Unexpected{std::move(read.error())};
  return made;
}

Expected<bool> ServerOverrides::save() {
  if (path_.empty()) return true;
  auto saved = write_overrides(path_, overrides_);
  if (saved) {
    known_ = FileMark::of(path_);
    has_unsaved_ = false;
  }
  return saved;
}

Expected<bool> ServerOverrides::read_if_changed() {
  if (path_.empty() || has_unsaved_) return false;
  const FileMark found = FileMark::of(path_);
  if (std::exchange(known_, found) == found) return false;
  auto read = read_overrides(path_, overrides_);
  if (read) overrides_.drop_ended(SystemClock().now());
  return read;
}

Expected<bool> ServerOverrides::reread() {
  const std::lock_guard lock(mutex_);
  return read_if_changed();
}

Expected<bool> ServerOverrides::keep() {
  {
    const std::lock_guard lock(mutex_);
    saves_all_ = true;
    if (!has_unsaved_) return true;
  }
  const auto change = begin(kPatience);
  if (!change) return Unexpected{change.error()};
  return has_unsaved_ ? save() : true;
}

Expected<std::optional<ServerOverrides::Change>> ServerOverrides::try_begin() {
  Change change{std::unique_lock(mutex_), {}};
  if (path_.empty()) return std::optional(std::move(change));
  auto taken = net::FileLock::try_take(path_);
  if (!taken) return Unexpected{std::move(taken.error())};
  if (!*taken) return std::optional<Change>();
  change.processes.emplace(std::move(**taken));
  if (auto read = read_if_changed(); !read) return Unexpected{std::move(read.error())};
  return std::optional(std::move(change));
}

Expected<ServerOverrides::Change> ServerOverrides::begin(std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + patience;;) {
    auto change = try_begin();
    if (!change) return Unexpected{std::move(change.error())};
    if (*change) return std::move(**change);
    if (Clock::now() >= end) break;
    std::this_thread::sleep_for(kLook);
  }
  return Unexpected{"nothing was changed, because another process has locked " + path_ +
                    ".lock; repeat the change, or give each server a file of its own"};
}

void ServerOverrides::put_back(std::string_view counter, const std::optional<Override>& before) {
  if (before) {
    static_cast<void>(overrides_.set(counter, *before));
  } else {
    overrides_.unset(counter);
  }
}

Expected<bool> ServerOverrides::set(std::string_view counter, const Override& given,
                                    std::chrono::milliseconds patience) {
  const auto change = begin(patience);
  if (!change) return Unexpected{change.error()};
  const auto before = overrides_.find(counter);
  auto is_new = overrides_.set(counter, given);
  if (!is_new) return is_new;
  if (auto saved = save(); !saved) {
    put_back(counter, before);
    return saved;
  }
  return !before;
}

Expected<bool> ServerOverrides::unset(std::string_view counter,
                                      std::chrono::milliseconds patience) {
  const auto change = begin(patience);
  if (!change) return Unexpected{change.error()};
  const auto before = overrides_.find(counter);
  if (!overrides_.unset(counter)) return false;
  if (auto saved = save(); !saved) {
    put_back(counter, before);
    return saved;
  }
  return before.has_value();
}

Expected<bool> ServerOverrides::set(std::string_view counter, const Override& given) {
  return set(counter, given, kPatience);
}

Expected<bool> ServerOverrides::unset(std::string_view counter) {
  return unset(counter, kPatience);
}

Expected<bool> ServerOverrides::set_through(redis::Client*, std::string_view counter,
                                            const Override& given) {
  return set(counter, given, {});
}

Expected<bool> ServerOverrides::unset_through(redis::Client*, std::string_view counter) {
  return unset(counter, {});
}

Expected<bool> ServerOverrides::set_all(Entries entries, bool more) {
  const auto change = begin(kPatience);
  if (!change) return Unexpected{change.error()};
  std::vector<std::optional<Override>> before;
  before.reserve(entries.size());
  Expected<bool> done = true;
  for (const auto& [counter, given] : entries) {
    auto there = overrides_.find(counter);
    done = overrides_.set(counter, given);
    if (!done) break;
    before.push_back(std::move(there));
  }
  const bool saves = saves_all_ || !more;
  if (done && saves) done = save();
  if (done) has_unsaved_ |= !saves;
  if (done) return true;
  for (std::size_t i = before.size(); i-- > 0;) put_back(entries[i].counter, before[i]);
  return done;
}

}  // namespace sluice::server
