#include "base/lookups.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <latch>
#include <string_view>
#include <utility>

namespace {

// Name servers that do not answer about this name, until `answer`.
constexpr std::string_view kSilent = "silent.example";
std::latch asked{1}, answer{1};
std::atomic<int> questions{0};

}  // namespace

// Takes the place of the C library's.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  if (node == kSilent) {
    ++questions;
    asked.count_down();
    answer.wait();
    return EAI_AGAIN;
  }
  static const auto other =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return other(node, service, hints, found);
}

namespace sluice::base::lookups_test {
namespace {

namespace asio = boost::asio;

TEST(Lookups, FindAddressesInTheLoop) {
  asio::io_context loop;
  Lookups lookups(loop);
  Lookups::Endpoints all;
  auto work = asio::make_work_guard(loop);
  lookups.find("127.0.0.1", "80", [&](const auto& why, const auto& found) {
    EXPECT_FALSE(why) << why.message();
    all = found;
    work.reset();
  });
  loop.run();
  EXPECT_EQ(all, (Lookups::Endpoints{{asio::ip::make_address("127.0.0.1"), 80}}));
}

TEST(Lookups, AreNotWaitedForAtTheEnd) {
  const auto is_kept = std::make_shared<bool>(true);
  {
    asio::io_context loop;
    Lookups lookups(loop);
    for (int i = 0; i < 2; ++i) {
      lookups.find(std::string(kSilent), "80", [is_kept](const auto&, const auto&) { FAIL(); });
    }
    asked.wait();
  }
  EXPECT_EQ(is_kept.use_count(), 1) << "the functions are released";
  EXPECT_EQ(questions, 1) << "the second one waits for the first";
  answer.count_down();
}

}  // namespace
}  // namespace sluice::base::lookups_test
