#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sluice/http_fields.h"
#include "sluice/rule_answer.h"

namespace sluice {

// Writes the answer of rules as header fields, as HttpFields does, and according to the `headers`
// of the deciding rule. Omits limits of shadow rules. Limits of the same name are written with
// their rules: "RULE/NAME".
//
// Thread-safety, ownership, errors and cost are those of HttpFields.
class RuleHttpFields {
 public:
  // Returns the fields. They are valid until the next call of either function.
  std::span<const HttpField> of(const RuleAnswer& answer);
  // Returns the same fields as complete lines: "Name: value\r\n". Cheaper.
  std::string_view lines(const RuleAnswer& answer);

 private:
  HeaderFields choose(const RuleAnswer& answer);

  HttpFields fields_;
  std::vector<NamedDecision> shown_;
};

}  // namespace sluice
