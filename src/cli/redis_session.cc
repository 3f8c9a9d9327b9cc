#include "cli/redis_session.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <utility>

#include "stores/redis/client/target.h"
#include "stores/redis/store/operation.h"

namespace sluice::cli {
namespace {

// A person can wait longer than a request, and reads more data.
constexpr std::chrono::milliseconds kDeadline{10'000};

}  // namespace

class RedisSession::Step final : public redis::Command {
 public:
  struct Common {
    const Take& take;
    const Refused& refused;
    std::size_t open = 0;
    std::string error;
  };
  Step(Common& common, std::size_t number) : common_(common), number_(number) {}

  void done(const redis::Answer& answer) noexcept override {
    --common_.open;
    if (answer.failure == redis::Failure::kNone) return common_.take(number_, *answer.reply);
    if (answer.failure == redis::Failure::kError && common_.refused) {
      return common_.refused(number_, answer.text);
    }
    if (common_.error.empty()) common_.error = answer.text.empty() ? "no answer" : answer.text;
  }

 private:
  Common& common_;
  const std::size_t number_;
};

Expected<std::unique_ptr<RedisSession>> RedisSession::open(RedisOptions options,
                                                           std::chrono::milliseconds at_most) {
  options.deadline = std::max(options.deadline, kDeadline);
  auto target = redis::make_target(options);
  if (!target) return Unexpected{target.error()};
  std::unique_ptr<RedisSession> session(new RedisSession(std::move(*target)));
  if (const auto connected = session->connect(at_most); !connected) {
    return Unexpected{connected.error()};
  }
  return session;
}

RedisSession::RedisSession(std::shared_ptr<const redis::Target> target)
    : target_(std::move(target)),
      loop_(std::make_unique<boost::asio::io_context>(1)),
      client_(redis::make_client(*loop_, target_, nullptr)) {}
RedisSession::~RedisSession() = default;

Status RedisSession::connect(std::chrono::milliseconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (!client_->ready()) {
    loop_->run_one_for(std::chrono::milliseconds(5));
    loop_->restart();
    if (std::chrono::steady_clock::now() < end) continue;
    const std::string why = client_->why();
    return Unexpected{shown() + " is not available: " + (why.empty() ? "no answer yet" : why)};
  }
  return {};
}

Status RedisSession::ask(const std::vector<Fill>& commands, const Take& take,
                         const Refused& refused) {
  Step::Common common{take, refused, commands.size(), {}};
  std::deque<Step> steps;
  for (const Fill& fill : commands) fill(steps.emplace_back(common, steps.size()));
  for (Step& step : steps) client_->submit(step);
  while (common.open > 0) {
    loop_->run_one_for(std::chrono::milliseconds(50));
    loop_->restart();
  }
  if (!common.error.empty()) return Unexpected{shown() + ": " + common.error};
  return {};
}

Status RedisSession::ask(const Fill& command,
                         const std::function<void(const redis::Reply&)>& take) {
  return ask({command}, [&](std::size_t, const redis::Reply& reply) { take(reply); });
}

const std::string& RedisSession::shown() const noexcept { return target_->shown; }

}  // namespace sluice::cli
