#include "replay/log_parser.h"

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <string>
#include <utility>

#include "base/csv.h"
#include "base/quoted.h"
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
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(base::lower(c))) * 0x100000001b3u;
  return static_cast<std::size_t>(hash);
}

bool FieldMap::AnyCase::operator()(std::string_view a, std::string_view b) const noexcept {
  return base::same_word(a, b);
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
  const bool are_all = fields.size() <= kMost;
  return base::joined(are_all ? fields : fields.first(kMost)) + (are_all ? "" : ", ...");
}

namespace {

constexpr std::uint8_t kNoRank = 255;
constexpr std::uint8_t kUsualRank = 10;

bool is_absent(std::string_view value) noexcept { return value.empty() || value == "-"; }

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

void LogParser::begin_fields(LogLine& line, LogExtras& extras) {
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

void LogParser::add(std::string_view source, std::string_view value) {
  constexpr std::array<std::string_view, 4> kHeaders{"request.headers.", "headers.", "header.",
                                                     "http_"};
  constexpr std::string_view kAttributes = "attributes.";
  constexpr std::string_view kWithoutRules = "without_rules.";
  const auto is_start = [&](std::string_view start) { return source.starts_with(start); };
  map_.note(source);
  if (const auto targets = map_.find(source); !targets.empty()) {
    for (const FieldTarget& target : targets) add(target, value);
  } else if (source.starts_with(kAttributes)) {
    line_->has_cost = true;  // a recording omits a cost of 1
    add_recorded(extras_->copy(source.substr(kAttributes.size())), value);
  } else if (source.starts_with(kCosts)) {
    add({FieldKind::kCost, 1, extras_->copy(source.substr(kCosts.size()))}, value);
  } else if (const auto* const header = std::ranges::find_if(kHeaders, is_start);
             header != kHeaders.end()) {
    add_header(source.substr(header->size()), value);
  } else if (source.starts_with("query.") || source.starts_with("cookie.") ||
             source.starts_with("body.")) {
    if (!is_absent(value)) add_recorded(extras_->copy(source), value);
  } else if (source == "cost") {
    add({FieldKind::kUnits, 1}, value);
  } else if (source.starts_with(kWithoutRules)) {
    without_rules_ = true;
  }
}

void LogParser::add_header(std::string_view name, std::string_view value) {
  constexpr std::string_view kPrefix = "header.";
  if (is_absent(value)) return;
  char* const to = static_cast<char*>(extras_->text.allocate(kPrefix.size() + name.size(), 1));
  char* const end =
      std::transform(name.begin(), name.end(), std::copy(kPrefix.begin(), kPrefix.end(), to),
                     [](char c) { return c == '_' ? '-' : base::lower(c); });
  add(target_of_name({to, static_cast<std::size_t>(end - to)}, kUsualRank), value);
}

// Recorded attributes are what the server saw: the path has no query, and nothing is absent.
void LogParser::add_recorded(std::string_view name, std::string_view value) {
  FieldTarget target = target_of_name(name, 1);
  switch (target.kind) {
    case FieldKind::kTarget:
      if (!takes(FieldKind::kPath, 1)) return;
      line_->path = value;
      is_path_sent_ = false;
      return;
    case FieldKind::kClient:
      if (takes(FieldKind::kClient, 1)) line_->client = value;
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

void LogParser::add(const FieldTarget& target, std::string_view value) {
  if (is_absent(value)) return;
  if (target.kind == FieldKind::kAttribute) {
    extras_->fields.push_back({target.name, value});
  } else if (target.kind == FieldKind::kCost) {
    set_cost(target.name, value);
  } else if (takes(target.kind, target.rank)) {
    set(target.kind, value);
  }
}

bool LogParser::takes(FieldKind kind, std::uint8_t rank) noexcept {
  // An address and a list of addresses are one meaning, and so are a target and a path.
  if (kind == FieldKind::kForwardedFor) kind = FieldKind::kClient;
  if (kind == FieldKind::kPath) kind = FieldKind::kTarget;
  std::uint8_t& best = ranks_[static_cast<std::size_t>(kind)];
  if (rank >= best) return false;
  best = rank;
  return true;
}

void LogParser::set(FieldKind kind, std::string_view value) {
  switch (kind) {
    case FieldKind::kClient: line_->client = without_port(value); break;
    case FieldKind::kForwardedFor:
      line_->client = without_port(base::trimmed(value.substr(value.rfind(',') + 1)));
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
void LogParser::set_cost(std::string_view limit, std::string_view value) {
  const auto units = base::read_number<std::uint64_t>(value);
  if (!units) {
    cost_fault_ = LineFault::kNoCost;
  } else if (limit.empty()) {
    line_->units = *units;
    line_->has_cost = true;
  } else {
    const auto same = [&](const LimitCost& cost) { return cost.limit == limit; };
    const auto mine = extras_->costs.begin() + line_->costs_at;
    if (std::none_of(mine, extras_->costs.end(), same)) extras_->costs.push_back({limit, *units});
  }
}

LineFault LogParser::finish_fields(bool needs_request) {
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

namespace {

using base::CsvFields;

std::string_view content_of(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

char separator_of(std::string_view header) {
  char best = ',';
  for (const char candidate : {';', '\t'}) {
    if (std::count(header.begin(), header.end(), candidate) >
        std::count(header.begin(), header.end(), best)) {
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> names_in(std::string_view header) {
  header = content_of(header);
  CsvFields fields(header, separator_of(header));
  std::vector<std::string> names;
  for (std::string_view field; fields.next(field);) {
    field = base::trimmed(field);
    names.push_back(fields.doubled() ? base::undoubled(field) : std::string(field));
  }
  if (!fields.error().empty()) names.clear();
  return names;
}

// Returns whether a field without quotes has spaces at an end.
bool has_blanks(std::string_view line, char separator) {
  CsvFields fields(line, separator);
  for (std::string_view field; fields.next(field);) {
    if (!fields.is_quoted() && base::trimmed(field) != field) return true;
  }
  return false;
}

// Returns whether one of the columns is the time.
bool has_time(const std::vector<std::string>& names, const FieldMap& map) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const auto targets = map.find(name);
    return std::ranges::find(targets, FieldKind::kTime, &FieldTarget::kind) != targets.end();
  });
}

// Returns whether the first line has names of columns: one is the time, or all are identifiers and
// the next line has as many fields.
bool has_header(std::string_view text, const FieldMap& map) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::vector<std::string> names = names_in(text.substr(0, end));
  if (names.size() < 2) return false;
  if (has_time(names, map)) return true;
  const auto is_name = [](const std::string& name) {
    return !name.empty() && (base::is_letter(name[0]) || name[0] == '_') &&
           std::ranges::all_of(name, [](char c) { return base::is_letter_or("_.-:@$", c); });
  };
  const std::string_view rest = text.substr(std::min(end + 1, text.size()));
  return std::all_of(names.begin(), names.end(), is_name) &&
         names_in(rest.substr(0, rest.find('\n'))).size() == names.size();
}

}  // namespace

LineFault LogParser::read_csv(std::string_view line, LogLine& out, LogExtras& extras) {
  line = content_of(line);
  if (line.empty()) return LineFault::kEmpty;
  if (!columns_) {
    separator_ = separator_of(line);
    columns_ = names_in(line);
    has_blanks_ = has_blanks(line, separator_);
    error_ = map_.lack("the log has no column", *columns_);
    if (error_.empty() && !has_time(*columns_, map_)) {
      error_ = "no column is the time; expected --field time=COLUMN with one of: " +
               FieldMap::shown(*columns_);
    }
    return LineFault::kHeader;
  }
  begin_fields(out, extras);
  CsvFields fields(line, separator_);
  std::size_t column = 0;
  for (std::string_view field; fields.next(field); ++column) {
    if (column == columns_->size()) return LineFault::kColumns;
    if (has_blanks_ && !fields.is_quoted()) field = base::trimmed(field);
    add((*columns_)[column], fields.doubled() ? extras.copy(base::undoubled(field)) : field);
  }
  if (!fields.error().empty()) return LineFault::kOpenField;
  if (column < columns_->size()) return LineFault::kColumns;
  return finish_fields(false);
}

namespace {

// The quoted fields of Envoy, by their positions.
constexpr std::size_t kForwarded = 0, kAgent = 1, kRequestId = 2, kAuthority = 3, kQuotedFields = 4;
using QuotedRun = std::array<std::string_view, kQuotedFields>;

// Finds the first four quoted fields that follow each other.
LineFault read_quoted_run(LineCursor& cursor, QuotedRun& out) noexcept {
  std::size_t found = 0;
  while (found < kQuotedFields) {
    if (cursor.left() == 0) return LineFault::kNoEnvoyNumbers;
    if (!cursor.eat("\"")) {
      cursor.word();
      found = 0;
      continue;
    }
    out[found] = cursor.quoted();
    if (out[found].data() == nullptr) return LineFault::kOpenField;
    ++found;
    cursor.eat(" ");
  }
  return LineFault::kNone;
}

// The last address of the header, without its port.
std::string_view last_address(std::string_view forwarded) noexcept {
  const std::string_view last = forwarded.substr(forwarded.rfind(',') + 1);
  return unless_dash(last.starts_with(' ') ? last.substr(1) : last);
}

// Reads a line of Envoy's default text format:
//
//   [2026-11-23T10:00:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "agent"
//   "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "example.org" "10.0.2.1:80"
//
// The client is the last address of X-Forwarded-For, which Envoy has added or checked. Fields
// before and after the quoted ones may differ, as in the default of Istio.
LineFault read_envoy_line(std::string_view line, LogTimeReader& times, LogLine& out,
                          LogExtras& extras) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) return LineFault::kEmpty;
  out = LogLine{};
  out.escaped = false;
  const std::size_t closing = line.find(']');
  if (!line.starts_with('[') || closing == line.npos) return LineFault::kNoEnvoyTime;
  const LineFault wrong_time = fault_of_time(times.read(line.substr(1, closing - 1), out.at));
  if (wrong_time != LineFault::kNone) return wrong_time;
  LineCursor cursor(line.substr(closing + 1));
  if (!cursor.eat(" \"")) return LineFault::kNoRequest;
  const std::string_view request = cursor.quoted();
  if (request.data() == nullptr) return LineFault::kOpenRequest;
  cursor.eat(" ");
  const std::string_view status = cursor.word();
  QuotedRun fields;
  if (const LineFault quoted = read_quoted_run(cursor, fields); quoted != LineFault::kNone) {
    return quoted;
  }
  read_request(request, out);
  out.status = unless_dash(status);
  out.client = last_address(fields[kForwarded]);
  out.user_agent = unless_dash(fields[kAgent]);
  out.fields_at = static_cast<std::uint32_t>(extras.fields.size());
  const auto add = [&](std::string_view name, std::string_view value) {
    if (unless_dash(value).data() != nullptr) extras.fields.push_back({name, value});
  };
  add("header.x-forwarded-for", fields[kForwarded]);
  add("header.x-request-id", fields[kRequestId]);
  add("host", fields[kAuthority]);
  out.fields_size = static_cast<std::uint32_t>(extras.fields.size()) - out.fields_at;
  extras.normalize_path(out);
  return LineFault::kNone;
}

using JsonError = boost::json::error_code;
using JsonText = boost::json::string_view;

}  // namespace

// Adds the values of a JSON text under the paths of their names. Boost.JSON calls it.
class LogParser::JsonHandler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  explicit JsonHandler(LogParser& parser) : parser_(parser) {}

  void begin(std::string_view line) {
    line_ = line;
    path_.clear();
    levels_.clear();
    parts_.clear();
  }

  bool on_document_begin(JsonError&) { return true; }
  bool on_document_end(JsonError&) { return true; }
  bool on_object_begin(JsonError&) { return open(); }
  bool on_object_end(std::size_t, JsonError&) { return close(); }
  bool on_array_begin(JsonError&) { return open(); }
  bool on_array_end(std::size_t, JsonError&) { return close(); }
  bool on_key_part(JsonText part, std::size_t, JsonError&) { return append(part); }
  bool on_key(JsonText last, std::size_t, JsonError&) {
    append(last);
    path_.resize(levels_.back());
    if (!path_.empty()) path_ += '.';
    path_ += parts_;
    parts_.clear();
    return true;
  }
  bool on_string_part(JsonText part, std::size_t, JsonError&) { return append(part); }
  bool on_string(JsonText last, std::size_t, JsonError&) { return text(last); }
  bool on_number_part(JsonText part, JsonError&) { return append(part); }
  bool on_int64(std::int64_t, JsonText last, JsonError&) { return text(last); }
  bool on_uint64(std::uint64_t, JsonText last, JsonError&) { return text(last); }
  bool on_double(double, JsonText last, JsonError&) { return text(last); }
  bool on_bool(bool value, JsonError&) {
    parser_.add(path_, value ? "true" : "false");
    return true;
  }
  bool on_null(JsonError&) {
    parser_.map_.note(path_);
    return true;
  }
  bool on_comment_part(JsonText, JsonError&) { return true; }
  bool on_comment(JsonText, JsonError&) { return true; }

 private:
  bool open() {
    levels_.push_back(path_.size());
    return true;
  }
  bool close() {
    path_.resize(levels_.back());
    levels_.pop_back();
    return true;
  }
  bool append(JsonText part) {
    parts_.append(part.data(), part.size());
    return true;
  }
  // Adds a value whose last part this is. Text of the line is borrowed, other text copied.
  bool text(JsonText last) {
    std::string_view value(last.data(), last.size());
    if (!parts_.empty()) {
      append(last);
      value = parser_.extras_->copy(parts_);
      parts_.clear();
    } else if (last.data() < line_.data() || last.data() > line_.data() + line_.size()) {
      value = parser_.extras_->copy(value);
    }
    parser_.add(path_, value);
    return true;
  }

  LogParser& parser_;
  std::string_view line_;
  std::string path_;                 // of the value
  std::vector<std::size_t> levels_;  // the sizes of the paths of the open objects and arrays
  std::string parts_;                // of a key or a value that the parser passes in parts
};

namespace {

constexpr boost::json::parse_options parse_options() {
  boost::json::parse_options options;
  options.allow_invalid_utf8 = true;  // servers log the bytes of clients
  return options;
}

}  // namespace

LogParser::LogParser(FieldMap& map)
    : map_(map),
      json_(std::make_unique<boost::json::basic_parser<JsonHandler>>(parse_options(), *this)) {}
LogParser::~LogParser() = default;

LineFault LogParser::read_json(std::string_view line, LogLine& out, LogExtras& extras) {
  const std::size_t end = line.find_last_not_of(" \t\r");
  if (end == line.npos) return LineFault::kEmpty;
  line = line.substr(0, end + 1);
  if (line.find_first_not_of(" \t") != line.find('{')) return LineFault::kMalformedJson;
  json_->reset();
  begin_fields(out, extras);
  json_->handler().begin(line);
  JsonError error;
  const std::size_t read = json_->write_some(false, line.data(), line.size(), error);
  if (error || read != line.size()) return LineFault::kMalformedJson;
  return finish_fields(true);
}

namespace {

constexpr std::array<std::string_view, 4> kNames{"common", "envoy", "json", "csv"};
constexpr std::array<std::string_view, 4> kTitles{"Common or Combined Log Format",
                                                  "Envoy's text format", "JSON lines", "CSV"};

// Returns the format that a line has by itself. No line shows that it is CSV.
std::optional<LogFormat> format_of_line(std::string_view line) {
  if (line.starts_with('{')) return LogFormat::kJson;
  LogLine read;
  if (line.starts_with('[')) {
    const bool has_time = line.size() > 5 && line[5] == '-' && line.find("] \"") != line.npos;
    return has_time ? std::optional(LogFormat::kEnvoy) : std::nullopt;
  }
  LogTimeReader times;
  return read_access_line(line, times, read) == LineFault::kNone ? std::optional(LogFormat::kCommon)
                                                                 : std::nullopt;
}

}  // namespace

std::string_view to_string(LogFormat format) noexcept {
  return kNames[static_cast<std::size_t>(format)];
}

std::string_view title_of(LogFormat format) noexcept {
  return kTitles[static_cast<std::size_t>(format)];
}

std::optional<LogFormat> log_format_of(std::string_view name) noexcept {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? std::nullopt
                               : std::optional(static_cast<LogFormat>(found - kNames.begin()));
}

std::string_view without_byte_order_mark(std::string_view log) noexcept {
  return log.substr(log.starts_with(base::kByteOrderMark) ? base::kByteOrderMark.size() : 0);
}

LogFormat detect_format(std::string_view text, const FieldMap& map) {
  constexpr int kLines = 20;
  text = without_byte_order_mark(text);
  std::array<int, kNames.size()> found{};
  std::string_view rest = text;
  for (int i = 0; i < kLines && !rest.empty(); ++i) {
    if (const auto format = format_of_line(base::take_until(rest, '\n'))) {
      ++found[static_cast<std::size_t>(*format)];
    }
  }
  const auto* const most = std::max_element(found.begin(), found.end());
  if (*most > 0) return static_cast<LogFormat>(most - found.begin());
  return has_header(text, map) ? LogFormat::kCsv : LogFormat::kCommon;
}

namespace {

// Returns the error if --field names a field that a log of this format never has; else empty.
std::string lack_of(LogFormat format, const FieldMap& map) {
  if (format == LogFormat::kEnvoy && map.has_names()) {
    return "--field names fields of JSON and CSV logs, and the format of this log is " +
           std::string(title_of(format));
  }
  if (format != LogFormat::kCommon) return "";
  for (const FieldTarget& user : map.find(kUserField)) {
    if (user.kind == FieldKind::kAttribute) continue;
    return "--field: the user of an access log can be an attribute that the log lacks, such as "
           "header.x-user=remote_user";
  }
  return map.lack(
      "--field names fields of JSON and CSV logs, and the user of Common and Combined ones; "
      "the log has no field",
      std::array{std::string(kUserField)});
}

}  // namespace

void LogParser::begin(LogFormat format) {
  format_ = format;
  error_ = lack_of(format, map_);
  if (format != LogFormat::kCommon) return;
  user_ = map_.find(kUserField);
  if (!user_.empty()) map_.note(kUserField);
}

void LogParser::add_user(LogLine& out, LogExtras& extras) {
  std::string_view user = out.user;
  if (user.find('\\') != user.npos) {
    undo_log_escapes(user, user_text_);
    user = extras.copy(user_text_);
  }
  out.fields_at = static_cast<std::uint32_t>(extras.fields.size());
  for (const FieldTarget& target : user_) extras.fields.push_back({target.name, user});
  out.fields_size = static_cast<std::uint32_t>(user_.size());
}

LineFault LogParser::read_other(std::string_view line, LogLine& out, LogExtras& extras) {
  if (format_ == LogFormat::kEnvoy) return read_envoy_line(line, times_, out, extras);
  return format_ == LogFormat::kJson ? read_json(line, out, extras) : read_csv(line, out, extras);
}

LineFault LogParser::look_again(std::string_view line, LineFault fault) {
  const std::optional<LogFormat> format = format_of_line(line);
  if (!format || *format == format_ || fault == LineFault::kHeader) return fault;
  if (*format == LogFormat::kJson) return LineFault::kIsJsonLine;
  return *format == LogFormat::kEnvoy ? LineFault::kIsEnvoyLine : LineFault::kIsAccessLine;
}

}  // namespace sluice::replay
