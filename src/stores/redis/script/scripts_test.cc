#include "stores/redis/script/scripts.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <array>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::redis {
namespace {

std::string sha1_of(std::string_view text) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte / 16];
    hex += "0123456789abcdef"[byte % 16];
  }
  return hex;
}

TEST(Scripts, EachHaveAnotherNameAndTextAndTheHashOfTheText) {
  std::set<std::string_view> names;
  std::set<std::string_view> texts;
  ASSERT_EQ(scripts().size(), families().size() + (std::size_t{1} << families().size()) - 1);
  for (const Script& script : scripts()) {
    EXPECT_EQ(script.sha1, sha1_of(script.text)) << script.name;
    EXPECT_TRUE(names.insert(script.name).second) << script.name;
    EXPECT_TRUE(texts.insert(script.text).second) << script.name;
  }
}

TEST(Scripts, AreNamedAfterTheirFamiliesInTheOrderOfTheTable) {
  const Family& first = families()[0];
  const Family& third = families()[2];
  EXPECT_EQ(script_for_one(third).name, "single:" + std::string(third.name));
  EXPECT_EQ(script_for(static_cast<FamilySet>(bit_of(third) | bit_of(first))).name,
            "request:" + std::string(first.name) + "+" + std::string(third.name));
}

TEST(Scripts, AreComposedOnceEvenIfThreadsNeedOneAtTheSameTime) {
  std::vector<const Script*> found(8);
  std::vector<std::thread> threads;
  for (const Script*& one : found) {
    threads.emplace_back([&one] { one = &script_for_one(families().back()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Script* const one : found) {
    EXPECT_EQ(one, found[0]);
    EXPECT_EQ(one->sha1, sha1_of(one->text));
  }
}

}  // namespace
}  // namespace sluice::redis
