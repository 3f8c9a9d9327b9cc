#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "server/text/text_buffer.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// A header field of an answer.
struct AnswerField {
  std::string_view name;
  std::string_view value;
};

// Writes an answer as header fields: RateLimit-Policy, RateLimit, X-RateLimit-*, Retry-After, as
// the deciding rule's `headers` asks for. The same for every door.
//
// Limits of rules on trial are left out; one that the store did not answer for has a policy, but no
// RateLimit. A list ends before it would exceed 2 KiB, the tightest limits stand first. One for a
// thread. Cost: some hundred instructions for a limit; keeps its buffers.
class AnswerFields {
 public:
  // Valid until the next call of either.
  std::span<const AnswerField> of(const RuleAnswer& answer);
  // The same as whole lines, "Name: value\r\n". Cheaper.
  std::string_view lines(const RuleAnswer& answer);

 private:
  void choose(std::span<const LimitAnswer> limits);
  void write(const RuleAnswer& answer);
  void put_policies(const RuleAnswer& answer);
  void put_limits(const RuleAnswer& answer);
  void put_legacy(const LimitAnswer& tightest);

  TextBuffer text_;
  std::vector<std::uint32_t> shown_;  // places in the answer's limits, tightest first
  std::vector<AnswerField> fields_;
};

// Puts the name of the limit at `index` as the fields spell it, within quotes: `"user"`, or
// `"RULE/NAME"` where another limit of the answer has that name. Each limit of an answer gets
// another name.
void put_policy_name(TextBuffer& out, std::span<const LimitAnswer> limits, std::size_t index);

}  // namespace sluice::server
