#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metrics.h"
#include "server/api/admin/status_page.h"
#include "server/net/loop_clock.h"
#include "server/protocol/http/broadcast.h"
#include "server/protocol/http/message.h"
#include "server/rules/rules_manager.h"

namespace sluice::server {

// The events of GET /v1/events (docs/live-page.md): what the server does, once a second, made once
// for all viewers and only while there are viewers.
//
// Thread-safety: one loop's thread. Ownership: borrows its parts; outlives the connections of the
// viewers. Cost: an event has at most 100 rules; see Registry::activity().
class LiveEvents {
 public:
  static constexpr std::size_t kMostViewers = 50;

  LiveEvents(const metrics::Registry& registry, const RulesManager& rules,
             std::function<ServerStatus()> status, const net::LoopClock& clock)
      : registry_(registry), rules_(rules), status_(std::move(status)), clock_(clock) {}

  http::Broadcast& viewers() noexcept { return viewers_; }
  // The latest event, made now if there is no viewer yet.
  const std::string& latest();
  // Sends the next event once a second. Call it twice a second.
  void tick();
  // Ends all streams. Later requests are refused.
  void end() { viewers_.end(); }
  // Ends all streams, because the token has changed. Viewers may connect again.
  void end_current() { viewers_.end_current(); }

 private:
  void make(net::SteadyTime now);

  const metrics::Registry& registry_;
  const RulesManager& rules_;
  const std::function<ServerStatus()> status_;
  const net::LoopClock& clock_;
  http::Broadcast viewers_{kMostViewers};
  std::string event_;
  net::SteadyTime made_{};
  std::vector<std::uint64_t> before_;  // the requests of each rule in the previous event
};

// Answers a request for the live page (docs/live-page.md) or one of its files. They are the same
// for everybody and need no token; the page asks for it. Returns false if the path is none of them.
bool answer_live_page(std::string_view path, const http::Request& request,
                      http::Response& response);

}  // namespace sluice::server
