#include <algorithm>

#include "replay/chart.h"
#include "replay/page_style.h"
#include "replay/report.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kChartColumns = 200;
constexpr std::size_t kMostKeys = 50;

std::string plural(std::uint64_t count, const std::string& word) {
  return grouped(count) + " " + word + (count == 1 ? "" : "s");
}

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
    out_ =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>Replay: " +
        html_text(logs()) + "</title>\n<style>" + std::string(kPageStyle) +
        "</style>\n</head>\n<body>\n<main>\n<h1>What the rules would have done</h1>\n"
        "<p class=\"soft\">" +
        plural(report_.lines, "line") + " of <code>" + html_text(logs()) + "</code>, decided by " +
        plural(report_.tally.rules.size(), "rule");
    if (report_.first) {
      out_ += "<br>" + plain_time(*report_.first) + " to " + plain_time(*report_.last) + " UTC, " +
              rough_duration_text(*report_.last - *report_.first) + "; " + format_titles(report_);
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
    number("Allowed", report_.allowed(), percent(report_.allowed(), tally.requests));
    number("Denied", tally.denied, percent(tally.denied, tally.requests), tally.denied > 0);
    number("Unmatched", tally.unmatched, "no rule; allowed");
    if (report_.skipped > 0) number("Skipped", report_.skipped, "not access log lines");
    out_ += "</dl>\n";
  }

  void caution(const std::string& text) { out_ += "<p class=\"note\">" + text + "</p>\n"; }

  void cautions() {
    if (report_.evictions > 0) {
      caution("These results are approximate: " + plural(report_.evictions, "counter") +
              " in use were evicted. Raise <code>--max-keys</code>.");
    } else if (report_.approximate()) {
      caution("The numbers of keys are lower bounds. Raise <code>--max-keys</code>.");
    }
    if (report_.tally.undecided > 0) {
      caution(plural(report_.tally.undecided, "request") +
              " could not be counted because memory ran out; the failure policy decided them.");
    }
    if (report_.failed)
      caution("Some logs could not be read to the end. The report covers what was read.");
    if (report_.tally.requests == 0) caution("There was no request to decide.");
  }

  void legend(const std::string& denied_name) {
    out_ += "<ul class=\"legend\"><li><i class=\"a\"></i>allowed</li><li><i class=\"d\"></i>" +
            denied_name + "</li><li>requests in steps of " + duration_text(series_.width()) +
            "</li></ul>\n";
  }

  void overview() {
    out_ +=
        "<section aria-labelledby=\"over-time\">\n<h2 id=\"over-time\">Requests over time</h2>\n";
    legend("denied");
    Chart chart{series_, Tally::kRequests, Tally::kDenied, "all", "All requests over time"};
    out_ += chart_html(chart);
    if (report_.tally.denied > 0) {
      out_ += "<h3>Denied requests, on their own scale</h3>\n";
      chart.id = "denials";
      chart.title = "Denied requests over time";
      chart.denied_only = chart.low = true;
      out_ += chart_html(chart);
    }
    out_ +=
        "</section>\n<section aria-labelledby=\"cost\">\n"
        "<h2 id=\"cost\">Results of each limit</h2>\n";
    open_table("Each limit of each rule",
               {"Limit", "Requests", "Denied", "Share", "Keys", "Keys denied"});
    for (const RuleTally& rule : report_.tally.rules) {
      for (const LimitTally& limit : rule.limits) overview_row(rule, limit);
    }
    close_table();
    out_ += "</section>\n";
  }

  void comparison(const ReplayComparison& both) {
    out_ +=
        "<section aria-labelledby=\"comparison\">\n"
        "<h2 id=\"comparison\">Compared with the rules of <code>--against</code></h2>\n";
    open_table("Requests denied", {"By", "Requests", "Share"});
    const auto row = [&](const std::string& name, std::uint64_t count) {
      out_ += "<tr><th scope=\"row\">" + name + "</th>";
      cell(grouped(count));
      share_cell(count, both.tally.requests);
      out_ += "</tr>\n";
    };
    row("--rules", report_.tally.denied);
    row("--against", both.tally.denied);
    row("both", both.denied_both);
    row("only --rules", both.only_rules.denied);
    row("only --against", both.only_against.denied);
    close_table();
    difference("--rules", both.only_rules);
    difference("--against", both.only_against);
    out_ += "</section>\n";
  }

  // What one set of rules denies and the other does not.
  void difference(const std::string& by, const Tally& tally) {
    for (const RuleTally& rule : tally.rules) {
      if (rule.denied == 0 || rule.rule->mode == RuleMode::kShadow) continue;
      out_ += "<h3>Denied only by " + by + ", rule " + html_text(rule.rule->name) + ": " +
              plural(rule.denied, "request") + "</h3>\n";
      for (const LimitTally& each : rule.limits) {
        if (each.denied > 0) limit(each);
      }
    }
  }

  void overview_row(const RuleTally& rule, const LimitTally& limit) {
    out_ += "<tr><th scope=\"row\"><strong>" + html_text(full_name(*rule.rule, *limit.limit)) +
            "</strong>" + shadow_badge(*rule.rule) + "<br><span class=\"soft\">" +
            html_text(limit_text(limit.limit->limit)) + "</span></th>";
    cell(grouped(limit.requests));
    cell(grouped(limit.denied));
    share_cell(limit.denied, limit.requests);
    cell(key_count(limit.keys));
    cell(grouped(limit.keys.keys_denied()));
    out_ += "</tr>\n";
  }

  // "rule / limit". The default name of a limit already contains the name of its rule.
  static std::string full_name(const Rule& rule, const RuleLimit& limit) {
    return limit.name.starts_with(rule.name + "/") ? limit.name : rule.name + " / " + limit.name;
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
    const std::string denied_name = shadow ? "would be denied" : "denied";
    out_ += "<section aria-labelledby=\"" + id + "\">\n<h2 id=\"" + id + "\">Rule " +
            html_text(rule.rule->name) + shadow_badge(*rule.rule) +
            "</h2>\n<p class=\"soft\">Matched " + plural(rule.matched, "request") + " (" +
            percent(rule.matched, report_.tally.requests) + "); " + grouped(rule.denied) +
            " of them (" + percent(rule.denied, rule.matched) + ") " +
            (shadow ? "would have been denied" : "were denied") + ".</p>\n";
    if (rule.matched > 0) {
      legend(denied_name);
      const std::size_t channel = Tally::rule_channel(index);
      Chart chart{series_,
                  channel,
                  channel + 1,
                  "chart-" + std::to_string(index),
                  "Requests that rule " + rule.rule->name + " matched over time",
                  denied_name};
      chart.low = true;
      out_ += chart_html(chart);
      for (const LimitTally& each : rule.limits) limit(each);
    }
    out_ += "</section>\n";
  }

  void limit(const LimitTally& limit) {
    out_ += "<h3>Limit " + html_text(limit.limit->name) + "</h3>\n<p class=\"soft small\">" +
            html_text(limit_text(limit.limit->limit)) + "; " +
            (limit.limit->key.empty()
                 ? "one counter for all requests"
                 : "a counter for each <code>" + html_text(limit.limit->key) + "</code>") +
            ".</p>\n";
    const auto keys = limit.keys.most_denied(kMostKeys);
    if (keys.empty()) {
      out_ += "<p class=\"small\">Denied no request; " + key_count(limit.keys) + " keys.</p>\n";
      return;
    }
    open_table(keys.size() < limit.keys.keys_denied()
                   ? "The " + grouped(keys.size()) + " most denied of " +
                         plural(limit.keys.keys_denied(), "denied key")
                   : plural(keys.size(), "denied key") + " of " + key_count(limit.keys),
               {"Key", "Denied", "Of", "Share", "First denied", "Last denied"});
    for (const DeniedKey& key : keys) key_row(key);
    close_table();
  }

  void key_row(const DeniedKey& key) {
    out_ += "<tr><th scope=\"row\" class=\"mono\">" +
            (key.label.empty() ? "<span class=\"soft\">(all)</span>" : html_text(key.label)) +
            "</th>";
    cell(grouped(key.denied));
    cell(grouped(key.requests));
    share_cell(key.denied, key.requests);
    cell(plain_time(key.first));
    cell(plain_time(key.last));
    out_ += "</tr>\n";
  }

  void open_table(const std::string& caption, std::initializer_list<const char*> columns) {
    out_ += "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" + caption +
            "\">\n<table>\n<caption>" + caption + "</caption>\n<thead><tr>";
    for (const char* column : columns) out_ += "<th scope=\"col\">" + std::string(column) + "</th>";
    out_ += "</tr></thead>\n<tbody>\n";
  }
  void close_table() { out_ += "</tbody>\n</table>\n</div>\n"; }
  void cell(const std::string& text) { out_ += "<td>" + text + "</td>"; }
  void share_cell(std::uint64_t part, std::uint64_t whole) {
    const std::uint64_t permille = whole == 0 ? 0 : part * 1000 / whole;
    out_ += "<td class=\"share\" style=\"--part:" + std::to_string(permille / 10) + "." +
            std::to_string(permille % 10) + "%\">" + html_text(percent(part, whole)) + "</td>";
  }

  const ReplayReport& report_;
  const TimeSeries series_;
  std::string out_;
};

}  // namespace

std::string html_report(const ReplayReport& report) { return Page(report).write(); }

}  // namespace sluice::replay
