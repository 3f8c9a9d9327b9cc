#include "server/api/admin/admin_endpoint.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "server/rules/test_folder.h"

namespace sluice::server {
namespace {

constexpr const char* kVariable = "SLUICE_TEST_ADMIN_TOKEN";
constexpr std::string_view kLong = "0123456789abcdef";

std::string error_of(const std::string& file, const std::string& variable) {
  const auto token = AdminToken::from({file, variable});
  return token ? "ok" : token.error();
}

TEST(AdminToken, IsNoneWithoutASource) {
  auto token = *AdminToken::from({"", ""});
  EXPECT_FALSE(token.is_set());
  EXPECT_FALSE(token.matches(""));
  EXPECT_FALSE(token.matches("x"));
  EXPECT_FALSE(*token.reload());
}

TEST(AdminToken, IsTheFilesContentWithoutLineEnds) {
  const TestFolder folder;
  for (const char* end : {"", "\n", "\r\n", "\n\n"}) {
    const auto token = *AdminToken::from({folder.write("t", std::string(kLong) + end), ""});
    EXPECT_TRUE(token.is_set());
    EXPECT_TRUE(token.matches(kLong));
    EXPECT_FALSE(token.matches(std::string(kLong) + end + "x"));
  }
}

TEST(AdminToken, MatchesOnlyItself) {
  const TestFolder folder;
  const auto token = *AdminToken::from({folder.write("t", kLong), ""});
  std::string other(kLong);
  EXPECT_FALSE(token.matches(""));
  EXPECT_FALSE(token.matches(other + other));
  EXPECT_FALSE(token.matches(other.substr(1)));
  for (char& c : other) {
    c = static_cast<char>(c ^ 1);
    EXPECT_FALSE(token.matches(other));
    c = static_cast<char>(c ^ 1);
  }
}

TEST(AdminToken, IsTheVariablesValue) {
  ::setenv(kVariable, kLong.data(), 1);
  EXPECT_TRUE(AdminToken::from({"", kVariable})->matches(kLong));
  ::setenv(kVariable, "\n", 1);
  EXPECT_EQ(error_of("", kVariable),
            "environment variable SLUICE_TEST_ADMIN_TOKEN is empty; expected a token");
  ::unsetenv(kVariable);
  EXPECT_EQ(error_of("", kVariable), "environment variable SLUICE_TEST_ADMIN_TOKEN is not set");
}

TEST(AdminToken, ReportsTheProblemWithItsSource) {
  const TestFolder folder;
  const std::string file = folder / "t";
  EXPECT_EQ(error_of(file, ""),
            "token file " + file + " cannot be read: No such file or directory");
  folder.write("t", "\n");
  EXPECT_EQ(error_of(file, ""), "token file " + file + " is empty; expected a token");
  for (const char* text : {"two words", "two\nlines", "t\xC3\xB6ken", " x"}) {
    folder.write("t", text);
    EXPECT_EQ(error_of(file, ""),
              "token file " + file +
                  " is not a token; expected one line of printable ASCII without spaces");
  }
  folder.write("t", std::string(4096, 'x'));
  EXPECT_EQ(error_of(file, ""), "ok");
  folder.write("t", std::string(4097, 'x'));
  EXPECT_EQ(error_of(file, ""),
            "token file " + file + " is too long; expected a token of at most 4096 bytes");
  EXPECT_EQ(error_of(folder.path(), ""), "token file " + folder.path() + " is not a regular file");
  EXPECT_EQ(error_of(file, kVariable),
            "both a token file and a token variable are given; expected one of them");
}

TEST(AdminToken, IsReadAgainAndKeptIfThatFails) {
  const TestFolder folder;
  auto token = *AdminToken::from({folder.write("t", kLong), ""});
  EXPECT_FALSE(*token.reload());
  folder.write("t", "another-long-token");
  EXPECT_TRUE(*token.reload());
  EXPECT_TRUE(token.matches("another-long-token"));
  EXPECT_FALSE(token.matches(kLong));
  folder.write("t", "");
  EXPECT_FALSE(token.reload());
  EXPECT_TRUE(token.matches("another-long-token"));
}

TEST(AdminToken, WarnsOfAReadableFileAndOfAShortToken) {
  const TestFolder folder;
  const std::string file = folder.write("t", kLong);
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  auto token = *AdminToken::from({file, ""});
  EXPECT_EQ(token.warning(), "");
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  EXPECT_FALSE(*token.reload());
  EXPECT_EQ(token.warning(),
            "the file " + file +
                " of the administration token can be read by every user; expected chmod o-r");
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  folder.write("t", "short");
  EXPECT_TRUE(*token.reload());
  EXPECT_EQ(token.warning(), "the administration token is short; expected at least 16 characters");
}

}  // namespace
}  // namespace sluice::server
