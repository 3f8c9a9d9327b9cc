// Limits on functions.
#include <sluice/sluice.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

using namespace std::chrono_literals;

struct Email {
  std::string address;
};
struct Request {
  std::string user;
  Email email;
};
struct Receipt {
  std::string text;
};

Receipt send_code(const Request& request) { return {"sent to " + request.email.address}; }

void throwing(sluice::Limiter& limiter, const Request& request) {
  // [start throwing]
  const auto send = sluice::guarded(limiter, "send_code", sluice::sliding_window_log(3).per(60s))
                        .key(&Request::user)
                        .throwing(send_code);
  try {
    for (int i = 0; i < 4; ++i) std::puts(send(request).text.c_str());
  } catch (const sluice::RateLimited& e) {
    std::puts(e.what());  // send_code: limited to 3 per 1m (sliding_window_log); retry after ...
  }
  // [end throwing]
}

void returning(sluice::Limiter& limiter, const Request& request) {
  const auto send = sluice::guarded(limiter, "maybe_send", sluice::gcra(1).per(1h))
                        .key(sluice::path(&Request::email, &Email::address))
                        .returning(send_code);
  for (int i = 0; i < 2; ++i) {
    const sluice::Expected<Receipt, sluice::Decision> receipt = send(request);
    std::puts(receipt ? receipt->text.c_str() : "only once per hour");
  }
}

void handled(sluice::Limiter& limiter, const Request& request) {
  const auto send =
      sluice::guarded(limiter, "send_or_say", sluice::gcra(1).per(1h))
          .key([](const Request& r) -> const std::string& { return r.user; })
          .otherwise([](const sluice::Decision&,
                        const Request& r) { return Receipt{r.user + " is too fast"}; },
                     send_code);
  std::puts(send(request).text.c_str());
  std::puts(send(request).text.c_str());
}

void many(sluice::Limiter& limiter, const Request& request) {
  // [start many]
  const auto order =
      sluice::guarded(limiter, "order", sluice::global(sluice::token_bucket(1000).per(1s)),
                      sluice::per(&Request::user, sluice::token_bucket(1).per(1h)).named("user"))
          .refunding_on_exception()
          .returning([](const Request& r) { return r.user + " ordered"; });
  std::puts(order(request) ? "ordered" : "denied");
  std::puts(order(request) ? "ordered" : "denied");
  // [end many]
}

// [start require]
int charge_card(sluice::Limiter& limiter, std::string_view user, int cents) {
  sluice::require(limiter, sluice::fixed_window(2).per(24h), user);  // throws RateLimited
  return cents;
}

bool try_charge_card(sluice::Limiter& limiter, std::string_view user) {
  return sluice::try_acquire({limiter, "charge_card"}, sluice::fixed_window(2).per(24h), user)
      .allowed();
}
// [end require]

void waiting(sluice::Limiter& limiter) {
  const auto paced = sluice::guarded(limiter, "paced", sluice::leaky_bucket(200).per(1s).queueing())
                         .delaying([](sluice::Duration d) { std::this_thread::sleep_for(d); })
                         .throwing([](int i) { std::printf("paced %d\n", i); });
  for (int i = 0; i < 3; ++i) paced(i);  // 5 ms apart
}

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  const Request request{"alice", {"alice@example.org"}};
  throwing(limiter, request);
  returning(limiter, request);
  handled(limiter, request);
  many(limiter, request);
  std::printf("charged %d\n", charge_card(limiter, "alice", 995));
  std::puts(try_charge_card(limiter, "alice") ? "charged" : "denied");
  waiting(limiter);
}
