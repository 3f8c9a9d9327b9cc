#include "server/protocol/http/response_writer.h"

#include <boost/beast/http/status.hpp>
#include <charconv>
#include <cstddef>
#include <ostream>  // Beast does not include it

namespace sluice::server::http {
namespace {

void append_number(std::string& out, std::size_t number) {
  char digits[20];
  const char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

void append_status_line(std::string& out, int status) {
  if (status == 200) {  // the usual case
    out.append("HTTP/1.1 200 OK\r\n");
    return;
  }
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::size_t>(status));
  out.append(" ").append(reason_phrase(status)).append("\r\n");
}

}  // namespace

std::string_view reason_phrase(int status) noexcept {
  namespace http = boost::beast::http;
  const auto known = http::int_to_status(static_cast<unsigned>(status));
  if (known == http::status::unknown) return {};
  const auto phrase = http::obsolete_reason(known);
  return {phrase.data(), phrase.size()};
}

void append_response(std::string& out, const Response& response, const Sending& sending) {
  append_status_line(out, response.status);
  out.append("Date: ").append(sending.date).append("\r\n");
  if (!response.content_type.empty()) {
    out.append("Content-Type: ").append(response.content_type).append("\r\n");
  }
  if (response.broadcast == nullptr) {
    out.append("Content-Length: ");
    append_number(out, response.body.size());
    out.append("\r\n");
  }
  if (!sending.keep_alive) {
    out.append("Connection: close\r\n");
  } else if (sending.version < 11) {
    out.append("Connection: keep-alive\r\n");
  }
  out.append(response.fields).append("\r\n");
  if (sending.body) out.append(response.body);
}

}  // namespace sluice::server::http
