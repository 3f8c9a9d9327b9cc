#include "server/protocol/http/access.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::server {
namespace {

using Reach = Access::Reach;

const std::vector<std::string> kHosts{"sluice.internal"};

Access access(Reach reach, std::span<const KnownClient> clients = {}) {
  return {reach, clients, kHosts};
}
const std::vector<KnownClient> kClients{{"web", Role::kCheck, "web-token"},
                                        {"batch", Role::kOperate, "batch-token"},
                                        {"ops", Role::kAdmin, "ops-token"}};

TEST(Access, WithoutATokenAClientMayOperateOnlyFromThisMachine) {
  EXPECT_EQ(access(Reach::kNetwork).role_of(""), Role::kCheck);
  EXPECT_EQ(access(Reach::kLoopback).role_of(""), Role::kOperate);
  EXPECT_EQ(access(Reach::kUnixSocket).role_of(""), Role::kOperate);
  EXPECT_EQ(access(Reach::kNetwork, kClients).role_of(""), Role::kCheck);
}

TEST(Access, AClientHasTheRoleOfItsToken) {
  const Access network = access(Reach::kNetwork, kClients);
  EXPECT_EQ(network.role_of("Bearer web-token"), Role::kCheck);
  EXPECT_EQ(network.role_of("bearer  batch-token "), Role::kOperate);
  EXPECT_EQ(network.role_of("Bearer ops-token"), Role::kAdmin);
  EXPECT_EQ(access(Reach::kLoopback, kClients).role_of("Bearer web-token"), Role::kOperate);
}

TEST(Access, AClientHasTheRoleOfItsCertificate) {
  const std::vector<KnownClient> clients{{"web", Role::kCheck, {}, "web.internal"},
                                         {"batch", Role::kOperate, {}, "spiffe://a/b"}};
  const Access network = access(Reach::kNetwork, clients);
  const auto role = [&](std::vector<std::string> names) {
    return network.role_of_certificate(names);
  };
  EXPECT_EQ(role({}), Role::kNobody);
  EXPECT_EQ(role({"", "other.internal", "spiffe://a/b/c"}), Role::kNobody);
  EXPECT_EQ(role({"web.internal"}), Role::kCheck);
  EXPECT_EQ(role({"web.internal", "spiffe://a/b"}), Role::kOperate);
  EXPECT_EQ(network.role_of("", Role::kOperate), Role::kOperate);
  EXPECT_EQ(network.role_of("Bearer x", Role::kOperate), Role::kOperate) << "no client has a token";
  const Access mixed = access(Reach::kNetwork, kClients);
  EXPECT_EQ(mixed.role_of("Bearer web-token", Role::kOperate), Role::kOperate);
  EXPECT_EQ(mixed.role_of("Bearer ops-token", Role::kCheck), Role::kAdmin);
  EXPECT_EQ(mixed.role_of("Bearer x", Role::kOperate), std::nullopt);
}

TEST(Access, AnUnknownTokenIsRefused) {
  const Access network = access(Reach::kNetwork, kClients);
  for (const char* unknown : {"Bearer x", "Bearer batch-toke", "Bearer batch-token1",
                              "Bearer Batch-token", "Bearer batch-token, Bearer web-token"}) {
    EXPECT_EQ(network.role_of(unknown), std::nullopt) << unknown;
  }
  EXPECT_EQ(network.role_of("Basic YTpi"), Role::kCheck) << "meant for someone else";
  EXPECT_EQ(access(Reach::kNetwork).role_of("Bearer x"), Role::kCheck) << "no clients are known";
}

TEST(Access, ReportsThatNobodyOperates) {
  EXPECT_TRUE(access(Reach::kNetwork).nobody_operates());
  EXPECT_TRUE(access(Reach::kNetwork, std::span(kClients).first(1)).nobody_operates());
  EXPECT_FALSE(access(Reach::kNetwork, kClients).nobody_operates());
  EXPECT_FALSE(access(Reach::kLoopback).nobody_operates());
}

TEST(Access, TheHostIsCheckedOnLoopbackOnly) {
  const std::vector<http::Field> fields{{"Host", "evil.example"}};
  http::Request request;
  request.target = "/metrics";
  request.fields = fields;
  EXPECT_TRUE(access(Reach::kLoopback).find_refusal(request));
  EXPECT_FALSE(access(Reach::kNetwork).find_refusal(request));
  EXPECT_FALSE(access(Reach::kUnixSocket).find_refusal(request));
  const std::vector<http::Field> known{{"Host", "sluice.internal:8080"}};
  request.fields = known;
  EXPECT_FALSE(access(Reach::kLoopback).find_refusal(request));
  const std::vector<http::Field> page{{"Host", "sluice.internal"}, {"Origin", "http://a.example"}};
  request.fields = page;
  for (const Reach reach : {Reach::kUnixSocket, Reach::kLoopback, Reach::kNetwork}) {
    EXPECT_TRUE(access(reach).find_refusal(request));
  }
}

TEST(Access, APageThatDescribesARequestIsRefusedOnLoopbackOnly) {
  const std::vector<http::Field> fields{{"Host", "evil.example"}, {"Accept-Language", "en"}};
  http::Request request;
  request.target = "/v1/auth";
  request.fields = fields;
  EXPECT_TRUE(access(Reach::kLoopback).find_gateway_refusal(request));
  EXPECT_FALSE(access(Reach::kNetwork).find_gateway_refusal(request));
  EXPECT_FALSE(access(Reach::kUnixSocket).find_gateway_refusal(request));
}

}  // namespace
}  // namespace sluice::server
