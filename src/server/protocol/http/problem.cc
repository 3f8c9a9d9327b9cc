#include "server/protocol/http/problem.h"

#include "limiter/text_buffer.h"

namespace sluice::server {

std::string_view status_title(int status) noexcept {
  switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
  }
}

void append_problem(std::string& out, const Problem& problem, std::string_view members) {
  TextBuffer text;
  text.put("{\"type\":");
  text.put_json(problem.type.empty() ? "about:blank" : problem.type);
  text.put(",\"title\":");
  text.put_json(problem.title.empty() ? status_title(problem.status) : problem.title);
  text.put(",\"status\":");
  text.put_number(static_cast<std::uint64_t>(problem.status));
  if (!problem.detail.empty()) {
    text.put(",\"detail\":");
    text.put_json(problem.detail);
  }
  if (!members.empty()) {
    text.put(',');
    text.put_text(members);
  }
  text.put('}');
  out.append(text.view());
}

void answer_problem(http::Response& response, const Problem& problem) {
  append_problem(response.text, problem);
  response.answer_text(problem.status, kProblemType);
}

void refuse_request(http::Response& response, const Problem& problem) {
  answer_problem(response, problem);
  response.refusal = problem.detail;
}

}  // namespace sluice::server
