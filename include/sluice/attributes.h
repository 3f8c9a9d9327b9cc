#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// What a request is to the rules: named values ("method", "path", "header.x-user-id", ...).
// Names of headers are asked for in lower case. In a key an empty value counts as absent.
//
// Thread-safety: find() may be called from several threads at once. Ownership: what find() returns
// stays valid until the source changes or ends. Cost: one virtual call for a name.
class AttributeSource {
 public:
  virtual ~AttributeSource() = default;
  virtual std::optional<std::string_view> find(std::string_view name) const = 0;
};

// A short list of attributes. Owns names and values; finds in linear time.
class Attributes final : public AttributeSource {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string_view, std::string_view>> values);
  // Replaces an earlier value of that name.
  void set(std::string_view name, std::string_view value);
  std::optional<std::string_view> find(std::string_view name) const override;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace sluice
