#pragma once

#include <memory>
#include <string>

#include "server/config/config.h"
#include "sluice/expected.h"

namespace sluice::server {

// `sluice serve`: the listeners, their event loops, the rules and their reloading, and the end.
//
// SIGTERM and SIGINT drain it: nothing new is accepted, what was accepted is answered. A second
// one ends it at once. SIGHUP reads the rules, the token and gRPC's certificate again. One in a
// process, as it takes its signals. Ownership: owns its threads, which end with run().
class Server {
 public:
  // Reads the rules and listens. Errors: lines that say what is wrong.
  static Expected<std::unique_ptr<Server>> start(const Config& config);
  ~Server();

  // "ready http=127.0.0.1:8080 grpc=off resp=off admin=127.0.0.1:6070"
  std::string ready_line() const;
  // Where no rules were given: what to know and to try; else empty.
  std::string hint() const;
  // Serves until it is told to end.
  void run();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
