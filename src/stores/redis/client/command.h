#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct redisReply;

namespace sluice::redis {

// A script as it is sent: EVALSHA by its hash, EVAL by its text where the server does not know it.
struct Script {
  std::string_view name;
  std::string_view text;
  std::string_view sha1;  // of the text, 40 lower-case hexadecimal digits
};

// How a command ended.
enum class Failure : std::uint8_t {
  kNone,         // `reply` is the server's, and no error
  kError,        // the server answered with an error, `text`: nothing was done
  kTimeout,      // no answer by the deadline: unknown whether it was done
  kLost,         // the connection ended before the answer: unknown whether it was done
  kUnavailable,  // it was not sent: no connection, or too many commands under way
};

struct Answer {
  Failure failure = Failure::kNone;
  std::string_view text = {};         // of a failure, for people; valid for the call
  const redisReply* reply = nullptr;  // kNone and kError; valid for the call
};

// One command on its way to Redis. Its owner keeps it where it is from Client::submit() to done().
//
// With a script: `tail` holds what follows EVALSHA and its hash: numkeys, keys, arguments. Without:
// `tail` is the whole command. Written in RESP, each element as "$<size>\r\n<bytes>\r\n"
// (append()).
class Command {
 public:
  virtual ~Command() = default;

  // Called once, by the client's thread, and perhaps before submit() has returned. May submit
  // others, this one again, and may destroy this one.
  virtual void done(const Answer& answer) noexcept = 0;
  // Before done(), of a reply that is no error: whether it can be this command's. If not, replies
  // have come out of step with commands, and the connection is ended: no request may be told the
  // answer of another.
  virtual bool expects(const redisReply&) noexcept { return true; }

  void append(std::string_view element);
  void append(std::uint64_t number);

  const Script* script = nullptr;
  std::uint32_t elements = 0;  // in `tail`
  std::string tail;
  // The slot of its keys, 0 to 16383, in a cluster; absent: any server will do.
  std::optional<std::uint16_t> slot = {};
  // A command that may be sent again although it may have been done before: it has no effect that
  // counts (GET, CLUSTER SLOTS, ...).
  bool repeatable = false;
  // When it ends without an answer. Set by Client::submit(), and kept from server to server.
  std::chrono::steady_clock::time_point deadline = {};
  // How many MOVED and ASK it has followed. Of the cluster's client, set by its submit().
  std::uint8_t redirects = 0;
};

// The slot of a key in a cluster: CRC16 of its hash tag, or of all of it, modulo 16384.
std::uint16_t slot_of(std::string_view key) noexcept;

}  // namespace sluice::redis
