// Decides in this process, with a part of a limit that a quota service has assigned to it.
//
//   example_quota_client [ADDRESS [DOMAIN]]

#include <exception>
#include <iostream>

#include "sluice/quota_client.h"

int main(int count, char** words) {
  using std::chrono_literals::operator""ms;
  try {
    // [start use]
    sluice::QuotaClient client({
        .address = count > 1 ? words[1] : "127.0.0.1:8081",
        .domain = count > 2 ? words[2] : "shop",
        .fallback = sluice::QuotaFallback::kAllow,  // until there is an assignment
    });
    // The attributes are those of the rules. Keep the reference: this call takes a lock.
    sluice::QuotaBucket& orders = client.bucket({{"path", "/orders"}});

    for (int i = 0; i < 3; ++i) {
      std::cout << (orders.try_take() ? "accepted\n" : "too many orders\n");
    }
    // [end use]
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
