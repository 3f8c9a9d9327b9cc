#include "replay/log_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "replay/log_attributes.h"
#include "replay/test_logs.h"
#include "rules/request_names.h"

namespace sluice::replay {
namespace {

struct Read {
  std::vector<std::string> clients;
  std::uint64_t skipped = 0;
  std::vector<std::string> complaints;
  std::vector<std::string> errors;
  std::vector<std::size_t> ended;  // logs, in the order of their ends
};

Read read_all(const std::vector<std::string>& paths, LogInput input = {}) {
  input.logs = paths;
  LogReader reader(input);
  Read read;
  while (LogBatch* batch = reader.next()) {
    for (const LogLine& line : batch->lines) read.clients.emplace_back(line.client);
    read.skipped += batch->skipped;
    for (const std::string& what : batch->complaints) read.complaints.push_back(what);
    if (!batch->error.empty()) read.errors.push_back(batch->error);
    if (batch->last) read.ended.push_back(batch->log);
    reader.release(batch);
  }
  return read;
}

class LogReaderTest : public ::testing::Test {
 protected:
  TemporaryFiles files_;
};

TEST_F(LogReaderTest, SplitsLinesIndependentlyOfTheBlocks) {
  std::string text;
  std::vector<std::string> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back("10.0.0." + std::to_string(i));
    text += line_at(i, clients.back(), "GET /" + std::string(static_cast<std::size_t>(i), 'x'));
  }
  for (const std::string& path :
       {files_.write("a", text), files_.write("a.gz", gzip_stored(text))}) {
    for (const std::size_t block : {1u, 2u, 63u, 64u, 1000u, 1u << 20}) {
      const Read read = read_all({path}, {.block = block});
      EXPECT_EQ(read.clients, clients) << block;
      EXPECT_EQ(read.skipped, 0u);
    }
  }
}

TEST_F(LogReaderTest, SkipsAByteOrderMarkAtTheBeginningOfEachLog) {
  const std::string json = R"({"ts":1,"ip":"json"})";
  for (const std::string& line :
       {line_at(1, "json"), json + "\n", json, std::string("time,ip\n1795428000,json\n")}) {
    const Read read = read_all(
        {files_.write("a", "\xEF\xBB\xBF" + line), files_.write("b", "\xEF\xBB\xBF" + line)});
    EXPECT_EQ(read.clients, (std::vector<std::string>{"json", "json"})) << line;
    EXPECT_EQ(read.skipped, 0u);
  }
  const std::string later = line_at(1, "a") + "\xEF\xBB\xBF" + line_at(2, "b");
  EXPECT_EQ(read_all({files_.write("a", later)}).skipped, 1u);
}

TEST_F(LogReaderTest, KnowsWhenLogsStart) {
  const std::string log = files_.write("log", "no line\n" + line_at(50, "b", "GET /"));
  const std::string gz = files_.write("gz", gzip_stored(line_at(1, "a", "GET /")));
  const auto starts =
      starts_of({.logs = {log, gz, "-", files_.write("empty", ""), files_.path("no")}});
  EXPECT_EQ(starts[0] - starts[1], std::chrono::seconds{49});
  EXPECT_EQ(starts[2], kFirstInstant);
  EXPECT_EQ(starts[3], kFirstInstant);
  EXPECT_EQ(starts[4], kFirstInstant);
}

// Logs that overlap, of which one is not ordered, and their lines in the order of a stable sort by
// the latest time so far in their log.
class MergedLogs : public LogReaderTest {
 protected:
  using Line = std::tuple<int, std::size_t, std::string>;  // time, log, client

  void write(std::size_t log, const std::vector<int>& seconds) {
    std::string text;
    int latest = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const std::string client = std::to_string(log) + "-" + std::to_string(i);
      text += line_at(seconds[i], client);
      if (i % 7 == 0) text += "no line\n";
      latest = std::max(latest, seconds[i]);
      expected_.emplace_back(latest, log, client);
      late_ += seconds[i] < latest ? 1 : 0;
    }
    input_.logs.push_back(files_.write(std::to_string(log), text));
  }

  void check() {
    std::stable_sort(expected_.begin(), expected_.end(), [](const Line& a, const Line& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    LogTotals totals;
    std::vector<Line> lines;
    std::optional<Instant> first;
    read_logs(input_, totals, [&](const LogBatch& batch, std::size_t i, Instant at) {
      if (!first) first = at - std::chrono::seconds{std::get<0>(expected_[0])};
      const auto second = std::chrono::duration_cast<std::chrono::seconds>(at - *first).count();
      lines.emplace_back(second, batch.log, batch.lines[i].client);
    });
    EXPECT_EQ(lines, expected_) << input_.block;
    EXPECT_EQ(totals.late, late_);
  }

  LogInput input_;
  std::vector<Line> expected_;
  std::uint64_t late_ = 0;
};

TEST_F(MergedLogs, AreInOrderWhateverTheBlocksAndTheirStarts) {
  std::vector<std::vector<int>> logs(8);
  for (int second = 0; second < 400; ++second) {
    for (std::size_t log = 0; log < 6; ++log) {  // that overlap
      if (static_cast<std::size_t>(second * 31) % (log + 2) == 0) logs[log].push_back(second);
    }
    logs[second < 200 ? 7 : 6].push_back(second);                        // rotated
    if (second % 10 == 0) logs[2].push_back(std::max(0, second - 100));  // late
  }
  for (std::size_t log = 0; log < logs.size(); ++log) write(log, logs[log]);
  for (const std::size_t block : {50u, 1000u, 1u << 20}) {
    input_.block = block;
    input_.starts = {};
    check();
    input_.starts = starts_of(input_);
    check();
  }
}

TEST_F(LogReaderTest, WarnsOfALogThatIsNotInOrder) {
  std::string forward, backward, mixed, jitter, shuffled, rotated;
  for (int i = 0; i < 200; ++i) {
    forward += line_at(i, "a");
    backward = line_at(i, "a") + backward;
    mixed += line_at(i % 10 == 0 ? i : i + 1000, "a");
    jitter += line_at(i % 2 == 0 ? i : i + 9, "a");
    shuffled += line_at(199 - i * 77 % 200, "a");  // the latest is first, an early one is last
    rotated += line_at(i / 50 * 50 + 49 - i % 50, "a");
  }
  std::string backward_with_jitter;
  for (int i = 200; i-- > 0;) backward_with_jitter += line_at(i % 3 == 0 ? i + 4 : i, "a");
  const auto complaints_about = [&](const std::string& text) {
    std::vector<std::string> complaints;
    LogInput input{.logs = {files_.write("log", text)}};
    input.complain = [&](std::string_view what) { complaints.emplace_back(what); };
    LogTotals totals;
    read_logs(input, totals, [](const LogBatch&, std::size_t, Instant) {});
    return complaints;
  };
  const std::string log = files_.path("log");
  EXPECT_TRUE(complaints_about(forward).empty());
  EXPECT_TRUE(complaints_about(jitter).empty());
  EXPECT_EQ(complaints_about(backward),
            std::vector{log + ": warning: 94.5 % of the requests are more than 10 s earlier than "
                              "one before them, because the newest is first; reverse the log: tac "
                              "LOG"});
  EXPECT_EQ(complaints_about(mixed),
            std::vector{log + ": warning: 9.5 % of the requests are more than 10 s earlier than "
                              "one before them, so the results are wrong; sort the log by time, or "
                              "name the log of each server"});
  EXPECT_NE(complaints_about(backward_with_jitter).at(0).find("the newest is first"), log.npos);
  for (const std::string& text : {shuffled, rotated}) {
    const std::string complaint = complaints_about(text).at(0);
    EXPECT_NE(complaint.find("sort the log by time"), complaint.npos) << complaint;
    EXPECT_EQ(complaint.find("newest"), complaint.npos) << complaint;
  }
}

TEST_F(LogReaderTest, NamesTheRequestOfEachLine) {
  const auto rules = RuleSet::parse(R"(
version: 1
rules:
  - name: a
    match: { path: /a }
    limits: [ { key: "{ip}", algorithm: gcra, limit: 1, per: 1s } ]
)",
                                    "f");
  ASSERT_TRUE(rules.has_value());
  std::string text;
  for (int i = 0; i < 100; ++i) {
    const std::string client = "10.0.0." + std::to_string(i / 20);
    text += i % 7 == 0 ? "no access log\n" : line_at(i, client, i % 2 == 0 ? "GET /a" : "GET /b");
  }
  rules::RequestNames names(*rules);
  LogReader reader({.logs = {files_.write("log", text)}, .block = 1000, .names = &names});
  rules::RequestNames expected(*rules);
  LogAttributes attributes;
  while (LogBatch* batch = reader.next()) {
    for (std::size_t i = 0; i < batch->lines.size(); ++i) {
      attributes.show(batch->lines[i]);
      EXPECT_EQ(batch->name(i), expected.name(attributes));
      EXPECT_EQ(batch->name(i).empty(), batch->lines[i].path == "/b");
    }
    reader.release(batch);
  }
}

TEST_F(LogReaderTest, CountsALastLineWithoutItsEnd) {
  const std::string text = line_at(0, "a") + line_at(1, "b");
  for (const std::size_t block : {1u, 7u, 1000u}) {
    const Read read =
        read_all({files_.write("log", text.substr(0, text.size() - 1))}, {.block = block});
    EXPECT_EQ(read.clients, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(read.skipped, 0u);
  }
}

TEST_F(LogReaderTest, ReadsLinesThatEndInCarriageReturns) {
  std::string text = line_at(0, "a") + line_at(1, "b");
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 2)
    text.insert(at, 1, '\r');
  EXPECT_EQ(read_all({files_.write("log", text)}).clients, (std::vector<std::string>{"a", "b"}));
}

TEST_F(LogReaderTest, CountsLinesThatAreNone) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += "nonsense\n" + line_at(i, "a") + "\n";
  const Read read = read_all({files_.write("log", text)}, {.block = 50});
  EXPECT_EQ(read.clients.size(), 10u);
  EXPECT_EQ(read.skipped, 20u);
  ASSERT_EQ(read.complaints.size(), LogReader::kMostShown);
  EXPECT_TRUE(read.complaints[0].starts_with(":1: skipped: no timestamp; ")) << read.complaints[0];
  EXPECT_TRUE(read.complaints[0].ends_with(": nonsense")) << read.complaints[0];
  EXPECT_EQ(read.complaints[1], ":3: skipped: empty line; expected a request");
}

TEST_F(LogReaderTest, SkipsLinesOverTheBoundAsOne) {
  const std::string bound(200, 'x');
  const std::string fits = line_at(1, "b", "GET /" + bound);
  for (const std::size_t block : {1u, 10u, 150u, 1000u, 100000u}) {
    const LogInput input{.longest_line = fits.size() - 1, .block = block};
    std::string text = line_at(0, "a");
    text.append(line_at(1, "x", "GET /y" + bound)).append(fits).append(5000, 'z').append("\n");
    text.append(line_at(2, "c")).append(fits.size(), 'z');
    const Read read = read_all({files_.write("log", text)}, input);
    EXPECT_EQ(read.clients, (std::vector<std::string>{"a", "b", "c"})) << block;
    EXPECT_EQ(read.skipped, 3u) << block;
    ASSERT_EQ(read.complaints.size(), 3u);
    for (const std::string& what : read.complaints) {
      EXPECT_NE(what.find(explain(LineFault::kTooLong)), std::string::npos) << what;
    }
    EXPECT_TRUE(read.complaints[2].starts_with(":6: ")) << read.complaints[2];
  }
}

TEST_F(LogReaderTest, ReadsBinaryFilesToTheirEnd) {
  std::string bytes;
  for (unsigned i = 0; i < 100000; ++i) bytes += static_cast<char>(i * i >> 3);
  const Read read = read_all({files_.write("log", bytes)});
  EXPECT_TRUE(read.clients.empty());
  EXPECT_GT(read.skipped, 0u);
  EXPECT_TRUE(read.errors.empty());
}

TEST_F(LogReaderTest, ContinuesAfterAFailure) {
  const std::string damaged = gzip_stored(line_at(0, "a") + line_at(0, "b"));
  const Read read =
      read_all({files_.write("1.gz", damaged.substr(0, damaged.size() - 8)), files_.path("none"),
                files_.write("2", line_at(2, "c")), files_.write("empty", "")});
  EXPECT_EQ(read.clients, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(read.errors.size(), 2u);
  EXPECT_EQ(read.ended, (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST_F(LogReaderTest, StopsWhenItsUserDoes) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += line_at(i, "a");
  LogReader reader({.logs = {files_.write("log", text)}, .block = 100});
  ASSERT_NE(reader.next(), nullptr);  // and never released
}

}  // namespace
}  // namespace sluice::replay
