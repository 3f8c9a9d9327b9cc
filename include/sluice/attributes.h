#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// The named values of a request that rules read: "method", "path", "header.x-user-id". Derive from
// it to give rules the values of your own requests. Rules ask for names of headers in lower case.
// In a key an empty value counts as absent.
//
// Thread-safety: find() may be called from several threads at once. Ownership: the text that find()
// returns is valid until the source changes or ends. Cost: one virtual call for each name.
class AttributeSource {
 public:
  virtual ~AttributeSource() = default;
  // The value of a name; nothing if the request has none.
  virtual std::optional<std::string_view> find(std::string_view name) const = 0;
};

// A short list of attributes.
//
// Thread-safety: any thread while nothing is set. Ownership: copies names and values. Cost: finds
// in linear time.
class Attributes final : public AttributeSource {
 public:
  Attributes() = default;
  // The attributes of these names and values.
  Attributes(std::initializer_list<std::pair<std::string_view, std::string_view>> values);
  // Adds a value, or replaces the earlier value of that name.
  void set(std::string_view name, std::string_view value);
  std::optional<std::string_view> find(std::string_view name) const override;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace sluice
