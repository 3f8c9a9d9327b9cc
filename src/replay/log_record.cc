#include "replay/log_record.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace sluice::replay {
namespace {

constexpr std::uint8_t kNoRank = 255;
constexpr std::uint8_t kUsualRank = 10;

bool is_absent(std::string_view value) noexcept { return value.empty() || value == "-"; }

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// "10.0.0.1:80" is 10.0.0.1, and "[::1]:80" is ::1.
std::string_view without_port(std::string_view address) noexcept {
  if (address.starts_with('[')) return address.substr(1, address.find(']') - 1);
  const std::size_t colon = address.find(':');
  return colon == address.rfind(':') ? address.substr(0, colon) : address;
}

LineFault fault_of_time(TimestampFault fault) noexcept {
  if (fault == TimestampFault::kNone) return LineFault::kNone;
  return fault == TimestampFault::kOutOfRange ? LineFault::kOutOfRange : LineFault::kMalformedTime;
}

}  // namespace

std::string_view LogExtras::copy(std::string_view from) {
  if (from.empty()) return "";
  char* const to = static_cast<char*>(text.allocate(from.size(), 1));
  std::copy(from.begin(), from.end(), to);
  return {to, from.size()};
}

void LogExtras::clear() {
  fields.clear();
  costs.clear();
  text.release();
}

void LogRecord::begin(LogLine& line, LogExtras& extras) {
  line = LogLine{};
  line.escaped = false;
  line.fields_at = static_cast<std::uint32_t>(extras.fields.size());
  line.costs_at = static_cast<std::uint32_t>(extras.costs.size());
  line_ = &line;
  extras_ = &extras;
  request_ = {};
  ranks_.fill(kNoRank);
  time_fault_ = LineFault::kNoTime;
  cost_fault_ = LineFault::kNone;
}

void LogRecord::add(std::string_view source, std::string_view value) {
  constexpr std::string_view kCaddy = "request.headers.";
  constexpr std::string_view kHeaders = "headers.";
  constexpr std::string_view kNginx = "http_";
  constexpr std::string_view kAttributes = "attributes.";
  constexpr std::string_view kCosts = "costs.";
  if (const FieldTarget* target = map_.find(source)) {
    for (; target != nullptr; target = target->also) add(*target, value);
  } else if (source.starts_with(kAttributes)) {
    add_recorded(extras_->copy(source.substr(kAttributes.size())), value);
  } else if (source.starts_with(kCosts)) {
    add({FieldKind::kCost, 1, extras_->copy(source.substr(kCosts.size()))}, value);
  } else if (source.starts_with(kCaddy)) {
    add_header(source.substr(kCaddy.size()), value);
  } else if (source.starts_with(kHeaders)) {
    add_header(source.substr(kHeaders.size()), value);
  } else if (source.starts_with(kNginx)) {
    add_header(source.substr(kNginx.size()), value);
  } else if (source == "cost") {
    add({FieldKind::kUnits, 1}, value);
  }
}

void LogRecord::add_header(std::string_view name, std::string_view value) {
  constexpr std::string_view kPrefix = "header.";
  if (is_absent(value)) return;
  char* const to = static_cast<char*>(extras_->text.allocate(kPrefix.size() + name.size(), 1));
  char* const end = std::transform(
      name.begin(), name.end(), std::copy(kPrefix.begin(), kPrefix.end(), to), [](char c) {
        if (c == '_') return '-';
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
      });
  add(target_of_name({to, static_cast<std::size_t>(end - to)}, kUsualRank), value);
}

// Recorded attributes are what the server saw: the path has no query, and nothing is absent.
void LogRecord::add_recorded(std::string_view name, std::string_view value) {
  FieldTarget target = target_of_name(name, 1);
  switch (target.kind) {
    case FieldKind::kTarget:
      if (takes(FieldKind::kPath, 1)) line_->path = value;
      return;
    case FieldKind::kTime:
    case FieldKind::kUnits:
    case FieldKind::kCost: target = {FieldKind::kAttribute, 1, name}; break;
    default: break;
  }
  if (target.kind == FieldKind::kAttribute) {
    extras_->fields.push_back({target.name, value});
  } else if (takes(target.kind, 1)) {
    set(target.kind, value);
  }
}

void LogRecord::add(const FieldTarget& target, std::string_view value) {
  if (is_absent(value)) return;
  if (target.kind == FieldKind::kAttribute) {
    extras_->fields.push_back({target.name, value});
  } else if (target.kind == FieldKind::kCost) {
    set_cost(target.name, value);
  } else if (takes(target.kind, target.rank)) {
    set(target.kind, value);
  }
}

bool LogRecord::takes(FieldKind kind, std::uint8_t rank) noexcept {
  // An address and a list of addresses are one meaning, and so are a target and a path.
  if (kind == FieldKind::kForwardedFor) kind = FieldKind::kClient;
  if (kind == FieldKind::kPath) kind = FieldKind::kTarget;
  std::uint8_t& best = ranks_[static_cast<std::size_t>(kind)];
  if (rank >= best) return false;
  best = rank;
  return true;
}

void LogRecord::set(FieldKind kind, std::string_view value) {
  switch (kind) {
    case FieldKind::kClient: line_->client = without_port(value); break;
    case FieldKind::kForwardedFor:
      line_->client = without_port(trimmed(value.substr(value.rfind(',') + 1)));
      break;
    case FieldKind::kMethod: line_->method = value; break;
    case FieldKind::kTarget: read_target(value, *line_); break;
    case FieldKind::kRequest: request_ = value; break;
    case FieldKind::kPath: line_->path = value; break;
    case FieldKind::kQuery: line_->query = value; break;
    case FieldKind::kStatus: line_->status = value; break;
    case FieldKind::kReferer: line_->referer = value; break;
    case FieldKind::kUserAgent: line_->user_agent = value; break;
    case FieldKind::kUnits: set_cost({}, value); break;
    case FieldKind::kTime: time_fault_ = fault_of_time(times_.read(value, line_->at)); break;
    case FieldKind::kAttribute:
    case FieldKind::kCost: break;
  }
}

// The cost without a limit is that for all limits.
void LogRecord::set_cost(std::string_view limit, std::string_view value) {
  std::uint64_t units = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, units);
  if (error != std::errc{} || stop != end) {
    cost_fault_ = LineFault::kNoCost;
  } else if (limit.empty()) {
    line_->units = units;
  } else {
    const auto same = [&](const LimitCost& cost) { return cost.limit == limit; };
    const auto mine = extras_->costs.begin() + line_->costs_at;
    if (std::none_of(mine, extras_->costs.end(), same)) extras_->costs.push_back({limit, units});
  }
}

LineFault LogRecord::finish(bool needs_request) {
  if (time_fault_ != LineFault::kNone) return time_fault_;
  if (cost_fault_ != LineFault::kNone) return cost_fault_;
  if (request_.data() != nullptr && (line_->path.data() == nullptr || line_->method.empty())) {
    read_request(request_, *line_);
  }
  line_->fields_size = static_cast<std::uint32_t>(extras_->fields.size()) - line_->fields_at;
  line_->costs_size = static_cast<std::uint32_t>(extras_->costs.size()) - line_->costs_at;
  const bool any = line_->client.data() != nullptr || line_->path.data() != nullptr ||
                   line_->method.data() != nullptr || line_->fields_size + line_->costs_size > 0;
  return any || !needs_request ? LineFault::kNone : LineFault::kNoRequestFields;
}

}  // namespace sluice::replay
