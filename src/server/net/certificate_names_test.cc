#include "server/net/transport.h"

#include <gtest/gtest.h>

#include "server/net/test_certificate.h"

namespace sluice::server::net {
namespace {

using Names = std::vector<std::string>;

Names names_with(const char* names, const char* common_name = "common") {
  return names_of(TestCertificate(names, common_name).certificate());
}

TEST(CertificateNames, AreTheDnsNamesAndUris) {
  EXPECT_EQ(names_with("DNS:Orders.Internal,URI:spiffe://Shop/refunds,IP:192.0.2.1"),
            (Names{"orders.internal", "spiffe://Shop/refunds"}));
}

TEST(CertificateNames, AreTheCommonNameOnlyWithoutOthers) {
  EXPECT_EQ(names_with(""), Names{"common"});
  EXPECT_EQ(names_with("IP:192.0.2.1"), Names{"common"});
  EXPECT_EQ(names_with("", "Größe"), Names{"Größe"});
}

}  // namespace
}  // namespace sluice::server::net
