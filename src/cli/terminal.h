#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::cli {

// The terminal of standard input and output, used as a whole screen. The destructor, a signal that
// ends the process, and one that stops it restore what was there.
//
// Not thread-safe; one at a time. It handles SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT and
// SIGWINCH while it exists.
class Terminal {
 public:
  // Errors: std::system_error if standard input is no terminal.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Returns whether both streams are a terminal that can show a screen.
  static bool is_usable();

  struct Size {
    std::size_t width = 80;
    std::size_t height = 24;
  };
  static Size size();
  // Replaces the screen. The lines must not have control characters.
  void draw(const std::vector<std::string>& lines);
  // Waits for the keyboard. Returns what it sent; an empty text after the time, and after a change
  // of the size or a stop of the process, when the screen is to be drawn again. `has_ended` is set
  // if there is no keyboard any more.
  std::string read(int timeout_ms, bool& has_ended);
};

}  // namespace sluice::cli
