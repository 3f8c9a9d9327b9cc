#include "cli/limit_place.h"

#include "cli/admin_client.h"
#include "cli/commands.h"
#include "core/quoted.h"

namespace sluice::cli {
namespace {

std::string encoded(std::string_view text) {
  std::string out;
  for (const char& c : text) out += c == '%' ? std::string(1, c) : url_encoded({&c, 1});
  return out;
}

}  // namespace

Option add_place(Command command, LimitPlace& place) {
  Option limit = command.add_option("LIMIT", place.limit, "The limit: RULE/LIMIT");
  command.add_option("ATTRIBUTE", place.attributes, "The attributes of the key: NAME=VALUE");
  return limit;
}

Expected<EncodedNames, Failed> names_of(const LimitPlace& place) {
  const std::string_view text = place.limit;
  const std::size_t slash = text.find('/');
  if (slash == text.npos || slash == 0 || slash + 1 == text.size()) {
    return Unexpected{
        Failed{core::in_quotes(text) + " names no limit; expected RULE/LIMIT, such as api/requests",
               kUsage}};
  }
  return EncodedNames{encoded(text.substr(0, slash)), encoded(text.substr(slash + 1))};
}

Expected<std::vector<PlaceAttribute>, Failed> attributes_of(const LimitPlace& place) {
  std::vector<PlaceAttribute> attributes;
  for (const std::string& text : place.attributes) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || equals == 0) {
      return Unexpected{
          Failed{core::in_quotes(text) + " is not an attribute; expected NAME=VALUE", kUsage}};
    }
    const PlaceAttribute one{std::string_view(text).substr(0, equals),
                             std::string_view(text).substr(equals + 1)};
    for (const PlaceAttribute& other : attributes) {
      if (other.name != one.name) continue;
      return Unexpected{
          Failed{"the attribute " + core::in_quotes(one.name) + " is given twice; expected it once",
                 kUsage}};
    }
    attributes.push_back(one);
  }
  return attributes;
}

std::string query_of(const std::vector<PlaceAttribute>& attributes) {
  std::string query;
  for (const PlaceAttribute& one : attributes) {
    query.append(query.empty() ? "" : "&").append("attribute.");
    query.append(url_encoded(one.name)).append("=").append(url_encoded(one.value));
  }
  return query;
}

}  // namespace sluice::cli
