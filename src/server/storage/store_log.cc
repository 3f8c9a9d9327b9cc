#include "server/storage/store_log.h"

#include <span>

namespace sluice::server {
namespace {

struct Line {
  LogLevel level;
  std::string_view message;
};

Line line_of(StoreEventKind kind) noexcept {
  switch (kind) {
    case StoreEventKind::kConnected: return {LogLevel::kInfo, "connected to the store"};
    case StoreEventKind::kConnectionLost:
      return {LogLevel::kWarning, "a connection to the store was lost"};
    case StoreEventKind::kConnectFailed: return {LogLevel::kWarning, "cannot connect to the store"};
    case StoreEventKind::kTopologyChanged:
      return {LogLevel::kInfo, "the topology of the store has changed"};
    case StoreEventKind::kRequestFailed:
      return {LogLevel::kWarning, "the store answered with an error"};
    case StoreEventKind::kScriptLoaded:
      return {LogLevel::kInfo, "a script was sent to the store again"};
    case StoreEventKind::kBreakerOpened:
      return {LogLevel::kError,
              "the circuit breaker has opened; policies decide without the store"};
    case StoreEventKind::kBreakerProbing: return {LogLevel::kInfo, "one request probes the store"};
    case StoreEventKind::kBreakerClosed:
      return {LogLevel::kInfo, "the circuit breaker has closed; the store decides again"};
  }
  return {LogLevel::kWarning, "an unknown event of the store"};
}

constexpr std::uint64_t kLinesMask = 0xFFFF;
static_assert(StoreLog::kLines < kLinesMask);

}  // namespace

// The time windows begin at the multiples of kEvery.
bool StoreLog::admit(Kind& kind) noexcept {
  const auto since = clock_.now().time_since_epoch();
  const std::uint64_t window = (static_cast<std::uint64_t>(since / kEvery) + 1) << 16;
  std::uint64_t seen = kind.window.load(std::memory_order_relaxed);
  for (;;) {
    const bool same = (seen & ~kLinesMask) == window;
    if (same && (seen & kLinesMask) >= kLines) return false;
    const std::uint64_t next = same ? seen + 1 : window + 1;
    if (kind.window.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
}

void StoreLog::on(const StoreEvent& event) noexcept {
  const auto index = static_cast<std::size_t>(event.kind);
  if (index >= kinds_.size()) return;
  Kind& kind = kinds_[index];
  kind.count.fetch_add(1, std::memory_order_relaxed);
  const Line line = line_of(event.kind);
  if (line.level < log_.options().level) return;
  if (!admit(kind)) {
    kind.suppressed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::array<LogField, 4> fields{LogField{"event", to_string(event.kind)}, LogField{"", ""},
                                 LogField{"", ""}, LogField{"", ""}};
  std::size_t size = 1;
  if (!event.endpoint.empty()) fields[size++] = {"endpoint", event.endpoint};
  if (!event.why.empty()) fields[size++] = {"why", event.why};
  const std::uint64_t suppressed = kind.suppressed.exchange(0, std::memory_order_relaxed);
  if (suppressed > 0) fields[size++] = {"suppressed", suppressed};
  log_.write_all(line.level, line.message, std::span(fields).first(size));
}

std::uint64_t StoreLog::count(StoreEventKind kind) const noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return index < kinds_.size() ? kinds_[index].count.load(std::memory_order_relaxed) : 0;
}

}  // namespace sluice::server
