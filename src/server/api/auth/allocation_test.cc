#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/api/auth/auth_endpoint.h"
#include "server/rules/test_folder.h"
#include "sluice/memory_store.h"
#include "tests/support/allocations.h"

namespace sluice::server {
namespace {

constexpr std::string_view kRules = R"(
version: 1
rules:
  - name: all
    match: { path: "/api/**", host: "*.example" }
    limits:
      - name: user
        key: "{header.x-user} {query.q} {cookie.sid}"
        algorithm: gcra
        limit: 5
        per: 1h
      - { name: ip, key: "{ip/64}", algorithm: gcra, limit: 5, per: 1h }
)";

TEST(AuthEndpoint, AllocatesNothingOnceItsBuffersHaveGrown) {
  const TestFolder folder;
  const auto manager = RulesManager::open({folder.write("rules.yaml", kRules)}).value();
  const std::vector<std::string> networks{"10.0.0.0/8"};
  const auto trusted = TrustedProxies::parse(networks).value();
  MemoryStore store;
  Limiter limiter(store);
  metrics::Registry registry;
  Log log({.level = LogLevel::kOff});
  DenialLog denials(log);
  Session session({limiter, *manager, registry.make_recorder(), denials});
  AuthEndpoint endpoint(session, trusted, log);

  const std::vector<http::Field> fields{
      {"Host", "A-HOST-THAT-IS-LONG-ENOUGH-FOR-THE-HEAP.EXAMPLE:80"},
      {"X-Original-URI",
       "//api/a%20path/that%20is/../long%20enough/for%20the/heap?q=it%20is+long+too"},
      {"X-Original-Method", "POST"},
      {"Cookie", "a=b; sid=of-a-session-that-is-long-enough-too"},
      {"X-User", "a user that is long enough"},
      {"X-User", "and has two fields"},
      {"X-Forwarded-For", "2001:DB8::1, 10.0.0.2"}};
  http::Request request;
  request.method = "GET";
  request.target = "/v1/auth?deny=403";
  request.fields = fields;
  request.peer = "10.0.0.1";
  http::Response response;
  const auto ask = [&] {
    response.clear();
    endpoint.handle(request, response);
  };
  ask();
  ASSERT_EQ(response.status, 200);
  ASSERT_NE(response.fields.find("\"ip\";r=4"), response.fields.npos) << response.fields;
  for (int i = 0; i < 10; ++i) ask();
  ASSERT_EQ(response.status, 403);
  const std::size_t allocations = testing::count_allocations([&] {
    for (int i = 0; i < 100; ++i) ask();
  });
  EXPECT_EQ(allocations, 0u);
}

}  // namespace
}  // namespace sluice::server
