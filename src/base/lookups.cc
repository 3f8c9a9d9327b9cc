#include "base/lookups.h"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace sluice::base {

namespace asio = boost::asio;
using boost::system::error_code;

struct Lookups::Shared {
  // Any thread.
  static void answer(const std::shared_ptr<Shared>& shared, std::string name, error_code why,
                     Endpoints found) {
    const std::lock_guard lock(shared->mutex);
    if (shared->loop == nullptr) return;
    asio::post(*shared->loop, [shared, name = std::move(name), why, found = std::move(found)] {
      const auto those = shared->waiting.extract(name);
      if (those.empty()) return;
      for (const Done& done : those.mapped()) done(why, found);
    });
  }

  std::mutex mutex;
  asio::io_context* loop;                            // with `mutex`; null: nobody waits any more
  std::map<std::string, std::vector<Done>> waiting;  // in the loop's thread
};

Lookups::Lookups(asio::io_context& loop) : shared_(std::make_shared<Shared>()) {
  shared_->loop = &loop;
}

Lookups::~Lookups() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->loop = nullptr;
  }
  const auto released = std::exchange(shared_->waiting, {});
}

void Lookups::find(const std::string& host, const std::string& port, Done done) {
  const std::string name = host + ' ' + port;
  auto& waiting = shared_->waiting[name];
  waiting.push_back(std::move(done));
  if (waiting.size() > 1) return;
  sigset_t all, before;  // the thread takes no signals
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([shared = shared_, host, port, name] {
      asio::io_context own;
      asio::ip::tcp::resolver resolver(own);
      error_code why;
      Endpoints found;
      for (const auto& one : resolver.resolve(host, port, why)) found.push_back(one.endpoint());
      Shared::answer(shared, name, why, std::move(found));
    }).detach();
  } catch (const std::system_error&) {  // there are too many threads
    Shared::answer(shared_, name, asio::error::no_memory, {});
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace sluice::base
