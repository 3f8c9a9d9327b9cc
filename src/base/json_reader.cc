#include "base/json_reader.h"

#include "base/quoted.h"

namespace sluice::base {

std::string JsonProblem::text() const {
  switch (kind) {
    case Kind::kUnknown: return "unknown member " + in_quotes(name);
    case Kind::kTwice: return "the member " + in_quotes(name) + " is given twice";
    case Kind::kMissing: return "missing";
    case Kind::kValue: return inner.empty() ? "found " + what : in_quotes(inner) + " is " + what;
    case Kind::kOther:
    case Kind::kSyntax:
    case Kind::kTooDeep: break;
  }
  return what;
}

std::string JsonProblem::message() const { return text() + (right.empty() ? "" : "; " + right); }

std::string JsonProblem::message_by_path(std::string_view otherwise) const {
  std::string path = place;
  for (const std::string& part : {inner, name}) {
    if (!part.empty()) path.append(path.empty() ? "" : ".").append(part);
  }
  switch (kind) {
    case Kind::kSyntax:
    case Kind::kTooDeep: return std::string(otherwise);
    case Kind::kUnknown: return "unknown member " + in_quotes(path) + "; " + right;
    case Kind::kTwice: return "the member " + in_quotes(path) + " is given twice; " + right;
    case Kind::kOther: return message();
    case Kind::kMissing:
    case Kind::kValue: break;
  }
  if (path.empty()) return std::string(otherwise);
  return in_quotes(path) + " is wrong; " + right;
}

}  // namespace sluice::base
