#include "server/protocol/http/request_target.h"

namespace sluice::server {

std::optional<std::string_view> find_query(std::string_view query, std::string_view name,
                                           Buffers& buffers) {
  const auto found = base::find_query(query, name);
  if (!found || found->find_first_of("%+") == found->npos) return found;
  return base::decode_query(*found, buffers.next());
}

}  // namespace sluice::server
