#include "stores/redis/cluster/parked.h"

#include <algorithm>

namespace sluice::redis {

void Parked::add(Command& command, Time due) {
  heap_.push_back({due, next_number_++, &command});
  std::push_heap(heap_.begin(), heap_.end(), is_later);
}

Command* Parked::take(Time now) noexcept {
  if (heap_.empty() || heap_.front().due > now) return nullptr;
  std::pop_heap(heap_.begin(), heap_.end(), is_later);
  Command* const command = heap_.back().command;
  heap_.pop_back();
  return command;
}

}  // namespace sluice::redis
