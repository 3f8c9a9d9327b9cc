#include "server/logging/ledger_file.h"

#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>
#include <utility>

namespace sluice::server {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(20);  // for the lock
constexpr std::size_t kPart = std::size_t{256} << 10;          // bytes of one write
constexpr std::size_t kWakeBytes = std::size_t{1} << 20;       // that are written at once
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::string_view kOtherWriter = "another process writes it";
constexpr Duration kBetweenReports = std::chrono::minutes(1);

// What an entry that waits takes: itself, and behind it the bytes of its texts.
std::size_t bytes_of(const LedgerEntry& entry) noexcept {
  return sizeof entry + entry.key.size() + entry.tag.size() + entry.id.size();
}

}  // namespace

LedgerFile::LedgerFile(LedgerOptions options, Log& log, const Clock& date)
    : options_(std::move(options)),
      log_(log),
      date_(date),
      file_(options_.file, "write the ledger", true) {}

// The lock ends with the descriptor.
bool LedgerFile::lock() noexcept {
  return has_lock_ = ::flock(file_.descriptor(), LOCK_EX | LOCK_NB) == 0;
}

bool LedgerFile::may_write() noexcept {
  pollfd end{predecessor_.get(), POLLIN, 0};
  const bool has_ended = end.fd < 0 || ::poll(&end, 1, 0) > 0;
  return has_lock_ || (has_ended && lock());
}

// After a rename, the file at the path is a new one, in which a predecessor goes on: the lock is
// left to it.
Status LedgerFile::open(bool succeeds) {
  std::string failure = file_.open();
  if (failure.empty() && lock()) {
    failure = read_end();
    if (succeeds && ::flock(file_.descriptor(), LOCK_UN) == 0) has_lock_ = is_read_ = false;
  } else if (failure.empty() && !succeeds) {
    failure = "another server writes the ledger " + options_.file +
              "; expected a file for each server, or drain.handover to replace that server";
  }
  if (!failure.empty()) return Unexpected{"ledger: " + failure};
  if (file_.is_shared()) {
    log_.warning("other users may read or write the ledger", {{"file", options_.file}});
  }
  return {};
}

// Finds the number with which the file goes on, and takes out an unfinished line, which the next
// line keeps.
std::string LedgerFile::read_end() {
  is_read_ = file_.size() == 0;
  if (is_read_) return {};
  std::string end(std::min<std::uint64_t>(file_.size(), 2 * kLongestLine), '\0');
  const auto from = static_cast<off_t>(file_.size() - end.size());
  const auto size = ::pread(file_.descriptor(), end.data(), end.size(), from);
  if (size != static_cast<ssize_t>(end.size())) return file_.failure("its end cannot be read");
  const std::size_t whole = end.rfind('\n') + 1;  // 0: there is no whole line
  const std::string cut = end.substr(whole);
  const std::size_t before = whole < 2 ? end.npos : end.rfind('\n', whole - 2);
  const std::size_t begin = before == end.npos ? 0 : before + 1;
  const auto last = whole == 0
                        ? Expected<LedgerLine>(LedgerLine{.kind = "stop"})
                        : parse_ledger_line(std::string_view(end).substr(begin, whole - begin - 1));
  const std::string first = std::string("{\"n\":").substr(0, cut.size());
  if (!last || (whole == 0 && !cut.starts_with(first))) {
    return file_.failure("its last line is not of a ledger; expected a new file, or a ledger");
  }
  n_ = last->n;
  if (last->kind != "stop") {
    log_.warning(
        "the ledger does not say that its server has stopped: it was killed, and the last entries, "
        "of at most ledger.flush, may be missing; or its log says how many could not be written",
        {{"file", options_.file}});
  }
  is_read_ = cut.empty();
  if (is_read_) return {};
  const auto left = static_cast<off_t>(file_.size() - cut.size());
  if (::ftruncate(file_.descriptor(), left) != 0) {
    return file_.failure("an unfinished line cannot be removed");
  }
  log_.warning("the last line of the ledger was not finished; its bytes are in the next line",
               {{"file", options_.file}, {"cut", cut}});
  start_.cut = cut;
  is_read_ = true;
  return {};
}

void LedgerFile::start(std::optional<Instant> restored, detail::FileDescriptor predecessor) {
  predecessor_ = std::move(predecessor);
  start_.kind = "start";
  start_.version = SLUICE_VERSION;
  start_.restored = restored;
  thread_ = std::thread([this] { run(); });
}

bool LedgerFile::stop(std::chrono::milliseconds patience) {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    patience_ = patience;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  return is_whole_;
}

void LedgerFile::add(const LedgerEntry& entry) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t at = waiting_.size();
  try {
    if (lost_ == 0 && at + bytes_of(entry) <= kMostBytes) {
      waiting_.resize(at + bytes_of(entry));
      char* to = waiting_.data() + at;
      std::memcpy(to, &entry, sizeof entry);
      to += sizeof entry;
      for (const std::string_view text : {entry.key, entry.tag, entry.id}) {
        to = std::copy(text.begin(), text.end(), to);
      }
      ++added_;
      if (at < kWakeBytes && waiting_.size() >= kWakeBytes) wake_.notify_one();
      return;
    }
  } catch (const std::bad_alloc&) {
    // It is lost.
  }
  ++lost_;
  ++stats_.lost;
}

LedgerFile::Stats LedgerFile::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::string LedgerFile::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// Begins a new file if this one was renamed or removed.
std::string LedgerFile::follow_file() {
  if (!file_.is_elsewhere()) return {};
  if (has_begun_) {
    // The file goes on elsewhere, whether it says so or not.
    report(write_line({.kind = "stop", .rotated = true}));
    start_ = {.kind = "start", .rotated = true, .version = SLUICE_VERSION};
    has_begun_ = false;
  }
  if (auto failure = file_.open(); !failure.empty()) return failure;
  is_read_ = false;
  if (!lock()) return file_.failure(kOtherWriter);
  return read_end();
}

std::string LedgerFile::write_line(LedgerLine line) {
  line.n = n_ + 1;
  line.at = date_.now();
  const std::string text = line.text() + '\n';
  file_.is_elsewhere();  // reads its size
  auto failure = file_.append({text, {}});
  if (failure.empty()) ++n_;
  is_flushed_ = false;
  return failure;
}

// Writes the next entries.
std::string LedgerFile::write_part() {
  text_.clear();
  std::size_t at = written_;
  std::uint64_t n = n_;
  while (at < writing_.size() && text_.size() < kPart) {
    LedgerEntry next;
    std::memcpy(&next, writing_.data() + at, sizeof next);
    const char* texts = writing_.data() + at + sizeof next;
    for (std::string_view* text : {&next.key, &next.tag, &next.id}) {
      *text = {texts, text->size()};
      texts += text->size();
    }
    text_ += ledger_line(++n, next).text() + '\n';
    at += bytes_of(next);
  }
  auto failure = file_.append({text_, {}});
  if (!failure.empty()) return failure;
  written_ = at;
  is_flushed_ = false;
  unflushed_ += n - n_;
  const std::lock_guard lock(mutex_);
  stats_.entries += n - std::exchange(n_, n);
  return {};
}

std::string LedgerFile::write_all() {
  // A predecessor ends first; but a file that was lost to another process stays lost.
  if (!may_write()) {
    return failure_.empty() ? std::string() : file_.failure(kOtherWriter);
  }
  if (!is_read_) {
    const bool is_elsewhere = file_.is_elsewhere();  // reads its size
    auto failure = read_end();
    if (!failure.empty() && !is_elsewhere) return failure;
  }
  if (auto failure = follow_file(); !failure.empty()) return failure;
  if (!has_begun_) {
    if (auto failure = write_line(start_); !failure.empty()) return failure;
    has_begun_ = true;
  }
  while (written_ < writing_.size()) {
    file_.is_elsewhere();
    if (auto failure = write_part(); !failure.empty()) return failure;
  }
  if (gap_ > 0) {
    if (auto failure = write_line({.kind = "gap", .lost = gap_}); !failure.empty()) return failure;
    gap_ = 0;
  }
  return is_flushed_ ? std::string() : flush_to_disk();
}

// The system reports a failure once: another try would succeed, and the entries be missing after a
// failure of the power.
std::string LedgerFile::flush_to_disk() {
  is_flushed_ = true;
  const std::uint64_t entries = std::exchange(unflushed_, 0);
  if (::fdatasync(file_.descriptor()) == 0) return {};
  const std::string why = std::generic_category().message(errno);
  {
    const std::lock_guard lock(mutex_);
    stats_.lost += entries;
    ++stats_.errors;
  }
  const Instant now = date_.now();
  if (refused_ == Instant::min() || now - refused_ >= kBetweenReports) {
    refused_ = now;
    log_.error("the disk may lack entries of the ledger, because it has failed to store them",
               {{"file", options_.file}, {"why", why}, {"entries", entries}});
  }
  return {};
}

void LedgerFile::flush() {
  if (written_ == writing_.size() && gap_ == 0) {
    writing_.clear();
    written_ = 0;
    {
      const std::lock_guard lock(mutex_);
      writing_.swap(waiting_);
      gap_ = std::exchange(lost_, 0);
    }
    if (gap_ > 0) {
      log_.error("entries of the ledger are lost, because it is written too slowly for them",
                 {{"file", options_.file}, {"entries", gap_}});
    }
  }
  report(write_all());
}

void LedgerFile::report(const std::string& failure) {
  const bool had_failed = !failure_.empty();
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    if (!failure.empty()) ++stats_.errors;
  }
  if (failure.empty()) {
    if (!had_failed) return;
    reported_ = Instant::min();
    return log_.info("the ledger is written again", {{"file", options_.file}});
  }
  const Instant now = date_.now();
  if (reported_ != Instant::min() && now - reported_ < kBetweenReports) return;
  reported_ = now;
  log_.error("the ledger cannot be written; its entries wait in memory",
             {{"why", failure}, {"lost", stats().lost}});
}

// A file that would exceed a limit of the process makes write() fail instead of raising SIGXFSZ.
void LedgerFile::run() {
  block_signals();
  flush();
  std::unique_lock lock(mutex_);
  for (bool ends = false; !ends;) {
    const auto wait = has_lock_ ? options_.flush : std::min(options_.flush, kBetweenTries);
    wake_.wait_for(lock, wait, [this] {
      return is_stopped_ || (failure_.empty() && has_lock_ && waiting_.size() >= kWakeBytes);
    });
    ends = is_stopped_;
    lock.unlock();
    flush();
    lock.lock();
  }
  lock.unlock();
  for (auto left = patience_; !may_write() && left.count() > 0; left -= kBetweenTries) {
    std::this_thread::sleep_for(kBetweenTries);
  }
  flush();  // what waited for the lock, or could not be written
  flush();  // what has arrived meanwhile
  auto failure = has_lock_ ? failure_ : std::string(kOtherWriter);
  if (failure.empty()) failure = write_line({.kind = "stop"});
  if (failure.empty()) return;
  is_whole_ = false;
  lock.lock();
  const std::uint64_t left = added_ - stats_.entries;
  stats_.lost += left;
  lock.unlock();
  log_.error("the ledger could not be written to its end",
             {{"file", options_.file}, {"why", failure}, {"entries", left}});
}

Status read_ledger_file(const std::string& path, const LedgerReplay::See& see, Instant now) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  std::ifstream stream(path, std::ios::binary);
  if (unknown || !stream) {
    const std::string why = unknown ? unknown.message() : std::strerror(errno);
    return Unexpected{path + " cannot be read: " + why};
  }
  if (size > kMostReadBytes) {
    return Unexpected{path + " has " + std::to_string(size) + " bytes, more than " +
                      std::to_string(kMostReadBytes) + "; expected: sluice ledger sum"};
  }
  LedgerReplay replay([](bool, const std::string&) {}, see);
  for (std::string text; std::getline(stream, text) && !stream.eof();) replay.prepare(text);
  stream.clear();
  stream.seekg(0);
  for (std::string text; std::getline(stream, text) && !stream.eof();) {
    const auto line = parse_ledger_line(text);
    if (!line) continue;
    if (replay.is_after_gap(*line)) see({.at = line->at, .kind = "gap"});
    replay.add(*line);
  }
  replay.end(now);
  return {};
}

}  // namespace sluice::server
