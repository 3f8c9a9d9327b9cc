#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/civil_time.h"
#include "base/json_writer.h"
#include "core/period.h"
#include "replay/page_style.h"
#include "replay/suggest.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

// "0.1 %": as many digits as the number needs.
std::string share_text(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g %%", share * 100);
  return text.data();
}

// "10 per 1s, burst 33"
std::string numbers_of(const Suggestion& each, std::uint32_t rate) {
  const std::string per = " per " + core::format_period(each.curve->period);
  if (each.curve->algorithm != Algorithm::kTokenBucket) return grouped(each.limit) + per;
  return grouped(rate) + per + ", burst " + grouped(each.limit);
}

std::uint64_t allowed_keys(const SuggestReport& report, double harm) {
  return static_cast<std::uint64_t>(std::floor(static_cast<double>(report.keys) * harm));
}

std::string logs_text(const SuggestReport& report) {
  return report.logs.size() == 1 ? printable(report.logs[0], 60)
                                 : grouped(report.logs.size()) + " logs";
}

std::string goal_text(const SuggestReport& report, double harm) {
  return "The smallest limits that deny at most " + share_text(harm) + " of keys (" +
         grouped(allowed_keys(report, harm)) + " of " + grouped(report.keys) + ")";
}

constexpr const char* kExactness =
    "Keys denied are exact. Requests denied are exact for fixed_window with requests of one unit, "
    "else upper bounds.";

// A chart of the share of keys that are denied (logarithmic) by the limit (logarithmic).
class CurveChart {
 public:
  CurveChart(const SuggestReport& report, Duration period, double harm)
      : report_(report), period_(period), harm_(harm) {
    for (const DemandCurve& each : report.curves) {
      if (each.period == period) largest_ = std::max(largest_, each.largest());
    }
    decades_x_ = std::max(1.0, std::ceil(std::log10(static_cast<double>(largest_))));
    decades_y_ = std::max(1.0, std::ceil(std::log10(static_cast<double>(report.keys))));
  }

  std::string write() {
    const std::string per = core::format_period(period_);
    out_ = "<div class=\"plot\">\n";
    for (int i = 0; i <= static_cast<int>(decades_y_); ++i) {
      out_ +=
          "<span class=\"y\" aria-hidden=\"true\" style=\"top:" + decimal(y(std::pow(10, -i)), 1) +
          "%\">" + share_text(std::pow(10, -i)) + "</span>\n";
    }
    out_ += "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\">\n<title>" +
            std::string("Share of keys denied by the limit per ") + per + "</title>\n";
    for (int i = 1; i <= static_cast<int>(decades_y_); ++i) grid(y(std::pow(10, -i)), "grid");
    if (harm_ > 0) grid(y(harm_), "harm");
    for (const DemandCurve& each : report_.curves) {
      if (each.period == period_) line(each);
    }
    out_ += "</svg>\n</div>\n<div class=\"axis\" aria-hidden=\"true\">";
    for (int i = 0; i <= static_cast<int>(decades_x_); ++i) {
      out_ += "<span" + std::string(i == 0 ? " class=\"edge\"" : "") +
              " style=\"left:" + decimal(100.0 * i / decades_x_, 1) + "%\">" +
              grouped(static_cast<std::uint64_t>(std::pow(10, i))) + "</span>";
    }
    return out_ + "</div>\n";
  }

 private:
  double x(std::uint64_t limit) const {
    return 1000 * std::log10(static_cast<double>(limit)) / decades_x_;
  }
  double y(double share) const {
    if (share <= 0) return 100;
    return std::clamp(-std::log10(share) / decades_y_, 0.0, 1.0) * 100;
  }
  void grid(double at, const char* name) {
    out_ += "<path class=\"" + std::string(name) + "\" d=\"M0 " + decimal(at, 1) + "H1000\"/>\n";
  }
  // One step for each of the limits, which are evenly spread on the axis.
  void line(const DemandCurve& each) {
    constexpr int kSteps = 120;
    std::string path;
    std::uint64_t last = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const auto limit = static_cast<std::uint64_t>(std::pow(10, decades_x_ * i / kSteps));
      if (limit == last) continue;
      const double share = static_cast<double>(each.keys_over(limit)) /
                           static_cast<double>(std::max<std::uint64_t>(report_.keys, 1));
      const std::string height = decimal(y(share), 2);
      path += (last == 0 ? "M0 " + height : "H" + decimal(x(limit), 1) + "V" + height);
      last = limit;
    }
    out_ += "<path class=\"curve " + std::string(to_string(each.algorithm)) + "\" d=\"" + path +
            "\"/>\n";
  }

  const SuggestReport& report_;
  Duration period_;
  double harm_;
  std::uint64_t largest_ = 1;
  double decades_x_ = 1;
  double decades_y_ = 1;
  std::string out_;
};

constexpr const char* kCurveStyle =
    ".curve{fill:none;stroke-width:2;vector-effect:non-scaling-stroke;stroke:var(--allowed)}"
    ".sliding_window_counter{stroke:var(--denied);stroke-dasharray:7 3}"
    ".token_bucket{stroke:var(--trial);stroke-dasharray:2 3}"
    ".harm{stroke:var(--ink);vector-effect:non-scaling-stroke;stroke-dasharray:1 4}"
    ".legend svg{width:2.2rem;height:.8rem;margin-right:.4rem;vertical-align:-1px}";

std::string legend_item(std::string_view name, const std::string& title) {
  return "<li><svg viewBox=\"0 0 40 10\" aria-hidden=\"true\"><path class=\"curve " +
         std::string(name) + "\" d=\"M0 5H40\"/></svg>" + title + "</li>";
}

std::string html_rows(const SuggestReport& report, double harm, Duration period) {
  std::string rows;
  for (const Suggestion& each : suggestions(report, harm)) {
    if (each.curve->period != period) continue;
    rows += "<tr><th scope=\"row\">" + std::string(to_string(each.curve->algorithm)) + "</th><td>" +
            numbers_of(each, report.options.rate) + "</td><td>" + grouped(each.keys_denied) +
            "</td><td>" + html_text(percent(each.keys_denied, report.keys)) + "</td><td>" +
            grouped(each.requests_denied) + "</td><td>" +
            html_text(percent(each.requests_denied, report.requests)) + "</td></tr>\n";
  }
  return rows;
}

std::string html_section(const SuggestReport& report, double harm, Duration period) {
  const std::string per = core::format_period(period);
  std::string out = "<section aria-labelledby=\"per-" + per + "\">\n<h2 id=\"per-" + per +
                    "\">Per " + per + "</h2>\n<ul class=\"legend\">";
  for (const DemandCurve& each : report.curves) {
    if (each.period != period) continue;
    const bool bucket = each.algorithm == Algorithm::kTokenBucket;
    out += legend_item(
        to_string(each.algorithm),
        bucket ? "burst of token_bucket, " + grouped(report.options.rate) + " per " + per
               : "limit of " + std::string(to_string(each.algorithm)));
  }
  out += "<li>share of keys denied, by the limit</li></ul>\n";
  out += CurveChart(report, period, harm).write();
  return out + "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Limits per " +
         per +
         "\">\n<table>\n<thead><tr><th scope=\"col\">Algorithm</th><th scope=\"col\">Limit</th>"
         "<th scope=\"col\">Keys denied</th><th scope=\"col\">Share</th>"
         "<th scope=\"col\">Requests denied</th><th "
         "scope=\"col\">Share</th></tr></thead>\n<tbody>\n" +
         html_rows(report, harm, period) + "</tbody>\n</table>\n</div>\n</section>\n";
}

}  // namespace

std::string suggest_text(const SuggestReport& report, double harm) {
  std::string out = grouped(report.requests) + " requests of " + grouped(report.keys) + " keys " +
                    printable(report.options.key) + " in " + logs_text(report) + "\n";
  if (report.first) {
    out += plain_time(*report.first) + " to " + plain_time(*report.last) + " UTC, " +
           rough_duration_text(*report.last - *report.first) + "\n";
  }
  if (report.unmatched > 0) out += grouped(report.unmatched) + " requests do not match\n";
  if (report.keyless > 0) out += grouped(report.keyless) + " requests have no key\n";
  if (report.skipped > 0) out += grouped(report.skipped) + " lines were skipped\n";
  if (report.without_rules > 0)
    out += grouped(report.without_rules) +
           " requests that name their limits themselves were not read\n";
  if (report.requests == 0) return out;
  out += "\n" + goal_text(report, harm) + ":\n\n  " + pad_right("algorithm", 24) +
         pad_right("limit", 30) + pad_left("keys denied", 12) + pad_left("share", 10) +
         pad_left("requests", 12) + pad_left("share", 10) + "\n";
  for (const Suggestion& each : suggestions(report, harm)) {
    out += "  " + pad_right(to_string(each.curve->algorithm), 24) +
           pad_right(numbers_of(each, report.options.rate), 30) +
           pad_left(grouped(each.keys_denied), 12) +
           pad_left(percent(each.keys_denied, report.keys), 10) +
           pad_left(grouped(each.requests_denied), 12) +
           pad_left(percent(each.requests_denied, report.requests), 10) + "\n";
  }
  return out +
         "\nKeys denied are exact. Requests denied are exact for fixed_window with requests of "
         "one unit,\nelse upper bounds.\n";
}

std::string suggest_json(const SuggestReport& report, double harm) {
  base::JsonWriter out;
  const auto instant = [&](const char* name, const std::optional<Instant>& at) {
    out.key(name);
    at ? out.value(base::to_rfc3339(*at)) : out.null();
  };
  out.begin_object().member("lines", report.lines).member("parsed", report.parsed());
  out.member("skipped", report.skipped).member("without_rules", report.without_rules);
  out.member("requests", report.requests).member("unmatched", report.unmatched);
  out.member("keyless", report.keyless).member("keys", report.keys);
  out.member("key_bytes", std::uint64_t{report.key_bytes}).member("harm", harm);
  instant("first", report.first);
  instant("last", report.last);
  out.key("suggestions").begin_array();
  for (const Suggestion& each : suggestions(report, harm)) {
    const bool bucket = each.curve->algorithm == Algorithm::kTokenBucket;
    out.begin_object().member("algorithm", to_string(each.curve->algorithm));
    out.member("per", core::format_period(each.curve->period));
    out.member("limit", bucket ? report.options.rate : each.limit);
    if (bucket) out.member("burst", each.limit);
    out.member("keys_denied", each.keys_denied);
    out.member("requests_denied_at_most", each.requests_denied).end_object();
  }
  out.end_array().member("elapsed_ms", static_cast<std::uint64_t>(report.elapsed.count()));
  return std::string(out.end_object().view()) + "\n";
}

std::string suggest_html(const SuggestReport& report, double harm) {
  std::string out = page_head("Suggested limits", kCurveStyle) +
                    "<h1>Limits for this traffic</h1>\n<p class=\"soft\">" +
                    grouped(report.requests) + " requests of " + grouped(report.keys) +
                    " keys <code>" + html_text(report.options.key) + "</code> in <code>" +
                    html_text(logs_text(report)) + "</code>";
  if (report.first) {
    out += "<br>" + plain_time(*report.first) + " to " + plain_time(*report.last) + " UTC, " +
           rough_duration_text(*report.last - *report.first);
  }
  out += "</p>\n<p>" + goal_text(report, harm) + ". The dotted line is this share. " + kExactness +
         "</p>\n";
  if (report.requests > 0) {
    for (const Duration period : report.options.periods) out += html_section(report, harm, period);
  }
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace sluice::replay
