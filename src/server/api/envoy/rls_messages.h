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

// The questions of a message, as views of it.
struct RlsQuestions {
  std::vector<envoy::Entry> entries;
  std::vector<envoy::Question> questions;

  // `request` must outlive the views. Reads at most kMaxDescriptors + 1 descriptors.
  void read(const wire::Request& request);
};

// Receives the answers for the descriptors of a request in their order.
class RlsAnswer {
 public:
  RlsAnswer(rls::RateLimitResponse& response, const Clock& clock)
      : response_(response), clock_(clock) {}

  void add(const envoy::Status& status, std::string_view name, bool quota);
  // Adds the headers that report the tightest limit. Adds none if no limit applied.
  void add_headers(const EnvoyOptions& options);

 private:
  void add_quota(const envoy::Status& status, rls::RateLimitResponse::DescriptorStatus& out);

  rls::RateLimitResponse& response_;
  const Clock& clock_;
};

// Merges the metadata of a descriptor of the file. Maps are merged recursively. For any other
// member that is already present, the present value is kept.
void merge_metadata(const envoy::Value& metadata, google::protobuf::Struct& into);
// Adds the request itself, and the indexes of its descriptors in quota mode that are over their
// limit.
void write_request(const wire::Request& request, std::span<const std::size_t> quota_over,
                   google::protobuf::Struct& into);

}  // namespace sluice::server
