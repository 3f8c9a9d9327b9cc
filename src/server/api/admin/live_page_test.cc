#include "server/api/admin/live_page.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

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
  constexpr std::string_view kStart = "\"/page/";
  std::set<std::string> paths;
  for (std::size_t at = text.find(kStart); at != text.npos; at = text.find(kStart, at + 1)) {
    paths.emplace(text.substr(at + 1, text.find('"', at + 1) - at - 1));
  }
  return paths;
}

// Returns whether an element has an attribute such as onclick.
bool has_handler(std::string_view html) {
  for (std::size_t at = html.find(" on"); at != html.npos; at = html.find(" on", at + 1)) {
    const std::size_t end = html.find_first_not_of("abcdefghijklmnopqrstuvwxyz", at + 3);
    if (end != html.npos && end > at + 3 && html[end] == '=') return true;
  }
  return false;
}

// Returns whether a script has text instead of a source.
bool has_inline_script(std::string_view html) {
  for (std::size_t at = html.find("<script"); at != html.npos; at = html.find("<script", at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == html.npos || html.substr(end + 1, 1) != "<") return true;
  }
  return false;
}

// Returns the paths of the page, and of all that it can load.
std::set<std::string> all_paths() {
  std::set<std::string> known = {"/"}, seen;
  while (seen.size() < known.size()) {
    for (const std::string& path : std::set<std::string>(known)) {
      if (seen.insert(path).second) known.merge(paths_in(ask(path).body));
    }
  }
  return seen;
}

TEST(LivePage, HasEveryFileThatItRefersTo) {
  EXPECT_TRUE(all_paths().contains("/page/dom.js"));
  EXPECT_EQ(ask("/").content_type, "text/html; charset=utf-8");
  EXPECT_EQ(ask("/page/page.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(ask("/page/page.css").content_type, "text/css; charset=utf-8");
}

TEST(LivePage, HasLessThan80KilobytesAndHoldsNoConnection) {
  const std::set<std::string> paths = all_paths();
  EXPECT_TRUE(paths.contains("/page/quota.js"));
  std::size_t bytes = 0;
  for (const std::string& path : paths) {
    const http::Response file = ask(path);
    bytes += file.body.size();
    EXPECT_TRUE(file.closes) << path;
  }
  EXPECT_LE(bytes, 80'000U);
}

TEST(LivePage, LoadsTheSectionOfQuotasOnlyIfThereAreProxies) {
  EXPECT_EQ(ask("/").body.find("quota"), std::string::npos);
  EXPECT_NE(ask("/page/quota.js").body.find("/v1/quota"), std::string::npos);
}

TEST(LivePage, AllowsNoOtherSourceAndNoInlineScript) {
  const http::Response page = ask("/");
  for (const std::string_view part :
       {"default-src 'none'; ", "script-src 'self'; ", "style-src 'self'; ", "base-uri 'none'; ",
        "form-action 'none'; ", "frame-ancestors 'none'; "}) {
    EXPECT_NE(page.fields.find(part), page.fields.npos) << part;
  }
  EXPECT_EQ(page.fields.find("unsafe"), page.fields.npos);
  const std::string_view body = page.body;
  for (const std::string_view part : {"<style", "style=", "http:", "https:"}) {
    EXPECT_EQ(body.find(part), body.npos) << part;
  }
  EXPECT_FALSE(has_handler(body));
  EXPECT_FALSE(has_inline_script(body));
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
