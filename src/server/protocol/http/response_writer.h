#pragma once

#include <string>
#include <string_view>

#include "server/protocol/http/message.h"

namespace sluice::server::http {

// The properties of a response that depend on its request and connection.
struct Sending {
  int version = 11;  // of the request
  bool body = true;  // false: writes the body's length without the body
  bool keep_alive = true;
  std::string_view date = {};  // the value of Date
};

// Appends the bytes of the response.
void append_response(std::string& out, const Response& response, const Sending& sending);

// Returns "OK", "Too Many Requests", ...; empty if the status has no usual phrase.
std::string_view reason_phrase(int status) noexcept;

}  // namespace sluice::server::http
