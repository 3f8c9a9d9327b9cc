#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "insight/top_keys.h"
#include "metrics/metrics.h"
#include "server/api/envoy/rls_service.h"
#include "server/logging/test_pipe.h"
#include "server/rules/test_folder.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/testing/manual_clock.h"
#include "sluice/wire_request.pb.h"

namespace sluice::server {

namespace rls = ::envoy::service::ratelimit::v3;

// The service on a memory store, 30 s after a full minute, with a file of Envoy's configuration and
// a native file.
class ServiceTest : public ::testing::Test {
 protected:
  // A store that fails if the test says so.
  class MayFail final : public Store {
   public:
    explicit MayFail(Store& store) : store_(store) {}
    Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each) noexcept override {
      if (!fails) return store_.apply(action, charges, now, each);
      std::fill(each.begin(), each.end(), failure());
      return failure();
    }
    bool fails = false;

   private:
    static Decision failure() { return Decision::refused(Reason::kStoreTimeout); }
    Store& store_;
  };

  void open(std::string_view envoy, std::string_view native = "version: 1\nrules: []\n",
            EnvoyOptions options = {}) {
    options.files = {folder_.write("envoy.yaml", envoy)};
    auto manager = EnvoyManager::open(std::move(options));
    ASSERT_TRUE(manager) << manager.error().front().to_string();
    envoy_ = std::move(*manager);
    auto rules = RulesManager::open({folder_.write("rules.yaml", native)}, clock_);
    ASSERT_TRUE(rules) << rules.error().front().to_string();
    rules_ = std::move(*rules);
    service_ = std::make_unique<RlsService>(Session::Parts{.limiter = limiter_,
                                                           .rules = *rules_,
                                                           .recorder = recorder_,
                                                           .denials = denials_,
                                                           .stores = {.overrides = &overrides_},
                                                           .keys = &keys_,
                                                           .otlp = otlp_},
                                            *envoy_, clock_);
  }

  // "KEY=VALUE,KEY=VALUE" for each descriptor.
  static rls::RateLimitRequest request_of(std::string_view domain,
                                          const std::vector<std::string_view>& descriptors) {
    rls::RateLimitRequest request;
    request.set_domain(std::string(domain));
    for (std::string_view text : descriptors) {
      auto& descriptor = *request.add_descriptors();
      while (!text.empty()) {
        const std::string_view pair = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), pair.size() + 1));
        auto& entry = *descriptor.add_entries();
        entry.set_key(std::string(pair.substr(0, pair.find('='))));
        entry.set_value(std::string(pair.substr(pair.find('=') + 1)));
      }
    }
    return request;
  }

  rls::RateLimitResponse ask(const rls::RateLimitRequest& request) {
    status_ = service_->call(request.SerializeAsString(), true, reply_);
    rls::RateLimitResponse response;
    EXPECT_TRUE(response.ParseFromString(reply_));
    return response;
  }
  rls::RateLimitResponse ask(std::string_view domain,
                             const std::vector<std::string_view>& descriptors) {
    return ask(request_of(domain, descriptors));
  }

  // Ends the log. Returns its lines without time and level.
  std::vector<std::string> log_lines() {
    service_.reset();
    log_.reset();
    std::vector<std::string> lines = pipe_.lines();
    for (std::string& line : lines) line.erase(0, line.find(" info ") + 6);
    return lines;
  }
  // The number of requests without a rule, by outcome and reason.
  std::uint64_t counted(std::string_view outcome, std::string_view reason) const {
    const std::string text = registry_.text();
    const std::string name = "sluice_requests_total{rule=\"\",outcome=\"" + std::string(outcome) +
                             "\",reason=\"" + std::string(reason) + "\"} ";
    const auto at = text.find(name);
    return at == text.npos ? 0 : std::stoull(text.substr(at + name.size()));
  }

  TestFolder folder_;
  testing::ManualClock clock_{Instant{std::chrono::hours{365 * 24} + std::chrono::seconds{30}}};
  MemoryStore memory_{{}, clock_};
  MayFail store_{memory_};
  Limiter limiter_{store_};
  metrics::Registry registry_;
  metrics::Recorder& recorder_ = registry_.make_recorder();
  TestingPipe pipe_;
  std::unique_ptr<Log> log_ = std::make_unique<Log>(LogOptions{}, pipe_.writing());
  DenialLog denials_{*log_};
  Overrides overrides_;
  OtlpExporter* otlp_ = nullptr;
  insight::TopKeys top_keys_{{}, denials_.key_hash(), clock_};
  insight::KeyRecorder& keys_ = top_keys_.make_recorder();
  std::unique_ptr<EnvoyManager> envoy_;
  std::unique_ptr<RulesManager> rules_;
  std::unique_ptr<RlsService> service_;
  RlsStatus status_;
  std::string reply_;
};

}  // namespace sluice::server
