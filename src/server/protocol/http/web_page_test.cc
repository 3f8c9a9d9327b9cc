#include "server/protocol/http/access.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::server::web_page_test {
namespace {

using Fields = std::vector<http::Field>;

http::Request request_with(const Fields& fields, std::string_view target = "/v1/check") {
  http::Request request;
  request.target = target;
  request.fields = fields;
  return request;
}

// That a listener on another machine's network refuses, whatever its hosts are.
std::optional<Problem> find_web_page(const http::Request& request) {
  return Access(Access::Reach::kNetwork, {}, {}).find_refusal(request);
}

TEST(WebPage, IsRecognizedByItsOrigin) {
  const auto refused = [](std::string_view origin) {
    const Fields fields{{"Host", "Sluice.example:8080"}, {"Origin", origin}};
    return find_web_page(request_with(fields)).has_value();
  };
  for (const char* foreign :
       {"http://evil.example", "http://sluice.example", "http://sluice.example:80801", "null", "",
        "https://sluice.example:8080.evil.example", "sluice.example:8080",
        "/sluice.example:8080"}) {
    EXPECT_TRUE(refused(foreign)) << foreign;
  }
  EXPECT_FALSE(refused("http://sluice.example:8080"));
  EXPECT_FALSE(refused("https://SLUICE.example:8080"));
  const Fields two{{"Host", "a"}, {"Origin", "http://a"}, {"Origin", "http://b"}};
  EXPECT_TRUE(find_web_page(request_with(two)));
}

TEST(WebPage, IsRecognizedByTheSiteThatTheBrowserNames) {
  const auto refused = [](std::string_view site) {
    const Fields fields{{"Sec-Fetch-Site", site}};
    const auto problem = find_web_page(request_with(fields));
    EXPECT_TRUE(!problem || problem->status == 403);
    return problem.has_value();
  };
  EXPECT_TRUE(refused("cross-site"));
  EXPECT_TRUE(refused("same-site"));
  EXPECT_FALSE(refused("same-origin"));
  EXPECT_FALSE(refused("none"));
  EXPECT_FALSE(find_web_page(request_with({}))) << "a program, not a browser";
}

TEST(ForeignHost, IsAnyNameButLocalhostAndTheConfiguredOnes) {
  const std::vector<std::string> hosts{"sluice.internal", "192.0.2.1"};
  const Access loopback(Access::Reach::kLoopback, {}, hosts);
  const auto refused = [&](std::string_view host) {
    const Fields fields{{"Host", host}};
    return loopback.find_refusal(request_with(fields)).has_value();
  };
  for (const char* known : {"localhost", "LocalHost:8080", "127.0.0.1", "127.8.9.10:80",
                            "[::1]:8080", "Sluice.Internal:8080", "192.0.2.1"}) {
    EXPECT_FALSE(refused(known)) << known;
  }
  for (const char* foreign : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                              "192.0.2.2", "[::2]", "", "evil@localhost"}) {
    EXPECT_TRUE(refused(foreign)) << foreign;
  }
  EXPECT_FALSE(loopback.find_refusal(request_with({}))) << "HTTP/1.0";
  const Fields two{{"Host", "localhost"}, {"Host", "evil.example"}};
  EXPECT_TRUE(loopback.find_refusal(request_with(two)));
  const Fields local{{"Host", "localhost"}};
  EXPECT_TRUE(loopback.find_refusal(request_with(local, "http://evil.example/v1/check")));
  EXPECT_FALSE(loopback.find_refusal(request_with(local, "http://localhost:8080/v1/check")));
}

TEST(PageAsGateway, IsARequestOfABrowserForAnUnknownHost) {
  const std::vector<std::string> hosts{"sluice.internal"};
  const Access loopback(Access::Reach::kLoopback, {}, hosts);
  const auto refused = [&](std::string_view host, const http::Field& mark) {
    const Fields fields{{"Host", host}, {"X-Original-URI", "/login"}, mark};
    return loopback.find_gateway_refusal(request_with(fields, "/v1/auth")).has_value();
  };
  const Fields marks{{"Accept-Language", ""},
                     {"accept-language", "en"},
                     {"Origin", "http://evil.example"},
                     {"Sec-Fetch-Site", "same-origin"},
                     {"Sec-Fetch-Mode", "cors"}};
  for (const http::Field& mark : marks) {
    EXPECT_TRUE(refused("evil.example", mark)) << mark.name;
    EXPECT_FALSE(refused("127.0.0.1:8080", mark)) << mark.name;
    EXPECT_FALSE(refused("sluice.internal", mark)) << mark.name;
    const Fields gateway{{"Host", "shop.example"}, mark, {"sec-sluice-gateway", "1"}};
    EXPECT_FALSE(loopback.find_gateway_refusal(request_with(gateway))) << mark.name;
    const Fields empty{{"Host", "shop.example"}, mark, {"Sec-Sluice-Gateway", ""}};
    EXPECT_TRUE(loopback.find_gateway_refusal(request_with(empty))) << mark.name;
  }
  EXPECT_FALSE(refused("shop.example", {"User-Agent", "curl/8.0"})) << "a program, not a browser";
}

}  // namespace
}  // namespace sluice::server::web_page_test
