#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
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

// Returns what is wrong with an address as the attribute `ip`, as "WHAT; EXPECTED", or nothing: it
// is a network, or has the characters of an address and is none. Programs may send other names.
std::optional<std::string> find_address_error(std::string_view address);

// Whether a client chooses the value of the attribute, or leaves it out: a header, or a part of the
// query, the cookies or the body.
bool is_of_client(std::string_view name) noexcept;

// Reports a warning of the file: where, what, and what would be right.
using Warn = std::function<void(std::size_t at, std::string what, std::string expected)>;
// Warns about an attribute whose name is similar to one that front ends send, and about a key such
// as "ip", "$ip" or "{{ip}}", which reads none.
void warn_of_attribute(std::string_view name, std::size_t at, const Warn& warn);
void warn_of_constant_key(std::string_view key, std::size_t at, const Warn& warn);

// Returns "; did you mean 'ip'?" for a name that no front end sends and that is similar to one that
// they send, else "".
std::string did_you_mean_attribute(std::string_view name);

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
    if (part == 0) begin_request();
    too_much_.reset();
  }
  // From now on requests are those of one array, until this is called with false.
  void read_for_array(bool is_array) noexcept {
    is_array_ = is_array;
    read_ = {};
  }

  // Values of more than kLong bytes are long. The expressions of a request may read kMostLongBytes
  // of them, so that no request takes long; those of rules in shadow mode as many.
  static constexpr std::size_t kLong = std::size_t{8} << 10;
  static constexpr std::size_t kMostLongBytes = std::size_t{8} << 20;
  // The expressions from now on are those of a rule in shadow mode, or of others.
  void read_for_shadow(bool is_shadow) noexcept { is_shadow_ = is_shadow; }
  // The expressions for all requests of an array may read kMostLongBytes of long values too, and
  // kMostArrayBytes of all values, with kEachRead more for each expression and value.
  static constexpr std::size_t kMostArrayBytes = std::size_t{64} << 20;
  static constexpr std::size_t kEachRead = 64;
  // Returns whether that many expressions may read the value, which is known, and counts it then.
  bool may_read(std::uint32_t number, std::size_t expressions) noexcept {
    const std::size_t size = known_[number].value->size();
    if (size <= kLong && !is_array_) return true;
    return count(number, size > kLong ? size * expressions : 0, (size + kEachRead) * expressions);
  }
  // The attribute that expressions could not read since the last call.
  std::optional<std::uint32_t> take_too_much() noexcept { return std::exchange(too_much_, {}); }
  // Whether a request of its own could have read it.
  bool is_too_much_of_array() const noexcept { return is_of_array_; }

  const std::optional<std::string_view>& get(std::uint32_t number) {
    Known& known = known_[number];
    if (known.request != request_) {
      known.value = source_->find((*names_)[number]);
      known.request = request_;
    }
    return known.value;
  }

 private:
  // What expressions have read.
  struct Read {
    std::size_t long_bytes = 0;   // of the request
    std::size_t array_long = 0;   // of the array
    std::size_t array_bytes = 0;  // of all values, with kEachRead
  };

  void begin_request() noexcept {
    for (Read& read : read_) read.long_bytes = 0;
  }
  bool count(std::uint32_t number, std::size_t long_bytes, std::size_t bytes) noexcept {
    Read& read = read_[is_shadow_ ? 1 : 0];
    const bool fits_request = long_bytes <= kMostLongBytes - read.long_bytes;
    const bool fits_array = long_bytes <= kMostLongBytes - read.array_long &&
                            bytes <= kMostArrayBytes - read.array_bytes;
    if (!fits_request || (is_array_ && !fits_array)) {
      too_much_ = number;
      is_of_array_ = fits_request;
      return false;
    }
    read.long_bytes += long_bytes;
    if (!is_array_) return true;
    read.array_long += long_bytes;
    read.array_bytes += bytes;
    return true;
  }

  struct Known {
    std::uint64_t request = 0;
    std::optional<std::string_view> value;
  };

  const std::vector<std::string>* names_ = nullptr;
  const AttributeSource* source_ = nullptr;
  std::vector<Known> known_;
  std::uint64_t request_ = 0;
  std::array<Read, 2> read_;  // by expressions of rules that are enforced, and in shadow mode
  bool is_shadow_ = false;
  bool is_array_ = false;
  std::optional<std::uint32_t> too_much_;
  bool is_of_array_ = false;
};

}  // namespace sluice::rules
