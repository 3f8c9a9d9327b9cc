#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "replay/page_style.h"
#include "replay/replay.h"
#include "replay/text.h"
#include "rules/diagnostics.h"

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;

constexpr double kWidth = 1000;  // of the drawing, which is scaled to its box
constexpr double kHeight = 100;

std::string number(double value) {
  std::string digits = decimal(value, 2);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

// Returns the step of an axis: 1, 2 or 5 times a power of ten, at least 1, with about four steps
// up to `most`.
std::uint64_t grid_step(std::uint64_t most) {
  std::uint64_t power = 1;
  while (true) {
    for (const std::uint64_t factor : {1u, 2u, 5u}) {
      if (factor * power * 4 >= most) return factor * power;
    }
    power *= 10;
  }
}

// Returns the label of an axis: 1,500,000 is "1.5M".
std::string short_number(std::uint64_t value) {
  const auto scaled = static_cast<double>(value);
  if (value >= 1'000'000) return number(scaled / 1e6) + "M";
  return value >= 10'000 ? number(scaled / 1e3) + "k" : grouped(value);
}

// Returns the labels of a time axis: at most about eight round times.
std::vector<Instant> even_labels(Instant begin, Instant end) {
  using std::chrono::days;
  constexpr std::array<std::chrono::seconds, 18> kSteps = {
      1s, 5s, 15s, 30s, 1min, 2min,    5min,    15min,   30min,
      1h, 2h, 3h,  6h,  12h,  days{1}, days{2}, days{4}, days{7}};
  Duration step = kSteps.back();
  for (const Duration wider : kSteps) {
    if ((end - begin) / wider > 8) continue;
    step = wider;
    break;
  }
  std::vector<Instant> labels;
  Instant at = begin - begin.time_since_epoch() % step;
  for (; at <= end; at += step) {
    if (at >= begin) labels.push_back(at);
  }
  return labels;
}

// Returns the labels of a span of months or years: the first days of months.
std::vector<Instant> month_labels(Instant begin, Instant end) {
  const int months = static_cast<int>((end - begin) / std::chrono::days{30});
  int step = 1;
  for (const int wider : {2, 3, 6, 12, 24, 60, 120, 240}) {
    if (months / step > 8) step = wider;
  }
  std::vector<Instant> labels;
  const std::chrono::year_month_day first{std::chrono::floor<std::chrono::days>(begin)};
  auto month = first.year() / std::chrono::January;
  for (Instant at{}; at <= end; month += std::chrono::months{step}) {
    at = std::chrono::sys_days{month / 1};
    if (at >= begin && at <= end) labels.push_back(at);
  }
  return labels;
}

// Returns "12:30", "Feb 20" or "Feb 2016", whichever distinguishes the labels. With `new_day`
// (or a new year) the label also contains the date (or year).
std::string axis_label(Instant at, Duration step, bool new_day) {
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::chrono::year_month_day date{std::chrono::floor<std::chrono::days>(at)};
  const std::string month = kMonths[static_cast<unsigned>(date.month()) - 1];
  const std::string year = std::to_string(static_cast<int>(date.year()));
  if (step >= std::chrono::days{28}) return new_day ? month + " " + year : month;
  const std::string day = month + " " + std::to_string(static_cast<unsigned>(date.day()));
  if (step >= std::chrono::days{1}) return new_day ? day + ", " + year : day;
  const std::string clock = plain_time(at).substr(11, step < 1min ? 8 : 5);
  return new_day ? day + ", " + clock : clock;
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart), series_(chart.series) {
    for (std::size_t i = 0; i < series_.buckets(); ++i) most_ = std::max(most_, drawn(i));
    step_ = grid_step(std::max(most_, chart.scale));
    top_ = (std::max(most_, chart.scale) + step_ - 1) / step_ * step_;
  }

  std::string write() {
    out_ = "<div class=\"plot" + std::string(chart_.low ? " low" : "") + "\">\n";
    vertical_labels();
    out_ +=
        "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\" "
        "aria-labelledby=\"" +
        chart_.id + "-t " + chart_.id + "-d\">\n";
    describe();
    grid();
    if (!chart_.denied_only) area("allowed", &Drawing::requests);
    if (chart_.would_deny) area("trial", &Drawing::not_allowed);
    area(chart_.denied_style, &Drawing::denied);
    columns();
    out_ += "</svg>\n</div>\n";
    time_axis();
    return std::move(out_);
  }

 private:
  using Count = std::uint64_t (Drawing::*)(std::size_t) const;

  std::uint64_t requests(std::size_t bucket) const { return series_.at(bucket, chart_.requests); }
  std::uint64_t denied(std::size_t bucket) const { return series_.at(bucket, chart_.denied); }
  std::uint64_t would_deny(std::size_t bucket) const {
    return chart_.would_deny ? series_.at(bucket, *chart_.would_deny) : 0;
  }
  std::uint64_t not_allowed(std::size_t bucket) const {
    return denied(bucket) + would_deny(bucket);
  }
  std::uint64_t drawn(std::size_t bucket) const {
    return chart_.denied_only ? denied(bucket) : requests(bucket);
  }
  double x(std::size_t bucket) const {
    return kWidth * static_cast<double>(bucket) / static_cast<double>(series_.buckets());
  }
  double y(std::uint64_t count) const {
    return kHeight - kHeight * static_cast<double>(count) / static_cast<double>(top_);
  }
  Instant begin_of(std::size_t bucket) const {
    return series_.start() + static_cast<std::int64_t>(bucket) * series_.width();
  }

  void describe() {
    std::size_t busiest = 0;
    std::uint64_t all = 0;
    std::uint64_t all_denied = 0;
    for (std::size_t i = 0; i < series_.buckets(); ++i) {
      if (drawn(i) > drawn(busiest)) busiest = i;
      all += requests(i);
      all_denied += denied(i);
    }
    out_ += "<title id=\"" + chart_.id + "-t\">" + html_text(chart_.title) + "</title>\n";
    out_ += "<desc id=\"" + chart_.id + "-d\">" + grouped(all) + " requests in steps of " +
            duration_text(series_.width()) + ", " + grouped(all_denied) + " " + chart_.denied_name +
            "; the busiest step begins " + plain_time(begin_of(busiest)) + " UTC with " +
            grouped(most_) + " requests.</desc>\n";
  }

  void vertical_labels() {
    for (std::uint64_t value = 0; value <= top_; value += step_) {
      out_ += "<span class=\"y\" aria-hidden=\"true\" style=\"top:" + number(y(value)) + "%\">" +
              short_number(value) + "</span>\n";
    }
  }

  void grid() {
    out_ += "<path class=\"grid\" d=\"";
    for (std::uint64_t value = step_; value <= top_; value += step_) {
      out_ += "M0 " + number(y(value)) + "H1000";
    }
    out_ += "\"/>\n";
  }

  // One step per column. Runs of zeros are omitted, so that no line is drawn along zero.
  void area(const std::string& name, Count count) {
    std::string path;
    const auto draw = [&path](char verb, const std::string& where) {
      path += verb;
      path += where;
    };
    bool open = false;
    for (std::size_t i = 0; i < series_.buckets(); ++i) {
      const std::uint64_t value = (this->*count)(i);
      if (value > 0 && !open) draw('M', number(x(i)) + " 100");
      if (value > 0) {
        draw('V', number(y(value)));
        draw('H', number(x(i + 1)));
      } else if (open) {
        draw('V', "100Z");
      }
      open = value > 0;
    }
    if (open) draw('V', "100Z");
    if (!path.empty()) out_ += "<path class=\"" + name + "\" d=\"" + path + "\"/>\n";
  }

  // An invisible column over each visible one shows its numbers.
  void columns() {
    for (std::size_t i = 0; i < series_.buckets(); ++i) {
      if (drawn(i) == 0) continue;
      out_ += "<rect class=\"hit\" x=\"" + number(x(i)) + "\" y=\"0\" width=\"" +
              number(x(i + 1) - x(i)) + "\" height=\"100\"><title>" + plain_time(begin_of(i)) +
              " UTC, " + duration_text(series_.width()) + "\n" + plural(requests(i), "request") +
              "\n" + grouped(denied(i)) + " " + chart_.denied_name + " (" +
              percent(denied(i), requests(i)) + ")" +
              (chart_.would_deny ? "\n" + grouped(would_deny(i)) + " would be denied" : "") +
              "</title></rect>\n";
    }
  }

  void time_axis() {
    const Instant begin = series_.start();
    const Instant end = begin_of(series_.buckets());
    const bool months = end - begin > std::chrono::days{75};
    const std::vector<Instant> labels = months ? month_labels(begin, end) : even_labels(begin, end);
    const Duration step = labels.size() > 1 ? labels[1] - labels[0] : end - begin;
    out_ += "<div class=\"axis\" aria-hidden=\"true\">";
    std::string shown;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const double share = static_cast<double>((labels[i] - begin).count()) /
                           static_cast<double>((end - begin).count());
      if (share > 0.97) break;
      const std::string day = plain_time(labels[i]).substr(0, step < 24h ? 10 : 4);
      out_ += "<span class=\"" + std::string(share < 0.04 ? "edge" : "") +
              (i % 2 == 1 ? " spare" : "") + "\" style=\"left:" + number(share * 100) + "%\">" +
              axis_label(labels[i], step, day != shown) + "</span>";
      shown = day;
    }
    out_ += "</div>\n";
  }

  const Chart& chart_;
  const TimeSeries& series_;
  std::uint64_t most_ = 0;
  std::uint64_t step_ = 1;
  std::uint64_t top_ = 1;
  std::string out_;
};

}  // namespace

std::string chart_html(const Chart& chart) { return Drawing(chart).write(); }

namespace {

constexpr std::size_t kChartColumns = 200;
constexpr std::size_t kMostKeys = 50;
constexpr std::size_t kOpenRows = 10;  // of a table; more are folded

class Page {
 public:
  explicit Page(const ReplayReport& report)
      : report_(report), series_(report.tally.series().in_columns(kChartColumns)) {}

  std::string write() {
    head();
    numbers();
    cautions();
    if (report_.tally.requests > 0) {
      overview();
      if (report_.comparison) comparison(*report_.comparison);
      for (std::size_t i = 0; i < report_.tally.rules.size(); ++i) rule(i);
    }
    out_ += "<footer>Times are UTC. Sluice decided the requests at the times in the log, in " +
            grouped(static_cast<std::uint64_t>(report_.elapsed.count())) + " ms.</footer>\n";
    out_ += "</main>\n<script>" + std::string(kPageScript) + "</script>\n</body>\n</html>\n";
    return std::move(out_);
  }

 private:
  void head() {
    out_ = page_head("Replay: " + html_text(logs())) +
           "<h1>What the rules would have done</h1>\n<p class=\"soft\">" +
           plural(report_.lines, "line") + " of <code>" + html_text(logs()) +
           "</code>, decided by " + plural(report_.tally.rules.size(), "rule");
    if (report_.first) {
      out_ += "<br>" + span_text(*report_.first, *report_.last) + "; " + format_titles(report_);
    }
    out_ += "</p>\n";
  }

  std::string logs() const {
    std::string names;
    for (const std::string& log : report_.logs) {
      if (names.size() > 200) return names + ", …";
      names += (names.empty() ? "" : ", ") + log.substr(log.find_last_of('/') + 1);
    }
    return names;
  }

  void number(const std::string& name, std::uint64_t count, const std::string& remark,
              bool bad = false) {
    out_ += "<div><dt>" + name + "</dt><dd" + (bad ? " class=\"bad\"" : "") + ">" + grouped(count) +
            "<small>" + remark + "</small></dd></div>\n";
  }

  void numbers() {
    const Tally& tally = report_.tally;
    out_ += "<dl class=\"numbers\">\n";
    number("Requests", tally.requests,
           report_.late == 0 ? "in order" : grouped(report_.late) + " out of order");
    number("Allowed", tally.allowed(), percent(tally.allowed(), tally.requests));
    number("Denied", tally.denied, percent(tally.denied, tally.requests), tally.denied > 0);
    if (tally.would_deny > 0) {
      number("Would deny", tally.would_deny,
             percent(tally.would_deny, tally.requests) + ", in shadow mode");
    }
    if (const std::string units = units_text(tally); !units.empty()) {
      number("Units", tally.units, html_text(units));
    }
    number("Unmatched", tally.unmatched, "no rule; allowed");
    if (tally.invalid > 0) number("Invalid", tally.invalid, "refused with 400", true);
    if (report_.skipped > 0) number("Skipped", report_.skipped, report_.skipped_text());
    if (report_.without_rules > 0)
      number("Not replayed", report_.without_rules, "limits of requests or Envoy files");
    out_ += "</dl>\n";
  }

  void caution(const std::string& text) { out_ += "<p class=\"note\">" + text + "</p>\n"; }

  void cautions() {
    if (report_.tally.invalid > 0)
      caution("Invalid: " + html_text(invalid_text(report_.tally)) + ".");
    for (const std::string& each : warnings_of(report_)) {
      caution("Warning: " + html_text(each) + ".");
    }
    if (report_.tally.requests == 0) caution("There was no request to decide.");
  }

  void legend(bool has_denied, bool has_shadow) {
    out_ += "<ul class=\"legend\"><li><i class=\"a\"></i>allowed</li>";
    if (has_denied) out_ += "<li><i class=\"d\"></i>denied</li>";
    if (has_shadow) out_ += "<li><i class=\"t\"></i>would be denied</li>";
    out_ += "<li>requests in steps of " + duration_text(series_.width()) + "</li></ul>\n";
  }

  void overview() {
    out_ +=
        "<section aria-labelledby=\"over-time\">\n<h2 id=\"over-time\">Requests over time</h2>\n";
    legend(true, report_.tally.would_deny > 0);
    Chart chart{series_, Tally::kRequests, Tally::kDenied, "all", "All requests over time"};
    if (report_.tally.would_deny > 0) chart.would_deny = Tally::kWouldDeny;
    out_ += chart_html(chart);
    chart.would_deny.reset();
    if (report_.tally.denied > 0) {
      out_ += "<h3>Denied requests, on their own scale</h3>\n";
      chart.id = "denials";
      chart.title = "Denied requests over time";
      chart.denied_only = chart.low = true;
      out_ += chart_html(chart);
    }
    if (report_.last && *report_.last - *report_.first >= std::chrono::days{1}) {
      const Tally& tally = report_.tally;
      hours("Denied", tally.denied_by_hour, tally.denied);
      hours("Would deny", tally.would_deny_by_hour, tally.would_deny);
    }
    out_ +=
        "</section>\n<section aria-labelledby=\"cost\">\n"
        "<h2 id=\"cost\">Results of each limit</h2>\n";
    std::vector<std::string> rows, quiet;  // of limits that deny, and of others
    for (const RuleTally& rule : report_.tally.rules) {
      for (const LimitTally& limit : rule.limits) {
        (limit.denied > 0 ? rows : quiet).push_back(overview_row(rule, limit));
      }
      if (rule.clients) (rule.denied > 0 ? rows : quiet).push_back(overview_row(rule));
    }
    const std::size_t denying = rows.size();
    rows.insert(rows.end(), quiet.begin(), quiet.end());
    table("Each limit of each rule",
          {"Limit", "Requests", "Denied", "Share", "Keys", "Keys denied"}, rows,
          rows.size() <= kOpenRows ? kOpenRows : std::clamp(denying, kOpenRows / 2, kOpenRows),
          "limits");
    out_ += "</section>\n";
  }

  void hours(const char* name, const Tally::ByHour& denied, std::uint64_t all) {
    if (all == 0) return;
    std::vector<std::string> rows;
    for (std::size_t hour = 0; hour < denied.size(); ++hour) {
      if (denied[hour] == 0) continue;
      rows.push_back("<tr><th scope=\"row\">" + std::string(hour < 10 ? "0" : "") +
                     std::to_string(hour) + ":00</th>" + cell(grouped(denied[hour])) +
                     share_cell(denied[hour], all) + "</tr>\n");
    }
    table(std::string(name) + ": requests by hour of the day, UTC", {"Hour", name, "Share"}, rows,
          rows.size(), "");
  }

  void comparison(const ReplayComparison& both) {
    const std::string rules = "<code>" + html_text(report_.rules_name) + "</code>";
    const std::string against = "<code>" + html_text(report_.against_name) + "</code>";
    out_ += "<section aria-labelledby=\"comparison\">\n<h2 id=\"comparison\">" + rules +
            " compared with " + against + "</h2>\n";
    std::vector<std::string> rows;
    const auto row = [&](const std::string& name, std::uint64_t count) {
      rows.push_back("<tr><th scope=\"row\">" + name + "</th>" + cell(grouped(count)) +
                     share_cell(count, both.tally.requests) + "</tr>\n");
    };
    row(rules, report_.tally.denied);
    row(against, both.tally.denied);
    row("both", both.denied_both);
    row("only " + rules, both.only_rules.denied);
    row("only " + against, both.only_against.denied);
    table("Requests denied", {"By", "Requests", "Share"}, rows, rows.size(), "");
    difference_picture(both);
    difference(rules, both.only_rules);
    difference(against, both.only_against);
    out_ += "</section>\n";
  }

  // Two charts over the same time and with the same scale, of what only one of the rules denies.
  void difference_picture(const ReplayComparison& both) {
    const TimeSeries series = both.series.in_columns(kChartColumns);
    Chart chart{series, ReplayComparison::kRequests, ReplayComparison::kOnlyRules, "only", ""};
    chart.denied_only = chart.low = true;
    for (const std::size_t channel :
         {ReplayComparison::kOnlyRules, ReplayComparison::kOnlyAgainst}) {
      for (const std::uint64_t count : series.channel(channel)) {
        chart.scale = std::max(chart.scale, count);
      }
    }
    const auto draw = [&](const std::string& name, std::size_t channel, const char* id) {
      out_ += "<h3>Denied only by <code>" + html_text(name) + "</code>, requests in steps of " +
              duration_text(series.width()) + "</h3>\n";
      chart.denied = channel;
      chart.id = id;
      chart.title = "Requests that only " + name + " denies over time";
      chart.denied_name = "denied only by " + html_text(name);
      out_ += chart_html(chart);
    };
    if (chart.scale == 0) return;
    draw(report_.rules_name, ReplayComparison::kOnlyRules, "only-rules");
    draw(report_.against_name, ReplayComparison::kOnlyAgainst, "only-against");
  }

  // What one set of rules denies and the other does not.
  void difference(const std::string& by, const Tally& tally) {
    for (const RuleTally& rule : tally.rules) {
      if (rule.denied == 0 || rule.rule->mode == RuleMode::kShadow) continue;
      out_ += "<h3>Denied only by " + by + ", rule " + html_text(rule.rule->name) + ": " +
              plural(rule.denied, "request") + "</h3>\n";
      for (const LimitTally& each : rule.limits) {
        if (each.denied > 0) limit(*rule.rule, each, false, true);
      }
      if (rule.clients) clients(*rule.clients, false);
    }
  }

  static std::string overview_row(const RuleTally& rule, const LimitTally& limit) {
    return overview_row(rule, rules::full_name(rule.rule->name, limit.limit->name),
                        limit_text(*rule.rule, *limit.limit), limit.requests, limit.denied,
                        limit.keys);
  }
  // Of a rule with `action: deny`.
  static std::string overview_row(const RuleTally& rule) {
    return overview_row(rule, rule.rule->name, "action: deny", rule.matched, rule.denied,
                        *rule.clients);
  }
  static std::string overview_row(const RuleTally& rule, const std::string& name,
                                  const std::string& what, std::uint64_t requests,
                                  std::uint64_t denied, const KeyTally& keys) {
    const std::string would = rule.rule->mode == RuleMode::kShadow ? "would deny " : "";
    return "<tr><th scope=\"row\"><strong>" + html_text(name) + "</strong>" +
           shadow_badge(*rule.rule) + "<br><span class=\"soft\">" + html_text(what) +
           "</span></th>" + cell(grouped(requests)) + cell(would + grouped(denied)) +
           share_cell(denied, requests) + cell(key_count(keys)) +
           cell(would + grouped(keys.keys_denied())) + "</tr>\n";
  }

  static std::string key_count(const KeyTally& keys) {
    return (keys.overflowed() ? "≥ " : "") + grouped(keys.keys());
  }

  static std::string shadow_badge(const Rule& rule) {
    return rule.mode == RuleMode::kShadow ? "<span class=\"badge\">shadow mode</span>" : "";
  }

  void rule(std::size_t index) {
    const RuleTally& rule = report_.tally.rules[index];
    const bool shadow = rule.rule->mode == RuleMode::kShadow;
    const std::string id = "rule-" + std::to_string(index);
    out_ += "<section aria-labelledby=\"" + id + "\">\n<h2 id=\"" + id + "\">Rule " +
            html_text(rule.rule->name) + shadow_badge(*rule.rule) +
            "</h2>\n<p class=\"soft\">Matched " + plural(rule.matched, "request") + " (" +
            percent(rule.matched, report_.tally.requests) + "); " + grouped(rule.denied) +
            " of them (" + percent(rule.denied, rule.matched) + ") " +
            (shadow ? "would have been denied" : "were denied") + ".</p>\n";
    if (rule.matched > 0) {
      legend(!shadow, shadow);
      const std::size_t channel = Tally::rule_channel(index);
      Chart chart{series_,
                  channel,
                  channel + 1,
                  "chart-" + std::to_string(index),
                  "Requests that rule " + rule.rule->name + " matched over time",
                  shadow ? "would be denied" : "denied",
                  shadow ? "trial" : "denied"};
      chart.low = true;
      out_ += chart_html(chart);
      for (const LimitTally& each : rule.limits) limit(*rule.rule, each, shadow);
      if (rule.clients && rule.denied > 0) clients(*rule.clients, shadow);
    }
    out_ += "</section>\n";
  }

  // Writes the addresses that a rule with `action: deny` denies.
  void clients(const KeyTally& keys, bool shadow) {
    out_ += "<p class=\"soft small\"><code>action: deny</code>; by <code>{ip}</code>.</p>\n";
    denied_keys(keys, shadow, true);
  }

  // `is_difference`: all requests of the tally were denied, so their share says nothing.
  void limit(const Rule& rule, const LimitTally& limit, bool shadow, bool is_difference = false) {
    const std::string units = denied_units_text(limit);
    const std::string blocked = blocked_text(limit);
    const std::string row = row_text(limit);
    out_ +=
        "<h3>Limit " + html_text(limit.limit->name) + "</h3>\n<p class=\"soft small\">" +
        html_text(limit_text(rule, *limit.limit)) + "; " +
        (limit.limit->key.empty()
             ? "one counter for all requests"
             : "a counter for each <code>" + html_text(limit.limit->key) + "</code>") +
        (row.empty() ? "" : "; " + html_text(row)) +
        (units.empty() || is_difference ? "" : (shadow ? ". Would deny " : ". Denied ") + units) +
        (blocked.empty() || is_difference ? "" : ". Of the denials: " + blocked) +
        (limit.invalid > 0 ? ". " + wrong_costs(limit) : "") + ".</p>\n";
    if (limit.keys.keys_denied() == 0) {
      const std::string spared = spared_text(limit);
      out_ += !spared.empty() ? "<p class=\"small\">The limit was " + spared + ".</p>\n"
              : limit.requests + limit.invalid == 0
                  ? "<p class=\"small bad\">Applied to no request.</p>\n"
                  : "<p class=\"small\">" + std::string(shadow ? "Would deny" : "Denied") +
                        " no request; " + key_count(limit.keys) +
                        (limit.keys.keys() == 1 ? " key" : " keys") + ".</p>\n";
      return;
    }
    denied_keys(limit.keys, shadow, is_difference);
  }

  void denied_keys(const KeyTally& tally, bool shadow, bool is_difference) {
    const auto keys = tally.most_denied(kMostKeys);
    std::vector<std::string> rows;
    for (const DeniedKey& key : keys) rows.push_back(key_row(key, is_difference));
    const std::string denied = plural(tally.keys_denied(), shadow ? "key" : "denied key") +
                               (shadow ? " that it would deny" : "");
    table(keys.size() < tally.keys_denied()
              ? "The " + grouped(keys.size()) + " most denied of " + denied
              : denied + (is_difference ? "" : " of " + key_count(tally)),
          is_difference
              ? std::vector<const char*>{"Key", shadow ? "Would deny" : "Denied", "First", "Last"}
              : std::vector<const char*>{"Key", shadow ? "Would deny" : "Denied", "Of", "Share",
                                         "First", "Last"},
          rows, kOpenRows, "keys");
  }

  static std::string key_row(const DeniedKey& key, bool is_difference) {
    std::string row =
        "<tr><th scope=\"row\"><span class=\"mono\">" +
        (key.label.empty() ? "<span class=\"soft\">(all requests)</span>" : html_text(key.label)) +
        "</span>" + (key.traits == nullptr ? "" : traits_of(key)) + "</th>" +
        cell(grouped(key.denied));
    if (!is_difference) row += cell(grouped(key.requests)) + share_cell(key.denied, key.requests);
    return row + cell(plain_time(key.first)) + cell(plain_time(key.last)) + "</tr>\n";
  }

  // What was denied, and the user agent: a customer or a robot?
  static std::string traits_of(const DeniedKey& key) {
    std::string html;
    const auto add = [&html](const std::string& part) {
      if (!part.empty()) html += "<br><span class=\"soft small\">" + html_text(part) + "</span>";
    };
    add(requests_of(*key.traits));
    if (const std::string agent = agent_of(*key.traits); agent != key.label) add(agent);
    return html;
  }

  // Rows after the first `open` ones are folded.
  void table(const std::string& caption, const std::vector<const char*>& columns,
             const std::vector<std::string>& rows, std::size_t open, const std::string& things) {
    if (rows.size() <= open + 2) open = rows.size();
    open_table(caption, columns);
    for (std::size_t i = 0; i < open; ++i) out_ += rows[i];
    close_table();
    if (open == rows.size()) return;
    const std::string more = grouped(rows.size() - open) + " more " + things;
    out_ += "<details>\n<summary>" + more + "</summary>\n";
    open_table(more, columns);
    for (std::size_t i = open; i < rows.size(); ++i) out_ += rows[i];
    close_table();
    out_ += "</details>\n";
  }

  void open_table(const std::string& caption, const std::vector<const char*>& columns) {
    out_ += "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" + caption +
            "\">\n<table>\n<caption>" + caption + "</caption>\n<thead><tr>";
    for (const char* column : columns) out_ += "<th scope=\"col\">" + std::string(column) + "</th>";
    out_ += "</tr></thead>\n<tbody>\n";
  }
  void close_table() { out_ += "</tbody>\n</table>\n</div>\n"; }
  static std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }
  static std::string share_cell(std::uint64_t part, std::uint64_t whole) {
    const std::uint64_t permille = whole == 0 ? 0 : part * 1000 / whole;
    return "<td class=\"share\" style=\"--part:" + std::to_string(permille / 10) + "." +
           std::to_string(permille % 10) + "%\">" + html_text(percent(part, whole)) + "</td>";
  }

  const ReplayReport& report_;
  const TimeSeries series_;
  std::string out_;
};

}  // namespace

std::string html_report(const ReplayReport& report) { return Page(report).write(); }

}  // namespace sluice::replay
