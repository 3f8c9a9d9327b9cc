#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "kuadrant/service/ratelimit/v1/kuadrantrls.pb.h"
#include "sluice/wire_request.pb.h"

namespace sluice::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

namespace rls = ::envoy::service::ratelimit::v3;
namespace kuadrant = ::kuadrant::service::ratelimit::v1;

// The messages of Envoy and of Limitador. All names are those of their own files.
struct Field {
  std::string_view message;
  std::string_view name;
  int number;
  std::string_view type;  // the name of a message or an enumeration; '*' before it: repeated
};
constexpr Field kFields[] = {
    {"envoy.service.ratelimit.v3.RateLimitRequest", "domain", 1, "string"},
    {"envoy.service.ratelimit.v3.RateLimitRequest", "descriptors", 2,
     "*envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"},
    {"envoy.service.ratelimit.v3.RateLimitRequest", "hits_addend", 3, "uint32"},
    {"envoy.service.ratelimit.v3.RateLimitResponse", "overall_code", 1,
     "envoy.service.ratelimit.v3.RateLimitResponse.Code"},
    {"envoy.service.ratelimit.v3.RateLimitResponse", "statuses", 2,
     "*envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus"},
    {"envoy.service.ratelimit.v3.RateLimitResponse", "response_headers_to_add", 3,
     "*envoy.config.core.v3.HeaderValue"},
    {"envoy.service.ratelimit.v3.RateLimitResponse", "request_headers_to_add", 4,
     "*envoy.config.core.v3.HeaderValue"},
    {"envoy.service.ratelimit.v3.RateLimitResponse", "raw_body", 5, "bytes"},
    {"envoy.service.ratelimit.v3.RateLimitResponse", "dynamic_metadata", 6,
     "google.protobuf.Struct"},
    {"envoy.service.ratelimit.v3.RateLimitResponse", "quota", 7,
     "envoy.service.ratelimit.v3.RateLimitResponse.Quota"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.RateLimit", "requests_per_unit", 1, "uint32"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.RateLimit", "unit", 2,
     "envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.RateLimit", "name", 3, "string"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus", "code", 1,
     "envoy.service.ratelimit.v3.RateLimitResponse.Code"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus", "current_limit", 2,
     "envoy.service.ratelimit.v3.RateLimitResponse.RateLimit"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus", "limit_remaining", 3,
     "uint32"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus", "duration_until_reset", 4,
     "google.protobuf.Duration"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus", "quota", 5,
     "envoy.service.ratelimit.v3.RateLimitResponse.Quota"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.Quota", "requests", 1, "uint32"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.Quota", "valid_until", 2,
     "google.protobuf.Timestamp"},
    {"envoy.service.ratelimit.v3.RateLimitResponse.Quota", "id", 3, "string"},
    {"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor", "entries", 1,
     "*envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry"},
    {"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor", "limit", 2,
     "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride"},
    {"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor", "hits_addend", 3,
     "google.protobuf.UInt64Value"},
    {"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor", "is_negative_hits", 4, "bool"},
    {"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry", "key", 1, "string"},
    {"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry", "value", 2, "string"},
    {"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride",
     "requests_per_unit", 1, "uint32"},
    {"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride", "unit", 2,
     "envoy.type.v3.RateLimitUnit"},
    {"envoy.config.core.v3.HeaderValue", "key", 1, "string"},
    {"envoy.config.core.v3.HeaderValue", "value", 2, "string"},
    {"envoy.config.core.v3.HeaderValue", "raw_value", 3, "bytes"},
    {"kuadrant.service.ratelimit.v1.ReserveRequest", "domain", 1, "string"},
    {"kuadrant.service.ratelimit.v1.ReserveRequest", "descriptors", 2,
     "*envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"},
    {"kuadrant.service.ratelimit.v1.ReserveRequest", "amount", 3, "uint64"},
    {"kuadrant.service.ratelimit.v1.ReserveRequest", "ttl", 4, "google.protobuf.Duration"},
    {"kuadrant.service.ratelimit.v1.ReserveResponse", "code", 1,
     "envoy.service.ratelimit.v3.RateLimitResponse.Code"},
    {"kuadrant.service.ratelimit.v1.ReserveResponse", "reservation_id", 2, "string"},
    {"kuadrant.service.ratelimit.v1.CommitRequest", "domain", 1, "string"},
    {"kuadrant.service.ratelimit.v1.CommitRequest", "descriptors", 2,
     "*envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"},
    {"kuadrant.service.ratelimit.v1.CommitRequest", "reservation_id", 3, "string"},
    {"kuadrant.service.ratelimit.v1.CommitRequest", "actual_amount", 4, "uint64"},
    {"kuadrant.service.ratelimit.v1.CommitResponse", "reservation_released", 1, "bool"},
};

std::string type_of(const FieldDescriptor& field) {
  std::string out = field.is_repeated() ? "*" : "";
  if (field.message_type() != nullptr) return out + field.message_type()->full_name();
  if (field.enum_type() != nullptr) return out + field.enum_type()->full_name();
  return out + field.type_name();
}

TEST(RlsProto, HasTheNamesNumbersAndTypesOfEnvoyAndLimitador) {
  kuadrant::ReserveRequest::descriptor();  // links the files in
  for (const Field& field : kFields) {
    const std::string message(field.message);
    const Descriptor* found = DescriptorPool::generated_pool()->FindMessageTypeByName(message);
    ASSERT_NE(found, nullptr) << message;
    const FieldDescriptor* own = found->FindFieldByNumber(field.number);
    ASSERT_NE(own, nullptr) << message << " " << field.number;
    EXPECT_EQ(own->name(), field.name) << message;
    EXPECT_EQ(type_of(*own), field.type) << message << " " << field.name;
  }
}

TEST(RlsProto, HasTheEnumeratorsOfEnvoy) {
  using Names = std::vector<std::string>;
  const std::pair<std::string, Names> enums[] = {
      {"envoy.service.ratelimit.v3.RateLimitResponse.Code", {"UNKNOWN", "OK", "OVER_LIMIT"}},
      {"envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit",
       {"UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"}},
      {"envoy.type.v3.RateLimitUnit",
       {"UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR"}},
  };
  for (const auto& [name, values] : enums) {
    const auto* found = DescriptorPool::generated_pool()->FindEnumTypeByName(name);
    ASSERT_NE(found, nullptr) << name;
    ASSERT_EQ(found->value_count(), static_cast<int>(values.size())) << name;
    for (int i = 0; i < found->value_count(); ++i) {
      EXPECT_EQ(found->value(i)->number(), i) << name;
      EXPECT_EQ(found->value(i)->name(), values[static_cast<std::size_t>(i)]) << name;
    }
  }
}

// Checks that each field of `wire` is like that of `own`, with bytes instead of text.
void expect_same(const Descriptor& wire, const Descriptor& own) {
  EXPECT_EQ(wire.field_count(), own.field_count()) << wire.full_name();
  for (int i = 0; i < wire.field_count(); ++i) {
    const FieldDescriptor& field = *wire.field(i);
    const FieldDescriptor* other = own.FindFieldByNumber(field.number());
    ASSERT_NE(other, nullptr) << field.full_name();
    EXPECT_EQ(field.name(), other->name());
    EXPECT_EQ(field.is_repeated(), other->is_repeated()) << field.full_name();
    EXPECT_NE(field.type(), FieldDescriptor::TYPE_STRING) << field.full_name();
    if (field.message_type() != nullptr) {
      ASSERT_NE(other->message_type(), nullptr) << field.full_name();
      expect_same(*field.message_type(), *other->message_type());
    }
  }
}

TEST(RlsProto, ReadsTheSameMessageEvenIfItIsNotUtf8) {
  expect_same(*wire::Request::descriptor(), *rls::RateLimitRequest::descriptor());
  expect_same(*wire::Reserve::descriptor(), *kuadrant::ReserveRequest::descriptor());
  expect_same(*wire::Commit::descriptor(), *kuadrant::CommitRequest::descriptor());
}

}  // namespace
}  // namespace sluice::server
