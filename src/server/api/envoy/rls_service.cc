// Envoy's rate limit service and Limitador's. Reads a request, turns its descriptors into charges
// by Envoy's files or into attributes for rules, and answers as the services of these projects do.

#include "server/api/envoy/rls_service.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "envoy/decide.h"
#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "envoy/type/v3/ratelimit_unit.pb.h"
#include "kuadrant/service/ratelimit/v1/kuadrantrls.pb.h"
#include "limiter/http_fields.h"
#include "limiter/reason_report.h"
#include "rules/diagnostics.h"
#include "server/decide/named_attributes.h"
#include "server/decide/rejection.h"
#include "server/decide/session.h"
#include "server/protocol/http/access.h"
#include "server/rules/envoy_manager.h"
#include "sluice/clock.h"
#include "sluice/permit_id.h"
#include "sluice/wire_request.pb.h"

namespace sluice::server {
namespace {

namespace rls = ::envoy::service::ratelimit::v3;
namespace kuadrant = ::kuadrant::service::ratelimit::v1;
using envoy::Answer;
using envoy::Question;
using google::protobuf::Arena;
using google::protobuf::ListValue;
using google::protobuf::Struct;

// The largest number of units that Envoy's messages hold is written for all larger amounts.
std::uint32_t in_32_bits(std::uint64_t units) noexcept {
  return static_cast<std::uint32_t>(std::min(units, kMaxUnits));
}

// The entries of one descriptor as attributes.
auto attributes_of(std::span<const envoy::Entry> entries) {
  return AttributesBy([entries](std::string_view name) -> std::optional<std::string_view> {
    const auto found = std::ranges::find(entries, name, &envoy::Entry::key);
    return found != entries.end() ? std::optional(found->value) : std::nullopt;
  });
}

// Decides Envoy's requests by native rules: for each descriptor, the rules of its domain that match
// its entries. All descriptors that take are one all-or-nothing request. Those that give back are
// applied after it if it was admitted, as in envoy::Request.
//
// Use one for each thread. Ownership: borrows session and clock.
class NativeAnswer {
 public:
  NativeAnswer(Session& session, const Clock& clock) : session_(session), clock_(clock) {}

  // Valid until the next call. names() has the name of the limit of each status. `costs`: of each
  // part, with the hits of its question as its units.
  const envoy::Answer& decide(std::string_view domain, std::span<const envoy::Question> questions,
                              Action action = Verb::kTake, const RequestCosts& costs = {});
  std::span<const std::string> names() const noexcept { return names_; }
  // The headers for the upstream, of rules that are degraded.
  std::span<const RejectHeader* const> headers() const noexcept { return headers_; }
  // Whether a settlement has ended a hold of a budget, now or before.
  bool has_released() const noexcept { return has_released_; }

 private:
  bool begin(std::span<const envoy::Question> questions);
  bool ask(std::string_view domain, std::span<const envoy::Question> questions, bool giving_back,
           Action action, RequestCosts costs);
  void take_answers(const RuleAnswer& answer, bool giving_back);
  void fail(const RuleAnswer& answer);

  Session& session_;
  const Clock& clock_;
  envoy::Answer answer_;
  std::vector<std::string> names_;
  std::vector<const RejectHeader*> headers_;
  bool has_released_ = false;
  std::vector<std::size_t> asked_;  // the index of the question of each part
  std::vector<decltype(attributes_of({}))> sources_;
  std::vector<RequestPart> parts_;
  std::vector<const LimitAnswer*> tightest_;  // the tightest limit of each part
};

// Returns whether `a` is tighter than `b`: it denies and `b` does not, or it leaves less.
bool is_tighter(const LimitAnswer& a, const LimitAnswer& b) noexcept {
  if (a.decision.allowed() != b.decision.allowed()) return !a.decision.allowed();
  return has_numbers(a.decision) && a.decision.remaining < b.decision.remaining;
}

const Answer& NativeAnswer::decide(std::string_view domain, std::span<const Question> questions,
                                   Action action, const RequestCosts& costs) {
  if (!begin(questions) || !ask(domain, questions, false, action, costs)) return answer_;
  ask(domain, questions, true, action, costs);
  return answer_;
}

bool NativeAnswer::begin(std::span<const Question> questions) {
  answer_.failure = Reason::kOk;
  answer_.message.clear();
  answer_.decision = {};
  answer_.is_over = false;
  answer_.statuses.assign(questions.size(), envoy::Status{});
  names_.assign(questions.size(), {});
  headers_.clear();
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const auto& entries = questions[i].entries;
    const bool empty = std::any_of(entries.begin(), entries.end(),
                                   [](const envoy::Entry& entry) { return entry.key.empty(); });
    if (!empty) continue;
    answer_.failure = Reason::kInvalid;
    answer_.message = "descriptors[" + std::to_string(i) + "] has an empty key; expected a key";
    return false;
  }
  return true;
}

// Asks the questions that take or those that give back. If the request was denied, those that give
// back are only read.
bool NativeAnswer::ask(std::string_view domain, std::span<const Question> questions,
                       bool giving_back, Action action, RequestCosts costs) {
  const bool denied = answer_.is_over;
  asked_.clear();
  parts_.clear();
  sources_.clear();
  sources_.reserve(questions.size());  // so that they stay where they are
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (questions[i].gives_back != giving_back) continue;
    const std::uint64_t most = giving_back ? kMaxAmount : kMaxAmount + 1;
    costs.units = denied ? 0 : std::min(questions[i].hits, most);
    parts_.push_back({&sources_.emplace_back(attributes_of(questions[i].entries)), costs});
    asked_.push_back(i);
  }
  if (parts_.empty()) return true;
  if (giving_back) action = denied ? Verb::kPeek : Verb::kRefund;
  const RuleAnswer& answer = session_.decide_parts(domain, parts_, action);
  const Reason reason = answer.decision.reason;
  if (store_failed(reason) || reason == Reason::kInvalid || reason == Reason::kConflict) {
    fail(answer);
    return false;
  }
  if (!giving_back && !answer.decision.allowed()) answer_.is_over = true;
  if (!giving_back) headers_ = degrade_headers(answer);
  take_answers(answer, giving_back);
  return true;
}

// Sets the tightest limit of each part.
void NativeAnswer::take_answers(const RuleAnswer& answer, bool giving_back) {
  tightest_.assign(asked_.size(), nullptr);
  has_released_ = false;
  for (const LimitAnswer& limit : answer.limits) {
    if (limit.decision.passed_over) continue;
    has_released_ |= holds_amounts(limit.numbers.algorithm()) && !limit.decision.late;
    if (limit.rule->mode == RuleMode::kShadow) continue;
    const LimitAnswer*& of_part = tightest_[limit.part];
    if (of_part == nullptr || is_tighter(limit, *of_part)) of_part = &limit;
  }
  for (const RuleAnswer::Matched& matched : answer.matched) {
    const bool denies = matched.denied && matched.rule->action == RuleAction::kDeny &&
                        matched.rule->mode == RuleMode::kEnforce;
    if (denies) answer_.statuses[asked_[matched.part]].is_over = true;
  }
  const Instant now = clock_.now();
  for (std::size_t part = 0; part < tightest_.size(); ++part) {
    if (tightest_[part] == nullptr) continue;
    const LimitAnswer& of = *tightest_[part];
    const Limit& limit = of.numbers;
    const bool known = has_numbers(of.decision);
    envoy::Status& status = answer_.statuses[asked_[part]];
    status.is_over = !of.decision.allowed() && !giving_back;
    status.limit = limit;
    status.unit = envoy::unit_of(limit);
    status.remaining = in_32_bits(known                   ? of.decision.remaining
                                  : of.decision.allowed() ? limit.capacity()
                                                          : 0);
    if (has_reset(limit, of.decision)) {
      status.until_reset = envoy::until_reset(limit, of.decision, known, now);
    }
    status.decision = of.decision;
    names_[asked_[part]] = of.limit->name;
  }
}

void NativeAnswer::fail(const RuleAnswer& answer) {
  const Reason reason = answer.decision.reason;
  const bool invalid = reason == Reason::kInvalid;
  answer_.failure = reason;
  answer_.decision = answer.decision;
  answer_.message = !answer.mistake.empty()       ? std::string(answer.mistake)
                    : reason == Reason::kConflict ? std::string(report_of(reason).detail)
                    : invalid ? "the request is not valid: over " + std::to_string(kMaxCharges) +
                                    " limits apply to it, its hits are out of range, or a budget "
                                    "that is in several rows applies to several descriptors"
                              : "the store could not decide: " + std::string(to_string(reason));
}

using base::as_utf8;

void merge_metadata(const boost::json::object& metadata, Struct& into);

void write_value(const boost::json::value& value, google::protobuf::Value& out) {
  switch (value.kind()) {
    case boost::json::kind::bool_: out.set_bool_value(value.get_bool()); break;
    case boost::json::kind::double_: out.set_number_value(value.get_double()); break;
    case boost::json::kind::string: out.set_string_value(std::string(value.get_string())); break;
    case boost::json::kind::array: {
      ListValue& items = *out.mutable_list_value();
      for (const auto& item : value.get_array()) write_value(item, *items.add_values());
      break;
    }
    case boost::json::kind::object:
      merge_metadata(value.get_object(), *out.mutable_struct_value());
      break;
    default: out.set_null_value(google::protobuf::NULL_VALUE); break;
  }
}

// The unit of the limit that the descriptor gives.
envoy::Unit unit_of(const wire::Descriptor& descriptor) {
  const std::int32_t unit = descriptor.limit().unit();
  const bool known = unit > 0 && unit <= static_cast<std::int32_t>(envoy::Unit::kYear);
  return known ? static_cast<envoy::Unit>(unit) : envoy::Unit::kUnknown;
}

// The names are those of Envoy's own service.
void write_descriptor(const wire::Descriptor& descriptor, Struct& into) {
  auto& fields = *into.mutable_fields();
  ListValue& entries = *fields["entries"].mutable_list_value();
  for (const wire::Entry& entry : descriptor.entries()) {
    entries.add_values()->set_string_value(as_utf8(entry.key()) + "=" + as_utf8(entry.value()));
  }
  if (descriptor.has_limit()) {
    const auto unit = static_cast<::envoy::type::v3::RateLimitUnit>(unit_of(descriptor));
    fields["limit"].set_string_value(
        "requests_per_unit:" + std::to_string(descriptor.limit().requests_per_unit()) +
        " unit:" + ::envoy::type::v3::RateLimitUnit_Name(unit));
  }
  if (descriptor.has_hits_addend()) {
    fields["hitsAddend"].set_number_value(static_cast<double>(descriptor.hits_addend().value()));
  }
}

void add_header(rls::RateLimitResponse& response, std::string_view name, std::uint64_t value) {
  auto& header = *response.add_response_headers_to_add();
  header.set_key(std::string(name));
  header.set_value(std::to_string(value));
}

// The hits of a descriptor that has none of its own.
std::uint64_t hits_of(const wire::Request& request) { return std::max(request.hits_addend(), 1U); }
std::uint64_t hits_of(const wire::Reserve& request) { return request.amount(); }
std::uint64_t hits_of(const wire::Commit& request) { return request.actual_amount(); }

// Reads the questions of a message, as views of it.
template <typename Message>
void read_questions(const Message& request, std::vector<envoy::Entry>& entries,
                    std::vector<envoy::Question>& questions) {
  entries.clear();
  questions.clear();
  for (const wire::Descriptor& descriptor : request.descriptors()) {
    for (const wire::Entry& entry : descriptor.entries()) {
      entries.push_back({entry.key(), entry.value()});
    }
  }
  std::span<const envoy::Entry> rest = entries;
  for (const wire::Descriptor& descriptor : request.descriptors()) {
    const auto size = static_cast<std::size_t>(descriptor.entries_size());
    const std::uint64_t hits =
        descriptor.has_hits_addend() ? descriptor.hits_addend().value() : hits_of(request);
    envoy::Question& question =
        questions.emplace_back(rest.first(size), hits, descriptor.is_negative_hits());
    if (descriptor.has_limit()) {
      question.requests_per_unit = descriptor.limit().requests_per_unit();
      question.unit = unit_of(descriptor);
    }
    rest = rest.subspan(size);
  }
}

// How long a reservation lasts. Absent: it may not last that long.
std::optional<Duration> length_of(const google::protobuf::Duration& ttl) {
  constexpr std::int64_t kMostSeconds = kMaxHold / std::chrono::seconds{1};
  constexpr std::int32_t kSecond = 1'000'000'000;
  if (ttl.seconds() == 0 && ttl.nanos() == 0) return std::chrono::seconds{60};  // as Limitador
  if (ttl.seconds() > kMostSeconds || ttl.nanos() < 0 || ttl.nanos() >= kSecond) return {};
  const auto length = std::chrono::seconds{std::max<std::int64_t>(ttl.seconds(), 0)} +
                      std::chrono::ceil<Duration>(std::chrono::nanoseconds{ttl.nanos()});
  return length >= kMinHold && length <= kMaxHold ? std::optional<Duration>(length) : std::nullopt;
}

// A quota covers at least one request.
void add_quota(const envoy::Status& status, Instant now,
               rls::RateLimitResponse::DescriptorStatus& out) {
  if (status.is_over || status.remaining == 0) return;
  rls::RateLimitResponse::Quota& quota = *out.mutable_quota();
  quota.set_requests(status.remaining);
  quota.mutable_valid_until()->set_seconds(
      std::chrono::floor<std::chrono::seconds>(now + status.until_reset.value_or(Duration{0}))
          .time_since_epoch()
          .count());
  quota.set_id(as_utf8(status.counter));
}

// Adds the answer for the next descriptor of a request.
rls::RateLimitResponse::DescriptorStatus& add_status(const envoy::Status& status,
                                                     std::string_view name,
                                                     rls::RateLimitResponse& response) {
  auto& out = *response.add_statuses();
  out.set_code(status.is_over ? rls::RateLimitResponse::OVER_LIMIT : rls::RateLimitResponse::OK);
  if (status.unlimited) out.set_limit_remaining(std::numeric_limits<std::uint32_t>::max());
  if (!status.limit) return out;
  auto& limit = *out.mutable_current_limit();
  limit.set_requests_per_unit(in_32_bits(status.limit->limit()));
  limit.set_unit(static_cast<rls::RateLimitResponse::RateLimit::Unit>(status.unit));
  if (!name.empty()) limit.set_name(name.data(), name.size());
  out.set_limit_remaining(status.remaining);
  if (status.until_reset && status.limit->period() != kNeverEnds) {
    out.mutable_duration_until_reset()->set_seconds(
        std::chrono::duration_cast<std::chrono::seconds>(*status.until_reset).count());
  }
  return out;
}

// Adds the headers that report the tightest limit. Adds none if no limit applied.
void add_headers(const EnvoyOptions& options, rls::RateLimitResponse& response) {
  const rls::RateLimitResponse::DescriptorStatus* tightest = nullptr;
  const auto over = [](const auto& status) {
    return status.code() == rls::RateLimitResponse::OVER_LIMIT;
  };
  for (const auto& status : response.statuses()) {
    if (!status.has_current_limit()) continue;
    if (tightest == nullptr || (over(status) && !over(*tightest)) ||
        (over(status) == over(*tightest) &&
         status.limit_remaining() < tightest->limit_remaining())) {
      tightest = &status;
    }
  }
  if (tightest == nullptr) return;
  add_header(response, options.limit_header, tightest->current_limit().requests_per_unit());
  add_header(response, options.remaining_header, tightest->limit_remaining());
  if (!tightest->has_duration_until_reset()) return;
  add_header(response, options.reset_header,
             static_cast<std::uint64_t>(tightest->duration_until_reset().seconds()));
}

// Merges the metadata of a descriptor of the file. Maps are merged recursively. For any other
// member that is already present, the present value is kept.
void merge_metadata(const boost::json::object& metadata, Struct& into) {
  auto& fields = *into.mutable_fields();
  for (const auto& [name, value] : metadata) {
    const auto [there, is_new] = fields.insert({std::string(name), google::protobuf::Value()});
    google::protobuf::Value& out = there->second;
    if (is_new) {
      write_value(value, out);
    } else if (value.is_object() && out.has_struct_value()) {
      merge_metadata(value.get_object(), *out.mutable_struct_value());
    }
  }
}

// Adds the request itself, and the indexes of its descriptors in quota mode that are over their
// limit.
void write_request(const wire::Request& request, std::span<const std::size_t> quota_over,
                   Struct& into) {
  auto& fields = *into.mutable_fields();
  fields["domain"].set_string_value(as_utf8(request.domain()));
  if (request.hits_addend() != 0) fields["hitsAddend"].set_number_value(request.hits_addend());
  ListValue& descriptors = *fields["descriptors"].mutable_list_value();
  for (const wire::Descriptor& descriptor : request.descriptors()) {
    write_descriptor(descriptor, *descriptors.add_values()->mutable_struct_value());
  }
  if (quota_over.empty()) return;
  ListValue& over = *fields["quotaModeViolations"].mutable_list_value();
  for (const std::size_t index : quota_over) {
    over.add_values()->set_number_value(static_cast<double>(index));
  }
}

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
  Impl(const Session::Parts& parts, EnvoyManager& envoy, const Clock& clock)
      : session_(parts),
        native_(session_, clock),
        manager_(envoy),
        recorder_(parts.recorder),
        denials_(parts.denials),
        otlp_(parts.otlp),
        keys_(parts.keys),
        traffic_(parts.traffic),
        clock_(clock),
        request_(parts.limiter, parts.stores, clock),
        stripe_(manager_.next_stripe()),
        version_(manager_.version()),
        active_(manager_.current()) {
    session_.use_trace(trace_);
  }

  RlsStatus call(std::string_view message, bool may_operate, std::string& reply,
                 std::string_view traceparent, RlsMethod method);
  void follow_rules();

 private:
  RlsStatus refuse(std::string why) {
    why_ = std::move(why);
    return {Reason::kInvalid, why_, false, true};
  }
  static RlsStatus forbid() { return {Reason::kInvalid, kNeedsOperate, true, true}; }
  // The end of a call whose answer has a failure.
  static RlsStatus fail(const Answer& answer) {
    const bool is_decided = answer.decision.reason == answer.failure;
    return {answer.failure, answer.message, false, !is_decided};
  }
  // Whether a request that is denied passes.
  bool lets_pass(const Answer& answer) const {
    return !answer.is_over || manager_.options().shadow_mode;
  }
  template <typename Message>
  RlsStatus read(std::string_view bytes, Message& into);
  template <typename Message>
  RlsStatus read_amount(std::string_view bytes, std::string_view member, Message& into);
  RlsStatus reserve(std::string_view message, bool may_operate, std::string& reply);
  RlsStatus commit(std::string_view message, bool may_operate, std::string& reply);
  RlsStatus answer(const wire::Request& request, bool may_operate, RlsMethod method,
                   rls::RateLimitResponse& response);
  RlsStatus answer_envoy(const wire::Request& request, const envoy::Domain& domain, Verb verb,
                         rls::RateLimitResponse& response);
  RlsStatus answer_native(const wire::Request& request, Verb verb,
                          rls::RateLimitResponse& response);
  void answer_invalid(rls::RateLimitResponse& response) const;
  google::protobuf::Struct& metadata_of(rls::RateLimitResponse& response) const;
  void finish(const wire::Request& request, rls::RateLimitResponse& response);
  void record(std::string_view domain, const Answer& answer);
  void report(const Answer& answer, Instant began);

  std::string_view traceparent_;  // of the call
  std::string why_;               // the call is refused
  const TraceSource trace_ = [this] { return std::optional(traceparent_); };
  Session session_;
  NativeAnswer native_;
  EnvoyManager& manager_;
  metrics::Recorder& recorder_;
  RuleAnswer without_rule_;  // has no limits
  DenialLog& denials_;
  OtlpExporter* const otlp_;          // null: decisions have no spans
  insight::KeyRecorder* const keys_;  // null: keys are not counted
  TrafficRecorder* const traffic_;    // null: requests are not recorded
  const Clock& clock_;
  envoy::Request request_;
  const std::size_t stripe_;
  std::uint64_t version_;
  std::shared_ptr<EnvoyFiles> active_;
  std::vector<envoy::Entry> entries_;
  std::vector<envoy::Question> questions_;
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
                                 std::string_view traceparent, RlsMethod method) {
  reply.clear();
  traceparent_ = traceparent;
  if (message.size() > std::size_t{64} << 20) return refuse("the message is too long");
  follow_rules();
  arena_.Reset();
  if (method == RlsMethod::kReserve) return reserve(message, may_operate, reply);
  if (method == RlsMethod::kCommit) return commit(message, may_operate, reply);
  auto& request = *Arena::CreateMessage<wire::Request>(&arena_);
  RlsStatus status = read(message, request);
  if (status.reason != Reason::kOk) return status;
  auto& response = *Arena::CreateMessage<rls::RateLimitResponse>(&arena_);
  status = answer(request, may_operate, method, response);
  const bool is_invalid =
      status.reason == Reason::kInvalid && !status.refused && method == RlsMethod::kShouldRateLimit;
  if (is_invalid) answer_invalid(response);
  if (is_invalid || status.reason == Reason::kOk) response.SerializeToString(&reply);
  return status;
}

void RlsService::Impl::answer_invalid(rls::RateLimitResponse& response) const {
  response.set_overall_code(manager_.options().shadow_mode ? rls::RateLimitResponse::OK
                                                           : rls::RateLimitResponse::OVER_LIMIT);
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    response.add_statuses()->set_code(rls::RateLimitResponse::OVER_LIMIT);
  }
}

// Reads a message and its questions.
template <typename Message>
RlsStatus RlsService::Impl::read(std::string_view bytes, Message& into) {
  if (!into.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return refuse(std::is_same_v<Message, wire::Request>
                      ? "the message is not a RateLimitRequest"
                      : "the message is not a " + into.GetDescriptor()->name() + "Request");
  }
  if (into.domain().empty()) return refuse("domain is empty; expected its name");
  if (into.descriptors().empty()) return refuse("descriptors are missing; expected at least one");
  if (into.descriptors_size() > static_cast<int>(envoy::kMaxDescriptors)) {
    return refuse("too many descriptors; expected at most 1024");
  }
  read_questions(into, entries_, questions_);
  return {};
}

RlsStatus RlsService::Impl::answer(const wire::Request& request, bool may_operate, RlsMethod method,
                                   rls::RateLimitResponse& response) {
  const bool checks = method == RlsMethod::kCheckRateLimit;
  const bool reports = method == RlsMethod::kReport;
  const auto gives_back = [](const envoy::Question& q) { return q.gives_back; };
  const auto needs_operate = [&](const envoy::Question& q) {
    return q.gives_back || (q.hits > 1 && !checks);
  };
  const auto any = [this](const auto& is) {
    return std::any_of(questions_.begin(), questions_.end(), is);
  };
  if (!may_operate && (reports || any(needs_operate))) return forbid();
  if (checks && any(gives_back)) {
    return refuse("is_negative_hits is true, but CheckRateLimit changes nothing; expected false");
  }
  quota_over_.clear();
  const Verb verb = checks ? Verb::kPeek : reports ? Verb::kCharge : Verb::kTake;
  const envoy::Domain* domain = active_->config().find(request.domain());
  return domain != nullptr ? answer_envoy(request, *domain, verb, response)
                           : answer_native(request, verb, response);
}

// Reads a message about a reservation. Its amount is in this member.
template <typename Message>
RlsStatus RlsService::Impl::read_amount(std::string_view bytes, std::string_view member,
                                        Message& into) {
  const RlsStatus status = read(bytes, into);
  if (status.reason != Reason::kOk) return status;
  const std::uint64_t amount = hits_of(into);
  if (amount > kMaxAmount) {
    return refuse(std::string(member) + " is " + std::to_string(amount) + "; expected at most " +
                  std::to_string(kMaxAmount));
  }
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    if (!questions_[i].gives_back && questions_[i].hits == amount) continue;
    return refuse("descriptors[" + std::to_string(i) + "] has hits of its own; expected only " +
                  std::string(member));
  }
  if (active_->config().find(into.domain()) == nullptr) return {};
  return refuse("domain " + base::in_quotes(into.domain()) +
                " is that of an Envoy file, which has no budgets; expected a domain of rules");
}

RlsStatus RlsService::Impl::reserve(std::string_view message, bool may_operate,
                                    std::string& reply) {
  auto& request = *Arena::CreateMessage<wire::Reserve>(&arena_);
  const RlsStatus status = read_amount(message, "amount", request);
  if (status.reason != Reason::kOk) return status;
  const auto ttl = length_of(request.ttl());
  if (!ttl) return refuse("ttl is out of range; expected 1 s to 24 h, or none for 60 s");
  if (!may_operate && request.amount() > 1) return forbid();
  const std::string id = PermitId::random_text();
  const PermitId name = PermitId::named(id);
  RequestCosts costs;
  Action action = {Verb::kHold, *ttl};
  if (request.amount() > 0) {
    costs.id = &name;
    costs.id_text = id;
  } else {  // holds nothing, but only if something is left
    action = Verb::kPeek;
    for (envoy::Question& question : questions_) question.hits = 1;
  }
  const Answer& answer = native_.decide(request.domain(), questions_, action, costs);
  if (answer.failure != Reason::kOk) return fail(answer);
  kuadrant::ReserveResponse response;
  response.set_code(lets_pass(answer) ? rls::RateLimitResponse::OK
                                      : rls::RateLimitResponse::OVER_LIMIT);
  if (lets_pass(answer)) response.set_reservation_id(id);
  response.SerializeToString(&reply);
  return {};
}

RlsStatus RlsService::Impl::commit(std::string_view message, bool may_operate, std::string& reply) {
  auto& request = *Arena::CreateMessage<wire::Commit>(&arena_);
  const RlsStatus status = read_amount(message, "actual_amount", request);
  if (status.reason != Reason::kOk) return status;
  const std::string& id = request.reservation_id();
  if (id.size() > kMaxIdBytes) {
    return refuse("reservation_id has " + std::to_string(id.size()) +
                  " bytes; expected the one of a ReserveResponse, or none");
  }
  if (id.empty() && !may_operate) return forbid();
  // Without an id, it counts under a new one.
  const std::string own = id.empty() ? PermitId::random_text() : id;
  const PermitId name = PermitId::named(own);
  RequestCosts costs;
  costs.id = &name;
  costs.id_text = own;
  const Answer& answer = native_.decide(request.domain(), questions_,
                                        id.empty() ? Verb::kCharge : Verb::kSettle, costs);
  if (answer.failure != Reason::kOk) return fail(answer);
  kuadrant::CommitResponse response;
  response.set_reservation_released(!id.empty() && native_.has_released());
  response.SerializeToString(&reply);
  return {};
}

// Returns the metadata of the limits. It has a key of its own if the request is reported, too, as
// in Envoy's service.
google::protobuf::Struct& RlsService::Impl::metadata_of(rls::RateLimitResponse& response) const {
  auto& all = *response.mutable_dynamic_metadata();
  if (!manager_.options().request_metadata) return all;
  return *(*all.mutable_fields())["metadata"].mutable_struct_value();
}

RlsStatus RlsService::Impl::answer_envoy(const wire::Request& request, const envoy::Domain& domain,
                                         Verb verb, rls::RateLimitResponse& response) {
  const bool consumes = verb == Verb::kTake && manager_.options().consume_on_reject;
  const Instant began = otlp_ != nullptr ? otlp_->now() : Instant();
  const Answer& answer = request_.decide(domain, questions_, consumes, verb);
  if (verb != Verb::kPeek && answer.failure != Reason::kInvalid) report(answer, began);
  if (answer.failure != Reason::kOk) return fail(answer);
  if (verb != Verb::kPeek) record(request.domain(), answer);
  response.set_overall_code(lets_pass(answer) ? rls::RateLimitResponse::OK
                                              : rls::RateLimitResponse::OVER_LIMIT);
  for (std::size_t i = 0; i < answer.statuses.size(); ++i) {
    const envoy::Status& status = answer.statuses[i];
    const envoy::Descriptor* descriptor = status.descriptor;
    const bool limited = descriptor != nullptr && status.limit;
    const bool quota = limited && descriptor->quota_mode;
    auto& out =
        add_status(status, limited ? descriptor->rate_limit->name : std::string_view(), response);
    if (quota) add_quota(status, clock_.now(), out);
    if (quota && status.is_over) quota_over_.push_back(i);
    const bool passes = !status.is_over;
    if (passes && descriptor != nullptr && !descriptor->metadata.empty()) {
      merge_metadata(descriptor->metadata, metadata_of(response));
    }
  }
  finish(request, response);
  return {};
}

RlsStatus RlsService::Impl::answer_native(const wire::Request& request, Verb verb,
                                          rls::RateLimitResponse& response) {
  const Answer& answer = native_.decide(request.domain(), questions_, verb);
  if (answer.failure != Reason::kOk) return fail(answer);
  response.set_overall_code(lets_pass(answer) ? rls::RateLimitResponse::OK
                                              : rls::RateLimitResponse::OVER_LIMIT);
  for (std::size_t i = 0; i < answer.statuses.size(); ++i) {
    add_status(answer.statuses[i], native_.names()[i], response);
  }
  for (const RejectHeader* header : native_.headers()) {
    auto& added = *response.add_request_headers_to_add();
    added.set_key(header->name);
    added.set_value(header->value);
  }
  finish(request, response);
  return {};
}

void RlsService::Impl::finish(const wire::Request& request, rls::RateLimitResponse& response) {
  const EnvoyOptions& options = manager_.options();
  if (options.headers) add_headers(options, response);
  if (options.request_metadata) {
    write_request(request, quota_over_, *response.mutable_dynamic_metadata());
  }
}

// Counts and records the answers of limits and their keys. Envoy's files have no rules, so their
// keys count like those of limits that requests bring along.
void RlsService::Impl::record(std::string_view domain, const Answer& answer) {
  for (std::size_t i = 0; i < answer.statuses.size(); ++i) {
    const envoy::Question& question = questions_[i];
    if (question.gives_back) continue;
    const envoy::Status& status = answer.statuses[i];
    active_->count(status, question.entries, stripe_);
    if (!status.limit || question.hits == 0) continue;
    if (keys_ != nullptr) keys_->count(*status.limit, status.counter, status.decision);
    if (traffic_ == nullptr) continue;
    traffic_->record_without_rules(domain, status.counter, *status.limit, question.hits,
                                   status.decision.outcome);
  }
}

// Reports the decision like the other front ends: counts a request that the store could not decide,
// or that brings a limit, logs a denial, and records the span of the decision: by the limit with
// the longest wait. A limit that the request brings has a key, and no name.
void RlsService::Impl::report(const Answer& answer, Instant began) {
  const auto takes = [](const envoy::Question& question) { return !question.gives_back; };
  const auto brings_limit = [&takes](const envoy::Question& question) {
    return takes(question) && question.requests_per_unit;
  };
  const bool fails = answer.failure != Reason::kOk;
  if (fails && std::ranges::none_of(questions_, takes)) return;
  if (fails || answer.decision.reason == Reason::kFallback ||
      std::ranges::any_of(questions_, brings_limit)) {
    without_rule_.decision = answer.decision;
    recorder_.count(without_rule_);
  }
  const bool passes = !fails && lets_pass(answer);
  if (passes && otlp_ == nullptr) return;
  const auto wait = [](const envoy::Status& status) {
    return status.decision.retry_after.value_or(Duration::max());
  };
  const envoy::Status* longest = nullptr;
  for (const envoy::Status& status : answer.statuses) {
    if (passes || !status.is_over) continue;
    if (longest == nullptr || wait(status) > wait(*longest)) longest = &status;
  }
  const bool is_named = longest != nullptr && longest->descriptor != nullptr;
  const std::string_view rule = is_named ? longest->descriptor->rule.name : std::string_view();
  const std::string_view limit =
      is_named ? longest->descriptor->rule.limits.front().name : std::string_view();
  const std::string_view key = longest != nullptr ? longest->counter : std::string_view();
  const bool is_shadow = passes && answer.is_over;
  const Decision decision = longest != nullptr ? longest->decision
                            : is_shadow        ? Decision()
                                               : answer.decision;
  if (otlp_ != nullptr) otlp_->record(began, rule, limit, key, decision, trace_);
  denials_.write(rule, limit, key, decision, trace_);
}

RlsService::RlsService(const Session::Parts& session, EnvoyManager& envoy, const Clock& clock)
    : impl_(std::make_unique<Impl>(session, envoy, clock)) {}
RlsService::~RlsService() = default;

RlsStatus RlsService::call(std::string_view message, bool may_operate, std::string& reply,
                           std::string_view traceparent, RlsMethod method) {
  return impl_->call(message, may_operate, reply, traceparent, method);
}
void RlsService::follow_rules() { impl_->follow_rules(); }

}  // namespace sluice::server
