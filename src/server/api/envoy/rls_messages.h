#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/decide.h"
#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "server/rules/envoy_manager.h"
#include "sluice/clock.h"
#include "sluice/wire_request.pb.h"

namespace sluice::server {

namespace rls = ::envoy::service::ratelimit::v3;

// What a message asks, as views of it.
struct RlsQuestions {
  std::vector<envoy::Entry> entries;
  std::vector<envoy::Question> questions;

  // `request` outlives the views. What it asks beyond kMaxDescriptors is left out, but for one
  // more.
  void read(const wire::Request& request);
};

// Where answers for the descriptors of a request go, one after the other.
class RlsAnswer {
 public:
  RlsAnswer(rls::RateLimitResponse& response, const Clock& clock)
      : response_(response), clock_(clock) {}

  void add(const envoy::Status& status, std::string_view name, bool quota);
  // The fields that tell clients the tightest limit; none where no limit applied.
  void add_headers(const EnvoyOptions& options);

 private:
  void add_quota(const envoy::Status& status, rls::RateLimitResponse::DescriptorStatus& out);

  rls::RateLimitResponse& response_;
  const Clock& clock_;
};

// Merges what a descriptor of the file carries along, maps within maps as well; else, of members
// with the same name, what is there stays.
void merge_metadata(const envoy::Value& metadata, google::protobuf::Struct& into);
// Tells the request itself, and which of its descriptors in quota mode are over.
void tell_request(const wire::Request& request, std::span<const std::size_t> quota_over,
                  google::protobuf::Struct& into);

}  // namespace sluice::server
