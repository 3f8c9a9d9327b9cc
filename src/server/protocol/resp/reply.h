#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "limiter/text_buffer.h"

namespace sluice::server::resp {

// Writes replies into a buffer, in RESP2 or RESP3 as the client asked for.
//
// After the head of an array, map or set of n elements the caller writes the elements; for a map, n
// keys and values. In RESP2 a map is a flat array, a set is an array, and a null is a null bulk
// string. Cost: a few instructions in addition to the copy. Allocates nothing once the buffer has
// grown.
class Reply {
 public:
  Reply(TextBuffer& out, int protocol) : out_(out), resp3_(protocol == 3) {}

  void ok() { out_.put("+OK\r\n"); }
  void simple(std::string_view text) { line('+', text); }
  // `text` begins with its prefix, such as "ERR ". Line breaks in it become spaces.
  void error(std::string_view text);
  void integer(std::int64_t number);
  void bulk(std::string_view bytes);
  // A key of a map, and its value.
  void member(std::string_view name, std::string_view text) {
    bulk(name);
    bulk(text);
  }
  template <std::integral Number>
  void member(std::string_view name, Number number) {
    bulk(name);
    integer(static_cast<std::int64_t>(number));
  }
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

  // Sets the protocol of the next replies.
  void speak(int protocol) { resp3_ = protocol == 3; }

 private:
  void line(char kind, std::string_view text);
  void head(char kind, std::size_t elements) { out_.put_line(kind, elements); }

  TextBuffer& out_;
  bool resp3_;
};

}  // namespace sluice::server::resp
