// Quota leases: a process takes units of a counter from the store in batches and decides by what it
// holds. LeaseRequest says without I/O what to ask the store; the blocking store and the
// asynchronous one both drive it. What is left when a lease ends is given back.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
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

// A take that leases may answer, from start to end, without I/O: it says what to ask the store, and
// receives the answer.
//
// Charges whose lease has enough units are admitted from it. If that leaves some, each busy one of
// them takes a batch, and the others are one request to the store. If that denies, the leases get
// their units back.
//
// Thread-safety: none. Ownership: borrows its arguments.
class LeaseRequest {
 public:
  // The most charges of a request that uses leases.
  static constexpr std::size_t kMost = 8;

  // Returns whether leases have to do with such a request.
  static bool concerns(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                       std::span<Decision> each) noexcept;

  LeaseRequest(Leases::Impl& leases, std::span<const Charge> charges,
               std::span<Decision> each) noexcept;
  LeaseRequest(const LeaseRequest&) = delete;
  LeaseRequest& operator=(const LeaseRequest&) = delete;

  // A question for the store.
  struct Ask {
    Verb verb = Verb::kTake;
    std::span<const Charge> charges;
    std::span<Decision> each;
  };
  // Both return the next question; if there is none, decision() and the answers are final.
  std::optional<Ask> begin() noexcept { return go_on(); }
  std::optional<Ask> answer(const Decision& said) noexcept;

  const Decision& decision() const noexcept { return decision_; }

 private:
  struct Of {
    Leases::Impl::Part part;
    bool is_done = false;    // admitted by its lease
    bool was_asked = false;  // for a batch
  };

  std::optional<Ask> go_on() noexcept;
  std::optional<Ask> ask_batch() noexcept;
  Ask ask_rest() noexcept;
  std::optional<Ask> answer_batch(const Decision& said) noexcept;
  void finish(const Decision& said) noexcept;
  std::span<const Charge> asked_charges() const noexcept {
    return {std::launder(reinterpret_cast<const Charge*>(asked_bytes_)), asked_};
  }
  void add(const Charge& charge) noexcept {
    ::new (asked_bytes_ + asked_++ * sizeof(Charge)) Charge(charge);
  }

  Leases::Impl& leases_;
  const std::span<const Charge> charges_;
  const std::span<Decision> each_;
  Decision decision_;
  Instant asked_at_{};
  std::size_t rest_ = 0;                 // charges that are not done
  std::optional<std::size_t> batch_of_;  // the charge that takes a batch
  std::array<Of, kMost> of_;
  // The charges of a question that are not those of the request, and the answers to them.
  alignas(Charge) std::byte asked_bytes_[kMost * sizeof(Charge)];
  std::size_t asked_ = 0;
  std::array<Decision, kMost> asked_each_;
};

// Whether the verb ends the leases of its counters.
constexpr bool ends_leases(Verb verb) noexcept {
  return verb == Verb::kReset || verb == Verb::kBlock;
}

// Gives back what is due, or all units, in requests of kMaxCharges counters.
void give_back(Leases::Impl& leases, Store& store, LeaseEnd which) noexcept;
// The same without waiting: all requests start in this turn.
void give_back(Leases::Impl& leases, AsyncStore& store, LeaseEnd which) noexcept;

bool LeaseRequest::concerns(Action action, std::span<const Charge> charges,
                            std::optional<Instant> now, std::span<Decision> each) noexcept {
  return action.verb == Verb::kTake && !now && charges.size() <= kMost &&
         each.size() == charges.size() &&
         std::any_of(charges.begin(), charges.end(), Leases::Impl::may_lease);
}

LeaseRequest::LeaseRequest(Leases::Impl& leases, std::span<const Charge> charges,
                           std::span<Decision> each) noexcept
    : leases_(leases), charges_(charges), each_(each), rest_(charges.size()) {
  bool repeats = false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    of_[i].part = leases.part_of(charges[i]);
    for (std::size_t j = 0; j < i; ++j) repeats |= of_[i].part.key == of_[j].part.key;
  }
  // Two charges on one counter count together: only the store knows how.
  for (Of& of : of_) of.part.is_leased &= !repeats;
}

std::optional<LeaseRequest::Ask> LeaseRequest::go_on() noexcept {
  asked_at_ = leases_.now();
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    Of& of = of_[i];
    if (of.is_done || !leases_.take(charges_[i], asked_at_, of.part, each_[i])) continue;
    of.is_done = true;
    --rest_;
  }
  if (rest_ == 0) {
    combine(each_, decision_);
    const bool was_asked =
        std::any_of(of_.begin(), of_.end(), [](const Of& of) { return of.was_asked; });
    if (!was_asked) leases_.note_local();
    return std::nullopt;
  }
  if (auto ask = ask_batch()) return ask;
  return ask_rest();
}

std::optional<LeaseRequest::Ask> LeaseRequest::ask_batch() noexcept {
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    Of& of = of_[i];
    if (of.is_done || of.was_asked) continue;
    const std::uint32_t units = leases_.begin_batch(charges_[i], asked_at_, of.part);
    if (units == 0) continue;
    of.was_asked = true;
    batch_of_ = i;
    Charge batch = charges_[i];
    batch.cost = units;
    asked_ = 0;
    add(batch);
    return Ask{Verb::kTakeAtMost, asked_charges(), std::span(asked_each_).first(1)};
  }
  return std::nullopt;
}

LeaseRequest::Ask LeaseRequest::ask_rest() noexcept {
  if (rest_ == charges_.size()) return {Verb::kTake, charges_, each_};
  asked_ = 0;
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (!of_[i].is_done) add(charges_[i]);
  }
  return {Verb::kTake, asked_charges(), std::span(asked_each_).first(asked_)};
}

std::optional<LeaseRequest::Ask> LeaseRequest::answer(const Decision& said) noexcept {
  if (batch_of_) return answer_batch(said);
  if (rest_ != charges_.size()) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < charges_.size(); ++i) {
      if (!of_[i].is_done) each_[i] = asked_each_[next++];
    }
  }
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (of_[i].is_done) continue;
    leases_.learn(charges_[i], asked_at_, of_[i].part, each_[i], said.allowed());
  }
  finish(said);
  return std::nullopt;
}

std::optional<LeaseRequest::Ask> LeaseRequest::answer_batch(const Decision& said) noexcept {
  const std::size_t i = *batch_of_;
  batch_of_.reset();
  Decision answer = said;
  if (leases_.end_batch(charges_[i], asked_at_, of_[i].part, answer)) {
    each_[i] = answer;
    of_[i].is_done = true;
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
    if (!of_[other].is_done) each_[other] = answer;
  }
  finish(answer);
  return std::nullopt;
}

// Combines the answers of leases and of the store. What only the store can say is its own.
void LeaseRequest::finish(const Decision& said) noexcept {
  decision_ = said;
  const bool is_mixed = rest_ != charges_.size();
  const bool is_own = store_failed(said.reason) || said.reason == Reason::kInvalid ||
                      said.reason == Reason::kFallback;
  if (is_mixed && !is_own) combine(each_, decision_);
  if (said.allowed()) return;
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (of_[i].is_done) leases_.put_back(charges_[i], asked_at_, of_[i].part);
  }
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

}  // namespace

// Asks a store for a request that leases concern.
Decision apply_leased(Leases::Impl& leases, Store& store, std::span<const Charge> charges,
                      std::span<Decision> each) noexcept {
  if (charges.size() == 1 && decide_one(leases, store, charges.front(), each.front())) {
    return each.front();
  }
  LeaseRequest request(leases, charges, each);
  auto ask = request.begin();
  while (ask) {
    Decision said;
    if (ask->charges.size() == 1) {
      said = ask->each.front() = store.apply_one(ask->verb, ask->charges.front(), {});
    } else {
      said = store.apply(ask->verb, ask->charges, {}, ask->each);
    }
    ask = request.answer(said);
  }
  return request.decision();
}

void drop_leases(Leases::Impl& leases, std::span<const Charge> charges) noexcept {
  for (const Charge& charge : charges) leases.drop(charge);
}

namespace {

using Rests = std::vector<std::unique_ptr<LeaseName>>;

// Returns the charges that give back what leases did not use. They borrow the names of `rests`.
std::vector<Charge> charges_of(const Rests& rests) {
  std::vector<Charge> charges;
  charges.reserve(rests.size());
  for (const auto& rest : rests) charges.push_back(rest->charge);
  return charges;
}

// Requests under way that give back units. Deletes itself after the last.
class Returns {
 public:
  Returns(Leases::Impl& leases, Rests rests)
      : leases_(leases),
        rests_(std::move(rests)),
        charges_(charges_of(rests_)),
        each_(charges_.size()),
        parts_((charges_.size() + kMaxCharges - 1) / kMaxCharges) {}

  void start(AsyncStore& store) noexcept {
    pending_ = parts_.size() + 1;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::size_t first = i * kMaxCharges;
      const std::size_t count = std::min(kMaxCharges, charges_.size() - first);
      const auto charges = std::span(charges_).subspan(first, count);
      Part& part = parts_[i];
      part.all = this;
      for (const Charge& charge : charges) part.units += charge.cost;
      store.async_apply(Verb::kRefund, charges, {}, std::span(each_).subspan(first, count), part);
    }
    end_one();
  }

 private:
  struct Part final : AsyncStore::Completion {
    Returns* all = nullptr;
    std::uint64_t units = 0;
    void done(const Decision& decision) noexcept override {
      if (decision.allowed()) all->leases_.note_given_back(units);
      all->end_one();
    }
  };
  void end_one() noexcept {
    if (--pending_ == 0) delete this;
  }

  Leases::Impl& leases_;
  const Rests rests_;
  const std::vector<Charge> charges_;
  std::vector<Decision> each_;
  std::vector<Part> parts_;
  std::atomic<std::size_t> pending_{0};
};

// Returns what is due; nothing if there is no memory for it.
Rests due(Leases::Impl& leases, LeaseEnd which) noexcept {
  Rests rests;
  const auto next = leases.next_end();
  if (!next || (which == LeaseEnd::kDue && *next > leases.now())) return rests;
  try {
    leases.collect(rests, which == LeaseEnd::kAll);
  } catch (const std::bad_alloc&) {
    rests.clear();  // they stay taken
  }
  return rests;
}

}  // namespace

void give_back(Leases::Impl& leases, Store& store, LeaseEnd which) noexcept try {
  const Rests rests = due(leases, which);
  const std::vector<Charge> charges = charges_of(rests);
  std::array<Decision, kMaxCharges> each;
  for (std::size_t first = 0; first < charges.size(); first += kMaxCharges) {
    const std::size_t count = std::min(kMaxCharges, charges.size() - first);
    const auto part = std::span(charges).subspan(first, count);
    const Decision said = store.apply(Verb::kRefund, part, {}, std::span(each).first(count));
    std::uint64_t units = 0;
    for (const Charge& charge : part) units += charge.cost;
    if (said.allowed()) leases.note_given_back(units);
  }
} catch (const std::bad_alloc&) {  // they stay taken
}

void give_back(Leases::Impl& leases, AsyncStore& store, LeaseEnd which) noexcept try {
  Rests rests = due(leases, which);
  if (rests.empty()) return;
  auto* const returns = new Returns(leases, std::move(rests));
  returns->start(store);
} catch (const std::bad_alloc&) {  // they stay taken
}

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
  if (policy::LeaseRequest::concerns(action, charges, now, each)) {
    return policy::apply_leased(leases, store_, charges, each);
  }
  const bool ends = policy::ends_leases(action.verb);
  if (ends) policy::drop_leases(leases, charges);
  const Decision decision = store_.apply(action, charges, now, each);
  if (ends) policy::drop_leases(leases, charges);
  return decision;
}

Decision LeasedStore::apply_one(Action action, const Charge& charge,
                                std::optional<Instant> now) noexcept {
  const bool is_exact = charge.limit.lease().count() == 0 && !policy::ends_leases(action.verb);
  if (is_exact) return store_.apply_one(action, charge, now);
  Decision each;
  return apply(action, {&charge, 1}, now, {&each, 1});
}

void LeasedStore::give_back(LeaseEnd which) noexcept {
  policy::give_back(leases_.impl(), store_, which);
}

// A request that leases concern, or that ends leases.
class AsyncLeasedStore::Request final : public Completion {
 public:
  Request(AsyncLeasedStore& of, std::span<const Charge> charges, std::span<Decision> each,
          Completion& completion, bool ends) noexcept
      : store_(of.store_),
        leases_(of.leases_.impl()),
        charges_(charges),
        completion_(completion),
        ends_(ends),
        request_(leases_, ends ? std::span<const Charge>() : charges, each) {}

  void start() noexcept { go_on(request_.begin()); }
  void start(Action action, std::optional<Instant> now, std::span<Decision> each) noexcept {
    policy::drop_leases(leases_, charges_);
    store_.async_apply(action, charges_, now, each, *this);
  }
  void done(const Decision& said) noexcept override {
    if (!ends_) return go_on(request_.answer(said));
    policy::drop_leases(leases_, charges_);
    end(said);
  }

 private:
  void go_on(const std::optional<policy::LeaseRequest::Ask>& ask) noexcept {
    if (!ask) return end(request_.decision());
    store_.async_apply(ask->verb, ask->charges, {}, ask->each, *this);
  }
  void end(const Decision& decision) noexcept {
    Completion& completion = completion_;
    const Decision copy = decision;
    delete this;
    completion.done(copy);
  }

  AsyncStore& store_;
  Leases::Impl& leases_;
  const std::span<const Charge> charges_;
  Completion& completion_;
  const bool ends_;
  policy::LeaseRequest request_;
};

void AsyncLeasedStore::async_apply(Action action, std::span<const Charge> charges,
                                   std::optional<Instant> now, std::span<Decision> each,
                                   Completion& completion) noexcept {
  give_back();
  const bool ends = policy::ends_leases(action.verb);
  if (!ends && !policy::LeaseRequest::concerns(action, charges, now, each)) {
    return store_.async_apply(action, charges, now, each, completion);
  }
  if (!ends && charges.size() == 1) {
    Leases::Impl& leases = leases_.impl();
    auto part = leases.part_of(charges.front());
    if (leases.take(charges.front(), leases.now(), part, each.front())) {
      leases.note_local();
      return completion.done(each.front());
    }
  }
  auto* const request = new (std::nothrow) Request(*this, charges, each, completion, ends);
  if (request == nullptr) {
    const Decision failed = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), failed);
    return completion.done(failed);
  }
  if (ends) return request->start(action, now, each);
  request->start();
}

void AsyncLeasedStore::give_back(LeaseEnd which) noexcept {
  policy::give_back(leases_.impl(), store_, which);
}

}  // namespace sluice
