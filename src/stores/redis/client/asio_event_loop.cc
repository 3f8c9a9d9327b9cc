#include "stores/redis/client/asio_event_loop.h"

#include <random>
#include <utility>

#include "stores/redis/client/asio_timer.h"
#include "stores/redis/client/socket.h"
#include "stores/redis/client/target.h"

namespace sluice::redis {
namespace {

class AsioEventLoop final : public EventLoop {
 public:
  AsioEventLoop(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
                const Clock& clock)
      : loop_(loop), target_(std::move(target)), clock_(clock), random_(std::random_device()()) {}

  Time now() const noexcept override { return Time(clock_.now().time_since_epoch()); }
  std::uint64_t random() noexcept override { return random_(); }
  std::unique_ptr<Timer> make_timer(std::function<void()> on_time) override {
    return std::make_unique<AsioTimer>(loop_, std::move(on_time));
  }
  std::shared_ptr<Transport> make_transport(const ServerAddress& address,
                                            Transport::User& user) override {
    return std::make_shared<Socket>(loop_, target_, address, user, clock_);
  }

 private:
  boost::asio::io_context& loop_;
  std::shared_ptr<const Target> target_;
  const Clock& clock_;
  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<EventLoop> make_asio_event_loop(boost::asio::io_context& loop,
                                                std::shared_ptr<const Target> target,
                                                const Clock& clock) {
  return std::make_unique<AsioEventLoop>(loop, std::move(target), clock);
}

}  // namespace sluice::redis
