#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::redis {

// A reply of a server. Its text and its elements belong to the ReplyReader that has read it.
struct Reply {
  enum class Type : std::uint8_t { kNil, kInteger, kStatus, kString, kError, kArray };
  using enum Type;

  bool is_array_of(std::size_t least) const noexcept { return type == kArray && count >= least; }
  const Reply& operator[](std::size_t i) const noexcept { return first[i]; }  // i < count
  const Reply* begin() const noexcept { return first; }
  const Reply* end() const noexcept { return first + count; }

  // Returns the text of a string or a status, and an empty text for other types.
  std::string_view string() const noexcept {
    return type == kString || type == kStatus ? text : std::string_view();
  }
  // Returns the value of a field in a map, or in an array of names and values. Empty if absent.
  std::string_view field(std::string_view name) const noexcept {
    for (std::size_t i = 0; i + 1 < count; i += 2) {
      if (first[i].string() == name) return first[i + 1].string();
    }
    return {};
  }

  Type type = kNil;
  std::int64_t integer = 0;      // of kInteger
  std::string_view text = {};    // of kStatus, kString and kError
  const Reply* first = nullptr;  // elements of kArray
  std::size_t count = 0;
};

// Returns a server's text for logs: shortened, without control characters, and without the
// arguments that an error about an unknown command repeats, which may contain a password.
inline std::string shown(std::string_view said) {
  constexpr std::size_t kMost = 200;
  std::string out(said.substr(0, said.find(", with args beginning with")));
  out.resize(std::min(out.size(), kMost));
  std::replace_if(
      out.begin(), out.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return out;
}

// A script. The client sends EVALSHA with the hash, or EVAL with the text if the server does not
// know the script.
struct Script {
  std::string_view name;
  std::string_view text;
  std::string_view sha1;  // of the text, 40 lower-case hexadecimal digits
};

// How a command ended.
enum class Failure : std::uint8_t {
  kNone,         // `reply` is the server's, and no error
  kError,        // the server answered with the error `text`: the command was not executed
  kTimeout,      // no answer by the deadline: the command may have been executed
  kLost,         // the connection ended before the answer: the command may have been executed
  kUnavailable,  // not sent: no connection, or too many commands under way
};

struct Answer {
  Failure failure = Failure::kNone;
  std::string_view text = {};    // of a failure, for people; valid for the call
  const Reply* reply = nullptr;  // kNone and kError; valid for the call
};

// One command for Redis. Its owner must not move it from Client::submit() to done().
//
// With a script, `tail` contains what follows EVALSHA and the hash: numkeys, keys, arguments.
// Without one, `tail` is the whole command. It is written in RESP, each element as
// "$<size>\r\n<bytes>\r\n" (append()).
class Command {
 public:
  virtual ~Command() = default;

  // Called once, by the client's thread, perhaps before submit() returns. May submit this command
  // or others, and may destroy this one.
  virtual void done(const Answer& answer) noexcept = 0;
  // Called before done() with a reply that is no error: returns whether it can belong to this
  // command. If not, replies and commands are out of step, and the client ends the connection, so
  // that no request gets the answer of another.
  virtual bool expects(const Reply&) noexcept { return true; }
  // Appends the same request as a command of Sluice's module, in RESP as a whole.
  virtual void append_for_module(std::string&) {}

  void append(std::string_view element);
  void append(std::uint64_t number);

  const Script* script = nullptr;
  std::uint32_t elements = 0;  // in `tail`
  std::string tail;
  // With a script: whether append_for_module() can be called. Commands of the module that the
  // server does not know, or does not execute, are sent as scripts.
  bool has_module_form = false;
  // The script must be executed before later commands. It has no command of the module, so a server
  // with the module may not know it yet, and gets its text at once.
  bool keeps_order = false;
  // In a cluster: its keys can be sent one by one, so TRYAGAIN ends it at once.
  bool is_divisible = false;
  // Whether the answer is that of the module. Set by the client.
  bool is_by_module = false;
  // In a cluster the slot of its keys, 0 to 16383. Absent: any server can execute it.
  std::optional<std::uint16_t> slot = {};
  // When it ends without an answer. Set by Client::submit(); redirects do not change it.
  std::chrono::steady_clock::time_point deadline = {};
  // How many MOVED and ASK it has followed. Set by the cluster client.
  std::uint8_t redirects = 0;
};

// A command whose answer a function sees. It must not throw.
class AskCommand final : public Command {
 public:
  explicit AskCommand(std::function<void(const Answer&)> see) : see_(std::move(see)) {}
  void done(const Answer& answer) noexcept override { see_(answer); }

 private:
  const std::function<void(const Answer&)> see_;
};

// Append the beginning of an array ('*') or a string ('$') of this size, and a whole string, in
// RESP.
void append_size(char type, std::uint64_t size, std::string& out);
void append_element(std::string_view element, std::string& out);

inline constexpr std::uint16_t kSlots = 16'384;  // of a cluster

// Returns the slot of a key in a cluster: CRC16 of its hash tag, or of the whole key, modulo
// kSlots.
std::uint16_t slot_of(std::string_view key) noexcept;

}  // namespace sluice::redis
