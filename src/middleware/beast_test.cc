#include "sluice/middleware/beast.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <sstream>
#include <string>

#include "sluice/limit_builder.h"
#include "sluice/memory_store.h"

namespace sluice {
namespace {

namespace http = boost::beast::http;

// Returns the bytes of the refusal of a request.
std::string refusal_of(http::verb method) {
  MemoryStore store;
  Limiter limiter(store);
  RequestDecision decision(limiter,
                           {{"user", "anna", fixed_window(0).per(std::chrono::minutes(1))}});
  EXPECT_FALSE(decision.allowed());
  const http::request<http::empty_body> request(method, "/", 11);
  std::ostringstream out;
  out << beast_refusal(request, decision);
  return out.str();
}

TEST(Beast, AnswersHeadWithTheFieldsAlone) {
  const std::string get = refusal_of(http::verb::get);
  const std::string head = refusal_of(http::verb::head);
  const std::size_t body = get.find("\r\n\r\n") + 4;
  EXPECT_EQ(get.substr(body), "The request costs more than these policies ever allow at once.\n");
  EXPECT_NE(get.find("Content-Length: 63\r\n"), get.npos);
  EXPECT_EQ(head, get.substr(0, body));
}

}  // namespace
}  // namespace sluice
