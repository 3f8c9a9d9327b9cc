#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/api/resp/test_handler.h"
#include "server/protocol/resp/request_reader.h"
#include "tests/support/allocations.h"

namespace sluice::server::resp {
namespace {

std::string framed(const std::vector<std::string_view>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n" + std::string(word) + "\r\n";
  }
  return out;
}

TEST(CommandHandler, AllocatesNothingOnceItsBuffersHaveGrown) {
  TestCommands handler;
  handler.client.protocol = 3;
  const std::string key = "a key that is long enough for the heap, with some more";
  const std::vector<std::string> frames{
      framed({"CL.THROTTLE", key, "15", "30", "60"}),
      framed({"RL.LIMIT", key, "token_bucket", "10", "60s", "BURST", "20"}),
      framed({"RL.CHECK", "*", "path", "/login", "ip", key}),
      framed({"RL.CHECK", "header", "header.X-User", key}),
      framed({"PING"}),
      framed({"HELLO", "3"})};
  RequestReader reader;
  const auto ask = [&] {
    handler.handler.output.clear();
    for (const std::string& one : frames) {
      ASSERT_EQ(reader.read(one, true), RequestReader::Progress::kReady);
      reader.arguments(one, handler.handler.request);
      handler.handler.answer(handler.client);
      reader.next();
    }
  };
  for (int i = 0; i < 30; ++i) ask();  // then the limit is exceeded
  const std::size_t allocations = testing::count_allocations([&] {
    for (int i = 0; i < 100; ++i) ask();
  });
  EXPECT_EQ(allocations, 0u);
}

}  // namespace
}  // namespace sluice::server::resp
