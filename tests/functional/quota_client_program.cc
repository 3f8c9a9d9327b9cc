// Uses a quota service as test_quota_client.py says.
//
//   quota_client_program ADDRESS DOMAIN allow|deny [CA_FILE]
//
// Reads commands, and answers each with a line:
//   take USER N    takes N single units: "allowed A denied D"
//   units USER N   takes N units at once: "allowed A denied D"
//   assigned USER  "yes" or "no"
//   stats          "connected 0|1 connects C reports R assignments A error TEXT"

#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

#include "sluice/quota_client.h"

int main(int count, char** words) {
  using std::chrono_literals::operator""ms;
  if (count < 4) return 2;
  sluice::QuotaOptions options{.address = words[1], .domain = words[2], .report_every = 20ms};
  if (words[3] == std::string("deny")) options.fallback = sluice::QuotaFallback::kDeny;
  options.tls = count > 4;
  if (options.tls) options.tls_ca_file = words[4];
  try {
    sluice::QuotaClient client(options);
    for (std::string command; std::cin >> command;) {
      if (command == "stats") {
        const auto stats = client.stats();
        std::cout << "connected " << stats.is_connected << " connects " << stats.connects
                  << " reports " << stats.reports << " assignments " << stats.assignments
                  << " error " << stats.last_error << std::endl;
        continue;
      }
      std::string user;
      std::cin >> user;
      sluice::QuotaBucket& bucket = client.bucket({{"user", user}});
      if (command == "assigned") {
        std::cout << (bucket.is_assigned() ? "yes" : "no") << std::endl;
        continue;
      }
      std::uint32_t units = 0;
      std::cin >> units;
      std::uint32_t allowed = 0;
      if (command == "take") {
        for (std::uint32_t i = 0; i < units; ++i) allowed += bucket.try_take() ? 1 : 0;
      } else if (bucket.try_take(units)) {
        allowed = units;
      }
      std::cout << "allowed " << allowed << " denied " << units - allowed << std::endl;
    }
  } catch (const std::exception& error) {
    std::cout << "error " << error.what() << std::endl;
    return 1;
  }
}
