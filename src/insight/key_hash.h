#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::insight {

// Hashes keys with a secret of the process, so that nobody outside can choose keys with the same
// hash, or test which key a hash in a log belongs to.
//
// Thread-safety: any member from any thread. Cost: about 5 ns for a short key.
class KeyHash {
 public:
  // Errors: std::system_error if the system has no random bytes.
  KeyHash();
  std::uint64_t operator()(std::string_view key) const noexcept;
  // Returns a hash as 16 hexadecimal digits.
  static std::array<char, 16> digits(std::uint64_t hash) noexcept;
  static std::string text(std::uint64_t hash);

 private:
  std::array<unsigned char, 136> secret_{};
};

}  // namespace sluice::insight
