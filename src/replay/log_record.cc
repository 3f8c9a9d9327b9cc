#include "replay/log_record.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/request_target.h"
#include "rules/diagnostics.h"

namespace sluice::replay {
namespace {

constexpr std::string_view kCosts = "costs.";

using UsualField = std::pair<std::string_view, FieldTarget>;  // by the source

constexpr UsualField usual(std::string_view source, FieldKind kind, std::uint8_t rank,
                           std::string_view name = {}) {
  return {source, {kind, rank, name}};
}

using enum FieldKind;

// The names that servers use. Where a log has several of them, the lowest rank is the most exact.
constexpr UsualField kUsualFields[] = {
    usual("msec", kTime, 1),
    usual("time", kTime, 2),
    usual("ts", kTime, 2),
    usual("timestamp", kTime, 2),
    usual("@timestamp", kTime, 2),
    usual("start_time", kTime, 2),
    usual("datetime", kTime, 3),
    usual("time_iso8601", kTime, 4),
    usual("time_local", kTime, 5),
    usual("ip", kClient, 1),
    usual("client_ip", kClient, 1),
    usual("request.client_ip", kClient, 1),
    usual("remote_addr", kClient, 2),
    usual("request.remote_ip", kClient, 2),
    usual("remote_ip", kClient, 2),
    usual("downstream_remote_address", kClient, 2),
    usual("client", kClient, 3),
    usual("x_forwarded_for", kForwardedFor, 4),
    usual("x-forwarded-for", kForwardedFor, 4),
    usual("method", kMethod, 1),
    usual(":method", kMethod, 1),
    usual("request_method", kMethod, 1),
    usual("request.method", kMethod, 1),
    usual("request_uri", kTarget, 1),
    usual("request.uri", kTarget, 1),
    usual("x-envoy-original-path", kTarget, 1),
    usual("x-envoy-origin-path", kTarget, 1),
    usual(":path", kTarget, 2),
    usual("path", kTarget, 2),
    usual("uri", kTarget, 3),
    usual("url", kTarget, 3),
    usual("request", kRequest, 1),
    usual("args", kQuery, 1),
    usual("query_string", kQuery, 1),
    usual("status", kStatus, 1),
    usual("response_code", kStatus, 1),
    usual("status_code", kStatus, 1),
    usual("referer", kReferer, 1),
    usual("user_agent", kUserAgent, 1),
    usual("user-agent", kUserAgent, 1),
    usual("host", kAttribute, 1, "host"),
    usual("http_host", kAttribute, 1, "host"),
    usual("request.host", kAttribute, 1, "host"),
    usual("authority", kAttribute, 1, "host"),
    usual(":authority", kAttribute, 1, "host"),
};

unsigned char lower(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 'A' && byte <= 'Z' ? static_cast<unsigned char>(byte + ('a' - 'A')) : byte;
}

}  // namespace

FieldTarget target_of_name(std::string_view name, std::uint8_t rank) noexcept {
  if (name == "time") return {kTime, rank};
  if (name == "ip") return {kClient, rank};
  if (name == "method") return {kMethod, rank};
  if (name == "path") return {kTarget, rank};
  if (name == "status") return {kStatus, rank};
  if (name == "header.referer") return {kReferer, rank};
  if (name == "header.user-agent") return {kUserAgent, rank};
  if (name == "cost") return {kUnits, rank};
  if (name.starts_with(kCosts)) return {kCost, rank, name.substr(kCosts.size())};
  return {kAttribute, rank, name};
}

FieldMap::FieldMap(std::span<const FieldMapping> mappings)
    : mappings_(mappings.begin(), mappings.end()), complete_(mappings.empty()) {
  for (const auto& [source, target] : kUsualFields) targets_[source] = {target};
  for (const FieldMapping& mapping : mappings_) {
    auto& targets = targets_[mapping.source];
    targets.insert(targets.begin(), target_of_name(mapping.name, 0));
  }
}

std::span<const FieldTarget> FieldMap::find(std::string_view source) const noexcept {
  const auto found = targets_.find(source);
  return found == targets_.end() ? std::span<const FieldTarget>() : found->second;
}

std::size_t FieldMap::AnyCase::operator()(std::string_view text) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ lower(c)) * 0x100000001b3u;
  return static_cast<std::size_t>(hash);
}

bool FieldMap::AnyCase::operator()(std::string_view a, std::string_view b) const noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

void FieldMap::note(std::string_view source) {
  constexpr std::size_t kMost = 64;  // besides those that a person has named
  if (complete_ || std::find(noted_.begin(), noted_.end(), source) != noted_.end()) return;
  const auto is_named = [&](const FieldMapping& each) { return AnyCase{}(each.source, source); };
  if (noted_.size() >= kMost && std::none_of(mappings_.begin(), mappings_.end(), is_named)) return;
  noted_.emplace_back(source);
  complete_ = lack().empty();
}

std::string FieldMap::lack(std::string_view what, std::span<const std::string> fields) const {
  const auto is_there = [&](const FieldMapping& wanted) {
    return std::any_of(mappings_.begin(), mappings_.end(), [&](const FieldMapping& each) {
      return each.name == wanted.name &&
             std::any_of(fields.begin(), fields.end(),
                         [&](const std::string& field) { return AnyCase{}(field, each.source); });
    });
  };
  const auto absent = std::find_if_not(mappings_.begin(), mappings_.end(), is_there);
  if (absent == mappings_.end()) return "";
  return std::string(what) + " '" + absent->source + "'; expected one of: " + shown(fields) +
         rules::did_you_mean(absent->source, {fields.begin(), fields.end()});
}

std::string FieldMap::shown(std::span<const std::string> fields) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(fields.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + fields[i];
  }
  return text + (fields.size() > kMost ? ", ..." : "");
}

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

}  // namespace

std::string_view LogExtras::copy(std::string_view from) {
  if (from.empty()) return "";
  char* const to = static_cast<char*>(text.allocate(from.size(), 1));
  std::copy(from.begin(), from.end(), to);
  return {to, from.size()};
}

void LogExtras::normalize_path(LogLine& line) {
  std::string_view sent = line.path;
  if (sent.data() == nullptr) return;
  if (line.escaped && sent.find('\\') != sent.npos) {
    undo_log_escapes(sent, unescaped_);
    sent = unescaped_;
  }
  const std::string_view path = base::normalized_path(sent, normalized_);
  if (path.data() != line.path.data()) line.path = copy(path);
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
  without_rules_ = false;
  is_path_sent_ = false;
}

void LogRecord::add(std::string_view source, std::string_view value) {
  constexpr std::string_view kCaddy = "request.headers.";
  constexpr std::string_view kHeaders = "headers.";
  constexpr std::string_view kHeader = "header.";
  constexpr std::string_view kNginx = "http_";
  constexpr std::string_view kAttributes = "attributes.";
  constexpr std::string_view kWithoutRules = "without_rules.";
  note(source);
  if (const auto targets = map_.find(source); !targets.empty()) {
    for (const FieldTarget& target : targets) add(target, value);
  } else if (source.starts_with(kAttributes)) {
    line_->has_cost = true;  // a recording omits a cost of 1
    add_recorded(extras_->copy(source.substr(kAttributes.size())), value);
  } else if (source.starts_with(kCosts)) {
    add({FieldKind::kCost, 1, extras_->copy(source.substr(kCosts.size()))}, value);
  } else if (source.starts_with(kCaddy)) {
    add_header(source.substr(kCaddy.size()), value);
  } else if (source.starts_with(kHeaders)) {
    add_header(source.substr(kHeaders.size()), value);
  } else if (source.starts_with(kHeader)) {
    add_header(source.substr(kHeader.size()), value);
  } else if (source.starts_with("query.") || source.starts_with("cookie.") ||
             source.starts_with("body.")) {
    if (!is_absent(value)) add_recorded(extras_->copy(source), value);
  } else if (source.starts_with(kNginx)) {
    add_header(source.substr(kNginx.size()), value);
  } else if (source == "cost") {
    add({FieldKind::kUnits, 1}, value);
  } else if (source.starts_with(kWithoutRules)) {
    without_rules_ = true;
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
      if (!takes(FieldKind::kPath, 1)) return;
      line_->path = value;
      is_path_sent_ = false;
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
    case FieldKind::kTarget:
      read_target(value, *line_);
      is_path_sent_ = true;
      break;
    case FieldKind::kRequest: request_ = value; break;
    case FieldKind::kPath: line_->path = value; break;
    case FieldKind::kQuery: line_->query = value; break;
    case FieldKind::kStatus: line_->status = value; break;
    case FieldKind::kReferer: line_->referer = value; break;
    case FieldKind::kUserAgent: line_->user_agent = value; break;
    case FieldKind::kUnits: set_cost({}, value); break;
    case FieldKind::kTime:
      time_fault_ = fault_of_time(times_.read(value, line_->at));
      line_->has_zone = LogTimeReader::has_zone(value);
      break;
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
    line_->has_cost = true;
  } else {
    const auto same = [&](const LimitCost& cost) { return cost.limit == limit; };
    const auto mine = extras_->costs.begin() + line_->costs_at;
    if (std::none_of(mine, extras_->costs.end(), same)) extras_->costs.push_back({limit, units});
  }
}

LineFault LogRecord::finish(bool needs_request) {
  if (without_rules_) return LineFault::kWithoutRules;
  if (time_fault_ != LineFault::kNone) return time_fault_;
  if (cost_fault_ != LineFault::kNone) return cost_fault_;
  if (request_.data() != nullptr && (line_->path.data() == nullptr || line_->method.empty())) {
    is_path_sent_ = is_path_sent_ || line_->path.data() == nullptr;
    read_request(request_, *line_);
  }
  if (is_path_sent_) extras_->normalize_path(*line_);
  line_->fields_size = static_cast<std::uint32_t>(extras_->fields.size()) - line_->fields_at;
  line_->costs_size = static_cast<std::uint32_t>(extras_->costs.size()) - line_->costs_at;
  const bool any = line_->client.data() != nullptr || line_->path.data() != nullptr ||
                   line_->method.data() != nullptr || line_->fields_size + line_->costs_size > 0;
  return any || !needs_request ? LineFault::kNone : LineFault::kNoRequestFields;
}

}  // namespace sluice::replay
