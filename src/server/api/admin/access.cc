#include "server/api/admin/access.h"

#include <string>
#include <string_view>

#include "server/protocol/http/fields.h"
#include "server/protocol/http/web_page.h"

namespace sluice::server {
namespace {

std::optional<Problem> check_token(const http::Request& request, const AdminToken& token) {
  Buffers buffers;
  const std::string_view field =
      find_header(request.fields, "authorization", buffers).value_or(std::string_view());
  const std::string_view presented = bearer_token(field);
  if (presented.empty()) {
    return Problem{401, "a token is required; expected the header Authorization: Bearer TOKEN"};
  }
  if (token.matches(presented)) return std::nullopt;
  return Problem{401, "the token is not the one that is configured"};
}

}  // namespace

std::optional<Problem> find_refusal(const http::Request& request, const AdminToken& token) {
  if (token.is_set()) return check_token(request, token);
  if (auto refusal = find_web_page(request)) return refusal;
  return find_foreign_host(request, {});
}

}  // namespace sluice::server
