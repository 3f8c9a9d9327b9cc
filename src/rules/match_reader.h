#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rules/attribute_table.h"
#include "rules/diagnostics.h"
#include "rules/list_files.h"
#include "rules/rule_set.h"
#include "rules/yaml_tree.h"

namespace sluice::rules {

// Reads the `match` of rules:
//
//   path: /api/**                          one pattern
//   ip: [10.0.0.0/8, "2001:db8::/32"]      one of several
//   header.x-user: { in: users.txt }       one of the entries of a file
//   header.x-client: { network: VALUE }    the same for networks of an attribute other than `ip`
//   not: { ... }                           none of these conditions
class MatchReader {
 public:
  // Borrows its arguments.
  MatchReader(AttributeTable& attributes, const RuleTerms& terms, ListFiles& lists)
      : attributes_(attributes), terms_(terms), lists_(lists) {}

  // Begins the next file.
  void begin(Diagnostics& diagnostics);
  std::vector<Condition> read(const Node& match);

 private:
  // Whether values are compared as text, as networks if they are some (`ip`), or only as networks.
  enum class Kind { kText, kAddressOrText, kNetwork };
  struct Place {
    Condition* condition;
    std::string_view attribute;
    Kind kind;
  };

  void read_conditions(const Node& map, bool negated, std::vector<Condition>& out);
  void read_value(const Place& place, const Node& node);
  void read_map(const Place& place, const Node& node);
  void read_file(const Place& place, const Node& node);
  void read_scalar(const Place& place, const Node& node);
  bool read_network(const Place& place, const Node& node);
  void read_pattern(const Place& place, const Node& node);
  void check_method(const Node& node);

  AttributeTable& attributes_;
  const RuleTerms& terms_;
  ListFiles& lists_;
  Diagnostics* diagnostics_ = nullptr;
  std::size_t expressions_ = 0;
  std::size_t instructions_ = 0;  // of the expressions
};

}  // namespace sluice::rules
