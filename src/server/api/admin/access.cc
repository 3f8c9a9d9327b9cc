#include "server/api/admin/access.h"

#include <string>
#include <string_view>

#include "server/protocol/http/fields.h"

namespace sluice::server {

std::optional<Problem> check_token(const http::Request& request, const AdminToken& token) {
  if (!token.is_set() || request.certificate_role >= Role::kAdmin) return std::nullopt;
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

}  // namespace sluice::server
