#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/pipeline.h"

namespace sluice::redis {

// A reply for tests, and the reader that owns it.
class TestReply {
 public:
  explicit TestReply(std::string_view resp) {
    reader_.feed(resp);
    if (reader_.next() != ReplyReader::Progress::kReply) throw std::logic_error("no whole reply");
  }
  const Reply& operator*() const noexcept { return reader_.reply(); }

 private:
  ReplyReader reader_;
};

inline std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

inline std::string number(long long value) { return ":" + std::to_string(value) + "\r\n"; }

// An array of encoded elements.
inline std::string array(const std::vector<std::string>& elements) {
  std::string out = "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) out += element;
  return out;
}

// A list of strings, the form of commands and of many replies; a map if `type` is '%'.
inline std::string list(std::initializer_list<std::string_view> elements, char type = '*') {
  const std::size_t size = type == '%' ? elements.size() / 2 : elements.size();
  std::string out = type + std::to_string(size) + "\r\n";
  for (const std::string_view element : elements) out += bulk(element);
  return out;
}

// "text", 7, nil, [...], !error: the content of a reply.
inline std::string described(const Reply& reply) {
  switch (reply.type) {
    case Reply::kInteger: return std::to_string(reply.integer);
    case Reply::kNil: return "nil";
    case Reply::kError: return "!" + std::string(reply.text);
    case Reply::kStatus: return "+" + std::string(reply.text);
    case Reply::kString: return '"' + std::string(reply.text) + '"';
    default: break;
  }
  std::string out = "[";
  for (std::size_t i = 0; i < reply.count; ++i) {
    out.append(i == 0 ? "" : " ").append(described(reply[i]));
  }
  return out + "]";
}

}  // namespace sluice::redis
