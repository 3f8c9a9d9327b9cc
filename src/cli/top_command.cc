#include "cli/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/admin_client.h"
#include "cli/command.h"
#include "replay/text.h"
#include "rules/diagnostics.h"

namespace sluice::cli {

namespace {

using boost::json::object;

void read_keys(const object& json, TopSample& sample) {
  sample.seconds = number_in(json, "seconds");
  // Denials of keys may be of the time before the rule was switched to shadow mode.
  const auto would_deny = [&](const object& limit) {
    const auto found = sample.counts.find({text_in(limit, "rule"), text_in(limit, "limit")});
    return found != sample.counts.end() && found->second.shadow > 0;
  };
  each_object(json, "limits", [&](const object& limit) {
    each_object(limit, "keys", [&](const object& key) {
      sample.keys.push_back({text_in(limit, "rule"), text_in(limit, "limit"), text_in(key, "key"),
                             number_in(key, "count"), number_in(key, "error"),
                             is_true(limit, "shadow") && would_deny(limit)});
    });
  });
}

void sort_top(TopSample& sample) {
  std::stable_sort(sample.keys.begin(), sample.keys.end(), [](const TopRow& a, const TopRow& b) {
    return a.count - a.error > b.count - b.error;
  });
  std::stable_sort(sample.parts.begin(), sample.parts.end(),
                   [](const TopPart& a, const TopPart& b) { return a.demand > b.demand; });
}

double real_in(const object& json, std::string_view name) {
  const auto* const found = json.if_contains(name);
  return found != nullptr && found->is_number() ? found->to_number<double>() : 0;
}

void read_parts(const object& quota, TopSample& sample) {
  each_object(quota, "counters", [&](const object& counter) {
    each_object(counter, "parts", [&](const object& part) {
      sample.parts.push_back({.rule = text_in(counter, "rule"),
                              .limit = text_in(counter, "limit"),
                              .key = text_in(counter, "key"),
                              .peer = text_in(part, "peer"),
                              .demand = real_in(part, "demand_per_second"),
                              .part = real_in(part, "part_per_second"),
                              .whole = real_in(counter, "units_per_second"),
                              .expires_ms = number_in(part, "expires_ms")});
    });
  });
  if (sample.parts.empty()) sample.no_parts = "no proxy has a part of a limit (docs/quota.md)";
}

// Throws Failed: why there is no answer, or that the server refused.
TopSample read_top(AdminClient& client, const insight::TopKeysQuery& query, bool quota) {
  TopSample sample;
  sample.at = std::chrono::steady_clock::now();
  const object status = client.ask_json("GET", "/v1/status?limits=true");
  each_object(status, "limits", [&](const object& rule) {
    if (is_true(rule, "shadow")) sample.shadow.insert(text_in(rule, "rule"));
  });
  sample.server = server_line(status);
  sample.trouble = trouble_of(status, SystemClock::instance().now());
  sample.counts = read_counts(client.ask("GET", "/metrics").body);
  if (quota) {
    read_parts(client.ask_json("GET", "/v1/quota"), sample);
  } else if (const auto top =
                 client.ask("GET", "/v1/top?count=100&by=" + std::string(name_of(query.by)) +
                                       "&over=" + std::string(name_of(query.over)));
             top.status != 200) {
    sample.no_keys = client.refusal(top);
  } else if (const auto found = json_of(top)) {
    read_keys(*found, sample);
  }
  sort_top(sample);
  return sample;
}

void grow(std::uint64_t& sum, std::uint64_t before, std::uint64_t now) {
  sum += now < before ? now : now - before;
}

void grow(RequestCounts& sum, const RequestCounts& before, const RequestCounts& now) {
  grow(sum.requests, before.requests, now.requests);
  grow(sum.denied, before.denied, now.denied);
  grow(sum.failed, before.failed, now.failed);
  grow(sum.shadow, before.shadow, now.shadow);
  grow(sum.skipped, before.skipped, now.skipped);
}

void add_keys(std::vector<TopRow>& sum, std::vector<TopRow> keys) {
  for (TopRow& key : keys) {
    const auto same = std::ranges::find_if(sum, [&](const TopRow& one) {
      return one.key == key.key && one.limit == key.limit && one.rule == key.rule;
    });
    if (same == sum.end()) {
      sum.push_back(std::move(key));
      continue;
    }
    same->count += key.count;
    same->error += key.error;
    same->is_shadow = same->is_shadow || key.is_shadow;
  }
}

}  // namespace

void TopSum::add(const std::string& address, TopSample sample) {
  const auto known = last_.find(address);
  for (const auto& [names, now] : sample.counts) {
    RequestCounts& sum = counts_[names];
    if (known == last_.end()) continue;
    const auto before = known->second.find(names);
    grow(sum, before == known->second.end() ? RequestCounts{} : before->second, now);
  }
  last_.insert_or_assign(address, std::move(sample.counts));
  sum_.shadow.merge(sample.shadow);
  sum_.server += (sum_.server.empty() ? "servers: " : ", ") + replay::printable(address);
  for (std::string& line : sample.trouble) {
    const bool begins = !line.starts_with(' ');
    sum_.trouble.push_back(begins ? replay::printable(address) + ": " + line : std::move(line));
  }
  add_keys(sum_.keys, std::move(sample.keys));
  sum_.no_keys = std::move(sample.no_keys);
  sum_.seconds = std::max(sum_.seconds, sample.seconds);
  std::ranges::move(sample.parts, std::back_inserter(sum_.parts));
  sum_.no_parts = std::move(sample.no_parts);
}

void TopSum::fail(const std::string& address, std::string_view why) {
  sum_.trouble.push_back(replay::printable(address + ": " + std::string(why)));
}

TopSample TopSum::take() {
  sum_.at = std::chrono::steady_clock::now();
  sum_.counts = counts_;
  sort_top(sum_);
  if (!sum_.keys.empty()) sum_.no_keys.clear();
  if (!sum_.parts.empty()) sum_.no_parts.clear();
  return std::exchange(sum_, {});
}

namespace {

constexpr std::array<std::string_view, 3> kSortNames = {"denied", "requests", "name"};
constexpr char kEscape = '\x1b';
constexpr char kDelete = '\x7f';
constexpr std::size_t kRuleColumns = 28;

std::string rate_text(double rate) {
  if (rate < 100) return replay::decimal(rate, 1);
  return replay::grouped(static_cast<std::uint64_t>(std::llround(rate)));
}

std::string share_text(double part, double whole) {
  return whole <= 0 ? "-" : replay::decimal(100 * part / whole, 1) + " %";
}

std::string rates_line(std::string_view name, double requests, double denied, double failed,
                       double skipped) {
  return replay::pad_right(replay::printable(name, kRuleColumns), kRuleColumns) +
         replay::pad_left(rate_text(requests), 11) + replay::pad_left(rate_text(denied), 10) +
         replay::pad_left(share_text(denied, requests), 9) +
         replay::pad_left(rate_text(failed), 10) + replay::pad_left(rate_text(skipped), 11);
}

// The enumerator after this one; the first one after the last.
template <typename Enum, std::size_t N>
Enum next(Enum value, const std::array<std::string_view, N>& /*names*/) {
  return static_cast<Enum>((static_cast<std::size_t>(value) + 1) % N);
}

std::string shown_name(const std::string& rule) { return rule.empty() ? "(no rule)" : rule; }

}  // namespace

void TopView::add(TopSample sample) {
  if (is_paused_) return;
  error_.clear();
  before_ = std::move(last_);
  last_ = std::move(sample);
}

TopView::Pressed TopView::press(std::string_view bytes) {
  if (bytes.size() > 1 && bytes[0] == kEscape) return Pressed::kNothing;  // an arrow or the like
  Pressed result = Pressed::kNothing;
  for (const char key : bytes) {
    const Pressed one = is_typing_ ? type(key) : press_one(key);
    if (one == Pressed::kQuit) return one;
    result = std::max(result, one);
  }
  return result;
}

TopView::Pressed TopView::press_one(char key) {
  switch (key) {
    case 'q':
    case 'Q': return Pressed::kQuit;
    case 'p':
    case ' ': is_paused_ = !is_paused_; return is_paused_ ? Pressed::kRedraw : Pressed::kAsk;
    case 's': sort_ = next(sort_, kSortNames); return Pressed::kRedraw;
    case 'b': query_.by = next(query_.by, insight::kTopByNames); return Pressed::kAsk;
    case 'w': query_.over = next(query_.over, insight::kSpanNames); return Pressed::kAsk;
    case '/': is_typing_ = true; return Pressed::kRedraw;
    case kEscape: filter_.clear(); return Pressed::kRedraw;
    default: return Pressed::kNothing;
  }
}

TopView::Pressed TopView::type(char key) {
  if (key == '\n' || key == '\r') {
    is_typing_ = false;
  } else if (key == kEscape) {
    is_typing_ = false;
    filter_.clear();
  } else if (key == kDelete || key == '\b') {
    while (!filter_.empty() && (static_cast<unsigned char>(filter_.back()) & 0xC0) == 0x80) {
      filter_.pop_back();
    }
    if (!filter_.empty()) filter_.pop_back();
  } else if (static_cast<unsigned char>(key) >= 0x20) {
    filter_ += key;
  }
  return Pressed::kRedraw;
}

bool TopView::is_shown(std::string_view text) const { return text.find(filter_) != text.npos; }

// A counter that is less than before belongs to a server that was started again.
std::vector<TopView::Rates> TopView::rates() const {
  std::vector<Rates> all;
  if (!last_ || !before_) return all;
  const double seconds = std::chrono::duration<double>(last_->at - before_->at).count();
  if (seconds <= 0) return all;
  const auto rate = [&](std::uint64_t now, std::uint64_t then) {
    return now < then ? 0 : static_cast<double>(now - then) / seconds;
  };
  for (const auto& [names, now] : last_->counts) {
    const auto then = before_->counts.find(names);
    const RequestCounts from = then == before_->counts.end() ? RequestCounts{} : then->second;
    if (all.empty() || all.back().rule != names.first) all.push_back({.rule = names.first});
    Rates& of_rule = all.back();
    of_rule.skipped += rate(now.skipped, from.skipped);
    if (!names.second.empty()) continue;  // the rest is of the requests of the rule
    of_rule.requests = rate(now.requests, from.requests);
    of_rule.denied = rate(now.denied, from.denied);
    of_rule.failed = rate(now.failed, from.failed);
    const bool is_shadow = last_->shadow.contains(names.first);
    of_rule.shown = is_shadow ? rate(now.shadow, from.shadow) : of_rule.denied;
  }
  const auto is_first = [this](const Rates& a, const Rates& b) {
    if (sort_ == Sort::kName) return a.rule < b.rule;
    return sort_ == Sort::kDenied ? a.shown > b.shown : a.requests > b.requests;
  };
  std::stable_sort(all.begin(), all.end(), is_first);
  return all;
}

// Breaks a line between words. What follows the first part is indented; after four parts it is cut.
std::vector<std::string> parts_of(const std::string& line, std::size_t width) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> parts(1);
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at + 1), line.size());
    const std::string word = line.substr(at, end - at);  // with the space before it
    const bool fits = replay::columns_of(parts.back()) + replay::columns_of(word) <= width;
    if (fits || parts.size() == kMost || parts.back().find_first_not_of(' ') == word.npos) {
      parts.back() += word;
    } else {
      parts.push_back("   " + word);
    }
    at = end;
  }
  return parts;
}

std::vector<std::string> TopView::head(std::size_t width) const {
  std::vector<std::string> lines;
  if (last_) {
    for (const std::string& line : last_->trouble) {
      std::ranges::move(parts_of(line, width), std::back_inserter(lines));
    }
  }
  lines.push_back((is_paused_ ? "[paused]  " : "") + (last_ ? last_->server : "sluice top"));
  if (!error_.empty()) lines.push_back("error: " + replay::printable(error_));
  return lines;
}

std::vector<std::string> TopView::rule_lines() const {
  std::vector<std::string> lines = {replay::pad_right("RULE", kRuleColumns) +
                                    " REQUESTS/S  DENIED/S   DENIED  FAILED/S  SKIPPED/S"};
  Rates sum;
  std::vector<std::string> rules;
  for (const Rates& one : rates()) {
    sum.requests += one.requests;
    sum.denied += one.denied;
    sum.failed += one.failed;
    sum.skipped += one.skipped;
    if (one.rule.empty() && one.requests <= 0) continue;
    std::string name = shown_name(one.rule);
    if (!is_shown(name)) continue;
    if (last_->shadow.contains(one.rule)) {
      constexpr std::string_view kMark = " (would deny)";
      name = replay::printable(name, kRuleColumns - kMark.size()).append(kMark);
    }
    rules.push_back(rates_line(name, one.requests, one.shown, one.failed, one.skipped));
  }
  lines.push_back(rates_line("(all)", sum.requests, sum.denied, sum.failed, sum.skipped));
  lines.insert(lines.end(), rules.begin(), rules.end());
  return lines;
}

std::vector<std::string> TopView::part_lines(std::size_t width) const {
  const std::string title = "PARTS OF PROXIES, in units a second";
  if (!last_) return {title};
  if (!last_->no_parts.empty()) return {title, last_->no_parts};
  const std::size_t columns = std::max<std::size_t>(width, 90) - 84;
  std::vector<std::string> lines = {title, "    DEMAND      PART     SHARE  EXPIRES  " +
                                               replay::pad_right("PROXY", 22) + "  " +
                                               replay::pad_right("RULE/LIMIT", 20) + "  KEY"};
  for (const TopPart& one : last_->parts) {
    const std::string place = rules::full_name(one.rule, one.limit);
    if (!is_shown(place) && !is_shown(one.key) && !is_shown(one.peer)) continue;
    const std::string expires = replay::decimal(static_cast<double>(one.expires_ms) / 1000, 1);
    lines.push_back(replay::pad_left(rate_text(one.demand), 10) +
                    replay::pad_left(rate_text(one.part), 10) +
                    replay::pad_left(share_text(one.part, one.whole), 10) +
                    replay::pad_left(expires + " s", 9) + "  " +
                    replay::pad_right(replay::printable(one.peer, 22), 22) + "  " +
                    replay::pad_right(replay::printable(place, 20), 20) + "  " +
                    replay::printable(one.key, columns));
  }
  return lines;
}

std::vector<std::string> TopView::key_lines(std::size_t width) const {
  if (quota_) return part_lines(width);
  const std::string what = query_.by == insight::TopBy::kAsked ? "ASKED" : "DENIED";
  std::string title = "MOST " + what + " KEYS, last " + std::string(name_of(query_.over));
  if (!last_) return {title};
  if (!last_->no_keys.empty()) return {title, replay::printable(last_->no_keys)};
  title += " (" + std::to_string(last_->seconds) + " s)";
  // A narrow screen keeps the keys, not the columns that follow from COUNT.
  const bool is_narrow = width < 80;
  const std::size_t places = is_narrow ? std::clamp<std::size_t>(width, 24, 64) / 2 - 8 : 24;
  const std::size_t key_columns =
      is_narrow ? std::max<std::size_t>(width, 24) - 16 - places : width - 59;
  std::vector<std::string> lines = {title, std::string("       COUNT") +
                                               (is_narrow ? "" : "     ERROR    PER S") + "  " +
                                               replay::pad_right("RULE/LIMIT", places) + "  KEY"};
  for (const TopRow& row : last_->keys) {
    const std::string place = rules::full_name(shown_name(row.rule), row.limit);
    if (!is_shown(place) && !is_shown(row.key)) continue;
    const double seconds = static_cast<double>(std::max<std::uint64_t>(last_->seconds, 1));
    const std::string mark = row.is_shadow ? "(now shadow) " : "";
    std::string line = replay::pad_left(replay::grouped(row.count), 12);
    if (!is_narrow) {
      line += replay::pad_left(replay::grouped(row.error), 10) +
              replay::pad_left(rate_text(static_cast<double>(row.count) / seconds), 9);
    }
    line += "  " + replay::pad_right(replay::printable(place, places), places) + "  " + mark;
    lines.push_back(
        line + replay::printable(row.key, key_columns - std::min(key_columns - 1, mark.size())));
  }
  return lines;
}

std::vector<std::string> TopView::report(std::size_t width) const {
  std::vector<std::string> lines = head(std::string::npos);
  for (auto& line : rule_lines()) lines.push_back(std::move(line));
  for (auto& line : key_lines(width)) lines.push_back(std::move(line));
  return lines;
}

// The rules get at most half of the screen. The last line is for the keyboard.
std::vector<std::string> TopView::screen(std::size_t width, std::size_t height) const {
  std::vector<std::string> lines = head(width);
  lines.emplace_back();
  const auto add = [&](std::vector<std::string> some, std::size_t most) {
    for (std::size_t i = 0; i < std::min(most, some.size()); ++i) lines.push_back(some[i]);
  };
  const std::vector<std::string> keys = key_lines(width);
  const std::size_t room = height > lines.size() + 3 ? height - lines.size() - 3 : 0;
  const std::vector<std::string> of_rules = rule_lines();
  const std::size_t most = std::max(room / 2, room > keys.size() ? room - keys.size() : 0);
  add(of_rules, most);
  const std::size_t shown = std::max<std::size_t>(most, 2);  // the names of the columns, and (all)
  lines.push_back(
      of_rules.size() > shown ? "... " + replay::plural(of_rules.size() - shown, "more rule") : "");
  add(keys, height > lines.size() + 1 ? height - lines.size() - 1 : 0);
  lines.resize(std::max<std::size_t>(height, 1) - 1);
  std::string last = "q quit  s sort: " + std::string(kSortNames[static_cast<std::size_t>(sort_)]) +
                     "  b by: " + std::string(name_of(query_.by)) +
                     "  w over: " + std::string(name_of(query_.over)) + "  p pause  / filter";
  if (is_typing_ || !filter_.empty()) last += ": " + replay::printable(filter_);
  if (is_typing_) last += "_";
  lines.push_back(last);
  for (std::string& line : lines) line = replay::printable(line, width);
  return lines;
}

namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // another screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::array<int, 4> kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// Signal handlers have no other way to know them. Set before the handlers are installed.
// NOLINTNEXTLINE(*-avoid-non-const-global-variables)
termios terminal_before, terminal_during;

// Only uses functions that a signal handler may call.
void write_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void enter_screen() {
  ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal_during);
  write_text(kEnter);
}

void leave_screen() {
  write_text(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
}

// Restores the terminal, and lets the signal do what it does by default after the handler.
void end_by(int signal) {
  leave_screen();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void stop_by(int) {
  const int error = errno;
  leave_screen();
  ::kill(::getpid(), SIGSTOP);
  errno = error;
}

void continue_by(int) {
  const int error = errno;
  enter_screen();
  errno = error;
}

void do_nothing(int) {}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

// The terminal of standard input and output, used as a whole screen. The destructor, a signal that
// ends the process, and one that stops it restore what was there.
//
// Not thread-safe; one at a time. It handles SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT and
// SIGWINCH while it exists.
class Terminal {
 public:
  // Errors: std::system_error if standard input is no terminal.
  Terminal() {
    if (::tcgetattr(STDIN_FILENO, &terminal_before) != 0) {
      throw std::system_error(errno, std::generic_category(), "standard input is no terminal");
    }
    terminal_during = terminal_before;
    terminal_during.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    for (const int signal : kEnding) handle(signal, end_by);
    handle(SIGTSTP, stop_by);
    handle(SIGCONT, continue_by);
    handle(SIGWINCH, do_nothing);
    enter_screen();
  }
  ~Terminal() {
    leave_screen();
    for (const int signal : kEnding) std::signal(signal, SIG_DFL);
    for (const int signal : {SIGTSTP, SIGCONT, SIGWINCH}) std::signal(signal, SIG_DFL);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
};

// Returns whether both streams are a terminal that can show a screen.
bool has_terminal() {
  const char* const kind = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

void find_size(std::size_t& width, std::size_t& height) {
  winsize found{};
  const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) == 0 && found.ws_col > 0;
  width = is_known ? found.ws_col : 80;
  height = is_known ? found.ws_row : 24;
}

// Replaces the screen. The lines must not have control characters.
void draw(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\r\n";
    text += lines[i] + "\x1b[K";
  }
  write_text(text + "\x1b[J");
}

// Waits for the keyboard. Returns what it sent; an empty text after the time, and after a change
// of the size or a stop of the process, when the screen is to be drawn again. `has_ended` is set
// if there is no keyboard any more.
std::string read_keyboard(int timeout_ms, bool& has_ended) {
  pollfd keyboard{STDIN_FILENO, POLLIN, 0};
  if (::poll(&keyboard, 1, timeout_ms) <= 0) return {};
  std::array<char, 256> bytes{};
  const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  has_ended = size == 0 || (size < 0 && errno != EINTR);
  return size > 0 ? std::string(bytes.data(), static_cast<std::size_t>(size)) : std::string();
}

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kTopHelp =
    R"(Show what happens per second by rule, and the most denied or most asked keys (docs/see.md), of
a running server: requests, denials, requests that the store failed to decide, and limits that were
skipped because an attribute was missing. A rule in shadow mode is marked (would deny), and its
denials are those that it would have made; its keys are marked (now shadow). With --quota, instead of
keys the parts of limits that proxies have (docs/quota.md). An outage is in the first lines. If standard
output is no terminal, or with --once or --reports, the output is plain text. Several --admin show the sum of
these servers; one that does not answer is named.

Keys: q quits; s sorts rules by denials, requests or name; b shows denied or asked keys; w selects
the last minute, hour or day; p pauses; / filters rules and keys, Enter ends and Escape removes the
filter.

Exit status: 0 success; 1 the server does not answer; 2 wrong usage.

Examples:
  sluice top
  sluice top --admin unix:/run/sluice/admin.sock --sort asked --over hour
  sluice top --admin 10.0.0.1:6070 --admin 10.0.0.2:6070
  sluice top --quota
  sluice top --once --interval 10 > report.txt)";

constexpr std::size_t kReportColumns = 160;

struct TopFlags {
  std::shared_ptr<AdminFlags> admin;
  std::vector<std::string> servers;
  double interval = 2;
  std::uint64_t reports = 0;  // 0: no end
  bool once = false;
  bool quota = false;
  std::string by = "denied";
  std::string over = "minute";

  insight::TopKeysQuery query() const {
    return {.by = *insight::read_top_by(by), .over = *insight::read_span(over)};
  }
  milliseconds period() const { return milliseconds(static_cast<int>(interval * 1000)); }
};

// The servers that are asked again and again.
class TopServers {
 public:
  explicit TopServers(const TopFlags& flags) {
    if (flags.servers.empty()) servers_.push_back({*flags.admin, nullptr, {}});
    for (const std::string& address : flags.servers) {
      servers_.push_back({flags_of(*flags.admin, flags.servers, address), nullptr, {}});
    }
  }

  // `all`: also those that did not answer the last time. Throws Failed: why none of them answers.
  TopSample ask(const TopView& view, bool all = true) {
    if (servers_.size() == 1) return ask(servers_.front(), view);
    std::optional<Failed> failed;
    std::size_t answers = 0;
    for (Server& one : servers_) {
      if (!all && !one.failure.empty()) {
        sum_.fail(one.flags.admin, one.failure);
        continue;
      }
      one.failure.clear();
      try {
        sum_.add(one.flags.admin, ask(one, view));
        ++answers;
      } catch (const Failed& why) {
        one.failure = why.what();
        sum_.fail(one.flags.admin, one.failure);
        failed = why;
      }
    }
    TopSample sum = sum_.take();
    if (answers == 0) throw Failed(*failed);
    return sum;
  }

 private:
  struct Server {
    AdminFlags flags;
    std::unique_ptr<AdminClient> client;
    std::string failure;  // of the last time
  };

  // A server may have been started again since the last time.
  static TopSample ask(Server& server, const TopView& view) try {
    if (!server.client) server.client = std::make_unique<AdminClient>(server.flags);
    return read_top(*server.client, view.query(), view.shows_quota());
  } catch (const Failed&) {
    server.client.reset();
    throw;
  }

  std::vector<Server> servers_;
  TopSum sum_;
};

int print_reports(const TopFlags& flags, std::uint64_t reports) {
  TopServers servers(flags);
  TopView view(flags.query(), flags.quota);
  for (std::uint64_t i = 0; reports == 0 || i <= reports; ++i) {
    view.add(servers.ask(view, i != 1));  // one report does not wait twice for the same server
    if (i > 0) {
      for (const std::string& line : view.report(kReportColumns)) std::cout << line << '\n';
      std::cout << std::endl;
      if (!std::cout) return 0;
    }
    if (i < reports || reports == 0) std::this_thread::sleep_for(flags.period());
  }
  return 0;
}

int show_screen(const TopFlags& flags) {
  TopServers servers(flags);
  TopView view(flags.query(), flags.quota);
  view.add(servers.ask(view));
  const Terminal terminal;
  auto next = steady_clock::now() + std::min(flags.period(), milliseconds(500));
  bool has_ended = false;
  while (!has_ended) {
    const auto now = steady_clock::now();
    if (now >= next) {
      next = now + flags.period();
      try {
        view.add(servers.ask(view));
      } catch (const Failed& failed) {
        view.fail(failed.what());
      }
    }
    std::size_t width = 0, height = 0;
    find_size(width, height);
    draw(view.screen(width, height));
    const auto wait = std::chrono::ceil<milliseconds>(next - steady_clock::now());
    const std::string keys = read_keyboard(std::max(0, static_cast<int>(wait.count())), has_ended);
    const auto pressed = view.press(keys);
    if (pressed == TopView::Pressed::kQuit) return 0;
    if (pressed == TopView::Pressed::kAsk) next = steady_clock::now();
  }
  return 0;
}

}  // namespace

void add_top(Command app) {
  const Command top =
      app.add_subcommand("top", "Show the rates of a server, and its most denied keys", kTopHelp);
  auto flags = std::make_shared<TopFlags>();
  top.add_flag("--once", flags->once, "Print one report and exit; the same as --reports 1");
  top.add_option("--reports", flags->reports, "Print this number of reports and exit")
      .range(1, 1'000'000'000);
  top.add_flag("--quota", flags->quota, "Show the parts of limits that proxies have, not keys");
  top.add_option("--interval", flags->interval, "The seconds between two reports [2]")
      .range(0.1, 3600.0);
  top.add_option("--sort", flags->by, "Which keys to show first: denied, asked [denied]")
      .one_of({insight::kTopByNames.begin(), insight::kTopByNames.end()});
  top.add_option("--over", flags->over, "The window of the keys: minute, hour, day [minute]")
      .one_of({insight::kSpanNames.begin(), insight::kSpanNames.end()});
  flags->admin = add_admin_flags(top, false, &flags->servers);
  top.run("top", [flags] {
    const std::uint64_t reports = flags->once ? 1 : flags->reports;
    const bool is_plain = reports > 0 || !has_terminal();
    return is_plain ? print_reports(*flags, reports) : show_screen(*flags);
  });
}

}  // namespace sluice::cli
