#include "server/protocol/resp/client.h"

#include <gtest/gtest.h>

namespace sluice::server::resp {
namespace {

TEST(Users, AreFoundByNameAndPasswordTogether) {
  const Users users({{"a", Role::kCheck, "one"}, {"b", Role::kAdmin, "two"}});
  ASSERT_NE(users.find("a", "one"), nullptr);
  EXPECT_EQ(users.find("b", "two")->role, Role::kAdmin);
  EXPECT_EQ(users.find("a", "two"), nullptr);
  EXPECT_EQ(users.find("a", "oneone"), nullptr);
  EXPECT_EQ(users.find("a", "on"), nullptr);
  EXPECT_EQ(users.find("a", ""), nullptr);
  EXPECT_EQ(users.find("c", "one"), nullptr);
}

TEST(Users, AreFoundByTheirCertificate) {
  const Users users({{"a", Role::kCheck, "one"}, {"b", Role::kAdmin, "", "b.internal"}});
  const auto find = [&](std::vector<std::string> names) { return users.find_certificate(names); };
  ASSERT_NE(find({"x", "b.internal"}), nullptr);
  EXPECT_EQ(find({"b.internal"})->name, "b");
  EXPECT_EQ(find({"a", "b", ""}), nullptr);
  EXPECT_EQ(find({}), nullptr);
  EXPECT_EQ(users.find("b", ""), nullptr) << "has no password";
}

TEST(Users, WithoutAnyEveryClientMayDoEverything) {
  EXPECT_EQ(Users().at_first(), Role::kAdmin);
  EXPECT_EQ(Users({{"a", Role::kAdmin, "b"}}).at_first(), Role::kNobody);
}

}  // namespace
}  // namespace sluice::server::resp
