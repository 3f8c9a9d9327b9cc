#include "envoy/decide.h"

#include <algorithm>

namespace sluice::envoy {
namespace {

Decision fallback(Outcome outcome) noexcept {
  return {.outcome = outcome, .reason = Reason::kFallback};
}

// Beyond what any limit holds, more makes no difference.
std::uint64_t cost_of(const Question& question) noexcept {
  return std::min(question.hits, kMaxUnits + 1);
}

std::string about(std::size_t question, std::string_view what) {
  return "descriptors[" + std::to_string(question) + "]" + std::string(what);
}

}  // namespace

Duration until_reset(const Limit& limit, const Decision& decision, bool known,
                     Instant now) noexcept {
  const bool on_clock =
      limit.algorithm() == Algorithm::kFixedWindow && limit.align() == Align::kClock;
  Duration reset = known ? decision.reset_after : Duration{0};
  if (on_clock && reset == Duration{0}) {
    reset = limit.period() - now.time_since_epoch() % limit.period();
  } else if (!known) {
    reset = limit.period();
  }
  return std::chrono::ceil<std::chrono::seconds>(reset);
}

class Request::Impl {
 public:
  explicit Impl(const Parts& parts)
      : limiter_(parts.limiter),
        trial_(parts.stores.trial != nullptr ? *parts.stores.trial : parts.limiter.store()),
        local_(parts.stores.local),
        clock_(parts.clock) {}

  const Answer& decide(const Domain& domain, std::span<const Question> questions,
                       bool consume_on_reject);

 private:
  enum class Kind : std::uint8_t { kTake, kShadow, kRefund };
  // A limit that applies to a question.
  struct Wanted {
    std::size_t question;
    Limit limit;
    std::uint64_t cost;
    Kind kind;
    bool quota;
    OnStoreError on_store_error;
    std::size_t key_at, key_end;  // in `text_`
    Decision decision = {};
    bool known = false;  // whether the decision has numbers
    bool over = false;
    bool left_out = false;  // over, in quota mode, while the request goes on without it
  };

  bool begin(std::span<const Question> questions);
  bool check(const Question& question, std::size_t index);
  void want(const Domain& domain, const Question& question, std::size_t index);
  void want_limit(const Question& question, std::size_t index, const Descriptor& matched);
  void drop_replaced();
  bool check_counters();
  std::string_view key_of(const Wanted& wanted) const noexcept {
    return std::string_view(text_).substr(wanted.key_at, wanted.key_end - wanted.key_at);
  }

  // Puts the charges of those wanted that `chosen` says together.
  template <typename Chosen>
  void charge(const Chosen& chosen);
  Decision ask(Limiter& limiter, Verb verb);
  void take_answers();

  void take();
  bool leave_out_quota();
  void settle();
  void take_each();
  void stand_in(Reason failed);
  void ask_local();
  void try_out(Wanted& wanted);
  void give_back();
  void undone(Reason failed);
  void fail(Reason reason);

  void publish();
  void fill(const Wanted& wanted, Status& status, Instant now) const;

  Limiter& limiter_;
  Limiter trial_;
  Store* local_;
  const Clock& clock_;
  bool consume_on_reject_ = false;
  std::string text_;
  std::vector<Wanted> wanted_;
  std::vector<std::string_view> replaced_;
  std::vector<std::size_t> charged_;  // places in `wanted_`, of each charge
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
  Answer answer_;
};

const Answer& Request::Impl::decide(const Domain& domain, std::span<const Question> questions,
                                    bool consume_on_reject) {
  consume_on_reject_ = consume_on_reject;
  if (!begin(questions)) return answer_;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!check(questions[i], i)) return answer_;
    want(domain, questions[i], i);
  }
  drop_replaced();
  if (!check_counters()) return answer_;
  take();
  if (answer_.failure != Answer::Failure::kNone) return answer_;
  for (Wanted& wanted : wanted_) {
    if (wanted.kind == Kind::kShadow) try_out(wanted);
  }
  give_back();
  if (answer_.failure == Answer::Failure::kNone) publish();
  return answer_;
}

bool Request::Impl::begin(std::span<const Question> questions) {
  text_.clear();
  wanted_.clear();
  replaced_.clear();
  answer_.failure = Answer::Failure::kNone;
  answer_.message.clear();
  answer_.overall = Code::kOk;
  answer_.statuses.clear();
  if (questions.empty()) {
    answer_.message = "descriptors are missing; expected at least one";
  } else if (questions.size() > kMaxDescriptors) {
    answer_.message = std::to_string(questions.size()) + " descriptors; expected at most " +
                      std::to_string(kMaxDescriptors);
  }
  if (!answer_.message.empty()) answer_.failure = Answer::Failure::kInvalid;
  answer_.statuses.resize(answer_.message.empty() ? questions.size() : 0);
  return answer_.message.empty();
}

bool Request::Impl::check(const Question& question, std::size_t index) {
  for (std::size_t i = 0; i < question.entries.size(); ++i) {
    if (!question.entries[i].key.empty()) continue;
    answer_.message =
        about(index, ".entries[" + std::to_string(i) + "].key is empty; expected a key");
  }
  if (question.limit && length_of(question.limit->unit) == Duration{0}) {
    answer_.message = about(index, ".limit.unit is unknown; expected SECOND to YEAR");
  }
  if (answer_.message.empty()) return true;
  answer_.failure = Answer::Failure::kInvalid;
  return false;
}

void Request::Impl::want(const Domain& domain, const Question& question, std::size_t index) {
  if (question.entries.empty()) return;
  const std::uint64_t cost = cost_of(question);
  const std::size_t key_at = text_.size();
  if (question.limit) {
    append_counter(text_, domain, question.entries, question.limit->unit);
    const Limit& limit = fixed_window(question.limit->requests_per_unit)
                             .per(length_of(question.limit->unit))
                             .aligned_to_clock();
    answer_.statuses[index].unit = question.limit->unit;
    wanted_.push_back({index, limit, cost, question.gives_back ? Kind::kRefund : Kind::kTake, false,
                       OnStoreError::kError, key_at, text_.size()});
    return;
  }
  const Descriptor* matched = match(domain, question.entries);
  answer_.statuses[index].descriptor = matched;
  if (matched == nullptr || !matched->rate_limit) return;
  append_counter(text_, domain, question.entries, *matched);
  want_limit(question, index, *matched);
  if (!wanted_.empty() && wanted_.back().question == index) {
    wanted_.back().key_at = key_at;
    wanted_.back().key_end = text_.size();
  }
}

void Request::Impl::want_limit(const Question& question, std::size_t index,
                               const Descriptor& matched) {
  const RateLimit& limit = *matched.rate_limit;
  Status& status = answer_.statuses[index];
  status.unit = limit.unit;
  replaced_.insert(replaced_.end(), limit.replaces.begin(), limit.replaces.end());
  if (!limit.limit) {
    status.unlimited = true;
    return;
  }
  const Kind kind = question.gives_back   ? Kind::kRefund
                    : matched.shadow_mode ? Kind::kShadow
                                          : Kind::kTake;
  wanted_.push_back({index, *limit.limit, cost_of(question), kind,
                     matched.quota_mode && !matched.shadow_mode, limit.on_store_error, 0, 0});
}

void Request::Impl::drop_replaced() {
  if (replaced_.empty()) return;
  std::erase_if(wanted_, [&](const Wanted& wanted) {
    Status& status = answer_.statuses[wanted.question];
    if (status.descriptor == nullptr) return false;
    const std::string_view name = status.descriptor->rate_limit->name;
    if (name.empty() || std::count(replaced_.begin(), replaced_.end(), name) == 0) return false;
    status = Status{};
    return true;
  });
}

// One counter cannot have two limits in one request, which only overrides could give it.
bool Request::Impl::check_counters() {
  if (wanted_.size() > kMaxCharges) {
    answer_.message = std::to_string(wanted_.size()) +
                      " descriptors with a limit; expected at most " + std::to_string(kMaxCharges);
  }
  for (std::size_t i = 0; i < wanted_.size() && answer_.message.empty(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (wanted_[i].limit == wanted_[j].limit || key_of(wanted_[i]) != key_of(wanted_[j]))
        continue;
      answer_.message = about(wanted_[i].question, ".limit differs from that of ") +
                        about(wanted_[j].question, " with the same entries; expected the same");
      break;
    }
  }
  if (answer_.message.empty()) return true;
  answer_.failure = Answer::Failure::kInvalid;
  return false;
}

template <typename Chosen>
void Request::Impl::charge(const Chosen& chosen) {
  charges_.clear();
  charged_.clear();
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const Wanted& wanted = wanted_[i];
    if (!chosen(wanted)) continue;
    charged_.push_back(i);
    charges_.push_back({key_of(wanted), wanted.limit, wanted.cost});
  }
}

Decision Request::Impl::ask(Limiter& limiter, Verb verb) {
  each_.resize(charges_.size());  // the store writes every one of them
  return limiter.apply(verb, charges_, each_);
}

void Request::Impl::take_answers() {
  for (std::size_t i = 0; i < charged_.size(); ++i) {
    Wanted& wanted = wanted_[charged_[i]];
    wanted.decision = each_[i];
    wanted.known = has_numbers(each_[i]);
    wanted.over = !each_[i].allowed();
  }
}

void Request::Impl::take() {
  for (;;) {
    charge([](const Wanted& wanted) { return wanted.kind == Kind::kTake && !wanted.left_out; });
    if (charges_.empty()) return;
    const Decision decision = ask(limiter_, Verb::kTake);
    if (store_failed(decision.reason)) return stand_in(decision.reason);
    if (decision.reason == Reason::kInvalid) return fail(decision.reason);
    take_answers();
    if (decision.allowed()) break;
    if (consume_on_reject_) {
      take_each();
      break;
    }
    if (!leave_out_quota()) break;
  }
  settle();
}

// Whether the request may go on without those in quota mode that are over.
bool Request::Impl::leave_out_quota() {
  bool is_over = false;
  bool any_left = false;
  bool any_out = false;
  for (const std::size_t i : charged_) {
    const Wanted& wanted = wanted_[i];
    is_over |= wanted.over && !wanted.quota;
    any_left |= !wanted.over && wanted.quota;
    any_out |= wanted.over;
  }
  if (is_over || !any_left || !any_out) return false;
  for (const std::size_t i : charged_) wanted_[i].left_out = wanted_[i].over;
  return true;
}

// Over where any is that is not in quota mode, or all that are.
void Request::Impl::settle() {
  bool any_quota = false;
  bool all_quota_over = true;
  for (Wanted& wanted : wanted_) {
    if (wanted.kind != Kind::kTake) continue;
    if (consume_on_reject_ && wanted.cost == 0 && wanted.known && wanted.decision.remaining == 0) {
      wanted.over = true;
    }
    if (wanted.over && !wanted.quota) answer_.overall = Code::kOverLimit;
    any_quota |= wanted.quota;
    all_quota_over &= wanted.over || !wanted.quota;
  }
  if (any_quota && all_quota_over) answer_.overall = Code::kOverLimit;
}

// Each by itself; who is denied takes what is left.
void Request::Impl::take_each() {
  for (const std::size_t i : charged_) {
    Wanted& wanted = wanted_[i];
    Charge charge{key_of(wanted), wanted.limit, wanted.cost};
    Decision decision = limiter_.store().apply_one(Verb::kTake, charge, {});
    if (store_failed(decision.reason)) return stand_in(decision.reason);
    if (!decision.allowed() && decision.remaining > 0 && has_numbers(decision)) {
      charge.cost = decision.remaining;
      const Decision rest = limiter_.store().apply_one(Verb::kTake, charge, {});
      if (rest.allowed()) {
        decision.remaining = rest.remaining;
        decision.reset_after = rest.reset_after;
      }
    }
    wanted.decision = decision;
    wanted.known = has_numbers(decision);
    wanted.over = !decision.allowed();
  }
}

// The strictest policy of those that were to take holds.
void Request::Impl::stand_in(Reason failed) {
  bool denies = false;
  for (const Wanted& wanted : wanted_) {
    if (wanted.kind != Kind::kTake || wanted.left_out) continue;
    const bool no_local = wanted.on_store_error == OnStoreError::kLocal && local_ == nullptr;
    if (no_local || wanted.on_store_error == OnStoreError::kError) return fail(failed);
    denies |= wanted.on_store_error == OnStoreError::kDeny;
  }
  for (Wanted& wanted : wanted_) {
    if (wanted.kind != Kind::kTake || wanted.left_out) continue;
    wanted.over = wanted.on_store_error == OnStoreError::kDeny;
    wanted.known = false;
    wanted.decision = fallback(wanted.over ? Outcome::kDenied : Outcome::kAllowed);
  }
  if (!denies) ask_local();
  settle();
}

// Those that want it, as one request of the local store.
void Request::Impl::ask_local() {
  charge([](const Wanted& wanted) {
    return wanted.kind == Kind::kTake && !wanted.left_out &&
           wanted.on_store_error == OnStoreError::kLocal;
  });
  if (charges_.empty()) return;
  Limiter local(*local_);
  const Decision decision = ask(local, Verb::kTake);
  if (store_failed(decision.reason) || decision.reason == Reason::kInvalid) return;
  take_answers();
  for (const std::size_t i : charged_) wanted_[i].decision.reason = Reason::kFallback;
}

void Request::Impl::try_out(Wanted& wanted) {
  const Charge charge{key_of(wanted), wanted.limit, wanted.cost};
  wanted.decision = trial_.store().apply_one(Verb::kTake, charge, {});
  if (store_failed(wanted.decision.reason)) wanted.decision = fallback(Outcome::kAllowed);
  wanted.known = has_numbers(wanted.decision);
}

// Unless the request was denied: then what there is is only told.
void Request::Impl::give_back() {
  charge([](const Wanted& wanted) { return wanted.kind == Kind::kRefund; });
  if (charges_.empty()) return;
  const bool denied = answer_.overall == Code::kOverLimit && !consume_on_reject_;
  for (Charge& charge : charges_) charge.cost = denied ? 0 : std::min(charge.cost, kMaxUnits);
  const Decision decision = ask(limiter_, denied ? Verb::kPeek : Verb::kRefund);
  if (store_failed(decision.reason) || decision.reason == Reason::kInvalid) {
    return undone(decision.reason);
  }
  take_answers();
  for (const std::size_t i : charged_) wanted_[i].over = false;
}

// What was not given back counts on. What was taken locally is given back there.
void Request::Impl::undone(Reason failed) {
  const bool denied = answer_.overall == Code::kOverLimit && !consume_on_reject_;
  for (const std::size_t i : charged_) {
    Wanted& wanted = wanted_[i];
    wanted.decision = fallback(Outcome::kAllowed);
    if (wanted.on_store_error == OnStoreError::kError && !denied) fail(failed);
  }
  if (denied || answer_.failure != Answer::Failure::kNone || local_ == nullptr) return;
  charge([](const Wanted& wanted) {
    return wanted.kind == Kind::kRefund && wanted.on_store_error == OnStoreError::kLocal;
  });
  if (charges_.empty()) return;
  for (Charge& charge : charges_) charge.cost = std::min(charge.cost, kMaxUnits);
  Limiter local(*local_);
  ask(local, Verb::kRefund);
}

void Request::Impl::fail(Reason reason) {
  answer_.failure =
      reason == Reason::kInvalid ? Answer::Failure::kInvalid : Answer::Failure::kUnavailable;
  answer_.message = "the store could not decide: " + std::string(to_string(reason));
}

void Request::Impl::publish() {
  if (wanted_.empty()) return;
  const Instant now = clock_.now();
  for (const Wanted& wanted : wanted_) fill(wanted, answer_.statuses[wanted.question], now);
}

// What nobody knows is told as of a limit that is untouched; of one that denied, as used up.
void Request::Impl::fill(const Wanted& wanted, Status& status, Instant now) const {
  status.code = wanted.over && wanted.kind == Kind::kTake ? Code::kOverLimit : Code::kOk;
  status.limit = wanted.limit;
  status.remaining = wanted.known  ? wanted.decision.remaining
                     : wanted.over ? 0
                                   : wanted.limit.capacity();
  status.until_reset = until_reset(wanted.limit, wanted.decision, wanted.known, now);
  status.counter = key_of(wanted);
  status.decision = wanted.decision;
}

Request::Request(const Parts& parts) : impl_(std::make_unique<Impl>(parts)) {}
Request::~Request() = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;

const Answer& Request::decide(const Domain& domain, std::span<const Question> questions,
                              bool consume_on_reject) {
  return impl_->decide(domain, questions, consume_on_reject);
}

}  // namespace sluice::envoy
