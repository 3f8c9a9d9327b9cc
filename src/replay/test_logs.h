#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace sluice::replay {

// A new directory of files, deleted after the test.
class TemporaryFiles {
 public:
  TemporaryFiles() {
    const std::string wild(6, 'X');  // replaced by mkdtemp
    std::string name = (std::filesystem::temp_directory_path() / ("sluice-" + wild)).string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary directory";
    directory_ = name;
  }
  ~TemporaryFiles() { std::filesystem::remove_all(directory_); }
  TemporaryFiles(const TemporaryFiles&) = delete;
  TemporaryFiles& operator=(const TemporaryFiles&) = delete;

  std::string directory() const { return directory_; }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string write(const std::string& name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string directory_;
};

// Returns a log line at a number of seconds after midnight.
inline std::string line_at(int second, std::string_view client, std::string_view request = "GET /",
                           std::string_view agent = "agent", int status = 200) {
  std::array<char, 16> time{};
  std::snprintf(time.data(), time.size(), "%02d:%02d:%02d", second / 3600, second / 60 % 60,
                second % 60);
  return std::string(client) + " - - [20/Feb/2016:" + time.data() + " +0000] \"" +
         std::string(request) + " HTTP/1.1\" " + std::to_string(status) + " 1 \"-\" \"" +
         std::string(agent) + "\"\n";
}

inline void append_little_endian(std::string& out, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Returns a gzip member with the text in stored blocks of at most `block` bytes.
inline std::string gzip_stored(std::string_view text, std::size_t block = 65535) {
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  std::uint32_t sum = 0xFFFFFFFFu;
  for (const char c : text) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
  }
  std::string_view rest = text;
  do {
    const auto size = static_cast<std::uint32_t>(std::min(block, rest.size()));
    out += rest.size() == size ? '\x01' : '\0';
    append_little_endian(out, size, 2);
    append_little_endian(out, ~size & 0xFFFF, 2);
    out += rest.substr(0, size);
    rest.remove_prefix(size);
  } while (!rest.empty());
  append_little_endian(out, ~sum, 4);
  append_little_endian(out, static_cast<std::uint32_t>(text.size()), 4);
  return out;
}

// 500 times kCompressedLine, compressed with gzip -9.
inline constexpr std::string_view kCompressedLine =
    "10.0.0.1 - - [20/Feb/2016:00:00:45 -0500] \"GET /a HTTP/1.1\" 200 1\n";
inline std::string gzip_compressed() {
  constexpr std::string_view kHex =
      "1f8b08000000000002ffedcc210ec240104051cf2926f5edce6c28020f4522d6110424dcff0ad06390bcfcaf"
      "5fe5b25731ff7af46cd7cfbbf5acd33973ffb8c69c6be633a6ed32a2bde236c6bdd55253f4cca84311080402"
      "8140201008040281402010080402814020100804028140201008040281402010080402814020100804028140"
      "2010080402814020100804028140201008040281402010080402814020100804028140201008040281402010"
      "08040281402010080402814020100804028140f813e10ba483d6c0e8800000";
  std::string out;
  for (std::size_t i = 0; i < kHex.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(kHex.substr(i, 2)), nullptr, 16));
  }
  return out;
}

}  // namespace sluice::replay
