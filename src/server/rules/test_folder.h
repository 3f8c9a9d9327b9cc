#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace sluice::server {

// A temporary folder for the files of a test.
class TestFolder {
 public:
  TestFolder() {
    std::string name = ::testing::TempDir() + "sluice-rules-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file in place and returns its path.
  std::string write(std::string_view name, std::string_view text) const {
    std::string file = *this / name;
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  std::string path_;
};

// Returns rules with one rule of that name and one limit of `limit` per second for all requests.
inline std::string rules_named(std::string_view name, int limit = 5) {
  return "version: 1\nrules:\n  - name: " + std::string(name) +
         "\n    limits: [ { name: all, algorithm: token_bucket, limit: " + std::to_string(limit) +
         ", per: 1s } ]\n";
}

}  // namespace sluice::server
