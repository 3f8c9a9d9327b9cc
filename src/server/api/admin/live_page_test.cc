#include "server/api/admin/live_page.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

namespace sluice::server {
namespace {

http::Response ask(std::string_view path, std::string_view method = "GET") {
  http::Request request;
  request.method = method;
  http::Response response;
  EXPECT_TRUE(answer_live_page(path, request, response)) << path;
  return response;
}

// Returns the paths that a file refers to.
std::set<std::string> paths_in(std::string_view text) {
  static const std::regex kPath("\"(/page/[a-z.]+)\"");
  const std::string copy(text);
  std::set<std::string> paths;
  for (std::sregex_iterator at(copy.begin(), copy.end(), kPath), end; at != end; ++at) {
    paths.insert((*at)[1]);
  }
  return paths;
}

TEST(LivePage, HasEveryFileThatItRefersTo) {
  std::set<std::string> known = {"/"}, seen;
  while (seen.size() < known.size()) {
    for (const std::string& path : std::set<std::string>(known)) {
      if (seen.insert(path).second) known.merge(paths_in(ask(path).body));
    }
  }
  EXPECT_GE(seen.size(), 4U);
  EXPECT_EQ(ask("/").content_type, "text/html; charset=utf-8");
  EXPECT_EQ(ask("/page/page.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(ask("/page/page.css").content_type, "text/css; charset=utf-8");
}

TEST(LivePage, AllowsNoOtherSourceAndNoInlineScript) {
  const http::Response page = ask("/");
  for (const std::string_view part :
       {"default-src 'none'; ", "script-src 'self'; ", "style-src 'self'; ", "base-uri 'none'; ",
        "form-action 'none'; ", "frame-ancestors 'none'; "}) {
    EXPECT_NE(page.fields.find(part), page.fields.npos) << part;
  }
  EXPECT_EQ(page.fields.find("unsafe"), page.fields.npos);
  const std::string body(page.body);
  EXPECT_FALSE(std::regex_search(body, std::regex("<style|style=| on[a-z]+=|https?:")));
  EXPECT_FALSE(std::regex_search(body, std::regex("<script[^>]*>[^<]")));
}

TEST(LivePage, AnswersNoOtherPathAndNoOtherMethod) {
  http::Request request;
  http::Response response;
  for (const std::string_view path : {"", "/page", "/page/", "/page/none.js", "/index.html"}) {
    EXPECT_FALSE(answer_live_page(path, request, response)) << path;
  }
  EXPECT_EQ(ask("/", "POST").status, 405);
  EXPECT_EQ(ask("/", "HEAD").status, 200);
}

}  // namespace
}  // namespace sluice::server
