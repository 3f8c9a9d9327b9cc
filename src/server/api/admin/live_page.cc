#include "server/api/admin/live_page.h"

#include <algorithm>
#include <iterator>

#include "server/api/admin/page_files.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

// The page contains text that clients have chosen. No text can become a script or a style, and no
// other site can be loaded, can embed the page or receives anything.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'";

std::string_view type_of(std::string_view path) noexcept {
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

}  // namespace

bool answer_live_page(std::string_view path, const http::Request& request,
                      http::Response& response) {
  const auto* const file = std::find_if(std::begin(page::kFiles), std::end(page::kFiles),
                                        [&](const page::File& one) { return one.path == path; });
  if (file == std::end(page::kFiles)) return false;
  if (request.method != "GET" && request.method != "HEAD") {
    response.add("Allow", "GET, HEAD");
    answer_problem(response, {405, "expected GET or HEAD"});
    return true;
  }
  response.add("Content-Security-Policy", kContentSecurityPolicy);
  response.add("X-Content-Type-Options", "nosniff");
  response.add("Referrer-Policy", "no-referrer");
  response.add("Cross-Origin-Opener-Policy", "same-origin");
  response.add("Cross-Origin-Resource-Policy", "same-origin");
  response.add("Cache-Control", "no-cache");
  response.content_type = type_of(path);
  response.body = file->text;
  return true;
}

}  // namespace sluice::server
