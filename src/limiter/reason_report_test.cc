#include "limiter/reason_report.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace sluice {
namespace {

// The first word of a RESP error and the fragment of a problem's type are what clients read.
struct Row {
  int http;
  int grpc;
  std::string resp_prefix;
  std::string problem;
  friend bool operator==(const Row&, const Row&) = default;
};

Row row_of(Reason reason) {
  const ReasonReport& report = report_of(reason);
  const std::string type(report.type);
  const std::string error(report.resp_error);
  return {report.http, report.grpc, error.substr(0, error.find(' ')),
          type.substr(type.find('#') + 1)};
}

TEST(ReasonReport, HasARowForEveryReason) {
  const Row limited{429, 0, "", "quota-exceeded"};
  const Row failed{503, 14, "ERR", "temporary-reduced-capacity"};
  const std::map<std::string_view, Row> expected = {
      {"ok", limited},
      {"lease", limited},
      {"over", limited},
      {"limited", limited},
      {"never", limited},
      {"blocked", limited},
      {"shadow", limited},
      {"deny_cache", limited},
      {"fallback", {429, 0, "", "temporary-reduced-capacity"}},
      {"store_timeout", failed},
      {"store_error", failed},
      {"foreign_value", {503, 14, "WRONGTYPE", "temporary-reduced-capacity"}},
      {"store_full", {503, 14, "OOM", "temporary-reduced-capacity"}},
      {"missing", {429, 0, "", ""}},
      {"too_many_waiters", {429, 0, "", "temporary-reduced-capacity"}},
      {"gone", {404, 5, "", ""}},
      {"conflict", {409, 6, "", ""}},
      {"too_many_holds", {429, 0, "", "quota-exceeded"}},
      {"deny_rule", {403, 0, "", ""}},
      {"invalid", {400, 3, "ERR", ""}},
  };
  std::size_t reasons = 0;
  for (; to_string(static_cast<Reason>(reasons)) != "unknown"; ++reasons) {
    const auto reason = static_cast<Reason>(reasons);
    const auto found = expected.find(to_string(reason));
    ASSERT_NE(found, expected.end()) << to_string(reason) << " has no row";
    EXPECT_EQ(row_of(reason), found->second) << to_string(reason);
    EXPECT_FALSE(report_of(reason).detail.empty()) << to_string(reason);
  }
  EXPECT_EQ(reasons, expected.size());
}

TEST(ReasonReport, AFailedStoreIsUnavailableEverywhere) {
  for (std::size_t i = 0; to_string(static_cast<Reason>(i)) != "unknown"; ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_EQ(report_of(reason).grpc == 14, store_failed(reason)) << to_string(reason);
    EXPECT_EQ(report_of(reason).http == 503, store_failed(reason)) << to_string(reason);
  }
}

}  // namespace
}  // namespace sluice
