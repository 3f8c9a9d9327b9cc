#include "server/rules/server_overrides.h"

#include <utility>
#include <vector>

namespace sluice::server {

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
  const std::lock_guard lock(mutex_);
  saves_all_ = true;
  const FolderLock others(path_);
  return has_unsaved_ ? save() : true;
}

void ServerOverrides::put_back(std::string_view counter, const std::optional<Override>& before) {
  if (before) {
    static_cast<void>(overrides_.set(counter, *before));
  } else {
    overrides_.unset(counter);
  }
}

Expected<bool> ServerOverrides::set(std::string_view counter, const Override& given) {
  const std::lock_guard lock(mutex_);
  const FolderLock others(path_);
  if (auto read = read_if_changed(); !read) return read;
  const auto before = overrides_.find(counter);
  auto is_new = overrides_.set(counter, given);
  if (!is_new) return is_new;
  if (auto saved = save(); !saved) {
    put_back(counter, before);
    return saved;
  }
  return !before;
}

Expected<bool> ServerOverrides::unset(std::string_view counter) {
  const std::lock_guard lock(mutex_);
  const FolderLock others(path_);
  if (auto read = read_if_changed(); !read) return read;
  const auto before = overrides_.find(counter);
  if (!overrides_.unset(counter)) return false;
  if (auto saved = save(); !saved) {
    put_back(counter, before);
    return saved;
  }
  return before.has_value();
}

Expected<bool> ServerOverrides::set_through(redis::Client*, std::string_view counter,
                                            const Override& given) {
  return set(counter, given);
}

Expected<bool> ServerOverrides::unset_through(redis::Client*, std::string_view counter) {
  return unset(counter);
}

Expected<bool> ServerOverrides::set_all(Entries entries, bool more) {
  const std::lock_guard lock(mutex_);
  const FolderLock others(path_);
  if (auto read = read_if_changed(); !read) return read;
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
