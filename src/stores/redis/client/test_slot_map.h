#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/clients.h"
#include "stores/redis/client/test_reply.h"

namespace sluice::redis {

inline std::string node(std::string_view host, int port) {
  return array({bulk(host), number(port), bulk("id")});
}
// One entry of CLUSTER SLOTS.
inline std::string range(int first, int last, std::vector<std::string> nodes) {
  nodes.insert(nodes.begin(), {number(first), number(last)});
  return array(nodes);
}

// The map that the server at 10.0.0.1:7000 sends.
inline Expected<SlotMap> read_map(const std::vector<std::string>& ranges) {
  const TestReply reply(array(ranges));
  return SlotMap::read(*reply, {"10.0.0.1", 7000});
}

// One master serves all slots.
inline SlotMap whole_map(std::string_view host, int port = 7000) {
  return *read_map({range(0, 16383, {node(host, port)})});
}

}  // namespace sluice::redis
