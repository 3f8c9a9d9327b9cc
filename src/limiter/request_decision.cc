#include "sluice/request_decision.h"

#include <utility>

#include "limiter/reason_report.h"

namespace sluice {
namespace {

constexpr int kGrpcResourceExhausted = 8;

}  // namespace

RequestDecision::RequestDecision(Limiter& limiter, std::vector<NamedCharge> charges)
    : charges_(std::move(charges)) {
  if (charges_.empty()) return;
  std::vector<Charge> asked;
  asked.reserve(charges_.size());
  for (const NamedCharge& one : charges_) asked.push_back({one.key, one.limit, one.cost});
  std::vector<Decision> each(charges_.size());
  decision_ = limiter.check(asked, each);
  limits_.reserve(charges_.size());
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    limits_.push_back({charges_[i].name, charges_[i].limit, each[i]});
  }
}

int RequestDecision::grpc_code() const noexcept {
  if (allowed()) return 0;
  const int code = report_of(decision_.reason).grpc;
  return code == 0 ? kGrpcResourceExhausted : code;
}

std::string_view RequestDecision::detail() const noexcept {
  return report_of(decision_.reason).detail;
}

std::span<const HttpField> RequestDecision::fields(HeaderFields wanted) {
  return fields_.of(limits_, decision_, wanted);
}

}  // namespace sluice
