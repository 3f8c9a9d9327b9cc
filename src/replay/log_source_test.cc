#include "replay/log_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "replay/test_logs.h"

namespace sluice::replay::log_source_test {
namespace {

struct Content {
  std::string text;
  std::string error;
};

// Returns all of a source, read in pieces of `piece` bytes.
Content read_all(const std::string& path, std::size_t piece = 1000) {
  auto source = LogSource::open(path);
  if (!source) return {"", source.error()};
  Content content;
  std::vector<char> buffer(piece);
  while (true) {
    const auto got = (*source)->read(buffer);
    if (!got) content.error = got.error();
    if (!got || *got == 0) return content;
    content.text.append(buffer.data(), *got);
  }
}

std::string repeated(std::string_view line, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line;
  return text;
}

class LogSourceTest : public ::testing::Test {
 protected:
  TemporaryFiles files_;
};

TEST_F(LogSourceTest, ReadsPlainFilesOfAnySize) {
  for (const std::string& text : {std::string(), std::string("a"), std::string("short"),
                                  std::string("\x1f\n"), repeated("line\n", 10000)}) {
    const Content content = read_all(files_.write("log", text));
    EXPECT_EQ(content.text, text);
    EXPECT_EQ(content.error, "");
  }
}

TEST_F(LogSourceTest, RecognisesGzipByItsContent) {
  const std::string text = repeated("line\n", 40000);
  const std::string path = files_.write("log-without-suffix", gzip_stored(text));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{777}, std::size_t{1} << 20}) {
    const Content content = read_all(path, piece);
    EXPECT_TRUE(content.text == text);
    EXPECT_EQ(content.error, "");
  }
}

TEST_F(LogSourceTest, InflatesCompressedData) {
  const std::string path = files_.write("log.gz", gzip_compressed());
  for (const std::size_t piece : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20}) {
    const Content content = read_all(path, piece);
    EXPECT_TRUE(content.text == repeated(kCompressedLine, 500));
    EXPECT_EQ(content.error, "");
  }
}

TEST_F(LogSourceTest, ReadsEveryMember) {
  const std::string members = gzip_stored("one\n") + gzip_compressed() + gzip_stored("") +
                              gzip_stored("two\n", 1) + gzip_compressed();
  const std::string lines = repeated(kCompressedLine, 500);
  const Content content = read_all(files_.write("log.gz", members));
  EXPECT_TRUE(content.text == "one\n" + lines + "two\n" + lines);
  EXPECT_EQ(content.error, "");
}

TEST_F(LogSourceTest, ReadsMembersThatEndAtAnyPlaceOfTheBuffer) {
  std::string members;
  std::string text;
  for (std::size_t i = 0; members.size() < (std::size_t{3} << 17); ++i) {
    const std::string part(i * 37 % 5000, static_cast<char>('a' + i % 26));
    members += gzip_stored(part);
    text += part;
  }
  const Content content = read_all(files_.write("log.gz", members), 4096);
  EXPECT_TRUE(content.text == text);
  EXPECT_EQ(content.error, "");
}

TEST_F(LogSourceTest, ReportsTruncatedGzipDataAtEveryLength) {
  const std::string whole = gzip_stored("first\n") + gzip_compressed();
  const std::size_t second = gzip_stored("first\n").size();
  for (std::size_t size = 2; size < whole.size(); size += size < 60 ? 1 : 5) {
    const Content content = read_all(files_.write("log.gz", whole.substr(0, size)));
    if (size == second) {
      EXPECT_EQ(content.error, "");
      continue;
    }
    EXPECT_NE(content.error, "") << size;
    EXPECT_EQ(content.text.starts_with("first\n"), size >= second - 8) << size;
  }
}

TEST_F(LogSourceTest, ReturnsTheReadablePartOfTruncatedData) {
  const std::string whole = gzip_compressed();
  const Content content = read_all(files_.write("log.gz", whole.substr(0, whole.size() - 8)));
  EXPECT_TRUE(content.text == repeated(kCompressedLine, 500));
  EXPECT_NE(content.error.find("cut off"), std::string::npos) << content.error;
}

TEST_F(LogSourceTest, NoticesAWrongSumOrSize) {
  for (const std::size_t from_end : {std::size_t{1}, std::size_t{5}}) {
    std::string damaged = gzip_compressed();
    damaged[damaged.size() - from_end] ^= 1;
    const Content content = read_all(files_.write("log.gz", damaged));
    EXPECT_NE(content.error.find("corrupt"), std::string::npos) << content.error;
    EXPECT_TRUE(content.text == repeated(kCompressedLine, 500));
  }
}

TEST_F(LogSourceTest, NoticesADamagedHead) {
  std::string damaged = gzip_compressed();
  damaged[2] = 'x';  // not deflate
  EXPECT_NE(read_all(files_.write("log.gz", damaged)).error, "");
}

TEST_F(LogSourceTest, AcceptsOnlyPaddingAfterTheData) {
  const std::string member = gzip_stored("text\n");
  const Content padded = read_all(files_.write("padded.gz", member + std::string(1000, '\0')));
  EXPECT_EQ(padded.text, "text\n");
  EXPECT_EQ(padded.error, "");
  for (const std::string tail : {"garbage", "\x1f", "\x1fx"}) {
    const Content garbage = read_all(files_.write("garbage.gz", member + tail));
    EXPECT_EQ(garbage.text, "text\n");
    EXPECT_NE(garbage.error, "") << tail;
  }
}

TEST_F(LogSourceTest, ReportsWhyAFileCannotBeRead) {
  EXPECT_EQ(read_all(files_.path("none")).error, "cannot open: No such file or directory");
  EXPECT_EQ(read_all(files_.directory()).error, "is a directory; expected a log file");
  const std::string zstd = files_.write("log.zst", "\x28\xb5\x2f\xfdrest");
  EXPECT_NE(read_all(zstd).error.find("zstd -dc"), std::string::npos);
}

TEST_F(LogSourceTest, ReportsItsProgress) {
  const std::string path = files_.write("log.gz", gzip_compressed());
  auto source = LogSource::open(path);
  ASSERT_TRUE(source.has_value());
  std::vector<char> buffer(1 << 20);
  while (*(*source)->read(buffer) > 0) {
  }
  EXPECT_EQ((*source)->bytes_read(), gzip_compressed().size());
}

}  // namespace
}  // namespace sluice::replay::log_source_test
