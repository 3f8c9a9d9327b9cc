#include "stores/redis/cluster/redirect.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "stores/redis/cluster/slot_map.h"

namespace sluice::redis {
namespace {

// Removes and returns the text before the first space.
std::string_view take_word(std::string_view& text) noexcept {
  const std::size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

std::optional<std::uint16_t> read_number(std::string_view text, std::uint16_t most) noexcept {
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most) {
    return std::nullopt;
  }
  return number;
}

// "127.0.0.1:6379", "::1:6379", "[::1]:6379", "a.example:6379", or ":6379".
std::optional<ServerAddress> read_endpoint(std::string_view text, const ServerAddress& from) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = read_number(text.substr(colon + 1), 65'535);
  std::string_view host = text.substr(0, colon);
  if (!port || *port == 0 || host == "?") return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return ServerAddress{host.empty() ? from.host : std::string(host), *port};
}

// Reads "<slot> <endpoint>". If it cannot be read, the map is stale.
Redirect read_target(Redirect::Kind kind, std::string_view rest, const ServerAddress& from) {
  const auto slot = read_number(take_word(rest), SlotMap::kSlots - 1);
  auto address = read_endpoint(take_word(rest), from);
  if (!slot || !address) return {Redirect::Kind::kStale};
  return {kind, *slot, std::move(*address)};
}

}  // namespace

Redirect read_redirect(std::string_view error, const ServerAddress& from) {
  const std::string_view word = take_word(error);
  if (word == "MOVED") return read_target(Redirect::Kind::kMoved, error, from);
  if (word == "ASK") return read_target(Redirect::Kind::kAsk, error, from);
  if (word == "TRYAGAIN") return {Redirect::Kind::kTryAgain};
  if (word == "CLUSTERDOWN" || word == "MASTERDOWN" || word == "LOADING" || word == "READONLY") {
    return {Redirect::Kind::kStale};
  }
  return {};
}

Step next_step(const Refused& command, Time now) {
  Redirect redirect = read_redirect(command.error, command.from);
  Step step;
  const bool is_moved = redirect.kind == Redirect::Kind::kMoved;
  step.refresh = is_moved || redirect.kind == Redirect::Kind::kStale;
  if (is_moved) step.moved = redirect.slot;
  step.address = std::move(redirect.address);
  if (is_moved || redirect.kind == Redirect::Kind::kAsk) {
    if (now >= command.deadline || command.redirects >= kMostRedirects) return step;
    step.kind = Step::Kind::kSend;
    step.asking = !is_moved;
    step.redirects = static_cast<std::uint8_t>(command.redirects + 1);
  } else if (redirect.kind == Redirect::Kind::kTryAgain && now + kPause < command.deadline) {
    step.kind = Step::Kind::kPause;  // only the deadline bounds it, so the count starts again
    step.until = now + kPause;
  }
  return step;
}

}  // namespace sluice::redis
