#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "server/api/resp/command_handler.h"
#include "server/net/fiber.h"

namespace sluice::server::resp {

// Desks that may wait for the store, in one event loop: each with a fiber to wait on. They are made
// as they are needed; who finds none free waits for one in turn.
//
// Thread-safety: the loop's thread only, but for the constructor. Ownership: owns the handlers;
// none is at work when it is destroyed.
class Crew {
 public:
  // Who has work to do: a connection.
  class Client {
   public:
    virtual ~Client() = default;
    // On a fiber; may wait.
    virtual void work(CommandHandler& handler) = 0;
    // After work(), where ask() had returned before: goes on. May ask again, and may destroy the
    // client.
    virtual void worked() = 0;
  };
  using Make = std::function<std::unique_ptr<CommandHandler>()>;

  // Makes the first handler. Errors: std::bad_alloc, and what `make` throws.
  Crew(Make make, const net::FiberPool::Options& fibers);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Whether it is done already. If not, the client stays where it is until worked().
  bool ask(Client& client);

  // Makes the handlers anew, as the rules have changed: those at work when they are done. At least
  // one there always is.
  void renew();

 private:
  class Worker;

  void add();
  bool start(Client& client, bool* at_once);
  void finished(Worker& worker);
  void serve_waiting();
  void drop(const Worker& worker);

  const Make make_;
  const std::size_t most_;
  net::FiberPool fibers_;
  std::vector<std::unique_ptr<Worker>> all_;
  std::vector<Worker*> free_;  // the one that was used last is the next
  std::deque<Client*> waiting_;
  std::uint64_t generation_ = 0;
  bool serving_ = false;
};

}  // namespace sluice::server::resp
