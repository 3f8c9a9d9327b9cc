#include "server/protocol/http/workers.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace sluice::server::http {
namespace {

// A buffer that has grown past this is given back.
constexpr std::size_t kMostKept = std::size_t{64} << 10;

}  // namespace

// A handler, and the request that it is at.
class Workers::Worker final : public net::FiberJob {
 public:
  Worker(Workers& owner, std::unique_ptr<Handler> made, std::uint64_t when)
      : generation(when), handler(std::move(made)), owner_(owner) {}

  void run() override { handler->handle(request, response); }
  void done() override { owner_.finished(*this); }

  void clear() {
    response.clear();
    if (response.text.capacity() > kMostKept) response.text = std::string();
  }

  const std::uint64_t generation;
  const std::unique_ptr<Handler> handler;
  Asker* asker = nullptr;
  Request request;
  Response response;
  bool* at_once = nullptr;  // set if it is done while ask() still looks

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

bool Workers::ask(Asker& asker, const Request& request) {
  bool answered = false;
  if (!waiting_.empty() || !start(asker, request, &answered)) waiting_.push_back({&asker, request});
  return answered;
}

// False where no worker is free.
bool Workers::start(Asker& asker, const Request& request, bool* at_once) {
  if (free_.empty() && all_.size() < most_) add();
  if (free_.empty()) return false;
  Worker& worker = *free_.back();
  free_.pop_back();
  worker.asker = &asker;
  worker.request = request;
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

void Workers::finished(Worker& worker) {
  Asker& asker = *worker.asker;
  bool* const at_once = worker.at_once;
  asker.answered(worker.request, worker.response, *worker.handler);
  if (worker.generation == generation_) {
    worker.clear();
    free_.push_back(&worker);
  } else {
    retire(worker);
  }
  serve_waiting();
  if (at_once == nullptr) return asker.go_on();
  *at_once = true;
}

// Those that wait go first, before anything that an asker asks next.
void Workers::serve_waiting() {
  if (std::exchange(serving_, true)) return;
  while (!waiting_.empty()) {
    const Waiting first = waiting_.front();
    if (!start(*first.asker, first.request, nullptr)) break;
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

void Workers::retire(const Worker& worker) {
  drop(worker);
  if (all_.empty()) add();
}

}  // namespace sluice::server::http
