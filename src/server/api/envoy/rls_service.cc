#include "server/api/envoy/rls_service.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "envoy/decide.h"
#include "server/api/envoy/native_answer.h"
#include "server/api/envoy/rls_messages.h"
#include "server/protocol/http/access.h"

namespace sluice::server {
namespace {

using envoy::Answer;
using google::protobuf::Arena;

// The first block of the arena of each call. A usual call needs no other.
constexpr std::size_t kFirstBlock = 8192;

google::protobuf::ArenaOptions options_with(std::span<char> block) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block.data();
  options.initial_block_size = block.size();
  return options;
}

}  // namespace

class RlsService::Impl {
 public:
  explicit Impl(const Parts& parts)
      : session_(parts.session),
        native_(session_, parts.clock),
        manager_(parts.envoy),
        denials_(parts.session.denials),
        clock_(parts.clock),
        request_({parts.session.limiter, parts.session.stores, parts.clock}),
        stripe_(manager_.next_stripe()),
        version_(manager_.version()),
        active_(manager_.current()) {
    session_.use_trace(&trace_);
  }

  RlsStatus call(std::string_view message, bool may_operate, std::string& reply,
                 std::string_view traceparent);
  void follow_rules();

 private:
  struct CallTrace final : TraceSource {
    std::optional<std::string_view> traceparent() const override { return text; }
    std::string_view text;
  };

  RlsStatus refuse(std::string_view why) const { return {Reason::kInvalid, why}; }
  RlsStatus answer(const wire::Request& request, bool may_operate,
                   rls::RateLimitResponse& response);
  RlsStatus answer_envoy(const wire::Request& request, const envoy::Domain& domain,
                         rls::RateLimitResponse& response);
  RlsStatus answer_native(const wire::Request& request, rls::RateLimitResponse& response);
  google::protobuf::Struct& metadata_of(rls::RateLimitResponse& response) const;
  void finish(const wire::Request& request, RlsAnswer& out, rls::RateLimitResponse& response);
  void record(const Answer& answer);
  void log_denial(const Answer& answer);

  CallTrace trace_;
  Session session_;
  NativeAnswer native_;
  EnvoyManager& manager_;
  DenialLog& denials_;
  const Clock& clock_;
  envoy::Request request_;
  const std::size_t stripe_;
  std::uint64_t version_;
  std::shared_ptr<ActiveEnvoyFiles> active_;
  RlsQuestions input_;
  std::vector<std::size_t> quota_over_;
  alignas(std::max_align_t) std::array<char, kFirstBlock> block_;
  Arena arena_{options_with(block_)};
};

void RlsService::Impl::follow_rules() {
  session_.follow_rules();
  const std::uint64_t version = manager_.version();
  if (version == version_) return;
  version_ = version;  // read before the files: a change in between causes one more update
  active_ = manager_.current();
}

RlsStatus RlsService::Impl::call(std::string_view message, bool may_operate, std::string& reply,
                                 std::string_view traceparent) {
  reply.clear();
  trace_.text = traceparent;
  if (message.size() > std::size_t{64} << 20) return refuse("the message is too long");
  follow_rules();
  arena_.Reset();
  auto& request = *Arena::CreateMessage<wire::Request>(&arena_);
  if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return refuse("the message is not a RateLimitRequest");
  }
  auto& response = *Arena::CreateMessage<rls::RateLimitResponse>(&arena_);
  const RlsStatus status = answer(request, may_operate, response);
  if (status.reason == Reason::kOk) response.SerializeToString(&reply);
  return status;
}

RlsStatus RlsService::Impl::answer(const wire::Request& request, bool may_operate,
                                   rls::RateLimitResponse& response) {
  if (request.domain().empty()) return refuse("domain is empty; expected its name");
  if (request.descriptors().empty()) {
    return refuse("descriptors are missing; expected at least one");
  }
  if (request.descriptors_size() > static_cast<int>(envoy::kMaxDescriptors)) {
    return refuse("too many descriptors; expected at most 1024");
  }
  input_.read(request);
  const auto needs_operate = [](const envoy::Question& q) { return q.gives_back || q.hits > 1; };
  if (!may_operate &&
      std::any_of(input_.questions.begin(), input_.questions.end(), needs_operate)) {
    return {Reason::kInvalid, kNeedsOperate, true};
  }
  quota_over_.clear();
  const envoy::Domain* domain = active_->config.find(request.domain());
  return domain != nullptr ? answer_envoy(request, *domain, response)
                           : answer_native(request, response);
}

// Returns the metadata of the limits. It has a key of its own if the request is reported, too, as
// in Envoy's service.
google::protobuf::Struct& RlsService::Impl::metadata_of(rls::RateLimitResponse& response) const {
  auto& all = *response.mutable_dynamic_metadata();
  if (!manager_.options().request_metadata) return all;
  return *(*all.mutable_fields())["metadata"].mutable_struct_value();
}

RlsStatus RlsService::Impl::answer_envoy(const wire::Request& request, const envoy::Domain& domain,
                                         rls::RateLimitResponse& response) {
  const EnvoyOptions& options = manager_.options();
  const Answer& answer = request_.decide(domain, input_.questions, options.consume_on_reject);
  if (answer.failure != Reason::kOk) return {answer.failure, answer.message};
  record(answer);
  const bool lets_pass = answer.overall == envoy::Code::kOk || options.shadow_mode;
  response.set_overall_code(lets_pass ? rls::RateLimitResponse::OK
                                      : rls::RateLimitResponse::OVER_LIMIT);
  RlsAnswer out(response, clock_);
  for (std::size_t i = 0; i < answer.statuses.size(); ++i) {
    const envoy::Status& status = answer.statuses[i];
    const envoy::Descriptor* descriptor = status.descriptor;
    const bool limited = descriptor != nullptr && status.limit;
    const bool quota = limited && descriptor->quota_mode;
    out.add(status, limited ? descriptor->rate_limit->name : std::string_view(), quota);
    if (quota && status.code == envoy::Code::kOverLimit) quota_over_.push_back(i);
    const bool passes = status.code == envoy::Code::kOk;
    if (passes && descriptor != nullptr && !descriptor->metadata.members.empty()) {
      merge_metadata(descriptor->metadata, metadata_of(response));
    }
  }
  finish(request, out, response);
  return {};
}

RlsStatus RlsService::Impl::answer_native(const wire::Request& request,
                                          rls::RateLimitResponse& response) {
  const Answer& answer = native_.decide(request.domain(), input_.questions);
  if (answer.failure != Reason::kOk) return {answer.failure, answer.message};
  const bool lets_pass = answer.overall == envoy::Code::kOk || manager_.options().shadow_mode;
  response.set_overall_code(lets_pass ? rls::RateLimitResponse::OK
                                      : rls::RateLimitResponse::OVER_LIMIT);
  RlsAnswer out(response, clock_);
  for (std::size_t i = 0; i < answer.statuses.size(); ++i) {
    out.add(answer.statuses[i], native_.names()[i], false);
  }
  finish(request, out, response);
  return {};
}

void RlsService::Impl::finish(const wire::Request& request, RlsAnswer& out,
                              rls::RateLimitResponse& response) {
  const EnvoyOptions& options = manager_.options();
  if (options.headers) out.add_headers(options);
  if (options.request_metadata) {
    write_request(request, quota_over_, *response.mutable_dynamic_metadata());
  }
}

// Counts the answers of limits, and logs a denial like the other front ends.
void RlsService::Impl::record(const Answer& answer) {
  for (std::size_t i = 0; i < answer.statuses.size(); ++i) {
    const envoy::Question& question = input_.questions[i];
    if (question.gives_back) continue;
    active_->counts.count(answer.statuses[i], question.entries, stripe_);
  }
  if (answer.overall == envoy::Code::kOk || manager_.options().shadow_mode) return;
  log_denial(answer);
}

// Logs the limit with the longest wait. A limit that the request gives has no name.
void RlsService::Impl::log_denial(const Answer& answer) {
  const auto wait = [](const envoy::Status& status) {
    return status.decision.retry_after.value_or(Duration::max());
  };
  const envoy::Status* longest = nullptr;
  for (const envoy::Status& status : answer.statuses) {
    if (status.code != envoy::Code::kOverLimit) continue;
    if (longest == nullptr || wait(status) > wait(*longest)) longest = &status;
  }
  if (longest == nullptr) return;
  if (longest->descriptor == nullptr) return denials_.write({}, {}, longest->decision, &trace_);
  const Rule& rule = longest->descriptor->rule;
  denials_.write({rule.name, rule.limits.front().name}, longest->counter, longest->decision,
                 &trace_);
}

RlsService::RlsService(const Parts& parts) : impl_(std::make_unique<Impl>(parts)) {}
RlsService::~RlsService() = default;

RlsStatus RlsService::call(std::string_view message, bool may_operate, std::string& reply,
                           std::string_view traceparent) {
  return impl_->call(message, may_operate, reply, traceparent);
}
void RlsService::follow_rules() { impl_->follow_rules(); }

}  // namespace sluice::server
