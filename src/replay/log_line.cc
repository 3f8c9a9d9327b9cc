#include "replay/log_line.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/quoted.h"
#include "base/request_target.h"

namespace sluice::replay {
namespace {

// Returns the number of two digits, or a negative number.
int two_digits(const char* text) noexcept {
  const unsigned tens = static_cast<unsigned char>(text[0]) - unsigned{'0'};
  const unsigned ones = static_cast<unsigned char>(text[1]) - unsigned{'0'};
  return tens > 9 || ones > 9 ? -1 : static_cast<int>(tens * 10 + ones);
}

// Returns 1 to 12, or 0.
unsigned month_of(const char* text) noexcept {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  for (std::size_t i = 0; i < 12; ++i) {
    if (std::memcmp(kMonths.data() + i * 3, text, 3) == 0) return static_cast<unsigned>(i + 1);
  }
  return 0;
}

bool punctuated(const char* text) noexcept {
  return text[2] == '/' && text[6] == '/' && text[11] == ':' && text[14] == ':' &&
         text[17] == ':' && text[20] == ' ' && (text[21] == '+' || text[21] == '-');
}

}  // namespace

TimestampFault LogTimeReader::read_access(const char* text, Instant& at) noexcept {
  if (std::memcmp(text, last_, kAccessLength) == 0) {
    at = last_at_;
    return TimestampFault::kNone;
  }
  if (!punctuated(text)) return TimestampFault::kMalformed;
  const bool same_day = std::memcmp(text, day_.data(), day_.size()) == 0 &&
                        std::memcmp(text + 20, zone_.data(), zone_.size()) == 0;
  if (!same_day) {
    if (const auto fault = read_day(text); fault != TimestampFault::kNone) return fault;
  }
  return read_time(text, at);
}

TimestampFault LogTimeReader::read_time(const char* text, Instant& at) noexcept {
  const int hour = two_digits(text + 12);
  const int minute = two_digits(text + 15);
  const int second = two_digits(text + 18);
  if (std::min({hour, minute, second}) < 0) return TimestampFault::kMalformed;
  if (hour > 23 || minute > 59 || second > 60) return TimestampFault::kNoSuchDate;
  const std::chrono::seconds since = std::chrono::seconds{day_start_seconds_} +
                                     std::chrono::hours{hour} + std::chrono::minutes{minute} +
                                     std::chrono::seconds{second};
  const Instant instant{since};
  if (instant < kFirstInstant || instant > kLastInstant) return TimestampFault::kOutOfRange;
  std::memcpy(last_, text, kAccessLength);
  last_at_ = instant;
  at = instant;
  return TimestampFault::kNone;
}

TimestampFault LogTimeReader::read_day(const char* text) noexcept {
  const int day = two_digits(text);
  const int century = two_digits(text + 7);
  const int year = two_digits(text + 9);
  const int zone_hours = two_digits(text + 22);
  const int zone_minutes = two_digits(text + 24);
  if (std::min({day, century, year, zone_hours, zone_minutes}) < 0) {
    return TimestampFault::kMalformed;
  }
  const std::chrono::year_month_day date{std::chrono::year{century * 100 + year},
                                         std::chrono::month{month_of(text + 3)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok() || zone_hours > 23 || zone_minutes > 59) return TimestampFault::kNoSuchDate;
  const std::chrono::seconds midnight = std::chrono::sys_days{date}.time_since_epoch();
  const int offset = (zone_hours * 60 + zone_minutes) * 60;
  day_start_seconds_ = midnight.count() + (text[21] == '-' ? offset : -offset);
  std::copy_n(text, day_.size(), day_.begin());
  std::copy_n(text + 20, zone_.size(), zone_.begin());
  return TimestampFault::kNone;
}

bool LogTimeReader::has_zone(std::string_view text) noexcept {
  constexpr std::size_t kDate = 10;  // of ISO 8601
  const bool is_iso = text.size() > kDate && text[4] == '-';
  return !is_iso || text.find_first_of("Zz+-", kDate) != text.npos;
}

TimestampFault LogTimeReader::read(std::string_view text, Instant& at) noexcept {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.size() == kAccessLength && text[2] == '/') {
    return read_access(text.data(), at);
  }
  return text.size() > 4 && text[4] == '-' ? base::read_iso8601(text, at)
                                           : base::read_unix_time(text, at);
}

namespace {

using base::is_digit;

bool looks_like_address(std::string_view word) noexcept {
  const auto part_of_address = [](char c) {
    return base::hex_digit(c) >= 0 || c == '.' || c == ':';
  };
  return word.find_first_of(".:") != word.npos &&
         std::all_of(word.begin(), word.end(), part_of_address);
}

// Reads the words between the client and the timestamp: ident and user. The user may contain spaces
// and brackets. Leaves the cursor after the timestamp's bracket.
LineFault read_user(LineCursor& cursor, LogLine& out) noexcept {
  if (cursor.eat("- - [")) return LineFault::kNone;
  const std::string_view ident = cursor.word();
  const std::string_view rest = cursor.rest();
  std::size_t bracket = rest.find(" [");
  if (bracket == rest.npos || bracket == 0) return LineFault::kNoTimestamp;
  constexpr std::size_t kToClosing = 2 + LogTimeReader::kAccessLength;
  while (bracket + kToClosing >= rest.size() || rest[bracket + kToClosing] != ']') {
    bracket = rest.find(" [", bracket + 2);  // this bracket is part of the user's name
    if (bracket == rest.npos) return LineFault::kMalformedTimestamp;
  }
  out.user = unless_dash(rest.substr(0, bracket));
  if (out.user == "\"\"") out.user = {};  // Apache, of an empty name
  cursor.skip(bracket + 2);
  return looks_like_address(ident) ? LineFault::kVirtualHost : LineFault::kNone;
}

LineFault line_fault_of(TimestampFault fault) noexcept {
  switch (fault) {
    case TimestampFault::kNone: return LineFault::kNone;
    case TimestampFault::kMalformed: return LineFault::kMalformedTimestamp;
    case TimestampFault::kNoSuchDate: return LineFault::kNoSuchDate;
    case TimestampFault::kOutOfRange: return LineFault::kOutOfRange;
  }
  return LineFault::kMalformedTimestamp;
}

// The bytes allowed in a method's name: tokens of RFC 9110.
constexpr std::array<bool, 256> kMethodBytes = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view("!#$%&'*+-.^_`|~0123456789")) {
    table[static_cast<unsigned char>(c)] = true;
  }
  for (unsigned char c = 'A'; c <= 'Z'; ++c) table[c] = table[c + ('a' - 'A')] = true;
  return table;
}();

// Returns the length of the method at the front that a space follows, or 0.
std::size_t method_length(std::string_view request) noexcept {
  constexpr std::size_t kLongest = 32;
  std::size_t length = 0;
  while (length < request.size() && kMethodBytes[static_cast<unsigned char>(request[length])]) {
    ++length;
  }
  const bool ended = length < request.size() && request[length] == ' ';
  return ended && length <= kLongest ? length : 0;
}

// Returns the target without a protocol at its end.
std::string_view without_protocol(std::string_view target) noexcept {
  constexpr std::string_view kUsual = " HTTP/1.1";
  constexpr std::string_view kFamily = " HTTP/";
  if (target.size() > kUsual.size()) {
    // The protocol has three characters after its family. A space is not one of them.
    const std::string_view tail = target.substr(target.size() - kUsual.size());
    const bool has_space = tail[6] == ' ' || tail[7] == ' ' || tail[8] == ' ';
    if (tail.starts_with(kFamily) && !has_space) {
      return target.substr(0, target.size() - kUsual.size());
    }
  }
  const std::size_t last = target.rfind(' ');
  const bool protocol = last != target.npos && target.substr(last).starts_with(kFamily);
  return protocol ? target.substr(0, last) : target;
}

// Reads three digits or a dash, and the space after them unless the line ends.
bool read_status(LineCursor& cursor, LogLine& out) noexcept {
  const std::string_view rest = cursor.rest();
  if (rest.size() < 3 || !is_digit(rest[0]) || !is_digit(rest[1]) || !is_digit(rest[2])) {
    return cursor.eat("- ");
  }
  if (rest.size() > 3 && rest[3] != ' ') return false;
  out.status = rest.substr(0, 3);
  cursor.skip(std::min<std::size_t>(4, rest.size()));
  return true;
}

// Reads a number or a dash, and the space after it unless the line ends.
bool read_size(LineCursor& cursor) noexcept {
  const std::string_view rest = cursor.rest();
  std::size_t length = 0;
  while (length < rest.size() && is_digit(rest[length])) ++length;
  if (length == 0 && rest.starts_with('-')) length = 1;
  if (length == 0 || (length < rest.size() && rest[length] != ' ')) return false;
  cursor.skip(std::min(length + 1, rest.size()));
  return true;
}

// Reads the fields added by the Combined Log Format: none, the referer, or both.
LineFault read_combined(LineCursor& cursor, LogLine& out) noexcept {
  if (!cursor.eat("\"-\" \"")) {  // most lines have no referer
    if (!cursor.eat("\"")) return LineFault::kNone;
    const std::string_view referer = cursor.quoted();
    if (referer.data() == nullptr) return LineFault::kOpenReferer;
    out.referer = unless_dash(referer);
    if (!cursor.eat(" \"")) return LineFault::kNone;
  }
  const std::string_view user_agent = cursor.quoted();
  if (user_agent.data() == nullptr) return LineFault::kOpenUserAgent;
  out.user_agent = unless_dash(user_agent);
  return LineFault::kNone;
}

// Returns the byte that an escape of two characters represents, or 0.
char simple_escape(char c) noexcept {
  constexpr std::string_view kLetters = "\"\\nrtbvf";
  constexpr std::string_view kBytes = "\"\\\n\r\t\b\v\f";
  const std::size_t at = kLetters.find(c);
  return at == kLetters.npos ? '\0' : kBytes[at];
}

}  // namespace

void read_target(std::string_view target, LogLine& out) noexcept {
  const base::RequestTarget parts = base::split_target(target);
  out.path = parts.path.empty() ? std::string_view("/") : parts.path;
  if (parts.query.data() != nullptr) out.query = parts.query;
}

// A target may contain spaces that the client did not encode.
void read_request(std::string_view request, LogLine& out) noexcept {
  const std::size_t length = method_length(request);
  if (length == 0) return;
  const std::string_view target = without_protocol(request.substr(length + 1));
  if (target.empty()) return;
  out.method = request.substr(0, length);
  read_target(target, out);
}

LineFault read_access_line(std::string_view line, LogTimeReader& times, LogLine& out) noexcept {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) return LineFault::kEmpty;
  out = LogLine{};
  LineCursor cursor(line);
  const std::string_view client = cursor.word();
  if (client.empty() || (!base::is_letter(client[0]) && !is_digit(client[0]) && client[0] != ':' &&
                         client[0] != '-' && client[0] != '_')) {
    return LineFault::kNoClient;
  }
  out.client = unless_dash(client);
  if (const auto fault = read_user(cursor, out); fault != LineFault::kNone) return fault;
  constexpr std::size_t kLength = LogTimeReader::kAccessLength;
  if (cursor.left() <= kLength || cursor.rest()[kLength] != ']') {
    return LineFault::kMalformedTimestamp;
  }
  if (const auto fault = times.read_access(cursor.rest().data(), out.at);
      fault != TimestampFault::kNone) {
    return line_fault_of(fault);
  }
  cursor.skip(kLength);
  if (!cursor.eat("] \"")) return LineFault::kNoRequest;
  const std::string_view request = cursor.quoted();
  if (request.data() == nullptr) return LineFault::kOpenRequest;
  read_request(request, out);
  if (!cursor.eat(" ")) return LineFault::kNoStatus;
  if (!read_status(cursor, out)) return LineFault::kNoStatus;
  if (!read_size(cursor)) return LineFault::kNoSize;
  return read_combined(cursor, out);
}

std::string_view explain(LineFault fault) noexcept {
  switch (fault) {
    case LineFault::kNone: return "nothing is wrong";
    case LineFault::kEmpty: return "empty line; expected a request";
    case LineFault::kNoClient: return "no client; expected an address or a host name first";
    case LineFault::kVirtualHost:
      return "a virtual host comes first; remove it: cut -d' ' -f2- LOG";
    case LineFault::kNoTimestamp:
      return "no timestamp; expected CLIENT IDENT USER [20/Feb/2016:00:00:45 -0500]";
    case LineFault::kMalformedTimestamp:
      return "malformed timestamp; expected [20/Feb/2016:00:00:45 -0500]";
    case LineFault::kNoSuchDate:
      return "a date, time or zone that does not exist; expected [20/Feb/2016:00:00:45 -0500]";
    case LineFault::kOutOfRange: return "timestamp out of range; expected 1970 to 2112";
    case LineFault::kNoRequest:
      return "no request after the timestamp; expected \"GET /path HTTP/1.1\"";
    case LineFault::kOpenRequest: return "the request's quote is not closed";
    case LineFault::kNoStatus: return "no status after the request; expected three digits";
    case LineFault::kNoSize: return "no size after the status; expected a number or -";
    case LineFault::kOpenReferer: return "the referer's quote is not closed";
    case LineFault::kOpenUserAgent: return "the user agent's quote is not closed";
    case LineFault::kTooLong: return "line too long; expected at most 1 MiB";
    case LineFault::kNoEnvoyTime:
      return "no time; expected [2026-11-23T10:00:00.123Z] \"GET /path HTTP/2\" 200 …";
    case LineFault::kNoEnvoyNumbers:
      return "fields after the request are missing; expected the default format of Envoy";
    case LineFault::kOpenField: return "a quote is not closed; line breaks in fields are not read";
    case LineFault::kMalformedJson: return "malformed JSON; expected one object";
    case LineFault::kColumns: return "another number of columns than the header has";
    case LineFault::kNoTime: return "no time; name its field: --field time=FIELD";
    case LineFault::kMalformedTime:
      return "malformed time; expected 2026-11-23T10:00:00Z, seconds since 1970, or "
             "20/Feb/2016:00:00:45 -0500";
    case LineFault::kNoCost: return "a cost is not a whole number";
    case LineFault::kNoRequestFields:
      return "no field of a request; name the fields: --field path=FIELD --field ip=FIELD";
    case LineFault::kHeader: return "the names of the columns";
    case LineFault::kWithoutRules: return "a request that no rules decide";
    case LineFault::kIsAccessLine:
      return "this line has the Common or Combined Log Format, and the log another one; split it";
    case LineFault::kIsEnvoyLine:
      return "this line has the format of Envoy, and the log another one; split it";
    case LineFault::kIsJsonLine: return "this line is JSON, and the log is not; split it";
  }
  return "unknown";
}

void undo_log_escapes(std::string_view logged, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < logged.size(); ++i) {
    if (logged[i] != '\\' || i + 1 == logged.size()) {
      out.push_back(logged[i]);
      continue;
    }
    const char next = logged[i + 1];
    if (const char byte = simple_escape(next); byte != '\0') {
      out.push_back(byte);
      ++i;
    } else if (const int hex = next == 'x' && i + 3 < logged.size()
                                   ? base::hex_byte(logged[i + 2], logged[i + 3])
                                   : -1;
               hex >= 0) {
      out.push_back(static_cast<char>(hex));
      i += 3;
    } else {
      out.push_back('\\');
    }
  }
}

}  // namespace sluice::replay
