#include "stores/redis/script/plan.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <array>
#include <set>
#include <stdexcept>
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

// Returns all scripts.
std::vector<Script> scripts() {
  std::vector<Script> all;
  for (const Family& family : families()) all.push_back(script_for_one(family));
  all.push_back(script_for_one(families().back(), kWithLedger));
  all.push_back(script_for(bit_of(families().back()) | kWithLedger));
  for (std::size_t set = 1; set < std::size_t{1} << families().size(); ++set) {
    all.push_back(script_for(static_cast<FamilySet>(set)));
  }
  return all;
}

TEST(Scripts, EachHaveAnotherNameAndTextAndTheHashOfTheText) {
  std::set<std::string_view> names;
  std::set<std::string_view> texts;
  for (const Script& script : scripts()) {
    EXPECT_EQ(script.sha1, sha1_of(script.text)) << script.name;
    EXPECT_TRUE(names.insert(script.name).second) << script.name;
    EXPECT_TRUE(texts.insert(script.text).second) << script.name;
  }
}

TEST(LuaText, ReplacesConstantsByTheirValues) {
  EXPECT_EQ(with_constants("if verb == kGiveBack then kept = unpack(kSummary, keys) end"),
            "if verb == 4 then kept = unpack('<I6I6I4', keys) end");
  EXPECT_EQ(with_constants("kMaxUnits"), "4294967295");
  EXPECT_THROW(with_constants("x = kMaxUnit"), std::out_of_range);
}

TEST(LuaText, ReplacesEveryConstantOfEachScript) {
  for (const Script& script : scripts()) {
    EXPECT_EQ(with_constants(script.text), script.text) << script.name;
    EXPECT_EQ(script.text.find("include '"), script.text.npos) << script.name;
    EXPECT_EQ(script.text.find("with_ledger '"), script.text.npos) << script.name;
    const bool has_ledger = script.name.ends_with("+ledger");
    EXPECT_EQ(script.text.find("XADD") != script.text.npos, has_ledger) << script.name;
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
