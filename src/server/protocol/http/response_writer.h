#pragma once

#include <string>
#include <string_view>

#include "server/protocol/http/message.h"

namespace sluice::server::http {

// How an answer goes out.
struct Sending {
  int version = 11;   // of the request
  bool head = false;  // answers HEAD: the body's length without the body
  bool keep_alive = true;
  std::string_view date = {};  // as Date wants it
};

// Appends the answer's bytes.
void append_response(std::string& out, const Response& response, const Sending& sending);

// "OK", "Too Many Requests", ...; empty where the status has no usual phrase.
std::string_view reason_phrase(int status) noexcept;

}  // namespace sluice::server::http
