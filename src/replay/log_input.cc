#include "replay/log_input.h"

#include <algorithm>

#include "replay/text.h"

namespace sluice::replay {

void LogAccount::add(const LogBatch& batch) {
  const std::string& path = input_.logs[batch.log];
  const std::uint64_t lines = batch.lines.size() + batch.skipped;
  totals_.lines += lines;
  totals_.skipped += batch.skipped;
  totals_.bytes = batch.inflated;
  log_lines_ += lines;
  log_parsed_ += batch.lines.size();
  auto& formats = totals_.formats;
  if (lines > 0 && std::find(formats.begin(), formats.end(), batch.format) == formats.end()) {
    formats.push_back(batch.format);
  }
  for (const SkippedLine& line : batch.first_skipped) complain_of(path, line);
  if (batch.last) finish_log(path, batch);
  if (input_.on_progress) {
    input_.on_progress({path, totals_.lines, totals_.bytes, batch.progress});
  }
}

void LogAccount::finish_log(const std::string& path, const LogBatch& batch) {
  totals_.opened += batch.opened ? 1 : 0;
  if (!batch.error.empty()) {
    totals_.failed = true;
    complain(path + ": " + batch.error);
  } else if (log_lines_ == 0) {
    complain(path + ": is empty; there is nothing to decide");
  } else if (log_parsed_ == 0) {
    complain(path + ": no line could be read as " + std::string(title_of(batch.format)) +
             "; is it an access log? --format and --field say what it is");
  }
  log_lines_ = log_parsed_ = 0;
}

void LogAccount::complain_of(const std::string& path, const SkippedLine& line) {
  std::string text = path + ":" + std::to_string(line.number) + ": skipped: ";
  text += explain(line.fault);
  if (!line.begins.empty()) text += ": " + printable(line.begins);
  complain(text);
}

void LogAccount::complain(std::string_view text) {
  if (input_.complain) input_.complain(text);
}

}  // namespace sluice::replay
