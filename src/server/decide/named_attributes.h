#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/attributes.h"

namespace sluice::server {

// The attributes of one request by name. Ownership: borrows the texts. Cost: find() is linear for a
// few attributes and a binary search for more.
class NamedAttributes final : public AttributeSource {
 public:
  static constexpr std::size_t kMost = 1000;
  static constexpr std::size_t kMostNameBytes = 256;

  void clear() noexcept { values_.clear(); }
  std::size_t size() const noexcept { return values_.size(); }
  // An absent value only prevents its name from being repeated.
  void add(std::string_view name, std::optional<std::string_view> value) {
    values_.push_back({name, value});
  }
  // Call it after the last add() and before the first find(). Returns a name that is repeated, if
  // there is one.
  std::optional<std::string_view> finish();
  std::optional<std::string_view> find(std::string_view name) const override;

 private:
  static constexpr std::size_t kFew = 16;
  struct Value {
    std::string_view name;
    std::optional<std::string_view> value;
  };
  std::vector<Value> values_;
};

// The attributes of one request by a function, which finds one by its name.
template <typename Find>
class AttributesBy final : public AttributeSource {
 public:
  explicit AttributesBy(Find find) : find_(std::move(find)) {}

  std::optional<std::string_view> find(std::string_view name) const override { return find_(name); }

 private:
  const Find find_;
};

}  // namespace sluice::server
