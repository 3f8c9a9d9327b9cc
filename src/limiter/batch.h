#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sluice/decision.h"
#include "sluice/store.h"

namespace sluice {

// How a charge takes part in the decision of its batch.
enum class ChargeMode : std::uint8_t {
  kEnforced,  // all enforced charges and quotas are taken together, or none of them
  kQuota,     // as kEnforced, but an exhausted quota denies only if all quotas are exhausted
  kShadow,    // decided separately; never denies
  kRefund,    // given back after the others are admitted
};

// What a batch knows about a charge in addition to the charge.
struct ChargeTerms {
  ChargeMode mode = ChargeMode::kEnforced;
  // What answers if the store cannot decide. Absent: nothing, so the batch fails.
  std::optional<FailurePolicy> on_store_error = {};
  // Adjacent shadow charges with the same group are one all-or-nothing request.
  std::uint32_t group = 0;
  // A take decides the charge as a peek, and takes nothing from it.
  bool looks = false;
  // A key without a limit: it is denied while it is blocked (Charge::block), and nothing is taken.
  // If it is not blocked, the charge has no part in the answer.
  bool only_block = false;
  // If it is gone (kGone), it is left out with its row, and the others are asked again.
  bool may_be_gone = false;
};

// How a batch is decided.
struct BatchTerms {
  Action action = Verb::kTake;  // of all charges except refunds
  std::optional<Instant> now = {};
  // Takes each charge separately if the batch is denied, and a denied charge takes what is left.
  // Refunds are carried out even if the batch is denied. A fixed window counts one unit more than
  // its limit: a peek is denied if that unit is taken. With the other algorithms, a peek is denied
  // if nothing is left.
  bool consume_on_reject = false;
  // Leaves the shadow charges to decide_shadow().
  bool leaves_shadow = false;
};

// Decides the charges of one request: rules, Envoy descriptors and commands name the charges, and
// the batch asks the stores, applies failure policies and shadow mode, and answers each charge.
//
// Enforced charges and quotas are one all-or-nothing request to the store. If it denies only
// quotas, and some quotas have units left, the exhausted ones are left out and the others are asked
// again. Each group of shadow charges is its own request. Refunds are one request, which becomes a
// peek if the batch is denied.
//
// If a store cannot decide, the policies of the charges answer with `kFallback`, and the strictest
// policy decides. All `kLocal` charges are one request to the local store, unless another policy
// denies. Without a local store they have failed, with the store's reason. If a charge has no
// policy, the whole batch has failed, and nothing else is asked. A refund or a reset that the store
// did not carry out has failed, whatever the policy, after the local store has carried it out for
// `kLocal`.
//
// Charges that only look are a request of their own, which asks what is left. If that is less than
// a cost, the request for all charges is denied; else the others are taken. A budget that only
// looks has no id, but of a hold.
//
// Charges of which only the block counts are peeked at first, too. If one of their keys is blocked,
// all charges are peeked at, and nothing is taken. So are all if the batch knows a blocked key with
// a cost: the waits of the other charges are a part of the answer.
//
// A full store (kStoreFull) still has the counters of some charges. Only the policies of the others
// answer; the store is asked again without these. So a limit whose counter exists goes on being
// enforced, and no client avoids it by keys that it makes up for another limit. Work that is done
// (kCharge) is counted where it can be: the other charges are answered kStoreFull, and the request
// kFallback, or kStoreFull if there are no others.
//
// Thread-safety: one thread at a time. Ownership: borrows the stores, and the bytes of keys and
// tags until clear(). Cost: that of the stores; nothing is allocated once its buffers have grown.
class Batch {
 public:
  // `shadow`: for shadow charges; null: `store`. `local`: for FailurePolicy::kLocal; null: such
  // charges fail.
  explicit Batch(Store& store, Store* shadow = nullptr, Store* local = nullptr) noexcept
      : store_(&store), shadow_store_(shadow), local_store_(local) {}
  // A batch whose caller asks the store: see begin().
  explicit Batch(Store* local) noexcept
      : store_(nullptr), shadow_store_(nullptr), local_store_(local) {}

  void clear() noexcept;
  void add(const Charge& charge, const ChargeTerms& terms) { add(terms) = charge; }
  // Adds a charge for the caller to fill in before the next call. Writing it where it is kept saves
  // a copy that would wait for all of these writes.
  Charge& add(const ChargeTerms& terms) {
    ChargeTerms& own = entries_.emplace_back().terms;
    own.mode = terms.mode;
    own.on_store_error = terms.on_store_error;
    own.group = terms.group;
    own.looks = terms.looks;
    own.only_block = terms.only_block;
    own.may_be_gone = terms.may_be_gone;
    modes_ |= bit(terms.mode);
    has_looks_ |= terms.looks;
    has_only_blocks_ |= terms.only_block;
    charges_.push_back(kBlank);
    return charges_.back();
  }
  // Adds a charge that cannot be decided: it has no key or no cost because an attribute is missing
  // (`kMissing`), or its cost is no number (`kInvalid`). It is denied with that reason. If it is
  // enforced, so is the batch, and no store is asked.
  void add_refused(const Limit& limit, const ChargeTerms& terms, Reason reason);
  // Blocks the key of the latest charge for this long; absent: for ever. It is denied as by a block
  // in the store, even if the store fails.
  void block(std::optional<Duration> wait);

  // Forgets the answers and keeps the charges, for a decide() at another time. Refunds and
  // kTakeAtMost change the costs of charges, so that these cannot be decided again.
  void reset_answers() noexcept;
  // The answer to the enforced charges: that of the store, or of the policies. Allowed if there are
  // none. `kInvalid` if there are more than kMaxCharges; then nothing else is decided.
  Decision decide(const BatchTerms& terms = {});
  // Gives back what the latest decide() has taken from enforced charges, but no permits. decision()
  // says then what is left.
  void undo();
  // Decides the shadow charges that the latest decide() has left. Changes no other answer.
  void decide_shadow(const Action& action);

  // A decision in steps, whose caller asks the store, for enforced charges that a full store could
  // not decide together. begin() takes what it has said of each charge, and answer() what it has
  // said of the request. If answer() returns false, the store is to be asked for asked(); it writes
  // to answers(), and answer() follows again. At the end `said` is the answer to the request.
  void begin(const BatchTerms& terms, std::span<const Decision> each);
  bool answer(Decision& said);
  std::span<const Charge> asked() const noexcept { return asked_; }
  std::span<Decision> answers() noexcept { return answers_; }

  std::size_t size() const noexcept { return charges_.size(); }
  const Charge& charge(std::size_t index) const noexcept { return charges_[index]; }
  // The answers after decide(). A charge that was not decided has a default Decision.
  const Decision& decision(std::size_t index) const noexcept { return decisions_[index]; }
  // Whether the request went on without the charge.
  bool is_left_out(std::size_t index) const noexcept { return entries_[index].left_out; }
  // Whether the store could not create the counter of the charge (kStoreFull).
  bool lacks_counter(std::size_t index) const noexcept { return entries_[index].lacks_counter; }
  // The answer of the first shadow group that would deny, or else of the first one.
  const std::optional<Decision>& shadow() const noexcept { return shadow_; }

 private:
  struct Entry {
    ChargeTerms terms;
    Reason refused = Reason::kOk;  // kOk: the charge can be decided
    bool is_blocked = false;       // its key, for `blocked_for`; absent: for ever
    std::optional<Duration> blocked_for = {};
    // The request goes on without it: an exhausted quota, a new counter, a hold that has ended.
    bool left_out = false;
    bool widened = false;  // its limit has one unit more
    bool lacks_counter = false;
  };
  using Indices = std::span<const std::size_t>;  // indices of charges, ascending
  static const Charge kBlank;

  static constexpr unsigned bit(ChargeMode mode) noexcept {
    return 1U << static_cast<unsigned>(mode);
  }
  bool has(ChargeMode mode) const noexcept { return (modes_ & bit(mode)) != 0; }
  // Whether the answer to the request follows from the store's alone.
  bool is_simple() const noexcept { return !has(ChargeMode::kQuota) && !terms_.consume_on_reject; }
  static bool is_enforced(const Entry& entry) noexcept {
    return entry.terms.mode == ChargeMode::kEnforced || entry.terms.mode == ChargeMode::kQuota;
  }
  template <typename Chosen>
  Indices select(const Chosen& chosen);

  Decision deny_refused();
  Decision decide_enforced();
  bool concludes(Decision& said, Indices asked);
  void copy_asked();
  static bool is_asked(const Entry& entry) noexcept {
    return is_enforced(entry) && !entry.left_out;
  }
  bool leave_out_quotas(Indices asked);
  bool leave_out_gone(Indices asked);
  bool is_in_row(Reason reason, std::size_t index) const noexcept;
  std::optional<Decision> leave_out_new(Indices asked);
  void complete_without_new(Decision& said);
  Decision take_separately(Indices indices);
  Decision settle(const Decision& said);
  void widen() noexcept;
  void narrow(std::size_t index) noexcept;
  void deny_exhausted_peek(std::size_t index) noexcept;
  void decide_groups();
  Decision decide_group(Indices indices);
  void give_back(bool denied, Decision& all);

  Decision ask(Store& store, Action action, Indices indices);
  Decision ask_unblocked(Store& store, Action action, Indices indices);
  bool is_denied_by_block(Verb verb, Indices indices) const noexcept;
  Decision deny_blocked(Store& store, Verb verb, Indices indices);
  Decision write_blocks(std::uint64_t taken, Indices indices);
  Decision ask_after_blocks(Store& store, Action action, Indices indices);
  Decision ask_rest(Store& store, Action action, Indices indices);
  Decision ask_after_look(Store& store, Action action, Indices indices);
  void undo(Store& store, Verb verb, Indices indices);
  void pass_over(Indices indices);
  void restore_costs(Indices indices) noexcept;
  Decision ask_for_nothing(Store& store, Indices indices);
  Decision ask_once(Store& store, Action action, Indices indices);
  Decision ask_several(Store& store, Action action, Indices indices);
  Decision without_unasked(const Decision& said, Indices indices);
  Decision answer_all(const Decision& decision, Indices indices);
  Decision fall_back(Reason failed, Action action, Indices indices);
  Decision by_policy(const Entry& entry, Reason failed, const Decision& allowed) const noexcept;
  std::optional<Decision> ask_local(Action action, Indices indices);

  Store* const store_;
  Store* const shadow_store_;
  Store* const local_store_;
  BatchTerms terms_;
  unsigned modes_ = 0;        // those of the charges, a bit each
  bool has_refused_ = false;  // an enforced charge
  bool has_looks_ = false;
  bool has_only_blocks_ = false;
  bool has_blocked_ = false;
  bool failed_ = false;  // the store could not decide, and a charge has no policy
  std::vector<Charge> charges_;
  std::vector<Decision> decisions_;
  std::vector<Entry> entries_;
  std::optional<Decision> shadow_;
  std::vector<std::size_t> selected_, local_, taken_, looking_;
  std::vector<std::size_t> blocks_, rest_;  // of a request: only_block, and the others
  std::vector<std::size_t> new_;            // charges whose counters a full store cannot make
  std::vector<Charge> asked_;               // a request that is not a run of `charges_`, or a step
  std::vector<Decision> answers_;
  std::vector<std::uint64_t> costs_;  // of charges that only look, or give back
  std::vector<Limit> limits_;         // of blocks_
};

}  // namespace sluice
