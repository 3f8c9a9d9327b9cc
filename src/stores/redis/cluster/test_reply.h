#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/cluster/slot_map.h"

namespace sluice::redis {

struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

inline Reply parse(std::string_view resp) {
  redisReader* const reader = redisReaderCreate();
  redisReaderFeed(reader, resp.data(), resp.size());
  void* reply = nullptr;
  redisReaderGetReply(reader, &reply);
  redisReaderFree(reader);
  return Reply(static_cast<redisReply*>(reply));
}

inline std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}
inline std::string number(int value) { return ":" + std::to_string(value) + "\r\n"; }
inline std::string list(const std::vector<std::string>& elements) {
  std::string text = "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) text += element;
  return text;
}
inline std::string node(std::string_view host, int port) {
  return list({bulk(host), number(port), bulk("id")});
}
// One entry of CLUSTER SLOTS.
inline std::string range(int first, int last, std::vector<std::string> nodes) {
  nodes.insert(nodes.begin(), {number(first), number(last)});
  return list(nodes);
}

// The map that the server at 10.0.0.1:7000 tells.
inline Expected<SlotMap> read_map(const std::vector<std::string>& ranges) {
  const Reply reply = parse(list(ranges));
  return SlotMap::read(*reply, {"10.0.0.1", 7000});
}

// All slots at one master.
inline SlotMap whole_map(std::string_view host, int port = 7000) {
  return *read_map({range(0, 16383, {node(host, port)})});
}

}  // namespace sluice::redis
