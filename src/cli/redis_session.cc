#include "cli/redis_session.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <deque>
#include <utility>

#include "cli/command.h"
#include "stores/redis/client/target.h"
#include "stores/redis/store/operation.h"

namespace sluice::cli {
namespace {

// A person can wait longer than a request, and reads more data.
constexpr std::chrono::milliseconds kDeadline{10'000};
constexpr std::chrono::milliseconds kConnectWithin{2'000};  // for the connection

}  // namespace

class RedisSession::Step final : public redis::Command {
 public:
  Step(const Take& take, std::size_t number, bool may_refuse)
      : take_(take), number_(number), may_refuse_(may_refuse) {}

  void done(const redis::Answer& answer) noexcept override {
    is_done = true;
    if (answer.failure == redis::Failure::kNone) return take_(number_, *answer.reply);
    if (answer.failure == redis::Failure::kError && may_refuse_) return;
    error = answer.text.empty() ? "no answer" : answer.text;
  }

  bool is_done = false;
  std::string error;

 private:
  const Take& take_;
  const std::size_t number_;
  const bool may_refuse_;
};

RedisSession::RedisSession(RedisOptions options)
    : loop_(std::make_unique<boost::asio::io_context>(1)) {
  options.deadline = std::max(options.deadline, kDeadline);
  auto target = redis::make_target(options);
  if (!target) throw Failed(target.error());
  target_ = *std::move(target);
  client_ = redis::make_client(*loop_, target_, nullptr);
  const auto end = std::chrono::steady_clock::now() + kConnectWithin;
  while (!client_->ready()) {
    loop_->run_one_for(std::chrono::milliseconds(5));
    loop_->restart();
    if (std::chrono::steady_clock::now() < end) continue;
    const std::string why = client_->why();
    throw Failed(shown() + " is not available: " + (why.empty() ? "no answer yet" : why));
  }
}
RedisSession::~RedisSession() = default;

void RedisSession::ask(const std::vector<Fill>& commands, const Take& take, bool may_refuse) {
  std::deque<Step> steps;
  for (const Fill& fill : commands) fill(steps.emplace_back(take, steps.size(), may_refuse));
  for (Step& step : steps) client_->submit(step);
  for (const Step& step : steps) {
    while (!step.is_done) {
      loop_->run_one_for(std::chrono::milliseconds(50));
      loop_->restart();
    }
  }
  for (const Step& step : steps) {
    if (!step.error.empty()) throw Failed(shown() + ": " + step.error);
  }
}

void RedisSession::ask(const Fill& command, const std::function<void(const redis::Reply&)>& take) {
  ask({command}, [&](std::size_t, const redis::Reply& reply) { take(reply); });
}

const std::string& RedisSession::shown() const noexcept { return target_->shown; }

}  // namespace sluice::cli
