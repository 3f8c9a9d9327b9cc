#include "stores/redis/store/operation.h"

#include <algorithm>

#include "stores/redis/client/asio_event_loop.h"
#include "stores/redis/client/clients.h"
#include "stores/redis/client/target.h"
#include "stores/redis/cluster/cluster_client.h"
#include "stores/redis/store/counter_operation.h"
#include "stores/redis/store/script_operation.h"

namespace sluice::redis {

OperationOptions operation_options(const Target& target) {
  return {.prefix = target.options.prefix,
          .by_slot = target.kind == Target::Kind::kCluster,
          .scripting = target.options.scripting,
          .uses_module = target.options.module == ModuleUse::kAuto,
          .explicit_expiry_ms =
              static_cast<std::uint64_t>(target.options.explicit_timestamp_expiry.count())};
}

void Operation::refuse(Reason reason, std::span<Decision> each) noexcept {
  decision_ = Decision::refused(reason);
  std::fill(each.begin(), each.end(), decision_);
}

std::unique_ptr<Operation> make_operation(const OperationOptions& options) {
  if (!options.scripting) return std::make_unique<CounterOperation>(options);
  return std::make_unique<ScriptOperation>(options);
}

std::unique_ptr<Client> make_client(boost::asio::io_context& loop,
                                    std::shared_ptr<const Target> target, StoreObserver* observer,
                                    const Clock& clock) {
  auto events = make_asio_event_loop(loop, target, clock);
  switch (target->kind) {
    case Target::Kind::kSentinel:
      return make_sentinel_client(std::move(events), std::move(target), observer);
    case Target::Kind::kCluster:
      return make_cluster_client(std::move(events), std::move(target), observer);
    case Target::Kind::kStandalone: break;
  }
  return make_standalone_client(std::move(events), std::move(target), observer);
}

}  // namespace sluice::redis
