#include "sluice/request_decision.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

// What protobuf's serializer for Python writes.
TEST(GrpcStatusDetails, AreAGoogleRpcStatus) {
  const std::string prefix = "\x08\x08\x12\x05later"s;
  const std::string type = "type.googleapis.com/google.rpc.RetryInfo"s;
  EXPECT_EQ(grpc_status_details(8, "later", {}), prefix);
  EXPECT_EQ(grpc_status_details(8, "later", 59'500'001us),
            prefix + "\x1a\x36\n(" + type + "\x12\n\n\x08\x08;\x10\xe8\xd1\xb5\xee\x01"s);
  EXPECT_EQ(grpc_status_details(8, "later", 7s),
            prefix + "\x1a\x30\n(" + type + "\x12\x04\n\x02\x08\x07"s);
}

TEST(GrpcStatusDetails, HoldLongMessages) {
  const std::string details = grpc_status_details(8, std::string(300, 'x'), {});
  EXPECT_EQ(details, "\x08\x08\x12\xac\x02" + std::string(300, 'x'));
}

}  // namespace
}  // namespace sluice
