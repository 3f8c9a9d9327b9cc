#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/text/text_buffer.h"

namespace sluice::server::resp {

// Writes replies into a buffer, in RESP2 or RESP3 as the client has asked for.
//
// Who opens an array, map or set of n elements writes these next (of a map a key and a value each).
// In RESP2 maps are flat arrays, sets are arrays, and what is absent is a null bulk string. Cost:
// some instructions beside the copying; nothing is allocated once the buffer has grown.
class Reply {
 public:
  Reply(TextBuffer& out, int protocol) : out_(out), resp3_(protocol == 3) {}

  void ok() { out_.put("+OK\r\n"); }
  void simple(std::string_view text) { line('+', text); }
  // `text` begins with its prefix, such as "ERR "; what would end the line becomes a space.
  void error(std::string_view text);
  void integer(std::int64_t number);
  void bulk(std::string_view bytes);
  // Text for people.
  void verbatim(std::string_view text);
  void null() {
    if (resp3_) {
      out_.put("_\r\n");
    } else {
      out_.put("$-1\r\n");
    }
  }
  void array(std::size_t elements) { head('*', elements); }
  void map(std::size_t pairs) {
    if (resp3_) return head('%', pairs);
    head('*', 2 * pairs);
  }
  void set(std::size_t elements) { head(resp3_ ? '~' : '*', elements); }

  // From now on.
  void speak(int protocol) { resp3_ = protocol == 3; }

 private:
  void line(char kind, std::string_view text);
  void head(char kind, std::size_t elements) {
    out_.put(kind);
    out_.put_number(elements);
    out_.put("\r\n");
  }

  TextBuffer& out_;
  bool resp3_;
};

}  // namespace sluice::server::resp
