#include "server/protocol/http/problem.h"

#include <boost/beast/http/status.hpp>

#include "limiter/text_buffer.h"

namespace sluice::server {

std::string_view reason_phrase(int status) noexcept {
  namespace http = boost::beast::http;
  if (status == 413) return "Content Too Large";  // RFC 9110, which Beast does not know
  const auto known = http::int_to_status(static_cast<unsigned>(status));
  if (known == http::status::unknown) return {};
  const auto phrase = http::obsolete_reason(known);
  return {phrase.data(), phrase.size()};
}

void append_problem(std::string& out, const Problem& problem, std::string_view members) {
  TextBuffer text;
  text.put("{\"type\":");
  text.put_json(problem.type.empty() ? "about:blank" : problem.type);
  text.put(",\"title\":");
  const std::string_view phrase = reason_phrase(problem.status);
  text.put_json(!problem.title.empty() ? problem.title : phrase.empty() ? "Error" : phrase);
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
