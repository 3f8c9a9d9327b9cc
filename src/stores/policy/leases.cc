// Quota leases: a process takes units of a counter from the store in batches and decides by what it
// holds. LeaseRequest says without I/O what to ask the store; the blocking store and the
// asynchronous one both drive it. What is left when a lease ends is given back.

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "limiter/answer.h"
#include "sluice/leased_store.h"
#include "sluice/store.h"
#include "stores/policy/async_policies.h"
#include "stores/policy/lease_table.h"

namespace sluice::policy {

// A request that leases concern, from start to end, without I/O: it says what to ask the store, and
// receives the answer.
//
// Of a take, the charges whose lease has enough units are admitted from it. If that leaves some,
// each busy one of them takes a batch, and the others are one request to the store. If that denies,
// the leases get their units back. A reset or a block ends the leases of its counters, before the
// store carries it out and after.
//
// Thread-safety: none. Ownership: borrows its arguments.
class LeaseRequest {
 public:
  // The most charges of a take that uses leases.
  static constexpr std::size_t kMost = 8;

  // Returns whether leases have to do with such a request.
  static bool concerns(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                       std::span<Decision> each) noexcept;

  LeaseRequest(Leases::Impl& leases, Action action, std::span<const Charge> charges,
               std::optional<Instant> now, std::span<Decision> each) noexcept;
  LeaseRequest(const LeaseRequest&) = delete;
  LeaseRequest& operator=(const LeaseRequest&) = delete;

  // Both return whether decision() and the answers are final. If not, the store is asked next.
  bool begin() noexcept;
  bool answer(const Decision& said) noexcept;

  // What to ask the store, and where it writes its answers.
  Action action() const noexcept { return action_; }
  std::span<const Charge> asked() const noexcept { return asked_; }
  std::optional<Instant> now() const noexcept { return now_; }
  std::span<Decision> answers() const noexcept { return answers_; }

  const Decision& decision() const noexcept { return decision_; }

 private:
  using Part = Leases::Impl::Part;

  bool go_on() noexcept;
  bool ask_batch() noexcept;
  void ask_rest() noexcept;
  void ask_own(std::size_t count) noexcept;
  bool answer_batch(const Decision& said) noexcept;
  bool finish(const Decision& said) noexcept;
  void drop_leases() noexcept {
    for (const Charge& charge : charges_) leases_.drop(charge);
  }
  void add(const Charge& charge, std::size_t place) noexcept {
    ::new (own_bytes_ + place * sizeof(Charge)) Charge(charge);
  }

  Leases::Impl& leases_;
  const std::span<const Charge> charges_;
  const std::span<Decision> each_;
  const std::optional<Instant> now_;
  Decision decision_;
  Instant asked_at_{};
  std::size_t rest_ = 0;                 // charges that are not done
  std::optional<std::size_t> batch_of_;  // the charge that takes a batch
  std::array<Part, kMost> parts_;
  Action action_;
  std::span<const Charge> asked_;
  std::span<Decision> answers_;
  // The charges of a question that are not those of the request, and the answers to them.
  alignas(Charge) std::byte own_bytes_[kMost * sizeof(Charge)];
  std::array<Decision, kMost> own_answers_;
};

// Whether the verb ends the leases of its counters.
constexpr bool ends_leases(Verb verb) noexcept {
  return verb == Verb::kReset || verb == Verb::kBlock;
}

bool LeaseRequest::concerns(Action action, std::span<const Charge> charges,
                            std::optional<Instant> now, std::span<Decision> each) noexcept {
  if (ends_leases(action.verb)) return true;
  return action.verb == Verb::kTake && !now && charges.size() <= kMost &&
         each.size() == charges.size() &&
         std::any_of(charges.begin(), charges.end(), Leases::Impl::may_lease);
}

LeaseRequest::LeaseRequest(Leases::Impl& leases, Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each) noexcept
    : leases_(leases),
      charges_(charges),
      each_(each),
      now_(now),
      rest_(charges.size()),
      action_(action),
      asked_(charges),
      answers_(each) {
  if (ends_leases(action.verb)) return;
  bool repeats = false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    parts_[i] = leases.part_of(charges[i]);
    for (std::size_t j = 0; j < i; ++j) repeats |= parts_[i].key == parts_[j].key;
  }
  // Two charges on one counter count together: only the store knows how.
  for (Part& part : parts_) part.is_leased &= !repeats;
}

bool LeaseRequest::begin() noexcept {
  if (!ends_leases(action_.verb)) return go_on();
  drop_leases();
  return false;
}

bool LeaseRequest::go_on() noexcept {
  asked_at_ = leases_.now();
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    Part& part = parts_[i];
    if (part.is_done || !leases_.take(charges_[i], asked_at_, part, each_[i])) continue;
    part.is_done = true;
    --rest_;
  }
  if (rest_ == 0) {
    decision_ = combine(each_);
    const bool was_asked = std::any_of(parts_.begin(), parts_.end(), std::mem_fn(&Part::was_asked));
    if (!was_asked) leases_.note_local();
    return true;
  }
  if (!ask_batch()) ask_rest();
  return false;
}

bool LeaseRequest::ask_batch() noexcept {
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    Part& part = parts_[i];
    if (part.is_done || part.was_asked) continue;
    const std::uint32_t units = leases_.begin_batch(charges_[i], asked_at_, part);
    if (units == 0) continue;
    part.was_asked = true;
    batch_of_ = i;
    Charge batch = charges_[i];
    batch.cost = units;
    add(batch, 0);
    action_ = Verb::kTakeAtMost;
    ask_own(1);
    return true;
  }
  return false;
}

void LeaseRequest::ask_rest() noexcept {
  action_ = Verb::kTake;
  if (rest_ == charges_.size()) {
    asked_ = charges_;
    answers_ = each_;
    return;
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (!parts_[i].is_done) add(charges_[i], count++);
  }
  ask_own(count);
}

void LeaseRequest::ask_own(std::size_t count) noexcept {
  asked_ = {std::launder(reinterpret_cast<const Charge*>(own_bytes_)), count};
  answers_ = std::span(own_answers_).first(count);
}

bool LeaseRequest::answer(const Decision& said) noexcept {
  if (ends_leases(action_.verb)) {
    drop_leases();
    decision_ = said;
    return true;
  }
  if (batch_of_) return answer_batch(said);
  if (rest_ != charges_.size()) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < charges_.size(); ++i) {
      if (!parts_[i].is_done) each_[i] = own_answers_[next++];
    }
  }
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (parts_[i].is_done) continue;
    leases_.learn(charges_[i], asked_at_, parts_[i], each_[i], said.allowed());
  }
  return finish(said);
}

bool LeaseRequest::answer_batch(const Decision& said) noexcept {
  const std::size_t i = *batch_of_;
  batch_of_.reset();
  Decision answer = said;
  if (leases_.end_batch(charges_[i], asked_at_, parts_[i], answer)) {
    each_[i] = answer;
    parts_[i].is_done = true;
    // If another limit denies, its units go to the lease that they are from.
    --rest_;
    return go_on();
  }
  // A denial of one unit is one of the request. Otherwise the store is asked for exactly the cost,
  // unless it has failed.
  const bool is_for_one = !answer.allowed() && charges_[i].cost == 1;
  const bool is_full = answer.reason == Reason::kStoreFull;
  const bool is_final =
      !is_full &&
      (store_failed(answer.reason) ||
       (rest_ == 1 && charges_.size() == 1 && (is_for_one || answer.reason == Reason::kFallback)));
  if (!is_final || answer.reason == Reason::kInvalid) return go_on();
  for (std::size_t other = 0; other < charges_.size(); ++other) {
    if (!parts_[other].is_done) each_[other] = answer;
  }
  return finish(answer);
}

// Combines the answers of leases and of the store. What only the store can say is its own.
bool LeaseRequest::finish(const Decision& said) noexcept {
  decision_ = said;
  const bool is_mixed = rest_ != charges_.size();
  const bool is_own = store_failed(said.reason) || said.reason == Reason::kInvalid ||
                      said.reason == Reason::kFallback;
  if (is_mixed && !is_own) decision_ = combine(each_);
  if (said.allowed()) return true;
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (parts_[i].is_done) leases_.put_back(charges_[i], asked_at_, parts_[i]);
  }
  return true;
}

namespace {

// Decides one charge that has a lease with enough units, or that is not tracked: most requests.
bool decide_one(Leases::Impl& leases, Store& store, const Charge& charge,
                Decision& answer) noexcept {
  const Instant now = leases.now();
  Leases::Impl::Part part = leases.part_of(charge);
  if (leases.take(charge, now, part, answer)) {
    leases.note_local();
    return true;
  }
  if (part.is_tracked) return false;
  answer = store.apply_one(Verb::kTake, charge, {});
  leases.learn(charge, now, part, answer, answer.allowed());
  return true;
}

using Rests = std::vector<std::unique_ptr<LeaseName>>;

// A request that gives back what up to kMaxCharges leases did not use. Deletes itself at its end.
class GivingBack final : public AsyncStore::Completion {
 public:
  GivingBack(Leases::Impl& leases, std::span<std::unique_ptr<LeaseName>> rests)
      : leases_(leases),
        rests_(std::move_iterator(rests.begin()), std::move_iterator(rests.end())),
        each_(rests.size()) {
    charges_.reserve(rests_.size());
    for (const auto& rest : rests_) charges_.push_back(rest->charge);
  }

  std::span<const Charge> charges() const noexcept { return charges_; }
  std::span<Decision> each() noexcept { return each_; }
  void done(const Decision& decision) noexcept override {
    std::uint64_t units = 0;
    for (const Charge& charge : charges_) units += charge.cost;
    if (decision.allowed()) leases_.note_given_back(units);
    delete this;
  }

 private:
  Leases::Impl& leases_;
  const Rests rests_;  // the charges borrow their names
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
};

// Gives back what is due, or all units: `ask` passes a request to the store. Without memory they
// stay taken.
template <typename Ask>
void give_back(Leases::Impl& leases, LeaseEnd which, Ask ask) noexcept try {
  const auto next = leases.next_end();
  if (!next || (which == LeaseEnd::kDue && *next > leases.now())) return;
  Rests rests;
  leases.collect(rests, which == LeaseEnd::kAll);
  for (std::size_t first = 0; first < rests.size(); first += kMaxCharges) {
    const std::size_t count = std::min(kMaxCharges, rests.size() - first);
    ask(*new GivingBack(leases, std::span(rests).subspan(first, count)));
  }
} catch (const std::bad_alloc&) {
}

}  // namespace

}  // namespace sluice::policy

namespace sluice {

LeasedStore::LeasedStore(Store& store, Leases& leases, LeaseReturns returns)
    : store_(store), leases_(leases) {
  if (returns == LeaseReturns::kByCaller) return;
  thread_ = std::thread([this] {
    while (leases_.impl().await_end(stops_)) give_back();
  });
}

LeasedStore::~LeasedStore() {
  if (!thread_.joinable()) return;
  leases_.impl().stop(stops_);
  thread_.join();
  give_back(LeaseEnd::kAll);
}

Decision LeasedStore::apply(Action action, std::span<const Charge> charges,
                            std::optional<Instant> now, std::span<Decision> each) noexcept {
  Leases::Impl& leases = leases_.impl();
  if (!policy::LeaseRequest::concerns(action, charges, now, each)) {
    return store_.apply(action, charges, now, each);
  }
  const bool is_one = charges.size() == 1 && action.verb == Verb::kTake;
  if (is_one && policy::decide_one(leases, store_, charges.front(), each.front())) {
    return each.front();
  }
  policy::LeaseRequest request(leases, action, charges, now, each);
  for (bool is_done = request.begin(); !is_done;) {
    const auto asked = request.asked();
    Decision said;
    if (asked.size() == 1 && request.answers().size() == 1) {
      said = store_.apply_one(request.action(), asked.front(), request.now());
      request.answers().front() = said;
    } else {
      said = store_.apply(request.action(), asked, request.now(), request.answers());
    }
    is_done = request.answer(said);
  }
  return request.decision();
}

Decision LeasedStore::apply_one(Action action, const Charge& charge,
                                std::optional<Instant> now) noexcept {
  const bool is_exact = charge.limit.lease().count() == 0 && !policy::ends_leases(action.verb);
  if (is_exact) return store_.apply_one(action, charge, now);
  Decision each;
  return apply(action, {&charge, 1}, now, {&each, 1});
}

void LeasedStore::give_back(LeaseEnd which) noexcept {
  policy::give_back(leases_.impl(), which, [this](policy::GivingBack& request) {
    request.done(store_.apply(Verb::kRefund, request.charges(), {}, request.each()));
  });
}

void AsyncLeasedStore::async_apply(Action action, std::span<const Charge> charges,
                                   std::optional<Instant> now, std::span<Decision> each,
                                   Completion& completion) noexcept {
  give_back();
  if (!policy::LeaseRequest::concerns(action, charges, now, each)) {
    return store_.async_apply(action, charges, now, each, completion);
  }
  if (charges.size() == 1 && action.verb == Verb::kTake) {
    Leases::Impl& leases = leases_.impl();
    auto part = leases.part_of(charges.front());
    if (leases.take(charges.front(), leases.now(), part, each.front())) {
      leases.note_local();
      return completion.done(each.front());
    }
  }
  auto* const request = new (std::nothrow) policy::AsyncQuestion<policy::LeaseRequest>(
      store_, completion, leases_.impl(), action, charges, now, each);
  if (request != nullptr) return request->start();
  const Decision failed = Decision::refused(Reason::kStoreError);
  std::fill(each.begin(), each.end(), failed);
  completion.done(failed);
}

void AsyncLeasedStore::give_back(LeaseEnd which) noexcept {
  policy::give_back(leases_.impl(), which, [this](policy::GivingBack& request) {
    store_.async_apply(Verb::kRefund, request.charges(), {}, request.each(), request);
  });
}

}  // namespace sluice
