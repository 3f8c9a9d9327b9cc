#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sluice/request_decision.h"

namespace sluice {

// Returns a decision as the status of a gRPC call: OK; RESOURCE_EXHAUSTED, whose details contain a
// google.rpc.RetryInfo with `retry_after` if the decision has one; UNAVAILABLE if the store could
// not decide; INVALID_ARGUMENT. A method may return it itself:
//
//   sluice::RequestDecision decision(limiter, {{"user", user_of(*context), kPerUser}});
//   if (!decision.allowed()) return sluice::grpc_status(decision);
inline grpc::Status grpc_status(const RequestDecision& decision) {
  if (decision.allowed()) return grpc::Status::OK;
  const int code = decision.grpc_code();
  const std::string message(decision.detail());
  return {static_cast<grpc::StatusCode>(code), message,
          grpc_status_details(code, message, decision.decision().retry_after)};
}

// Returns the limits that apply to a call; none: it is not limited. `method` is "/SERVICE/METHOD".
// Called by several threads.
using GrpcCharges = std::function<std::vector<NamedCharge>(std::string_view method,
                                                           const grpc::ServerContextBase& context)>;

// An interceptor that limits all calls of a gRPC server. A call that does not pass ends with
// grpc_status().
//
//   auto limits = std::make_unique<sluice::GrpcLimits>(limiter, charges);
//   sluice::GrpcLimits& refusals = *limits;   // valid as long as the server
//   std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> all;
//   all.push_back(std::move(limits));
//   builder.experimental().SetInterceptorCreators(std::move(all));
//
// gRPC offers interceptors no way to skip the method of a call, so a method that has effects or
// costs much begins with this line; its own status and answer are discarded:
//
//   if (refusals_.refuses(*context)) return grpc::Status::CANCELLED;
//
// Thread-safety: any member from any thread. Ownership: the server owns it; borrows the limiter,
// which must outlive the server. Cost: a RequestDecision for each call, and a set entry behind one
// lock for a call that does not pass.
class GrpcLimits final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // An interceptor that asks `limiter` for the limits that `charges` returns.
  GrpcLimits(Limiter& limiter, GrpcCharges charges)
      : limiter_(limiter), charges_(std::move(charges)) {}

  // Whether the call of this context does not pass.
  bool refuses(const grpc::ServerContextBase& context) const {
    const std::lock_guard lock(mutex_);
    return refused_.contains(&context);
  }

  // Called by gRPC for each call.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new Call(*this, *info);
  }

 private:
  class Call final : public grpc::experimental::Interceptor {
   public:
    // Borrows both, which outlive the call.
    Call(GrpcLimits& limits, grpc::experimental::ServerRpcInfo& info)
        : limits_(limits), info_(info) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() override {
      if (!status_.ok()) limits_.forget(context_);
    }

    void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
      using Point = grpc::experimental::InterceptionHookPoints;
      if (methods->QueryInterceptionHookPoint(Point::POST_RECV_INITIAL_METADATA)) decide();
      if (!status_.ok() && methods->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
        methods->ModifySendStatus(status_);
      }
      methods->Proceed();
    }

   private:
    void decide() {
      context_ = info_.server_context();
      const RequestDecision decision(limits_.limiter_, limits_.charges_(info_.method(), *context_));
      status_ = grpc_status(decision);
      if (!status_.ok()) limits_.remember(context_);
    }

    GrpcLimits& limits_;
    grpc::experimental::ServerRpcInfo& info_;
    const grpc::ServerContextBase* context_ = nullptr;
    grpc::Status status_;
  };

  void remember(const grpc::ServerContextBase* context) {
    const std::lock_guard lock(mutex_);
    refused_.insert(context);
  }
  void forget(const grpc::ServerContextBase* context) {
    const std::lock_guard lock(mutex_);
    refused_.erase(context);
  }

  Limiter& limiter_;
  const GrpcCharges charges_;
  mutable std::mutex mutex_;
  std::unordered_set<const grpc::ServerContextBase*> refused_;
};

}  // namespace sluice
