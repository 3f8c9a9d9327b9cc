#include "replay/chart.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "replay/text.h"

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;

constexpr double kWidth = 1000;  // of the drawing, which is scaled to its box
constexpr double kHeight = 100;

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  std::string digits = text.data();
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
    step_ = grid_step(most_);
    top_ = (most_ + step_ - 1) / step_ * step_;
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
    area("denied", &Drawing::denied);
    columns();
    out_ += "</svg>\n</div>\n";
    time_axis();
    return std::move(out_);
  }

 private:
  using Count = std::uint64_t (Drawing::*)(std::size_t) const;

  std::uint64_t requests(std::size_t bucket) const { return series_.at(bucket, chart_.requests); }
  std::uint64_t denied(std::size_t bucket) const { return series_.at(bucket, chart_.denied); }
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
              " UTC, " + duration_text(series_.width()) + "\n" + grouped(requests(i)) +
              " requests\n" + grouped(denied(i)) + " " + chart_.denied_name + " (" +
              percent(denied(i), requests(i)) + ")</title></rect>\n";
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

}  // namespace sluice::replay
