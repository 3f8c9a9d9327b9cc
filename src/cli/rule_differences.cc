#include "cli/rule_differences.h"

#include <boost/json.hpp>
#include <string_view>

#include "cli/admin_client.h"
#include "replay/text.h"

namespace sluice::cli {

using rules::RuleDifference;

std::string text_of(const RuleDifference& one) {
  const auto value = [](const std::string& text) {
    constexpr std::string_view kPlain =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.,:/%*{}";
    if (text.empty()) return std::string("none");
    const bool is_plain = text != "none" && text.find_first_not_of(kPlain) == text.npos;
    return is_plain ? text : '"' + replay::printable(text) + '"';
  };
  if (one.rule.empty()) return "~ the order of the rules";
  std::string text = std::string(1, "+-~"[static_cast<std::size_t>(one.kind)]) + " rule " +
                     replay::printable(one.rule);
  if (!one.limit.empty()) text += ", limit " + replay::printable(one.limit);
  if (one.key.empty()) return text;
  return text + ": " + replay::printable(one.key) + " " + value(one.before) + " -> " +
         value(one.after);
}

std::vector<RuleDifference> differences_in(const boost::json::object& answer) {
  std::vector<RuleDifference> out;
  each_object(answer, "differences", [&](const boost::json::object& row) {
    const std::string kind = text_in(row, "change");
    using Kind = RuleDifference::Kind;
    out.push_back({kind == "added"     ? Kind::kAdded
                   : kind == "removed" ? Kind::kRemoved
                                       : Kind::kChanged,
                   text_in(row, "rule"), text_in(row, "limit"), text_in(row, "key"),
                   text_in(row, "old"), text_in(row, "new")});
  });
  return out;
}

}  // namespace sluice::cli
