#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/attributes.h"

namespace sluice::rules {

// Numbers the names of the attributes that a set of rules reads.
class AttributeTable {
 public:
  // Returns the number of the name. Header names are stored in lower case.
  std::uint32_t number(std::string_view name);
  const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

// Returns the name used for look-ups: header names in lower case, others unchanged.
std::string normalized(std::string_view name);

// Returns what is wrong with the name of an attribute as "WHAT; EXPECTED", or nothing.
std::optional<std::string> find_name_error(std::string_view name);

// Caches the attributes of one request. Asks their source for each attribute at most once.
class AttributeValues {
 public:
  // Starts a part of a request; the first one, 0, starts the request. Borrows table and source
  // until the next call.
  void begin(const AttributeTable& table, const AttributeSource& source, std::size_t part = 0) {
    names_ = &table.names();
    source_ = &source;
    if (known_.size() < names_->size()) known_.resize(names_->size());
    ++request_;
    if (part == 0) long_bytes_ = shadow_bytes_ = 0;
    too_long_.reset();
  }

  // Values of more than kLong bytes are long. The expressions of a request may read kMostLongBytes
  // of them, so that no request takes long; those of rules in shadow mode as many.
  static constexpr std::size_t kLong = std::size_t{8} << 10;
  static constexpr std::size_t kMostLongBytes = std::size_t{8} << 20;
  // The expressions from now on are those of a rule in shadow mode, or of others.
  void read_for_shadow(bool is_shadow) noexcept { is_shadow_ = is_shadow; }
  // Returns whether that many expressions may read the value, which is known, and counts it then.
  bool may_read(std::uint32_t number, std::size_t expressions) noexcept {
    const std::size_t size = known_[number].value->size();
    if (size <= kLong) return true;
    std::size_t& read = is_shadow_ ? shadow_bytes_ : long_bytes_;
    if (size * expressions > kMostLongBytes - read) {
      too_long_ = number;
      return false;
    }
    read += size * expressions;
    return true;
  }
  // The attribute that an expression could not read since the last call.
  std::optional<std::uint32_t> take_too_long() noexcept { return std::exchange(too_long_, {}); }

  const std::optional<std::string_view>& get(std::uint32_t number) {
    Known& known = known_[number];
    if (known.request != request_) {
      known.value = source_->find((*names_)[number]);
      known.request = request_;
    }
    return known.value;
  }

 private:
  struct Known {
    std::uint64_t request = 0;
    std::optional<std::string_view> value;
  };

  const std::vector<std::string>* names_ = nullptr;
  const AttributeSource* source_ = nullptr;
  std::vector<Known> known_;
  std::uint64_t request_ = 0;
  std::size_t long_bytes_ = 0;  // that expressions have read
  std::size_t shadow_bytes_ = 0;
  bool is_shadow_ = false;
  std::optional<std::uint32_t> too_long_;
};

}  // namespace sluice::rules
