#include "server/api/resp/decision_reply.h"

#include "limiter/limit_arguments.h"

namespace sluice::server::resp {
void put_decision(Reply& reply, const Decision& decision) {
  put_decision(reply, decision, has_numbers(decision));
}

void put_decision(Reply& reply, const Decision& decision, bool numbers) {
  for (const DecisionField& field : decision_fields(decision, numbers)) {
    reply.bulk(field.name);
    if (field.number) {
      reply.integer(*field.number);
    } else if (field.text.empty()) {
      reply.null();
    } else {
      reply.bulk(field.text);
    }
  }
}

void put_permit(Reply& reply, std::string_view permit) {
  reply.bulk("permit");
  reply.bulk(permit);
}

void put_taken(Reply& reply, const Decision& decision) {
  reply.bulk("taken");
  reply.integer(decision.taken);
}

}  // namespace sluice::server::resp
