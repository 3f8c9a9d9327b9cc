#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

#include "limiter/waits.h"
#include "sluice/permit.h"

namespace sluice::detail {

// A permit with its counters, in one piece of memory: this header, the charges of `concurrency`
// limits, room for as many answers as the request has charges, and the bytes of keys and tags.
struct HeldPermit {
  PermitId id;
  bool is_live = false;
  std::size_t charge_count = 0;
  std::size_t answer_count = 0;

  using Pointer = std::unique_ptr<HeldPermit, DeleteHeldPermit>;

  static bool belongs(const Charge& charge) noexcept {
    return holds_permits(charge.limit.algorithm()) && charge.cost > 0;
  }

  // Copies the charges that belong to a permit.
  static Pointer make(const PermitId& id, std::span<const Charge> charges,
                      std::size_t answer_count) {
    std::size_t count = 0;
    std::size_t names = 0;
    for (const Charge& charge : charges) {
      if (!belongs(charge)) continue;
      ++count;
      names += charge.key.size() + charge.tag.size();
    }
    const std::size_t size =
        sizeof(HeldPermit) + count * sizeof(Charge) + answer_count * sizeof(Decision) + names;
    Pointer held(new (::operator new(size)) HeldPermit{.id = id, .answer_count = answer_count});
    for (std::size_t i = 0; i < answer_count; ++i) new (held->answer_begin(count) + i) Decision;
    char* bytes = reinterpret_cast<char*>(held->answer_begin(count) + answer_count);
    const auto copy = [&](std::string_view text) {
      char* const begin = bytes;
      bytes = std::copy(text.begin(), text.end(), bytes);
      return std::string_view(begin, text.size());
    };
    for (const Charge& charge : charges) {
      if (!belongs(charge)) continue;
      Charge* const own = new (held->charge_begin() + held->charge_count++) Charge(charge);
      own->key = copy(charge.key);
      own->tag = copy(charge.tag);
      own->permit = &held->id;
      own->new_keys = nullptr;
    }
    return held;
  }

  std::span<const Charge> charges() noexcept { return {charge_begin(), charge_count}; }
  std::span<Decision> answers() noexcept { return {answer_begin(charge_count), answer_count}; }

  // Releases, which calls the threads that wait, or extends. There are as many answers as charges,
  // or more.
  Decision apply(Verb verb, Store& store, std::optional<Instant> now) noexcept {
    const Decision said = charge_count == 1
                              ? store.apply_one(verb, charges().front(), now)
                              : store.apply(verb, charges(), now, answers().first(charge_count));
    if (verb == Verb::kRelease) released(store, charges());
    return said;
  }

 private:
  Charge* charge_begin() noexcept { return reinterpret_cast<Charge*>(this + 1); }
  Decision* answer_begin(std::size_t count) noexcept {
    return reinterpret_cast<Decision*>(charge_begin() + count);
  }
};
static_assert(std::is_trivially_destructible_v<Charge>);
static_assert(std::is_trivially_destructible_v<Decision>);
static_assert(alignof(HeldPermit) >= alignof(Charge) && alignof(Charge) >= alignof(Decision));

}  // namespace sluice::detail
