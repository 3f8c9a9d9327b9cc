#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/decide.h"
#include "server/decide/session.h"
#include "sluice/clock.h"

namespace sluice::server {

// Decides Envoy's requests by native rules: for each descriptor, the rules of its domain that match
// its entries. All descriptors that take are one all-or-nothing request. Those that give back are
// applied after it if it was admitted, as in envoy::Request.
//
// Use one for each thread. Ownership: borrows session and clock.
class NativeAnswer {
 public:
  NativeAnswer(Session& session, const Clock& clock) : session_(session), clock_(clock) {}

  // Valid until the next call. names() has the name of the limit of each status.
  const envoy::Answer& decide(std::string_view domain, std::span<const envoy::Question> questions);
  std::span<const std::string_view> names() const noexcept { return names_; }

 private:
  // The entries of one descriptor as attributes.
  class Entries final : public AttributeSource {
   public:
    explicit Entries(std::span<const envoy::Entry> entries) : entries_(entries) {}
    std::optional<std::string_view> find(std::string_view name) const override;

   private:
    std::span<const envoy::Entry> entries_;
  };

  bool begin(std::span<const envoy::Question> questions);
  bool ask(std::string_view domain, std::span<const envoy::Question> questions, bool giving_back);
  void take_answers(const RuleAnswer& answer, bool giving_back);
  void fail(const RuleAnswer& answer);

  Session& session_;
  const Clock& clock_;
  envoy::Answer answer_;
  std::vector<std::string> kept_names_;
  std::vector<std::string_view> names_;
  std::vector<std::size_t> asked_;  // the index of the question of each part
  std::vector<Entries> sources_;
  std::vector<RequestPart> parts_;
  std::vector<const LimitAnswer*> tightest_;  // the tightest limit of each part
};

}  // namespace sluice::server
