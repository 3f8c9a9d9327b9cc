#include "server/api/admin/admin_token.h"

#include <utility>

namespace sluice::server {

Expected<AdminToken> AdminToken::from(SecretSource source) {
  if (!source.file.empty() && !source.variable.empty()) {
    return Unexpected{"both a token file and a token variable are given; expected one of them"};
  }
  AdminToken token;
  token.source_ = std::move(source);
  if (auto read = token.reload(); !read) return Unexpected{std::move(read.error())};
  return token;
}

Expected<bool> AdminToken::reload() {
  if (!source_.is_set()) return false;
  auto read = read_token(source_);
  if (!read) return Unexpected{std::move(read.error())};
  warning_ = find_weakness("the administration token", source_, *read);
  return std::exchange(token_, *read) != *read;
}

bool AdminToken::matches(std::string_view presented) const noexcept {
  return is_same_secret(presented, token_);
}

}  // namespace sluice::server
