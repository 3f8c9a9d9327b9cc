#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"
#include "sluice/limit.h"

namespace sluice::server {

// Reads the limit that a request of /v1/check brings along: its key, and the arguments of RL.LIMIT
// by their names. Borrows the texts.
class RequestLimit {
 public:
  static constexpr std::string_view kExpected =
      "expected an object of a key and numbers, "
      "{\"key\":\"alice\",\"algorithm\":\"token_bucket\",\"limit\":10,\"per\":\"60s\"}";

  // Forgets all members.
  void clear() noexcept;
  // Begins a member. Returns what is wrong, "WHAT; EXPECTED", or nothing.
  std::optional<std::string> begin(std::string_view name);
  // Sets the value of the member that has begun. Returns true.
  bool set(std::string_view value);
  // Returns the limit. Errors: "WHAT; EXPECTED".
  Expected<Limit> finish() const;
  // Returns its key after finish().
  std::string_view key() const noexcept { return words_.front(); }

 private:
  std::string_view* word_of(std::string_view name) noexcept;

  std::string_view name_;
  std::vector<std::string_view> words_;  // the key and the words of RL.LIMIT
};

}  // namespace sluice::server
