#include "server/api/resp/worker_pool.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace sluice::server::resp {

// A handler, and the client that it works for.
class Crew::Worker final : public net::FiberJob {
 public:
  Worker(Crew& owner, std::unique_ptr<CommandHandler> made, std::uint64_t when)
      : generation(when), handler(std::move(made)), owner_(owner) {}

  void run() override { client->work(*handler); }
  void done() override { owner_.finished(*this); }

  const std::uint64_t generation;
  const std::unique_ptr<CommandHandler> handler;
  Client* client = nullptr;
  bool* at_once = nullptr;  // set if it is done while ask() still looks

 private:
  Crew& owner_;
};

Crew::Crew(Make make, const net::FiberPool::Options& fibers)
    : make_(std::move(make)), most_(std::max<std::size_t>(fibers.most, 1)), fibers_(fibers) {
  add();
}

Crew::~Crew() { assert(waiting_.empty() && free_.size() == all_.size()); }

void Crew::add() {
  all_.push_back(std::make_unique<Worker>(*this, make_(), generation_));
  free_.push_back(all_.back().get());
}

bool Crew::ask(Client& client) {
  bool done = false;
  if (!waiting_.empty() || !start(client, &done)) waiting_.push_back(&client);
  return done;
}

// False where no worker is free.
bool Crew::start(Client& client, bool* at_once) {
  if (free_.empty() && all_.size() < most_) add();
  if (free_.empty()) return false;
  Worker& worker = *free_.back();
  free_.pop_back();
  worker.client = &client;
  worker.at_once = at_once;
  if (!fibers_.run(worker)) {  // no memory for another stack
    free_.push_back(&worker);
    return false;
  }
  // By now the worker may be done, at work for another, or gone.
  if (at_once == nullptr || *at_once) return true;
  worker.at_once = nullptr;
  return true;
}

void Crew::finished(Worker& worker) {
  Client& client = *worker.client;
  bool* const at_once = worker.at_once;
  if (worker.generation == generation_) {
    free_.push_back(&worker);
  } else {
    drop(worker);
    if (all_.empty()) add();
  }
  serve_waiting();
  if (at_once == nullptr) return client.worked();
  *at_once = true;
}

// Those that wait go first, before anything that a client asks next.
void Crew::serve_waiting() {
  if (std::exchange(serving_, true)) return;
  while (!waiting_.empty()) {
    if (!start(*waiting_.front(), nullptr)) break;
    waiting_.pop_front();
  }
  serving_ = false;
}

void Crew::renew() {
  ++generation_;
  for (Worker* const worker : std::exchange(free_, {})) drop(*worker);
  if (all_.empty()) add();
}

void Crew::drop(const Worker& worker) {
  std::erase_if(all_, [&](const auto& one) { return one.get() == &worker; });
}

}  // namespace sluice::server::resp
