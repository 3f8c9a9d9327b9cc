#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "limiter/text_buffer.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// A header field of an answer.
struct AnswerField {
  std::string_view name;
  std::string_view value;
};

// Writes an answer as header fields, the same for every front end: RateLimit-Policy, RateLimit,
// X-RateLimit-* and Retry-After, according to the deciding rule's `headers`.
//
// Omits limits of shadow rules. A limit that the store did not answer for has a policy, but no
// RateLimit. The tightest limits come first, and a list ends before it would exceed 2 KiB. Use one
// for each thread. Cost: some hundred instructions for a limit; keeps its buffers.
class AnswerFields {
 public:
  // Valid until the next call of either function.
  std::span<const AnswerField> of(const RuleAnswer& answer);
  // Returns the same fields as complete lines, "Name: value\r
  // ". Cheaper.
  std::string_view lines(const RuleAnswer& answer);

 private:
  void choose(std::span<const LimitAnswer> limits);
  void write(const RuleAnswer& answer);
  void put_policies(const RuleAnswer& answer);
  void put_limits(const RuleAnswer& answer);
  void put_legacy(const LimitAnswer& tightest);

  TextBuffer text_;
  std::vector<std::uint32_t> shown_;  // indexes of the answer's limits, tightest first
  std::vector<AnswerField> fields_;
};

// Writes the name of the limit at `index` as the fields spell it, within quotes: `"user"`, or
// `"RULE/NAME"` if another limit of the answer has that name. The names of an answer are unique.
void put_policy_name(TextBuffer& out, std::span<const LimitAnswer> limits, std::size_t index);

}  // namespace sluice::server
