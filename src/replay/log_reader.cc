#include "replay/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "replay/log_attributes.h"
#include "replay/log_line.h"
#include "replay/text.h"
#include "rules/request_names.h"

namespace sluice::replay {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kCompressedBlock = std::size_t{128} << 10;
constexpr std::string_view kGzipMagic = "\x1f\x8b"sv;

// Returns what to do with a file of another compression, or an empty text.
std::string_view advice_for(std::string_view head) {
  if (head.starts_with("\xfd"
                       "7zXZ")) {
    return "it is xz; only gzip is read: xz -dc LOG | sluice ... -";
  }
  if (head.starts_with("\x28\xb5\x2f\xfd")) {
    return "it is zstd; only gzip is read: zstd -dc LOG | sluice ... -";
  }
  if (head.starts_with("BZh")) {
    return "it is bzip2; only gzip is read: bzip2 -dc LOG | sluice ... -";
  }
  if (head.starts_with("PK\x03\x04")) {
    return "it is zip; only gzip is read: unzip -p LOG | sluice ... -";
  }
  return {};
}

std::string system_error(std::string_view what) {
  return std::string(what) + ": " + std::strerror(errno);
}

}  // namespace

Expected<std::unique_ptr<LogSource>> LogSource::open(const std::string& path) {
  const bool is_input = path == "-";
  const int descriptor = is_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::unique_ptr<LogSource> source(new LogSource(descriptor, !is_input));
  struct stat status = {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    return Unexpected{system_error("cannot open")};
  }
  if (S_ISDIR(status.st_mode)) return Unexpected{"is a directory; expected a log file"};
  const auto head = source->peek();
  if (!head) return Unexpected{head.error()};
  if (const auto advice = advice_for(*head); !advice.empty())
    return Unexpected{std::string(advice)};
  if (head->starts_with(kGzipMagic)) {
    source->inflater_ = std::make_unique<Inflater>();
    source->buffer_.resize(kCompressedBlock);
  }
  return source;
}

LogSource::LogSource(int descriptor, bool is_owned)
    : descriptor_(descriptor), is_owned_(is_owned) {}

LogSource::~LogSource() {
  if (is_owned_ && descriptor_ >= 0) ::close(descriptor_);
}

// Returns the first bytes. read_plain() returns them again.
Expected<std::string_view> LogSource::peek() {
  while (peeked_ < peek_.size()) {
    const auto got = read_descriptor(std::span(peek_).subspan(peeked_));
    if (!got) return Unexpected{got.error()};
    if (*got == 0) break;
    peeked_ += *got;
  }
  return std::string_view(peek_.data(), peeked_);
}

Expected<std::size_t> LogSource::read_descriptor(std::span<char> into) {
  ssize_t got = 0;
  do {
    got = ::read(descriptor_, into.data(), into.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return Unexpected{system_error("cannot read")};
  bytes_read_ += static_cast<std::uint64_t>(got);
  return static_cast<std::size_t>(got);
}

Expected<std::size_t> LogSource::read_plain(std::span<char> into) {
  if (given_back_ == peeked_) return read_descriptor(into);
  const std::size_t size = std::min(into.size(), peeked_ - given_back_);
  std::copy_n(peek_.data() + given_back_, size, into.data());
  given_back_ += size;
  return size;
}

Expected<std::size_t> LogSource::read(std::span<char> into) {
  if (inflater_ == nullptr) return read_plain(into);
  while (true) {
    if (inflater_->is_corrupt()) {
      return Unexpected{"the gzip data is corrupt; what was read before it is counted"};
    }
    if (input_.empty() && !has_ended_) {
      const auto got = read_plain(buffer_);
      if (!got) return Unexpected{got.error()};
      input_ = std::span<const char>(buffer_).first(*got);
      has_ended_ = *got == 0;
    }
    if (is_between_members_) {
      const auto more = begin_member();
      if (!more) return Unexpected{more.error()};
      if (!*more) return std::size_t{0};
      if (is_between_members_) continue;
    }
    const std::size_t size = inflater_->inflate(input_, into);
    is_between_members_ = inflater_->has_ended();
    if (size > 0) return size;
    if (!inflater_->is_corrupt() && input_.empty() && has_ended_ && !is_between_members_) {
      return Unexpected{"the gzip data is cut off; what was read before it is counted"};
    }
  }
}

// Examines the bytes after a member. Returns false at the end of the file.
Expected<bool> LogSource::begin_member() {
  while (!input_.empty() && input_.front() == '\0' && !is_first_) {
    has_padding_ = true;
    input_ = input_.subspan(1);
  }
  if (input_.empty()) return !has_ended_;
  if (!is_first_ && (has_padding_ || input_.front() != kGzipMagic[0])) {
    return Unexpected{"bytes that are not gzip follow the gzip data; they are not counted"};
  }
  if (!is_first_) inflater_->begin_member();
  is_first_ = false;
  is_between_members_ = false;
  return true;
}

namespace {

// Of one log: one is decided, one is read, two are buffers between them.
constexpr std::size_t kBatches = 4;
constexpr std::size_t kExcerpt = 60;

}  // namespace

// An open log, whose text it splits into lines across the blocks.
class LogReader::Splitter {
 public:
  Splitter(const LogInput& input, FieldMap& fields, std::unique_ptr<LogSource> source)
      : source_(std::move(source)), input_(input), fields_(fields), parser_(fields) {}

  LogSource& source() { return *source_; }

  // Copies the carried text to the batch and returns the space after it, for the next block.
  std::span<char> room(LogBatch& batch) {
    std::copy(carried_.begin(), carried_.end(), batch.bytes.get());
    return {batch.bytes.get() + carried_.size(), input_.block};
  }

  // Parses the lines that `fresh` new bytes complete.
  void split(LogBatch& batch, std::size_t fresh) {
    const char* line = batch.bytes.get();
    const char* scan = line + carried_.size();
    const char* const end = scan + fresh;
    begin(batch, {line, static_cast<std::size_t>(end - line)});
    while (const char* newline = find_newline(scan, end)) {
      take(batch, {line, static_cast<std::size_t>(newline - line)});
      line = scan = newline + 1;
    }
    rest_ = {line, static_cast<std::size_t>(end - line)};
    carry();
  }

  // Call this at the log's end, after the last split(). Parses the remaining text as the last line.
  void finish(LogBatch& batch) {
    if (number_ == 0) parser_.begin(batch.format = format_of(rest_));
    if (!rest_.empty() || too_long_) take(batch, rest_);
  }

 private:
  static const char* find_newline(const char* from, const char* end) {
    return static_cast<const char*>(std::memchr(from, '\n', static_cast<std::size_t>(end - from)));
  }

  // Decides about the format of the log at its first complete line.
  void begin(LogBatch& batch, std::string_view text) {
    if (number_ == 0 && text.find('\n') != text.npos) parser_.begin(format_of(text));
    batch.format = parser_.format();
  }
  LogFormat format_of(std::string_view text) const {
    return input_.format ? *input_.format : detect_format(text, fields_);
  }

  void take(LogBatch& batch, std::string_view line) {
    if (refused_) return;
    if (++number_ == 1) line = without_byte_order_mark(line);
    const bool dropped = std::exchange(too_long_, false) || line.size() > input_.longest_line;
    LineFault fault = LineFault::kTooLong;
    if (!dropped) {
      LogLine& read = batch.lines.emplace_back();
      fault = parser_.read(line, read, batch.extras);
      const bool is_refused = !parser_.error().empty();
      if (fault == LineFault::kNone && !is_refused) return name(batch, read);
      batch.lines.pop_back();
      if (is_refused && (fault == LineFault::kNone || fault == LineFault::kHeader)) {
        refused_ = true;
        batch.error = parser_.error();
        return;
      }
      if (fault == LineFault::kHeader) return;
      if (fault == LineFault::kWithoutRules) return static_cast<void>(++batch.without_rules);
    }
    ++batch.skipped;
    batch.wrong_costs += fault == LineFault::kNoCost ? 1 : 0;
    if (shown_ == kMostShown) return;
    ++shown_;
    std::string& what =
        batch.complaints.emplace_back(":" + std::to_string(number_) + ": skipped: ");
    what += explain(fault);
    if (!line.empty()) what += ": " + printable(line.substr(0, kExcerpt));
  }

  void name(LogBatch& batch, LogLine& line) {
    if (input_.names == nullptr || line.units != 1 || line.costs_size > 0) return;
    attributes_.show(line, batch.fields(line));
    line.name_at = static_cast<std::uint32_t>(batch.names.size());
    line.name_size = append_name(batch, *input_.names);
    if (input_.second_names != nullptr) {
      line.second_name_size = append_name(batch, *input_.second_names);
    }
  }

  std::uint32_t append_name(LogBatch& batch, rules::RequestNames& names) {
    const std::string_view name = names.name(attributes_);
    batch.names.append(name);
    return static_cast<std::uint32_t>(name.size());
  }

  // Keeps an unfinished line for the next block, unless it exceeds the bound.
  void carry() {
    too_long_ = too_long_ || rest_.size() > input_.longest_line;
    carried_.assign(too_long_ ? std::string_view{} : rest_);
  }

  const std::unique_ptr<LogSource> source_;
  const LogInput& input_;
  FieldMap& fields_;
  LogParser parser_;
  LogAttributes attributes_;
  std::string_view rest_;  // the unfinished line at the end of the last split's text
  std::string carried_;    // the same, for the next block
  bool too_long_ = false;  // the current line exceeds the bound
  bool refused_ = false;   // the log may not be read
  std::uint64_t number_ = 0;
  std::size_t shown_ = 0;
};

namespace {

LogQueue queue_of(const LogInput& input) {
  LogQueue queue;
  for (std::size_t log = 0; log < input.logs.size(); ++log) {
    queue.emplace(input.starts.empty() ? kFirstInstant : input.starts[log], log);
  }
  return queue;
}

}  // namespace

LogReader::LogReader(const LogInput& input)
    : input_(input),
      fields_(input.fields),
      queue_(queue_of(input)),
      open_(input.logs.size()),
      batches_(kBatches + input.logs.size()) {
  for (LogBatch& batch : batches_) free_.push_back(&batch);
  thread_ = std::thread([this] { read_all(); });
}

LogReader::~LogReader() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

LogBatch* LogReader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || ended_; });
  if (ready_.empty()) return nullptr;
  LogBatch* batch = ready_.front();
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void LogReader::release(LogBatch* batch) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(batch);
  }
  changed_.notify_all();
}

void LogReader::read_all() {
  while (!queue_.empty()) {
    auto [at, log] = queue_.top();
    LogBatch* const batch = free_batch(log);
    if (batch == nullptr) break;
    read(*batch, open_[log]);
    queue_.pop();
    if (!queue_.empty()) {
      for (const LogLine& line : batch->lines) at = std::max(at, line.at);
    }
    if (batch->last) {
      open_[log].reset();
    } else {
      queue_.emplace(at, log);
    }
    hand_over(batch);
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void LogReader::read(LogBatch& batch, std::unique_ptr<Splitter>& log) {
  try {  // memory may be exhausted, and a thread must not throw
    if (batch.bytes == nullptr) {
      batch.bytes.reset(new char[input_.longest_line + input_.block]);  // uninitialised
    }
    if (log == nullptr) {
      auto opened = LogSource::open(input_.logs[batch.log]);
      if (!opened) throw std::runtime_error(opened.error());
      log = std::make_unique<Splitter>(input_, fields_, *std::move(opened));
    }
    LogSource& source = log->source();
    const std::span<char> room = log->room(batch);
    std::size_t fresh = 0;
    while (fresh < room.size() && !batch.last) {
      const auto got = source.read(room.subspan(fresh));
      batch.last = !got || *got == 0;
      if (!got) batch.error = got.error();
      if (got) fresh += *got;
    }
    batch.inflated = inflated_ += fresh;
    batch.bytes_read = source.bytes_read();
    log->split(batch, fresh);
    if (batch.last) log->finish(batch);
  } catch (const std::exception& exception) {
    batch.error = exception.what();
  }
  batch.last = batch.last || !batch.error.empty();
}

// Returns an empty batch to fill, or null if reading must stop.
LogBatch* LogReader::free_batch(std::size_t index) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return (!free_.empty() && ready_.size() + 1 < kBatches) || stopped_; });
  if (stopped_) return nullptr;
  LogBatch* batch = free_.back();
  free_.pop_back();
  lock.unlock();
  batch->log = index;
  batch->lines.clear();
  batch->names.clear();
  batch->extras.clear();
  batch->skipped = 0;
  batch->wrong_costs = 0;
  batch->without_rules = 0;
  batch->complaints.clear();
  batch->last = false;
  batch->error.clear();
  batch->bytes_read = 0;
  batch->inflated = inflated_;
  return batch;
}

void LogReader::hand_over(LogBatch* batch) {
  {
    const std::lock_guard lock(mutex_);
    ready_.push_back(batch);
  }
  changed_.notify_all();
}

namespace {

void complain(const LogInput& input, const std::string& path, const std::string& what) {
  if (input.complain) input.complain(path + what);
}

void warn(const LogInput& input, LogTotals& totals, const std::string& path,
          const std::string& what, const char* kind = "warning: ") {
  complain(input, path, std::string(": ") + kind + what);
  totals.problems.push_back(path + ": " + what);
}

}  // namespace

std::vector<Instant> starts_of(const LogInput& input) {
  std::vector<Instant> starts(input.logs.size(), kFirstInstant);
  for (std::size_t log = 0; log < starts.size(); ++log) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(input.logs[log], ignored)) continue;
    LogInput one = input;
    one.logs = {input.logs[log]};
    one.block = std::size_t{16} << 10;
    LogReader reader(one);
    LogBatch* batch = reader.next();
    while (batch != nullptr && batch->lines.empty()) {
      reader.release(batch);
      batch = reader.next();
    }
    if (batch != nullptr) starts[log] = batch->lines.front().at;
  }
  return starts;
}

namespace {

// Servers write a line when the response ends, and its time can be that of the request.
constexpr Duration kUsualLateness = std::chrono::seconds{10};

// What was taken of a log.
struct TakenLog {
  LogBatch* batch = nullptr;  // the current one
  std::size_t line = 0;       // of it
  std::uint64_t lines = 0, parsed = 0, late = 0, very_late = 0;
  // To recognize a log whose newest line is first: lines that are much later than one before them,
  // and those that are later and earlier than the line before.
  std::uint64_t very_early = 0, rises = 0, falls = 0;
  std::uint64_t without_cost = 0;  // lines
  std::uint64_t bytes_read = 0;
  std::optional<Instant> first;
  Instant lowest = Instant::max(), previous = Instant::max();
  bool has_zone = true;  // of the first line
};

// The bytes of all logs, if they are files.
std::optional<std::uint64_t> size_of(const LogInput& input) {
  std::uint64_t size = 0;
  for (const std::string& log : input.logs) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(log, error)) return std::nullopt;
    size += std::filesystem::file_size(log, error);
    if (error) return std::nullopt;
  }
  return size;
}

// Counts the lines of a batch that was taken.
void count(TakenLog& log, LogTotals& totals) {
  const LogBatch& batch = *log.batch;
  const std::uint64_t fresh = batch.lines.size() + batch.skipped + batch.without_rules;
  totals.lines += fresh;
  totals.skipped += batch.skipped;
  totals.wrong_costs += batch.wrong_costs;
  totals.without_rules += batch.without_rules;
  totals.bytes = batch.inflated;
  auto& formats = totals.formats;
  if (fresh > 0 && std::find(formats.begin(), formats.end(), batch.format) == formats.end()) {
    formats.push_back(batch.format);
  }
  log.lines += fresh;
  log.parsed += batch.lines.size() + batch.without_rules;
  if (batch.lines.empty()) return;
  if (!log.first) {
    log.first = batch.lines.front().at;
    log.has_zone = batch.lines.front().has_zone;
  }
}

// Counts whether the line comes late, and whether it lacks a cost.
void count(TakenLog& log, const LogLine& line, Instant latest) {
  const Instant own = line.at;
  log.without_cost += line.has_cost || line.costs_size > 0 ? 0 : 1;
  log.late += own < latest ? 1 : 0;
  log.very_late += latest - own > kUsualLateness ? 1 : 0;
  log.lowest = std::min(log.lowest, own);
  log.very_early += own - log.lowest > kUsualLateness ? 1 : 0;
  log.rises += own > log.previous ? 1 : 0;
  log.falls += own < log.previous ? 1 : 0;
  log.previous = own;
}

// Says what is wrong with a log that has ended.
void judge(const LogInput& input, const TakenLog& log, LogTotals& totals) {
  totals.late += log.late;
  const std::string& path = input.logs[log.batch->log];
  const auto complain_of = [&](const std::string& problem) {
    warn(input, totals, path, problem, "");
  };
  if (!log.batch->error.empty()) {
    totals.failed = true;
    return complain_of(log.batch->error);
  }
  if (log.lines == 0) return complain_of("is empty");
  if (log.parsed == 0) {
    totals.failed = true;
    return complain_of("no line could be read as " + std::string(title_of(log.batch->format)) +
                       "; is it an access log? --format and --field say what it is");
  }
  if (log.parsed * 2 < log.lines) {
    warn(
        input, totals, path,
        "most lines are skipped, " + grouped(log.lines - log.parsed) + " of " + grouped(log.lines));
  }
  if (log.without_cost > 0 && log.without_cost < log.parsed) {
    warn(input, totals, path,
         grouped(log.without_cost) + " of " + grouped(log.parsed) + " requests" +
             (log.without_cost == 1 ? " has no cost; it counts" : " have no cost; each counts") +
             " as 1 unit, or as the 'cost' of a limit says");
  }
  if (log.very_late * 20 <= log.parsed) return;
  totals.disordered = true;
  const bool is_reversed = log.very_early * 20 <= log.parsed && log.rises < log.falls;
  warn(input, totals, path,
       percent(log.very_late, log.parsed) + " of the requests are more than " +
           duration_text(kUsualLateness) + " earlier than one before them" +
           (is_reversed ? ", because the newest is first; reverse the log: tac LOG"
                        : ", so the results are wrong; sort the log by time, or name the log of "
                          "each server"));
}

// Says which logs have times without a zone, if others have one.
void compare_zones(const LogInput& input, const std::vector<TakenLog>& logs, LogTotals& totals) {
  const auto has_zone = [](const TakenLog& log) { return log.first && log.has_zone; };
  if (std::none_of(logs.begin(), logs.end(), has_zone)) return;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    if (!logs[i].first || logs[i].has_zone) continue;
    warn(input, totals, input.logs[i],
         "its times have no zone and are read as UTC, and other logs have a zone");
  }
}

}  // namespace

void read_logs(const LogInput& input, LogTotals& totals,
               const std::function<void(const LogBatch&, std::size_t, Instant)>& take) {
  totals.logs = input.logs;
  totals.has_user = !FieldMap(input.fields).find(kUserField).empty();
  LogReader reader(input);
  std::vector<TakenLog> logs(input.logs.size());
  totals.size = size_of(input);
  for (LogQueue queue = queue_of(input); !queue.empty();) {
    auto [at, index] = queue.top();
    queue.pop();
    TakenLog& log = logs[index];
    if (log.batch == nullptr) log.batch = reader.next();
    LogBatch& batch = *log.batch;
    for (; log.line < batch.lines.size(); ++log.line) {
      const Instant own = batch.lines[log.line].at;
      at = std::max(at, own);
      if (!queue.empty() && queue.top() < std::pair(at, index)) break;
      count(log, batch.lines[log.line], at);
      take(batch, log.line, at);
    }
    if (log.line < batch.lines.size() || !batch.last) queue.emplace(at, index);
    if (log.line < batch.lines.size()) continue;
    count(log, totals);
    for (const std::string& what : batch.complaints) complain(input, input.logs[index], what);
    if (batch.last) judge(input, log, totals);
    totals.read += batch.bytes_read - std::exchange(log.bytes_read, batch.bytes_read);
    if (input.on_progress) input.on_progress(totals, input.logs[index]);
    log.line = 0;
    reader.release(std::exchange(log.batch, nullptr));
  }
  compare_zones(input, logs, totals);
  totals.fault = reader.lack();
}

}  // namespace sluice::replay
