#pragma once

#include "metrics/metrics.h"
#include "server/api/auth/auth_endpoint.h"
#include "server/api/check/check_endpoint.h"
#include "server/api/envoy/json_endpoint.h"
#include "server/api/operations/operations.h"
#include "server/decide/session.h"
#include "server/logging/log.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/http/access.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// Answers the requests of the public listener: passes each request to its endpoint, and counts it.
//
// There is one handler for each event loop. If the store may wait, there is one for each request in
// progress; the handlers of a loop share a recorder. Ownership: borrows its parts.
class PublicHandler final : public http::Handler {
 public:
  struct Parts {
    Session::Parts session;
    EnvoyManager& envoy;
    const TrustedProxies& trusted;
    metrics::Recorder& recorder;
    Log& log;
    Operations operations;
    const Access& access;
    CheckEndpoint::Waiting waiting = {};
  };
  explicit PublicHandler(const Parts& parts);

  void handle(const http::Request& request, http::Response& response) override;
  void finished(const http::Request& request, const http::Response& response,
                std::chrono::nanoseconds took) override;
  void stop_waiting() override { check_.stop_waiting(); }
  void follow_rules() override {
    session_.follow_rules();
    rls_.follow_rules();
  }

 private:
  // The trace of the request that is being answered.
  struct RequestTrace final : TraceSource {
    std::optional<std::string_view> traceparent() const override {
      buffers.clear();
      return find_header(request->fields, "traceparent", buffers);
    }
    const http::Request* request = nullptr;
    mutable Buffers buffers;
  };

  metrics::Recorder& recorder_;
  Log& log_;
  Operations operations_;
  const Access& access_;
  RequestTrace trace_;
  Session session_;
  AuthEndpoint auth_;
  CheckEndpoint check_;
  RlsService rls_;
  JsonEndpoint json_;
  metrics::FrontEnd endpoint_ = metrics::FrontEnd::kOther;
};

}  // namespace sluice::server
