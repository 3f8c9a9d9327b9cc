#include "cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace sluice::cli {
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
  struct sigaction action{};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

bool Terminal::is_usable() {
  const char* const kind = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

Terminal::Terminal() {
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

Terminal::~Terminal() {
  leave_screen();
  for (const int signal : kEnding) std::signal(signal, SIG_DFL);
  for (const int signal : {SIGTSTP, SIGCONT, SIGWINCH}) std::signal(signal, SIG_DFL);
}

Terminal::Size Terminal::size() {
  winsize found{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_col == 0) return {};
  return {found.ws_col, found.ws_row};
}

void Terminal::draw(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\r\n";
    text += lines[i] + "\x1b[K";
  }
  write_text(text + "\x1b[J");
}

std::string Terminal::read(int timeout_ms, bool& has_ended) {
  pollfd keyboard{STDIN_FILENO, POLLIN, 0};
  if (::poll(&keyboard, 1, timeout_ms) <= 0) return {};
  std::array<char, 256> bytes{};
  const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  has_ended = size == 0 || (size < 0 && errno != EINTR);
  return size > 0 ? std::string(bytes.data(), static_cast<std::size_t>(size)) : std::string();
}

}  // namespace sluice::cli
