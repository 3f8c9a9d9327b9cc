#include "server/protocol/grpc/framing.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace sluice::server::grpc {
namespace {

using namespace std::chrono_literals;

std::string gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Framing, ReadsThePrefixThatItWrites) {
  std::string out;
  append_message(out, std::string(0x10203, 'x'));
  ASSERT_EQ(out.size(), 0x10203 + kPrefixBytes);
  EXPECT_EQ(out.substr(0, kPrefixBytes), std::string_view("\0\0\1\2\3", 5));
  EXPECT_EQ(read_prefix(out).second, 0x10203U);
  EXPECT_EQ(read_prefix(std::string_view("\1\xff\xff\xff\xff", 5)).second, 0xffffffffU);
  EXPECT_EQ(read_prefix(std::string_view("\1\xff\xff\xff\xff", 5)).first, 1);
}

TEST(FrameScanner, CountsEachFrameHeaderHoweverItIsSplit) {
  std::string bytes(24, 'g');
  for (const std::size_t size : {0U, 1U, 8U, 9U, 300U, 70'000U}) {
    bytes.append({static_cast<char>(size >> 16), static_cast<char>(size >> 8),
                  static_cast<char>(size), 'h', 'h', 'h', 'h', 'h', 'h'});
    bytes.append(size, '\0');
  }
  for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{9},
                                 std::size_t{1000}, bytes.size()}) {
    FrameScanner frames;
    int seen = 0;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      seen += frames.take(std::string_view(bytes).substr(at, step), {});
    }
    EXPECT_EQ(seen, 6) << step;
  }
}

TEST(FrameScanner, ReportsWhatIsIncompleteAndSinceWhen) {
  enum class Partial : std::uint8_t { kNothing, kData, kOther };
  FrameScanner frames;
  net::SteadyTime now;
  const auto take = [&](std::string_view bytes) {
    frames.take(bytes, now += 1s);
    EXPECT_TRUE(frames.is_partial() || !frames.is_in_data());
    return frames.is_in_data() ? Partial::kData
                               : (frames.is_partial() ? Partial::kOther : Partial::kNothing);
  };
  const auto head = [](char size, char type, char flags) {
    return std::string{0, 0, size, type, flags, 0, 0, 0, 1};
  };
  EXPECT_EQ(take(std::string(24, 'p')), Partial::kNothing);
  EXPECT_EQ(take(head(3, 0, 0) + "ab"), Partial::kData);
  const net::SteadyTime data = now;
  EXPECT_EQ(frames.partial_since(), data);
  EXPECT_EQ(take("c"), Partial::kNothing);

  EXPECT_EQ(take(std::string(1, 0)), Partial::kOther) << "the type is not known yet";
  const net::SteadyTime ping = now;
  EXPECT_EQ(take(head(2, 6, 0).substr(1)), Partial::kOther);
  EXPECT_EQ(take("1"), Partial::kOther);
  EXPECT_EQ(frames.partial_since(), ping);
  EXPECT_EQ(take("2"), Partial::kNothing);

  EXPECT_EQ(take(head(1, 1, 0) + "h"), Partial::kOther) << "without END_HEADERS";
  const net::SteadyTime header = now;
  EXPECT_EQ(take(head(2, 9, 0) + "ij"), Partial::kOther);
  EXPECT_EQ(take(head(1, 9, 4)), Partial::kOther);
  EXPECT_EQ(frames.partial_since(), header);
  EXPECT_EQ(take("k"), Partial::kNothing);
}

TEST(Timeout, ReadsEveryUnit) {
  EXPECT_EQ(parse_timeout("1H"), 1h);
  EXPECT_EQ(parse_timeout("2M"), 2min);
  EXPECT_EQ(parse_timeout("3S"), 3s);
  EXPECT_EQ(parse_timeout("20m"), 20ms);
  EXPECT_EQ(parse_timeout("5u"), 5us);
  EXPECT_EQ(parse_timeout("99999999n"), 99'999'999ns);
  EXPECT_GT(parse_timeout("99999999H").value(), 1'000'000h) << "which does not overflow";
  for (const char* bad : {"", "m", "1", "1s", "-1m", "1.5S", "123456789n", " 1S", "1S "}) {
    EXPECT_EQ(parse_timeout(bad), std::nullopt) << bad;
  }
}

TEST(PercentEncoding, LeavesPrintableAsciiAlone) {
  std::string out;
  append_percent_encoded(out, std::string_view("a ~%\x7f\x1f\0\xff", 8));
  EXPECT_EQ(out, "a ~%25%7F%1F%00%FF");
}

TEST(Gunzip, StopsAtTheBound) {
  const std::string text(1'000'000, 'a');
  std::string out;
  EXPECT_EQ(gunzip(gzip(text), text.size(), out), Code::kOk);
  EXPECT_EQ(out, text);
  EXPECT_EQ(gunzip(gzip(text), text.size() - 1, out), Code::kResourceExhausted);
  EXPECT_EQ(gunzip(gzip(""), 0, out), Code::kOk);
  EXPECT_EQ(gunzip(gzip("a"), 0, out), Code::kResourceExhausted);
}

TEST(Gunzip, RefusesMalformedInput) {
  std::string out;
  const std::string whole = gzip("hello");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(gunzip(whole.substr(0, size), 100, out), Code::kInternal) << size;
  }
  EXPECT_EQ(gunzip(whole + "x", 100, out), Code::kInternal);
  EXPECT_EQ(gunzip("hello, this is text", 100, out), Code::kInternal);
}

}  // namespace
}  // namespace sluice::server::grpc
