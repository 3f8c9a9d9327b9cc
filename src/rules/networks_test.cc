#include "rules/networks.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "rules/list_files.h"

namespace sluice::rules {
namespace {

NetworkSet set_of(const std::vector<std::string>& texts) {
  NetworkSet set;
  for (const std::string& text : texts) {
    const auto network = parse_network(text);
    EXPECT_TRUE(network && *network) << text;
    set.add(**network);
  }
  set.build();
  return set;
}

bool contains(const NetworkSet& set, std::string_view text) {
  const auto address = parse_address(text);
  return address && set.contains(*address);
}

TEST(Networks, ContainTheirAddressesInAnySpelling) {
  struct {
    const char* network;
    std::vector<std::string> inside, outside;
  } const cases[] = {
      {"10.0.0.0/8",
       {"10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"},
       {"11.0.0.0", "9.255.255.255", "::a00:1", "", "10.0.0.0/8"}},
      {"192.0.2.7", {"192.0.2.7", "::ffff:192.0.2.7"}, {"192.0.2.8"}},
      {"::ffff:192.0.2.7", {"192.0.2.7"}, {"192.0.2.8"}},
      {"192.0.2.7/32", {"192.0.2.7"}, {"192.0.2.6"}},
      {"0.0.0.0/0", {"203.0.113.9", "255.255.255.255"}, {"2001:db8::1", "unknown"}},
      {"2001:DB8:0::/32", {"2001:db8:ffff::1"}, {"2001:db9::", "32.1.13.184"}},
      {"2001:db8::/64", {"2001:db8::ffff:ffff:ffff:ffff"}, {"2001:db8:0:1::"}},
      {"2001:db8::/65", {"2001:db8::7fff:0:0:1"}, {"2001:db8::8000:0:0:0"}},
      {"::1", {"::1", "0:0::1"}, {"::2"}},
      {"::/0", {"2001:db8::1", "ffff:ffff::"}, {"203.0.113.9"}},
  };
  for (const auto& c : cases) {
    const NetworkSet set = set_of({c.network});
    for (const auto& text : c.inside) EXPECT_TRUE(contains(set, text)) << c.network << " " << text;
    for (const auto& text : c.outside)
      EXPECT_FALSE(contains(set, text)) << c.network << " " << text;
  }
}

TEST(Networks, RefuseOnesThatAreWrong) {
  const auto error = [](std::string_view text) {
    const auto network = parse_network(text);
    return network ? "no error" : network.error();
  };
  EXPECT_EQ(error("10.1.2.3/8"),
            "the network '10.1.2.3/8' has bits after its prefix; expected '10.0.0.0/8'");
  EXPECT_EQ(error("2001:db8::1/32"),
            "the network '2001:db8::1/32' has bits after its prefix; expected '2001:db8::/32'");
  EXPECT_EQ(error("10.0.0.0/33"),
            "the network '10.0.0.0/33' is wrong; expected '10.0.0.0/' and a number from 0 to 32");
  for (const std::string_view text :
       {"10.0.0.0/", "10.0.0.0/8x", "10.0.0.0/-1", "::1/129", "::/999", "::ffff:10.0.0.0/104"}) {
    EXPECT_NE(error(text), "no error") << text;
  }
  EXPECT_FALSE(*parse_network("10.0.0/8"));
}

TEST(Networks, LookLikeSomeOnlyWithAnAddressAndANumber) {
  for (const std::string_view text : {"10.0.0.0/8", "10.0.0.1/8", "::/0", "10.0.0.0/99"}) {
    EXPECT_TRUE(looks_like_network(text)) << text;
  }
  for (const std::string_view text :
       {"10.0.0.0", "/10.0.0.0/8", "1.2/3", "10.0.0.0/", "10.0.0.0/*", "a/1", "10.0.0.0/a"}) {
    EXPECT_FALSE(looks_like_network(text)) << text;
  }
}

// inet_pton() is the oracle.
TEST(Networks, ReadTheAddressesThatTheSystemReads) {
  std::mt19937 random(7);
  const std::string_view characters = "0123456789..::af%";
  std::size_t right = 0;
  for (int i = 0; i < 300'000; ++i) {
    std::string text;
    if (i % 3 == 0) {
      for (int part = 0; part < 4; ++part) {
        text += (part > 0 ? "." : "") + std::to_string(random() % 300);
      }
      if (random() % 4 == 0) text[random() % text.size()] = characters[random() % 17];
    } else {
      for (std::size_t n = random() % 12; n > 0; --n) text += characters[random() % 17];
    }
    std::array<unsigned char, 16> raw{};
    const bool is_v4 = inet_pton(AF_INET, text.c_str(), raw.data()) == 1;
    const bool is_v6 = !is_v4 && inet_pton(AF_INET6, text.c_str(), raw.data()) == 1;
    const auto address = parse_address(text);
    ASSERT_EQ(address.has_value(), is_v4 || is_v6) << text;
    right += address ? 1 : 0;
    if (!is_v4) continue;
    const auto number = std::uint32_t{raw[0]} << 24 | std::uint32_t{raw[1]} << 16 |
                        std::uint32_t{raw[2]} << 8 | raw[3];
    ASSERT_TRUE(rules::is_v4(*address)) << text;
    ASSERT_EQ(static_cast<std::uint32_t>(*address), number) << text;
  }
  EXPECT_GT(right, 20'000u);
}

// A list of all networks is the oracle.
TEST(Networks, AgreeWithASearchThroughAll) {
  std::mt19937_64 random(11);
  for (const std::size_t count : {1u, 2u, 31u, 32u, 33u, 1000u, 1025u, 40'000u}) {
    IntervalSet<std::uint32_t> set;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> all;
    const std::uint32_t range = count < 100 ? 1000 : 4'000'000;
    for (std::size_t i = 0; i < count; ++i) {
      const auto first = static_cast<std::uint32_t>(random() % range);
      all.emplace_back(first, first + static_cast<std::uint32_t>(random() % 8));
      set.add(all.back().first, all.back().second);
    }
    set.build();
    for (int i = 0; i < (count < 10'000 ? 2000 : 200); ++i) {
      const auto number = static_cast<std::uint32_t>(random() % (range + 10));
      bool found = false;
      for (const auto& [first, last] : all) found |= first <= number && number <= last;
      ASSERT_EQ(set.contains(number), found) << number << " of " << count;
    }
  }
}

TEST(Networks, OfAMillionTakeAtMost48BytesEach) {
  std::mt19937_64 random(3);
  NetworkSet v4;
  NetworkSet v6;
  constexpr std::size_t kCount = 200'000;
  for (std::size_t i = 0; i < kCount; ++i) {
    Address address = Address{0xFFFF} << 32 | static_cast<std::uint32_t>(random());
    v4.add({address, address});
    address = Address{random()} << 64 | random();
    v6.add({address, address});
  }
  v4.build();
  v6.build();
  EXPECT_LE(v4.bytes(), kCount * 10);
  EXPECT_LE(v6.bytes(), kCount * 38);
}

TEST(TextSet, ContainsItsTextsAndNoOthers) {
  TextSet set;
  EXPECT_FALSE(set.contains(""));
  for (int i = 0; i < 5000; i += 2) EXPECT_TRUE(set.add("user-" + std::to_string(i)));
  EXPECT_TRUE(set.add(std::string(65'535, 'x')));
  EXPECT_FALSE(set.add(std::string(65'536, 'x')));
  EXPECT_TRUE(set.add("user-0")) << "a repeated text is no error";
  set.build();
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(set.contains("user-" + std::to_string(i)), i % 2 == 0) << i;
  }
  EXPECT_TRUE(set.contains(std::string(65'535, 'x')));
  EXPECT_FALSE(set.contains(""));
  EXPECT_FALSE(set.contains("user-"));
}

}  // namespace
}  // namespace sluice::rules
