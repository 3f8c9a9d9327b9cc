#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "cli/admin_client.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/top_data.h"
#include "cli/top_view.h"

namespace sluice::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kTopHelp =
    R"(Show requests and denials per second by rule, and the most denied or most asked keys
(docs/insight.md), of a running server. If standard output is no terminal, or with --once or -n, the
output is plain text.

Keys: q quits; s sorts rules by denials, requests or name; b shows denied or asked keys; w selects
the last minute, hour or day; p pauses; / filters rules and keys, Enter ends and Escape removes the
filter.

Exit status: 0 success; 1 the server does not answer; 2 wrong usage.

Examples:
  sluice top
  sluice top --admin unix:/run/sluice/admin.sock --by asked --over hour
  sluice top --once --interval 10 > report.txt)";

constexpr std::size_t kReportColumns = 160;

struct TopFlags {
  std::shared_ptr<AdminFlags> admin;
  double interval = 2;
  std::uint64_t reports = 0;  // 0: no end
  bool once = false;
  std::string by = "denied";
  std::string over = "minute";

  TopQuery query() const { return {*insight::read_top_by(by), *insight::read_span(over)}; }
  milliseconds period() const { return milliseconds(static_cast<int>(interval * 1000)); }
};

// A server that is asked again and again, and may be started again in between.
class Server {
 public:
  explicit Server(const AdminFlags& flags) : flags_(flags) {}

  Expected<TopSample, Failed> ask(const TopQuery& query) {
    if (!client_) {
      auto client = connect_to(flags_);
      if (!client) return Unexpected{client.error()};
      client_ = *std::move(client);
    }
    auto sample = read_top(*client_, query);
    if (sample) return *std::move(sample);
    client_.reset();
    return Unexpected{Failed{sample.error()}};
  }

 private:
  const AdminFlags& flags_;
  std::unique_ptr<AdminClient> client_;
};

int end_with(const Failed& why) {
  std::cerr << "sluice: top: " << why.what << '\n';
  return why.status;
}

int print_reports(const TopFlags& flags, std::uint64_t reports) {
  Server server(*flags.admin);
  TopView view(flags.query());
  for (std::uint64_t i = 0; reports == 0 || i <= reports; ++i) {
    auto sample = server.ask(view.query());
    if (!sample) return end_with(sample.error());
    view.add(*std::move(sample));
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
  Server server(*flags.admin);
  TopView view(flags.query());
  auto first = server.ask(view.query());
  if (!first) return end_with(first.error());
  view.add(*std::move(first));
  Terminal terminal;
  auto next = steady_clock::now() + std::min(flags.period(), milliseconds(500));
  bool has_ended = false;
  while (!has_ended) {
    const auto now = steady_clock::now();
    if (now >= next) {
      next = now + flags.period();
      auto sample = server.ask(view.query());
      if (sample) {
        view.add(*std::move(sample));
      } else {
        view.fail(sample.error().what);
      }
    }
    const Terminal::Size size = Terminal::size();
    terminal.draw(view.screen(size.width, size.height));
    const auto wait = std::chrono::ceil<milliseconds>(next - steady_clock::now());
    const std::string keys = terminal.read(std::max(0, static_cast<int>(wait.count())), has_ended);
    const auto pressed = view.press(keys);
    if (pressed == TopView::Pressed::kQuit) return 0;
    if (pressed == TopView::Pressed::kAsk) next = steady_clock::now();
  }
  return 0;
}

}  // namespace

void add_top(Command app, int& status) {
  const Command top =
      app.add_subcommand("top", "Show the rates of a server, and its most denied keys");
  auto flags = std::make_shared<TopFlags>();
  top.add_flag("--once", flags->once, "Print one report and exit; the same as -n 1");
  top.add_option("-n", flags->reports, "Print this number of reports and exit")
      .range(1, 1'000'000'000);
  top.add_option("--interval", flags->interval, "The seconds between two reports [2]")
      .range(0.1, 3600.0);
  top.add_option("--by", flags->by, "Which keys to show first: denied, asked [denied]")
      .one_of({insight::kTopByNames.begin(), insight::kTopByNames.end()});
  top.add_option("--over", flags->over, "The window of the keys: minute, hour, day [minute]")
      .one_of({insight::kSpanNames.begin(), insight::kSpanNames.end()});
  flags->admin = add_admin_flags(top);
  top.footer(kTopHelp);
  top.callback([flags, &status] {
    const std::uint64_t reports = flags->once ? 1 : flags->reports;
    const bool is_plain = reports > 0 || !Terminal::is_usable();
    status = is_plain ? print_reports(*flags, reports) : show_screen(*flags);
  });
}

}  // namespace sluice::cli
