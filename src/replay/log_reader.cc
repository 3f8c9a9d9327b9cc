#include "replay/log_reader.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "replay/log_attributes.h"
#include "rules/request_names.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kBatches = 4;  // one is decided, one is read, two are buffers between them
constexpr std::size_t kExcerpt = 60;

}  // namespace

// Splits one log's text into lines across its blocks.
class LogReader::Splitter {
 public:
  Splitter(const LogReaderOptions& options, const FieldMap& fields)
      : options_(options), fields_(fields), parser_(fields) {}

  // Copies the carried text to the batch and returns the space after it, for the next block.
  std::span<char> room(LogBatch& batch) {
    std::copy(carried_.begin(), carried_.end(), batch.bytes.get());
    return {batch.bytes.get() + carried_.size(), options_.block};
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
    return options_.format ? *options_.format : detect_format(text, fields_);
  }

  void take(LogBatch& batch, std::string_view line) {
    ++number_;
    const bool dropped = std::exchange(too_long_, false) || line.size() > options_.longest_line;
    LineFault fault = LineFault::kTooLong;
    if (!dropped) {
      LogLine& read = batch.lines.emplace_back();
      fault = parser_.read(line, read, batch.extras);
      if (fault == LineFault::kNone) return name(batch, read);
      batch.lines.pop_back();
      if (fault == LineFault::kHeader) return;
    }
    ++batch.skipped;
    if (shown_ == kMostShown) return;
    ++shown_;
    batch.first_skipped.push_back({number_, fault, std::string(line.substr(0, kExcerpt))});
  }

  void name(LogBatch& batch, LogLine& line) {
    if (options_.names == nullptr || line.units != 1 || line.costs_size > 0) return;
    attributes_.show(line, batch.fields(line));
    line.name_at = static_cast<std::uint32_t>(batch.names.size());
    line.name_size = append_name(batch, *options_.names);
    if (options_.second_names != nullptr) {
      line.second_name_size = append_name(batch, *options_.second_names);
    }
  }

  std::uint32_t append_name(LogBatch& batch, rules::RequestNames& names) {
    const std::string_view name = names.name(attributes_);
    batch.names.append(name);
    return static_cast<std::uint32_t>(name.size());
  }

  // Keeps an unfinished line for the next block, unless it exceeds the bound.
  void carry() {
    too_long_ = too_long_ || rest_.size() > options_.longest_line;
    carried_.assign(too_long_ ? std::string_view{} : rest_);
  }

  const LogReaderOptions& options_;
  const FieldMap& fields_;
  LogParser parser_;
  LogAttributes attributes_;
  std::string_view rest_;  // the unfinished line at the end of the last split's text
  std::string carried_;    // the same, for the next block
  bool too_long_ = false;  // the current line exceeds the bound
  std::uint64_t number_ = 0;
  std::size_t shown_ = 0;
};

LogReader::LogReader(std::vector<std::string> paths, const LogReaderOptions& options)
    : paths_(std::move(paths)), options_(options), fields_(options.fields), batches_(kBatches) {
  for (LogBatch& batch : batches_) {
    batch.bytes.reset(new char[options_.longest_line + options_.block]);  // uninitialised
    free_.push_back(&batch);
  }
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
  for (std::size_t index = 0; index < paths_.size(); ++index) read_log(index);
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void LogReader::read_log(std::size_t index) {
  std::unique_ptr<LogSource> source;
  std::unique_ptr<Splitter> splitter;
  for (bool last = false; !last;) {
    LogBatch* batch = free_batch(index);
    if (batch == nullptr) return;
    try {  // memory may be exhausted, and a thread must not throw
      if (source == nullptr) {
        source = open(index, *batch);
        splitter = std::make_unique<Splitter>(options_, fields_);
      }
      if (source != nullptr) fill(*batch, *source, *splitter);
    } catch (const std::exception& exception) {
      batch->error = exception.what();
      batch->last = true;
    }
    last = batch->last;
    hand_over(batch);
  }
}

// Returns the log's source, or null and the error in the batch.
std::unique_ptr<LogSource> LogReader::open(std::size_t index, LogBatch& batch) {
  auto source = open_log(paths_[index]);
  if (source) return std::move(*source);
  batch.error = source.error();
  batch.last = true;
  return nullptr;
}

void LogReader::fill(LogBatch& batch, LogSource& source, Splitter& splitter) {
  batch.opened = true;
  const std::span<char> room = splitter.room(batch);
  std::size_t fresh = 0;
  while (fresh < room.size() && !batch.last) {
    const auto got = source.read(room.subspan(fresh));
    batch.last = !got || *got == 0;
    if (!got) batch.error = got.error();
    if (got) fresh += *got;
  }
  inflated_ += fresh;
  splitter.split(batch, fresh);
  if (batch.last) splitter.finish(batch);
  batch.progress = source.progress();
  batch.inflated = inflated_;
}

// Returns an empty batch to fill, or null if reading must stop.
LogBatch* LogReader::free_batch(std::size_t index) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !free_.empty() || stopped_; });
  if (stopped_) return nullptr;
  LogBatch* batch = free_.front();
  free_.pop_front();
  lock.unlock();
  batch->log = index;
  batch->lines.clear();
  batch->names.clear();
  batch->extras.clear();
  batch->skipped = 0;
  batch->first_skipped.clear();
  batch->opened = false;
  batch->last = false;
  batch->error.clear();
  batch->progress = {};
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

}  // namespace sluice::replay
