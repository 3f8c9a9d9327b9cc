#include "stores/redis/store/calls.h"

#include <algorithm>
#include <new>

namespace sluice::redis {

void Call::end() noexcept {
  AsyncStore::Completion& completion = *completion_;
  const Decision decision = operation_->decision();
  home_.put(*this);
  completion.done(decision);
}

Call* Calls::prepare(const Operation::Request& request,
                     AsyncStore::Completion& completion) noexcept {
  Call* const call = get();
  if (call == nullptr) {
    const Decision refusal = Decision::refused(Reason::kStoreError);
    std::fill(request.each.begin(), request.each.end(), refusal);
    completion.done(refusal);
    return nullptr;
  }
  if (call->prepare(request, completion)) return call;
  call->end();
  return nullptr;
}

Call* Calls::get() noexcept try {
  const std::lock_guard lock(mutex_);
  if (free_ == nullptr) free_ = returned_.take_newest();
  if (free_ != nullptr) return std::exchange(free_, free_->next);
  all_.push_back(std::make_unique<Call>(*this, make_operation(options_)));
  return all_.back().get();
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace sluice::redis
