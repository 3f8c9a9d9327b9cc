#include "server/runtime/rls_handler.h"

#include "limiter/reason_report.h"

namespace sluice::server {
namespace {

class RlsHandler final : public grpc::Handler {
 public:
  RlsHandler(const RlsService::Parts& parts, const Access& access)
      : service_(parts), recorder_(parts.session.recorder), access_(access) {}

  void handle(const grpc::Call& call, grpc::Reply& reply) override {
    const auto role = access_.role_of(call.authorization, call.certificate_role);
    if (!role) return reply.fail(grpc::Code::kUnauthenticated, kUnknownToken);
    const bool may_operate = *role >= Role::kOperate;
    const RlsStatus status =
        service_.call(call.message, may_operate, reply.bytes, call.traceparent);
    if (status.forbidden) return reply.fail(grpc::Code::kPermissionDenied, status.message);
    if (status.reason != Reason::kOk) {
      reply.fail(static_cast<grpc::Code>(report_of(status.reason).grpc), status.message);
    }
  }
  void finished(const grpc::Call&, const grpc::Reply&, std::chrono::nanoseconds took) override {
    recorder_.observe(metrics::FrontEnd::kGrpc, took);
  }
  void follow_rules() override { service_.follow_rules(); }

 private:
  RlsService service_;
  metrics::Recorder& recorder_;
  const Access& access_;
};

}  // namespace

std::unique_ptr<grpc::Handler> make_rls_handler(const RlsService::Parts& parts,
                                                const Access& access) {
  return std::make_unique<RlsHandler>(parts, access);
}

std::vector<std::string_view> rls_paths() {
  return {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"};
}

}  // namespace sluice::server
