#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/protocol/http/request_target.h"
#include "sluice/attributes.h"

namespace sluice::server {

// The attributes in a query: NAME=VALUE, or attribute.NAME=VALUE if the name is one of the query's
// own parameters.
class QueryAttributes final : public AttributeSource {
 public:
  explicit QueryAttributes(std::string_view query) : query_(query) {}

  std::optional<std::string_view> find(std::string_view name) const override {
    const auto value = find_query(query_, "attribute." + std::string(name), buffers_);
    constexpr std::array<std::string_view, 4> kOwn = {"rule", "limit", "for", "until"};
    if (value || std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end()) return value;
    return find_query(query_, name, buffers_);
  }

 private:
  std::string_view query_;
  mutable Buffers buffers_;
};

// Returns the number of a parameter of the query, or another one if it has none.
inline std::uint64_t number_in(std::string_view query, std::string_view name,
                               std::uint64_t otherwise) {
  Buffers buffers;
  const auto text = find_query(query, name, buffers);
  std::uint64_t number = otherwise;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

}  // namespace sluice::server
