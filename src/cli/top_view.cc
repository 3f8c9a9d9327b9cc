#include "cli/top_view.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "replay/text.h"

namespace sluice::cli {
namespace {

constexpr std::array<std::string_view, 3> kSortNames = {"denied", "requests", "name"};
constexpr char kEscape = '\x1b';
constexpr char kDelete = '\x7f';
constexpr std::size_t kRuleColumns = 32;

std::string rate_text(double rate) {
  std::array<char, 32> text{};
  if (rate < 100) {
    std::snprintf(text.data(), text.size(), "%.1f", rate);
    return text.data();
  }
  return replay::grouped(static_cast<std::uint64_t>(std::llround(rate)));
}

std::string share_text(double part, double whole) {
  if (whole <= 0) return "-";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * part / whole);
  return text.data();
}

std::string rates_line(std::string_view name, double requests, double denied) {
  return replay::pad_right(replay::printable(name, kRuleColumns), kRuleColumns) +
         replay::pad_left(rate_text(requests), 13) + replay::pad_left(rate_text(denied), 13) +
         replay::pad_left(share_text(denied, requests), 11);
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
  for (const auto& [rule, now] : last_->rules) {
    const auto then = before_->rules.find(rule);
    const RequestCounts from = then == before_->rules.end() ? RequestCounts{} : then->second;
    all.push_back({rule, rate(now.requests, from.requests), rate(now.denied, from.denied)});
  }
  const auto is_first = [this](const Rates& a, const Rates& b) {
    if (sort_ == Sort::kName) return a.rule < b.rule;
    return sort_ == Sort::kDenied ? a.denied > b.denied : a.requests > b.requests;
  };
  std::stable_sort(all.begin(), all.end(), is_first);
  return all;
}

std::vector<std::string> TopView::head() const {
  std::string first = "sluice top";
  if (last_) {
    first = "sluice " + replay::printable(last_->version) + ", up " +
            replay::rough_duration_text(std::chrono::seconds(last_->uptime_s)) + ", store " +
            replay::printable(last_->store) + ", " + replay::grouped(last_->connections) +
            " connections";
  }
  if (is_paused_) first += "  [paused]";
  std::vector<std::string> lines = {first};
  if (!error_.empty()) lines.push_back("error: " + replay::printable(error_));
  return lines;
}

std::vector<std::string> TopView::rule_lines() const {
  std::vector<std::string> lines = {replay::pad_right("RULE", kRuleColumns) + "   REQUESTS/S" +
                                    "     DENIED/S" + "     DENIED"};
  Rates sum;
  std::vector<std::string> rules;
  for (const Rates& one : rates()) {
    sum.requests += one.requests;
    sum.denied += one.denied;
    if (one.rule.empty() && one.requests <= 0) continue;
    const std::string name = shown_name(one.rule);
    if (is_shown(name)) rules.push_back(rates_line(name, one.requests, one.denied));
  }
  lines.push_back(rates_line("(all)", sum.requests, sum.denied));
  lines.insert(lines.end(), rules.begin(), rules.end());
  return lines;
}

std::vector<std::string> TopView::key_lines(std::size_t width) const {
  const std::string what = query_.by == insight::TopBy::kAsked ? "ASKED" : "DENIED";
  std::string title = "MOST " + what + " KEYS, last " + std::string(name_of(query_.over));
  if (!last_) return {title};
  if (!last_->no_keys.empty()) return {title, replay::printable(last_->no_keys)};
  title += " (" + std::to_string(last_->seconds) + " s)";
  const std::size_t key_columns = std::max<std::size_t>(width, 70) - 30 - 28;
  std::vector<std::string> lines = {
      title, "       COUNT     ERROR    PER S  " + replay::pad_right("RULE/LIMIT", 24) + "  KEY"};
  for (const TopRow& row : last_->keys) {
    const std::string place = shown_name(row.rule) + "/" + row.limit;
    if (!is_shown(place) && !is_shown(row.key)) continue;
    const double seconds = static_cast<double>(std::max<std::uint64_t>(last_->seconds, 1));
    lines.push_back(replay::pad_left(replay::grouped(row.count), 12) +
                    replay::pad_left(replay::grouped(row.error), 10) +
                    replay::pad_left(rate_text(static_cast<double>(row.count) / seconds), 9) +
                    "  " + replay::pad_right(replay::printable(place, 24), 24) + "  " +
                    replay::printable(row.key, key_columns));
  }
  return lines;
}

std::vector<std::string> TopView::report(std::size_t width) const {
  std::vector<std::string> lines = head();
  for (auto& line : rule_lines()) lines.push_back(std::move(line));
  for (auto& line : key_lines(width)) lines.push_back(std::move(line));
  return lines;
}

// The rules get at most half of the screen. The last line is for the keyboard.
std::vector<std::string> TopView::screen(std::size_t width, std::size_t height) const {
  std::vector<std::string> lines = head();
  lines.emplace_back();
  const auto add = [&](std::vector<std::string> some, std::size_t most) {
    for (std::size_t i = 0; i < std::min(most, some.size()); ++i) lines.push_back(some[i]);
  };
  const std::vector<std::string> keys = key_lines(width);
  const std::size_t room = height > lines.size() + 3 ? height - lines.size() - 3 : 0;
  add(rule_lines(), std::max(room / 2, room > keys.size() ? room - keys.size() : 0));
  lines.emplace_back();
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

}  // namespace sluice::cli
