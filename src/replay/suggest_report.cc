#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

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

// "10 per 1s, burst 33", and with a cost "10 tokens per 1s, burst 33"
std::string numbers_of(const SuggestReport& report, const DemandCurve& curve, std::uint64_t limit) {
  const std::string unit = report.options.unit();
  const std::string per =
      (unit.empty() ? "" : " " + unit) + " per " + core::format_period(curve.period);
  if (curve.algorithm != Algorithm::kTokenBucket) return grouped(limit) + per;
  return grouped(curve.rate) + per + ", burst " + grouped(limit);
}

// "pages: 120 per 1m, burst 60: denies 919 of 206,860 requests, of 8 of 8,799 clients"
std::string advice_line(const SuggestReport& report, const Advice& advice) {
  return advice.route->name + ": " + numbers_of(report, *advice.curve, advice.burst) + ": " +
         denial_text(report, advice);
}

// "2", "2.5" or "1.02"
std::string ratio_text(std::uint64_t number, std::uint64_t of) {
  const double ratio = static_cast<double>(number) / static_cast<double>(of);
  std::string text = decimal(ratio, ratio < 0.095 ? 3 : ratio < 1.095 ? 2 : ratio < 9.95 ? 1 : 0);
  while (text.ends_with('0') && text.find('.') != text.npos) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// How far the limit is above what the clients needed that it admits; empty if there are none.
std::string headroom_text(const SuggestReport& report, const Advice& advice) {
  if (advice.keys_measured == 0) return "";
  const std::string unit = report.options.unit();
  const std::string key = report.options.key == "{ip}" ? "client" : "key";
  const std::string who =
      plural(advice.keys_measured, is_of_writes(advice.route->kind) ? "legitimate " + key : key) +
      " (" + grouped(advice.busiest_hour) + (unit.empty() ? "" : " " + unit) + ")";
  const std::chrono::seconds span = report.covered();
  const std::string rate =
      span >= std::chrono::hours{1}
          ? ratio_text(advice.curve->rate * 60, advice.busiest_hour) + " times the busiest hour of "
          : ratio_text(advice.curve->rate * static_cast<std::uint64_t>(span.count()),
                       advice.busiest_hour * 60) +
                " times the " + rough_duration_text(span) + " of ";
  return "rate: " + rate + who + "; burst: " + ratio_text(advice.burst, advice.burst_needed) +
         " times the need (" + grouped(advice.burst_needed) + ")";
}

// How the numbers of the limit follow from the needs of the clients that it is made for.
std::string basis_text(const SuggestReport& report, const Advice& advice) {
  const Advice::Basis& basis = advice.basis;
  if (basis.headroom == 0 || basis.all_keys == 0) return "";
  const std::chrono::seconds span = report.rate_span();
  const std::string times = ratio_text(static_cast<std::uint64_t>(basis.headroom * 10), 10);
  const double least = basis.headroom * static_cast<double>(basis.busiest_hour);
  const bool is_at_least =
      static_cast<double>(advice.curve->rate) * static_cast<double>(span.count()) >= 60 * least;
  const std::string hour =
      times + " times " + grouped(basis.busiest_hour) +
      (span == std::chrono::hours{1} ? " an hour" : " in " + duration_text(span));
  return "made for " + grouped(basis.keys) + " of " +
         plural(basis.all_keys, report.options.key == "{ip}" ? "client" : "key") + ": burst " +
         times + " times " + grouped(basis.burst_needed) + ", rounded up" +
         (advice.burst == Advice::kLeastBurst ? ", at least " + grouped(Advice::kLeastBurst) : "") +
         (is_at_least ? "; rate at least " + hour : "");
}

// What the route of an advice is, for people; empty if it is all requests.
std::string route_text(const Advice& advice) {
  switch (advice.route->kind) {
    case RouteKind::kLogin: return "requests that look like a login";
    case RouteKind::kApi: return "requests of the API";
    case RouteKind::kWrites: return "requests that write";
    case RouteKind::kStatic: return "static files";
    case RouteKind::kPages: break;
  }
  return advice.route->match.empty() || advice.route->match.starts_with("not:") ? "" : "requests";
}

std::string goal_text(const SuggestReport& report, double harm) {
  return "The smallest limits that deny at most " + share_text(harm) + " of keys (" +
         grouped(share_of(report.keys, harm)) + " of " + grouped(report.keys) + ")";
}

std::string exactness_text(const SuggestReport& report) {
  if (!report.replayed.empty()) {
    return "A replay of these limits denies exactly these keys and requests.";
  }
  return "Keys denied are exact. Requests denied are exact for fixed_window with requests of one "
         "unit,\nelse upper bounds.";
}

// The curves of a chart, each in a class of kCurveStyle.
using ChartLines = std::vector<std::pair<const DemandCurve*, std::string>>;

// Returns the label of a power of ten.
std::string power_text(int power) {
  const auto number = static_cast<std::uint64_t>(std::pow(10, power % 3));
  constexpr std::array<const char*, 4> kUnits = {"", "k", "M", "G"};
  return power < 4 ? grouped(static_cast<std::uint64_t>(std::pow(10, power)))
                   : std::to_string(number) + kUnits[static_cast<std::size_t>(power / 3)];
}

// Returns the places on the axis of limits, of this many decades, and of shares.
double x_of(std::uint64_t limit, double decades) {
  return std::min(1000.0, 1000 * std::log10(static_cast<double>(limit)) / decades);
}
double y_of(double share, double decades) {
  if (share <= 0) return 100;
  return std::clamp(-std::log10(share) / (decades + 1), 0.0, 1.0) * 100;
}

// One step for each of the limits, which are evenly spread on the axis.
std::string curve_path(const DemandCurve& curve, double keys, double decades_x, double decades_y) {
  constexpr int kSteps = 120;
  std::string path;
  std::uint64_t last = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const auto limit = static_cast<std::uint64_t>(std::pow(10, decades_x * i / kSteps));
    if (limit == last) continue;
    const double share = static_cast<double>(curve.keys_over(limit)) / keys;
    const std::string height = decimal(y_of(share, decades_y), 2);
    path += last == 0 ? "M0 " + height : "H" + decimal(x_of(limit, decades_x), 1) + "V" + height;
    last = limit;
  }
  return path;
}

// Returns a chart of the share of keys that are denied (logarithmic) by the limit (logarithmic).
// Shares below that of one key are zero, on a line of its own. `title`: plain text. `axis`: the
// title of the axis of limits. `chosen`: a limit to mark, or 0.
std::string curve_chart(const ChartLines& lines, std::uint64_t all, double harm,
                        const std::string& title, const std::string& axis,
                        std::uint64_t chosen = 0) {
  const auto keys = static_cast<double>(std::max<std::uint64_t>(all, 1));
  std::uint64_t largest = 1;
  for (const auto& [curve, style] : lines) largest = std::max(largest, curve->largest());
  const double decades_x = std::max(1.0, std::ceil(std::log10(static_cast<double>(largest) + 1)));
  const double decades_y = std::max(1.0, std::ceil(std::log10(keys)));
  const auto last_x = static_cast<int>(decades_x), last_y = static_cast<int>(decades_y);
  std::string out = "<div class=\"plot\">\n";
  const auto add_label = [&](double share, const std::string& text) {
    out +=
        "<span class=\"y\" aria-hidden=\"true\" style=\"top:" + decimal(y_of(share, decades_y), 1) +
        "%\">" + text + "</span>\n";
  };
  const auto add_grid = [&](double share, const char* name) {
    out += "<path class=\"" + std::string(name) + "\" d=\"M0 " +
           decimal(y_of(share, decades_y), 1) + "H1000\"/>\n";
  };
  for (int i = 0; i <= last_y; ++i) add_label(std::pow(10, -i), share_text(std::pow(10, -i)));
  add_label(0, "0");
  out += "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\">\n<title>" +
         html_text(title) + "</title>\n";
  for (int i = 1; i <= last_y; ++i) add_grid(std::pow(10, -i), "grid");
  if (harm > 0) add_grid(harm, "harm");
  if (chosen > 0) {
    out += "<path class=\"chosen\" d=\"M" + decimal(x_of(chosen, decades_x), 1) + " 0V100\"/>\n";
  }
  for (const auto& [curve, style] : lines) {
    out += "<path class=\"curve " + style + "\" d=\"" +
           curve_path(*curve, keys, decades_x, decades_y) + "\"/>\n";
  }
  out += "</svg>\n</div>\n<div class=\"axis\" aria-hidden=\"true\">";
  const int step = decades_x > 5 ? 2 : 1;
  for (int i = 0; i <= last_x; ++i) {
    const char* const place = i == 0          ? " class=\"edge\""
                              : i == last_x   ? " class=\"end\""
                              : i % step != 0 ? " class=\"spare\""
                                              : "";
    out += "<span" + std::string(place) + " style=\"left:" + decimal(100.0 * i / decades_x, 1) +
           "%\">" + power_text(i) + "</span>";
  }
  return out + "</div>\n<p class=\"soft small x-title\">" + html_text(axis) + "</p>\n";
}

constexpr const char* kCurveStyle =
    ".curve{fill:none;stroke-width:2;vector-effect:non-scaling-stroke;stroke:var(--allowed)}"
    ".sliding_window_counter{stroke:var(--denied);stroke-dasharray:7 3}"
    ".token_bucket{stroke:var(--trial);stroke-dasharray:2 3}"
    ".slower{stroke:var(--soft);stroke-width:1}.faster{stroke:var(--soft);stroke-width:1;"
    "stroke-dasharray:7 3}"
    ".harm,.chosen{stroke:var(--ink);vector-effect:non-scaling-stroke;stroke-dasharray:1 4}"
    ".chosen{stroke-dasharray:none}"
    ".axis .end{transform:translateX(-100%)}.x-title{text-align:center;margin:.2rem 0 0 3.4rem}"
    ".take{font-size:1.15rem;font-weight:650;margin:.25rem 0 .5rem}"
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
            numbers_of(report, *each.curve, each.limit) + "</td><td>" + grouped(each.keys_denied) +
            "</td><td>" + html_text(percent(each.keys_denied, report.keys)) + "</td><td>" +
            grouped(each.requests_denied) + "</td><td>" +
            html_text(percent(each.requests_denied, report.requests)) + "</td></tr>\n";
  }
  return rows;
}

std::string html_section(const SuggestReport& report, double harm, Duration period) {
  const std::string per = core::format_period(period);
  std::string out = "<section aria-labelledby=\"per-" + per + "\">\n<h2 id=\"per-" + per +
                    "\">All requests, per " + per + "</h2>\n<ul class=\"legend\">";
  ChartLines lines;
  for (const DemandCurve& each : report.curves) {
    if (each.period != period) continue;
    const std::string name(to_string(each.algorithm));
    lines.emplace_back(&each, name);
    const bool bucket = each.algorithm == Algorithm::kTokenBucket;
    out += legend_item(name, bucket ? "burst of token_bucket, " + grouped(each.rate) + " per " + per
                                    : "limit of " + name);
  }
  out += "<li>share of keys denied, by the limit</li></ul>\n";
  out += curve_chart(lines, report.keys, harm, "Share of keys denied by the limit per " + per,
                     "limit, units per " + per);
  return out + "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Limits per " +
         per +
         "\">\n<table>\n<thead><tr><th scope=\"col\">Algorithm</th><th scope=\"col\">Limit</th>"
         "<th scope=\"col\">Keys denied</th><th scope=\"col\">Share</th>"
         "<th scope=\"col\">Requests denied</th><th "
         "scope=\"col\">Share</th></tr></thead>\n<tbody>\n" +
         html_rows(report, harm, period) + "</tbody>\n</table>\n</div>\n</section>\n";
}

// Clients that the advice denies and does not name.
std::uint64_t more_denied(const Advice& advice) {
  return advice.keys_denied - static_cast<std::uint64_t>(std::count_if(
                                  advice.clients.begin(), advice.clients.end(),
                                  [](const AdvisedClient& each) { return each.denied; }));
}

std::string label_of(const AdvisedClient& client) {
  if (client.traits == nullptr) return "(no sample)";
  return client.label.empty() ? "(empty key)" : client.label;
}

// The clients that the advice names.
std::string html_clients(const Advice& advice) {
  if (advice.clients.empty()) return "";
  std::string out =
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Clients\">\n<table>\n"
      "<thead><tr><th scope=\"col\">Client</th><th scope=\"col\">Requests</th>"
      "<th scope=\"col\">Share</th><th scope=\"col\">Needs a burst of</th></tr></thead>\n<tbody>\n";
  for (const AdvisedClient& each : advice.clients) {
    out += "<tr><th scope=\"row\"><span class=\"mono\">" + html_text(label_of(each)) + "</span>" +
           (each.denied       ? " <span class=\"bad small\">denied</span>"
            : each.needs_most ? " <span class=\"soft small\">needs most</span>"
                              : "");
    if (each.traits != nullptr) {
      for (const std::string& part : {requests_of(*each.traits), agent_of(*each.traits)}) {
        if (part.empty() || part == each.label) continue;
        out += "<br><span class=\"soft small\">" + html_text(part) + "</span>";
      }
    }
    out += "</th><td>" + grouped(each.requests) + "</td><td>" +
           html_text(percent(each.requests, advice.route->demand.requests())) + "</td><td>" +
           grouped(each.burst_needed) + "</td></tr>\n";
  }
  out += "</tbody>\n</table>\n</div>\n";
  const std::uint64_t more = more_denied(advice);
  return more == 0 ? out : out + "<p>And " + grouped(more) + " more that are denied.</p>\n";
}

std::string html_advice(const SuggestReport& report, const Advice& advice, double harm,
                        bool is_first) {
  const std::string& name = advice.route->name;
  const auto& curves = advice.route->demand.curves();
  std::string out = "<section aria-labelledby=\"take-" + name + "\">\n<h2 id=\"take-" + name +
                    "\">" + (is_first ? "Take this: " : "Then: ") + name +
                    "</h2>\n<p class=\"take\">" + numbers_of(report, *advice.curve, advice.burst) +
                    "</p>\n<p>It " + denial_text(report, advice) + ".</p>\n";
  for (const std::string& each : {headroom_text(report, advice), basis_text(report, advice)}) {
    if (!each.empty()) out += "<p>" + html_text(each) + ".</p>\n";
  }
  if (!advice.note.empty()) out += "<p class=\"bad\">" + html_text(advice.note) + "</p>\n";
  if (!advice.route->match.empty()) {
    out +=
        "<p class=\"small\"><code>match: { " + html_text(advice.route->match) + " }</code></p>\n";
  }
  out += html_clients(advice) +
         "<h3>Share of clients denied, by the burst</h3>\n<ul class=\"legend\">";
  const std::size_t chosen = advice.bucket();
  ChartLines lines;
  const auto add = [&](std::size_t index, const char* style) {
    if (index < advice.route->demand.first_bucket() || index >= curves.size()) return;
    lines.emplace_back(&curves[index], style);
    out += legend_item(
        style, grouped(curves[index].rate) + " per " + core::format_period(curves[index].period));
  };
  add(chosen - 1, "slower");
  add(chosen, "token");
  add(chosen + 1, "faster");
  if (is_of_writes(advice.route->kind)) harm = 0;  // it is made for other clients
  out += "<li>the line upwards is the burst to take" +
         (harm > 0 ? ", the dotted one the share " + share_text(harm) : "") + "</li></ul>\n";
  out += curve_chart(lines, advice.route->demand.keys(), harm,
                     "Share of the clients of " + name + " that each burst denies",
                     "burst of a token bucket, units", advice.burst);
  return out + "</section>\n";
}

// The headroom of an advice, where its numbers are from, and its note, a line each.
std::string remarks(const SuggestReport& report, const Advice& advice) {
  std::string lines;
  for (const std::string& each :
       {headroom_text(report, advice), basis_text(report, advice), advice.note}) {
    if (!each.empty()) lines += "  " + each + "\n";
  }
  return lines;
}

constexpr std::size_t kIndent = 8;         // of what a client did, with a margin
constexpr std::size_t kMatchColumns = 10;  // before the map of a route

void add_clients(const Advice& advice, std::size_t columns, std::string& out) {
  std::size_t width = 8;
  for (const AdvisedClient& each : advice.clients) {
    width = std::max(width, columns_of(printable(label_of(each), 40)));
  }
  const auto row = [&](const std::string& client, const std::string& requests,
                       const std::string& share, const std::string& burst) {
    return "  " + pad_right(client, width) + pad_left(requests, 12) + pad_left(share, 10) +
           pad_left(burst, 16);
  };
  if (!advice.clients.empty()) out += row("client", "requests", "share", "needs a burst") + "\n";
  for (const AdvisedClient& each : advice.clients) {
    out +=
        row(printable(label_of(each), 40), grouped(each.requests),
            percent(each.requests, advice.route->demand.requests()), grouped(each.burst_needed)) +
        (each.denied       ? "  denied\n"
         : each.needs_most ? "  needs most\n"
                           : "\n");
    if (each.traits == nullptr) continue;
    const std::string what = fitted_text(*each.traits, each.label, columns - kIndent);
    if (!what.empty()) out += "      " + what + "\n";
  }
  if (const std::uint64_t more = more_denied(advice); more > 0) {
    out += "  and " + grouped(more) + " more that are denied\n";
  }
}

void add_table(const SuggestReport& report, double harm, std::string& out) {
  out += "\n" + goal_text(report, harm) + ", all requests:\n\n  " + pad_right("algorithm", 24) +
         pad_right("limit", 30) + pad_left("keys denied", 12) + pad_left("share", 10) +
         pad_left("requests", 12) + pad_left("share", 10) + "\n";
  for (const Suggestion& each : suggestions(report, harm)) {
    out += "  " + pad_right(to_string(each.curve->algorithm), 24) +
           pad_right(numbers_of(report, *each.curve, each.limit), 30) +
           pad_left(grouped(each.keys_denied), 12) +
           pad_left(percent(each.keys_denied, report.keys), 10) +
           pad_left(grouped(each.requests_denied), 12) +
           pad_left(percent(each.requests_denied, report.requests), 10) + "\n";
  }
  out += "\n" + exactness_text(report) + "\n";
}

}  // namespace

std::string suggest_text(const SuggestReport& report, double harm, bool all, std::size_t columns) {
  const auto advice = advise(report, harm);
  std::string out;
  if (!advice.empty()) {
    out = advice_line(report, advice[0]) + "\n" + remarks(report, advice[0]) + "\n";
    add_clients(advice[0], columns, out);
    if (!advice[0].clients.empty()) out += "\n";
  }
  out += plural(report.requests, "request") + " of " + plural(report.keys, "key") + " " +
         printable(report.options.key) + " in " + report.logs_text() + "\n";
  if (report.first) {
    out += span_text(*report.first, *report.last) + "\n";
  }
  constexpr std::uint64_t kManyOfNetwork = 10;  // a device can have a few
  if (report.network_keys >= kManyOfNetwork) {
    out += grouped(report.network_keys) +
           " clients are IPv6 addresses of one /64: --key '{ip/64}' counts them together\n";
  }
  if (const std::string unit = report.options.unit(); !unit.empty()) {
    out += "limits and bursts count " + unit + ", shares are of requests\n";
  }
  if (report.unmatched > 0) out += plural(report.unmatched, "request") + " did not match\n";
  if (report.keyless > 0) out += plural(report.keyless, "request") + " without a key\n";
  if (report.skipped > 0) {
    const std::uint64_t wrong = report.wrong_costs;
    out += plural(report.skipped, "line") + " skipped" +
           (wrong == 0 ? "" : ", " + grouped(wrong) + " with a cost that is no whole number") +
           "\n";
  }
  if (report.without_rules > 0)
    out += grouped(report.without_rules) +
           " requests that name their limits themselves were not read\n";
  if (report.failed)
    out += "note: some logs could not be read to the end; this is of what was read\n";
  if (report.requests == 0) return out;
  for (std::size_t i = 1; i < advice.size(); ++i) {
    out += (i == 1 ? "\nThen, by rules of their own:\n\n" : "\n") + advice_line(report, advice[i]) +
           "\n  " + route_text(advice[i]) + ": " +
           printable(advice[i].route->match, columns - kMatchColumns) + "\n" +
           remarks(report, advice[i]);
    add_clients(advice[i], columns, out);
  }
  if (all) {
    add_table(report, harm, out);
  } else {
    out += "\n--yaml prints these rules, --all the limits of all algorithms.\n";
  }
  return out;
}

namespace {

void write_names(base::JsonWriter& out, std::string_view name, const FrequentValues& values) {
  out.key(name).begin_array();
  for (const FrequentValues::Value& each : values.most(3)) out.value(each.text);
  out.end_array();
}

void write_advice(base::JsonWriter& out, const SuggestReport& report, double harm) {
  out.key("advice").begin_array();
  for (const Advice& advice : advise(report, harm)) {
    const Demand& demand = advice.route->demand;
    out.begin_object().member("rule", advice.route->name).member("match", advice.route->match);
    out.member("algorithm", "token_bucket").member("limit", advice.curve->rate);
    out.member("per", core::format_period(advice.curve->period)).member("burst", advice.burst);
    out.member("requests", demand.requests()).member("keys", std::uint64_t{demand.keys()});
    out.member("keys_denied", advice.keys_denied);
    out.member("keys_measured", advice.keys_measured).member("busiest_hour", advice.busiest_hour);
    out.member("burst_needed", advice.burst_needed);
    out.key("made_for").begin_object().member("headroom", advice.basis.headroom);
    out.member("keys", advice.basis.keys).member("of_keys", advice.basis.all_keys);
    out.member("busiest_hour", advice.basis.busiest_hour);
    out.member("burst_needed", advice.basis.burst_needed).end_object();
    const bool is_exact = advice.is_exact || advice.keys_denied == 0;
    out.member(is_exact ? "requests_denied" : "requests_denied_at_most", advice.requests_denied);
    out.member("note", advice.note);
    out.key("clients").begin_array();
    for (const AdvisedClient& each : advice.clients) {
      out.begin_object().member("key", each.label).member("requests", each.requests);
      out.member("burst_needed", each.burst_needed).member("denied", each.denied);
      out.member("needs_most", each.needs_most);
      if (each.traits != nullptr) {
        write_names(out, "agents", each.traits->agents);
        write_names(out, "paths", each.traits->requests);
        write_names(out, "statuses", each.traits->statuses);
      }
      out.end_object();
    }
    out.end_array().member("more_denied", more_denied(advice)).end_object();
  }
  out.end_array();
}

}  // namespace

std::string suggest_json(const SuggestReport& report, double harm) {
  base::JsonWriter out;
  out.begin_object();
  write_totals(out, report);
  out.member("requests", report.requests).member("unmatched", report.unmatched);
  out.member("keyless", report.keyless).member("keys", report.keys);
  out.member("unit", report.options.unit().empty() ? "requests" : report.options.unit());
  out.member("key_bytes", std::uint64_t{report.key_bytes}).member("harm", harm);
  write_instant(out, "first", report.first);
  write_instant(out, "last", report.last);
  write_advice(out, report, harm);
  out.key("suggestions").begin_array();
  for (const Suggestion& each : suggestions(report, harm)) {
    const bool bucket = each.curve->algorithm == Algorithm::kTokenBucket;
    out.begin_object().member("algorithm", to_string(each.curve->algorithm));
    out.member("per", core::format_period(each.curve->period));
    out.member("limit", bucket ? each.curve->rate : each.limit);
    if (bucket) out.member("burst", each.limit);
    out.member("keys_denied", each.keys_denied);
    out.member(each.is_exact ? "requests_denied" : "requests_denied_at_most", each.requests_denied)
        .end_object();
  }
  out.end_array().key("warnings").begin_array();
  for (const auto* const warnings : {&report.problems, &report.unmet}) {
    for (const std::string& each : *warnings) out.value(each);
  }
  out.end_array().member("elapsed_ms", static_cast<std::uint64_t>(report.elapsed.count()));
  return std::string(out.end_object().view()) + "\n";
}

std::string suggest_html(const SuggestReport& report, double harm) {
  std::string out = page_head("Suggested limits", kCurveStyle) +
                    "<h1>Limits for this traffic</h1>\n<p class=\"soft\">" +
                    plural(report.requests, "request") + " of " + plural(report.keys, "key") +
                    " <code>" + html_text(report.options.key) + "</code> in <code>" +
                    html_text(report.logs_text()) + "</code>";
  if (report.failed) {
    out += "<br><span class=\"bad\">Some logs could not be read to the end.</span>";
  }
  if (report.first) {
    out += "<br>" + span_text(*report.first, *report.last);
  }
  out += "</p>\n";
  const auto advice = advise(report, harm);
  for (const Advice& each : advice) out += html_advice(report, each, harm, &each == advice.data());
  if (report.requests > 0) {
    out += "<section aria-labelledby=\"all\">\n<h2 id=\"all\">All algorithms</h2>\n<p>" +
           goal_text(report, harm) + ". " + exactness_text(report) + "</p>\n</section>\n";
    for (const Duration period : report.options.periods) out += html_section(report, harm, period);
  }
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace sluice::replay
