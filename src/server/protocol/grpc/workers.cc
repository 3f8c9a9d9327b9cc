#include "server/protocol/grpc/workers.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace sluice::server::grpc {
namespace {

// A buffer that has grown past this is given back.
constexpr std::size_t kMostKept = std::size_t{64} << 10;

}  // namespace

// A handler, and the call that it is at.
class Workers::Worker final : public net::FiberJob {
 public:
  Worker(Workers& owner, std::unique_ptr<Handler> made, std::uint64_t when)
      : generation(when), handler(std::move(made)), owner_(owner) {}

  void run() override { handler->handle(asker->call(), reply); }
  void done() override { owner_.finished(*this); }

  void clear() {
    reply.clear();
    if (reply.bytes.capacity() > kMostKept) reply.bytes = std::string();
  }

  const std::uint64_t generation;
  const std::unique_ptr<Handler> handler;
  Asker* asker = nullptr;
  Reply reply;

 private:
  Workers& owner_;
};

Workers::Workers(Make make, const net::FiberPool::Options& fibers)
    : make_(std::move(make)), most_(std::max<std::size_t>(fibers.most, 1)), fibers_(fibers) {
  add();
}

Workers::~Workers() { assert(waiting_.empty() && free_.size() == all_.size()); }

void Workers::add() {
  all_.push_back(std::make_unique<Worker>(*this, make_(), generation_));
  free_.push_back(all_.back().get());
}

void Workers::ask(Asker& asker) {
  if (!waiting_.empty() || !start(asker)) waiting_.push_back(&asker);
}

// False where no worker is free.
bool Workers::start(Asker& asker) {
  if (free_.empty() && all_.size() < most_) add();
  if (free_.empty()) return false;
  Worker& worker = *free_.back();
  free_.pop_back();
  worker.asker = &asker;
  if (fibers_.run(worker)) return true;
  free_.push_back(&worker);  // no memory for another stack
  return false;
}

void Workers::finished(Worker& worker) {
  worker.asker->answered(&worker.reply, worker.handler.get());
  if (worker.generation == generation_) {
    worker.clear();
    free_.push_back(&worker);
  } else {
    drop(worker);
    if (all_.empty()) add();
  }
  serve_waiting();
}

// Those that wait go first, before anything that is asked next.
void Workers::serve_waiting() {
  if (std::exchange(serving_, true)) return;
  while (!waiting_.empty()) {
    Asker& first = *waiting_.front();
    if (!first.wanted()) {
      waiting_.pop_front();
      first.answered(nullptr, nullptr);
      continue;
    }
    if (!start(first)) break;
    waiting_.pop_front();
  }
  serving_ = false;
}

void Workers::renew() {
  ++generation_;
  for (Worker* const worker : std::exchange(free_, {})) drop(*worker);
  if (all_.empty()) add();
}

void Workers::drop(const Worker& worker) {
  std::erase_if(all_, [&](const auto& one) { return one.get() == &worker; });
}

}  // namespace sluice::server::grpc
