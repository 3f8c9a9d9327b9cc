#include "rules/block_fields.h"

#include "core/period.h"

namespace sluice::rules {

std::optional<Block> read_block(const Fields& limit, const RuleTerms& terms,
                                Diagnostics& diagnostics) {
  const Node* const node = limit.node("block");
  if (node == nullptr) return std::nullopt;
  const schema::Map& limits = schema::child(schema::child(schema::file(), "rules"), "limits");
  const Fields fields = Fields::read(*node, schema::child(limits, "block"), diagnostics);
  if (!terms.scripting) {
    diagnostics.add(node->at, "'block' needs scripts, and the store has none (scripting: off)",
                    "expected no 'block'");
  }
  const auto after = fields.integer("after");
  const auto within = fields.period("within");
  const auto time = fields.period("for");
  if (!after || !within || !time) return std::nullopt;
  const BlockSpec spec{.after = *after,
                       .within = *within,
                       .time = *time,
                       .growth = 100 * fields.integer("grow").value_or(1),
                       .at_most = fields.period("at_most").value_or(Duration{0})};
  if (Block::find_error(spec) == BlockError::kAtMost) {
    diagnostics.add(fields.at("at_most"),
                    "'at_most' is " + core::format_period(spec.at_most) + ", and 'for' is " +
                        core::format_period(spec.time),
                    "expected at least " + core::format_period(spec.time));
    return std::nullopt;
  }
  const auto block = Block::make(spec);
  return block ? std::optional(*block) : std::nullopt;
}

}  // namespace sluice::rules
