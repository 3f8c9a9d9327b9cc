#include "server/api/resp/store_problem.h"

namespace sluice::server::resp {

bool is_store_problem(const Decision& decision) noexcept {
  switch (decision.reason) {
    case Reason::kStoreTimeout:
    case Reason::kStoreError:
    case Reason::kForeignValue:
    case Reason::kInvalid: return true;
    default: return false;
  }
}

void answer_store_problem(Reply& reply, const Decision& decision) {
  switch (decision.reason) {
    case Reason::kStoreTimeout:
      return reply.error("ERR the store did not answer in time; whether it counted is unknown");
    case Reason::kForeignValue:
      return reply.error("WRONGTYPE the store holds something else under this key");
    case Reason::kInvalid:
      return reply.error(
          "ERR the request names one counter twice with different numbers, or more "
          "limits than a request may have");
    default: return reply.error("ERR the store could not be asked; nothing was counted");
  }
}

}  // namespace sluice::server::resp
