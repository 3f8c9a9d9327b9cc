// Draws the pictures of docs/algorithms.md from decisions of the library:
//
//   example_pictures FOLDER     writes FOLDER/bursts.svg and FOLDER/choose.svg, and in FOLDER/zh
//   the
//                               same with Chinese text
//
// One burst, one pause and one steady overload arrive at a limit of 10 per second.
#include <sluice/sluice.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using sluice::Instant;

constexpr int kColumns = 64;  // of 50 ms
constexpr sluice::Duration kColumn = 50ms;
constexpr Instant kStart{24h * 365};  // a whole second, so that clock-aligned windows begin at 0 s

// The number of requests that arrive in a column: a burst across the boundary of a second, a pause,
// then 20 requests per second.
int arrivals(int column) {
  if (column >= 16 && column < 24) return 4;
  return column >= 40 ? 1 : 0;
}

// The requests of one column of a row: those of the class `shown` below those that are denied.
struct Column {
  int shown = 0;
  int denied = 0;
};
struct Row {
  std::array<Column, kColumns> columns = {};
  int admitted = 0;

  Column& at(std::int64_t column) { return columns[static_cast<std::size_t>(column)]; }
};

// Shows requests when they arrive, or with kDepartures when a queue releases them.
enum class Show { kArrivals, kDepartures };

Row decide(const sluice::Limit& limit, Show show) {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  Row row;
  for (int column = 0; column < kColumns; ++column) {
    for (int i = 0; i < arrivals(column); ++i) {
      const Instant now = kStart + column * kColumn + i * kColumn / arrivals(column);
      const sluice::Decision decision = limiter.try_acquire("key", limit, 1, now);
      row.admitted += decision.allowed();
      if (show == Show::kArrivals) {
        ++(decision ? row.at(column).shown : row.at(column).denied);
      } else if (decision) {
        const auto leaves = (now + decision.delay.value_or(0us) - kStart) / kColumn;
        if (leaves < kColumns) ++row.at(leaves).shown;
      }
    }
  }
  return row;
}

// --- SVG -----------------------------------------------------------------------------------------

constexpr const char* kStyle = R"(<style>
  .page { fill: #ffffff } .grid { stroke: #d0d7de } .soft { fill: #59636e }
  .text, .soft { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
  .text { fill: #1f2328 } .name { font-weight: 600 }
  .request { fill: #818b98; stroke: #818b98 }
  .admitted { fill: #0969da; stroke: #0969da } .denied { fill: none; stroke: #bc4c00 }
  .box { fill: #f6f8fa; stroke: #818b98 } .answer { fill: #ddf4ff; stroke: #0969da }
  .arrow { fill: none; stroke: #59636e; stroke-width: 1.5 } .head { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .grid { stroke: #3d444d } .soft { fill: #9198a1 }
    .text { fill: #f0f6fc }
    .admitted { fill: #4493f8; stroke: #4493f8 } .denied { stroke: #f0883e }
    .box { fill: #151b23; stroke: #656c76 } .answer { fill: #121d2f; stroke: #4493f8 }
    .arrow { stroke: #9198a1 } .head { fill: #9198a1 }
  }
</style>
)";

std::string number(int value) { return std::to_string(value); }

enum class Language { kEnglish, kChinese };

// The words of a text in each language. The names of algorithms and options are the same in all.
struct Words {
  Words(const char* same) : english(same), chinese(same) {}
  Words(const std::string& same) : english(same), chinese(same) {}
  Words(const char* in_english, const char* in_chinese)
      : english(in_english), chinese(in_chinese) {}

  std::string english;
  std::string chinese;
};

class Picture {
 public:
  Picture(Language language, int width, int height, const Words& title) : language_(language) {
    svg_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " +
           number(height) + "\" width=\"" + number(width) + "\" height=\"" + number(height) +
           "\" role=\"img\"" + (language == Language::kChinese ? " xml:lang=\"zh-CN\"" : "") +
           ">\n<title>" + in_language(title) + "</title>\n" + kStyle;
    svg_ += "<rect class=\"page\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n";
  }
  void path(const std::string& kind, const std::string& steps) {
    svg_ += "<path class=\"" + kind + "\" d=\"" + steps + "\"/>\n";
  }
  void rect(const std::string& kind, int x, int y, int width, int height, int round) {
    svg_ += "<rect class=\"" + kind + "\" x=\"" + number(x) + "\" y=\"" + number(y) +
            "\" width=\"" + number(width) + "\" height=\"" + number(height) + "\" rx=\"" +
            number(round) + "\"/>\n";
  }
  void text(int x, int y, const Words& words, const std::string& kind = "text", int size = 13,
            const std::string& anchor = "start") {
    svg_ += "<text class=\"" + kind + "\" x=\"" + number(x) + "\" y=\"" + number(y) +
            "\" font-size=\"" + number(size) + "\" text-anchor=\"" + anchor + "\">" +
            in_language(words) + "</text>\n";
  }
  // An arrow to the right or down.
  void arrow(int x1, int y1, int x2, int y2) {
    path("arrow", "M" + number(x1) + " " + number(y1) + "L" + number(x2) + " " + number(y2));
    path("head", "M" + number(x2) + " " + number(y2) + (y1 == y2 ? "l-8 -4v8z" : "l-4 -8h8z"));
  }
  bool write(const std::string& file) const {
    std::ofstream out(file, std::ios::binary);
    out << svg_ << "</svg>\n";
    return static_cast<bool>(out.flush());
  }

 private:
  const std::string& in_language(const Words& words) const {
    return language_ == Language::kChinese ? words.chinese : words.english;
  }

  Language language_;
  std::string svg_;
};

// --- the same burst under each algorithm ---------------------------------------------------------

constexpr int kLabels = 212;  // the left edge of the first column
constexpr int kStep = 9;      // from one column to the next, and from one request to the one above
constexpr int kRowHeight = 52;
constexpr int kTop = 66;

// A request: a square of 7 pixels.
std::string square(int x, int y) { return "M" + number(x) + " " + number(y) + "h7v7h-7z"; }

void draw_row(Picture& picture, int index, const Words& name, const Words& option,
              const std::string& kind, Row row) {
  const int base = kTop + (index + 1) * kRowHeight - 10;
  std::string shown;
  std::string denied;
  for (int column = 0; column < kColumns; ++column) {
    const Column& here = row.at(column);
    for (int i = 0; i < here.shown + here.denied; ++i) {
      (i < here.shown ? shown : denied) +=
          square(kLabels + column * kStep + 1, base + 2 - (i + 1) * kStep);
    }
  }
  picture.path("grid",
               "M" + number(kLabels) + " " + number(base + 2) + "h" + number(kColumns * kStep));
  picture.path(kind, shown);
  if (!denied.empty()) picture.path("denied", denied);
  picture.text(16, base - 16, name, "text name");
  picture.text(16, base, option, "soft", 12);
  picture.text(kLabels + kColumns * kStep + 56, base, number(row.admitted), "text", 13, "end");
}

bool draw_bursts(Language language, const std::string& file) {
  struct Case {
    std::string name;
    Words option;
    sluice::Limit limit;
    Show show = Show::kArrivals;
  };
  const std::vector<Case> cases{
      {"fixed_window", "align: first_request", sluice::fixed_window(10).per(1s)},
      {"fixed_window", "align: clock", sluice::fixed_window(10).per(1s).aligned_to_clock()},
      {"sliding_window_log", "", sluice::sliding_window_log(10).per(1s)},
      {"sliding_window_counter", "slices: 10", sluice::sliding_window_counter(10).per(1s)},
      {"sliding_window_counter", "slices: 1", sluice::sliding_window_counter(10).per(1s).slices(1)},
      {"sliding_window_hybrid", "slices: 10", sluice::sliding_window_hybrid(10).per(1s)},
      {"token_bucket", "burst: 10", sluice::token_bucket(10).per(1s).burst(10)},
      {"token_bucket", "burst: 20", sluice::token_bucket(10).per(1s).burst(20)},
      {"token_bucket", "refill: interval",
       sluice::token_bucket(10).per(1s).refilled_at_intervals()},
      {"gcra", "burst: 4", sluice::gcra(10).per(1s).burst(4)},
      {"leaky_bucket", "burst: 5", sluice::leaky_bucket(10).per(1s).burst(5)},
      {"leaky_bucket",
       {"mode: queue, departures", "mode: queue，离开的时刻"},
       sluice::leaky_bucket(10).per(1s).burst(5).queueing(),
       Show::kDepartures},
  };
  const int rows = static_cast<int>(cases.size()) + 1;
  const int right = kLabels + kColumns * kStep;
  const int bottom = kTop + rows * kRowHeight;
  Picture picture(language, right + 76, bottom + 14,
                  {"The same requests under each algorithm, 10 per second",
                   "同一波请求，各种算法的判断，每秒 10 次"});
  picture.text(16, 26, {"Limit: 10 per second", "限制：每秒 10 次"}, "text name", 15);
  const Words admitted{"admitted", "放行"};
  picture.path("admitted", square(kLabels, 17));
  picture.text(kLabels + 14, 25, admitted, "soft", 12);
  picture.path("denied", square(kLabels + 84, 17));
  picture.text(kLabels + 98, 25, {"denied", "拒绝"}, "soft", 12);
  picture.text(right + 60, 25, admitted, "soft", 12, "end");
  for (int second = 0; second <= 3; ++second) {
    const int x = kLabels + second * kStep * 20;
    picture.path("grid", "M" + number(x) + " " + number(kTop - 10) + "V" + number(bottom - 8));
    const std::string time = number(second);
    picture.text(x, kTop - 16, {(time + " s").c_str(), (time + " 秒").c_str()}, "soft", 12,
                 "middle");
  }
  Row all;
  for (int i = 0; i < kColumns; ++i) all.admitted += all.at(i).shown = arrivals(i);
  draw_row(picture, 0, {"requests", "请求"}, {"as they arrive", "到达的时刻"}, "request", all);
  int index = 0;
  for (const Case& each : cases) {
    draw_row(picture, ++index, each.name, each.option, "admitted", decide(each.limit, each.show));
  }
  return picture.write(file);
}

// --- how to choose an algorithm ------------------------------------------------------------------

constexpr int kBoxHeight = 62;

void draw_box(Picture& picture, const std::string& kind, int x, int y, int width,
              const std::vector<Words>& lines) {
  picture.rect(kind, x, y, width, kBoxHeight, 8);
  int line = y + kBoxHeight / 2 + 5 - 9 * (static_cast<int>(lines.size()) - 1);
  for (std::size_t i = 0; i < lines.size(); ++i, line += 18) {
    const bool is_name = kind == "answer" && i == 0;
    picture.text(x + width / 2, line, lines[i], is_name ? "text name" : "text", 13, "middle");
  }
}

bool draw_choice(Language language, const std::string& file) {
  constexpr int kLeft = 20, kQuestion = 300, kMiddle = 390, kRight = 700, kAnswer = 250;
  constexpr int kNext = 104;
  Picture picture(language, kRight + kAnswer + 20, 20 + 6 * kNext + kBoxHeight + 24,
                  {"How to choose an algorithm", "怎样选择算法"});
  const auto y = [](int level) { return 20 + level * kNext; };
  const auto yes = [&](int level, int from, int to) {
    picture.text(from + 8, y(level) + kBoxHeight / 2 - 6, {"yes", "是"}, "soft", 12);
    picture.arrow(from, y(level) + kBoxHeight / 2, to, y(level) + kBoxHeight / 2);
  };
  const auto no = [&](int level, int x) {
    picture.text(x + 8, y(level) + kBoxHeight + 24, {"no", "否"}, "soft", 12);
    picture.arrow(x, y(level) + kBoxHeight, x, y(level + 1));
  };
  draw_box(picture, "box", kLeft, y(0), kQuestion,
           {{"Do you limit what runs at once,", "限制的是同时进行的数量，"},
            {"not how often it starts?", "而不是开始的频率？"}});
  draw_box(picture, "answer", kMiddle, y(0), kAnswer,
           {"concurrency", {"a permit, until it is released", "持有许可，用完释放"}});
  draw_box(picture, "box", kLeft, y(1), kQuestion,
           {{"Is the cost known only after the call,", "用量要等调用结束才知道，"},
            {"such as tokens or money?", "例如 token 或费用？"}});
  draw_box(picture, "answer", kMiddle, y(1), kAnswer,
           {"budget", {"hold an estimate, then settle", "先预留估计值，再结算"}});
  draw_box(picture, "box", kLeft, y(2), kQuestion,
           {{"Must requests leave evenly spaced,", "请求必须匀速离开，"},
            {"to protect what comes next?", "以保护下游？"}});
  draw_box(picture, "answer", kMiddle, y(2), kAnswer,
           {"leaky_bucket", {"mode: queue to delay requests", "mode: queue 让请求排队"}});
  draw_box(picture, "box", kLeft, y(3), kQuestion,
           {{"Is it a quota, such as 1000 a day,", "是每天 1000 次这样的配额，"},
            {"that may double at a boundary?", "边界上多放行一倍也没关系？"}});
  draw_box(picture, "answer", kMiddle, y(3), kAnswer,
           {"fixed_window", {"per: day or month of a time zone", "per: day、month，可以指定时区"}});
  draw_box(picture, "box", kLeft, y(4), kQuestion,
           {{"Must the limit hold in every window,", "任意一段时间内都不能超，"},
            {"such as 3 in any 60 seconds?", "例如任意 60 秒内 3 次？"}});
  draw_box(picture, "box", kMiddle, y(4), kAnswer,
           {{"Is the limit small,", "额度小，"}, {"up to about 100?", "不超过 100 左右？"}});
  draw_box(picture, "answer", kRight, y(4), kAnswer,
           {"sliding_window_log", {"exact, 12 bytes per request", "精确，每个请求 12 字节"}});
  draw_box(picture, "box", kMiddle, y(5), kAnswer,
           {{"Must the newest requests", "最近的请求"}, {"count exactly?", "必须精确计数？"}});
  draw_box(picture, "answer", kRight, y(5), kAnswer,
           {"sliding_window_hybrid", {"estimates older requests", "较早的请求用估计值"}});
  draw_box(picture, "answer", kLeft, y(5), kQuestion,
           {"token_bucket", {"a rate with bursts: the usual choice", "限速率，允许突发：最常用"}});
  draw_box(picture, "answer", kMiddle, y(6), kAnswer,
           {"sliding_window_counter", {"an estimate in fixed memory", "估计值，内存固定"}});
  for (const int level : {0, 1, 2, 3, 4}) yes(level, kLeft + kQuestion, kMiddle);
  for (const int level : {4, 5}) yes(level, kMiddle + kAnswer, kRight);
  for (const int level : {0, 1, 2, 3, 4}) no(level, kLeft + kQuestion / 2);
  for (const int level : {4, 5}) no(level, kMiddle + kAnswer / 2);
  picture.text(kLeft, y(5) + kBoxHeight + 22,
               {"gcra decides like token_bucket, with burst + 1 tokens.",
                "gcra 与容量为 burst + 1 的 token_bucket 判断相同。"},
               "soft", 12);
  return picture.write(file);
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const auto draw = [](Language language, const std::string& to) {
    return draw_bursts(language, to + "/bursts.svg") && draw_choice(language, to + "/choose.svg");
  };
  std::error_code error;
  std::filesystem::create_directories(folder + "/zh", error);
  const bool written = draw(Language::kEnglish, folder) && draw(Language::kChinese, folder + "/zh");
  std::puts(written ? "wrote bursts.svg and choose.svg, also in zh" : "cannot write the pictures");
  return written ? 0 : 1;
}
