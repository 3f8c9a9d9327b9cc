#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace sluice::redis {

// The first messages of a new connection, without I/O: HELLO 3 with user, password and name, or
// AUTH and CLIENT SETNAME in RESP2 if the server does not know HELLO; then SELECT and ROLE.
//
//   begin() -> send output() -> on_reply() -> [kSend: the same again] -> kReady or kFailed
class Handshake {
 public:
  struct Options {
    std::string username = {};
    std::string password = {};
    int protocol = 0;  // 2, 3, or 0: 3 if the server speaks it
    int database = 0;
    bool only_master = false;  // refuse a server that is a replica
  };
  enum class Step : std::uint8_t {
    kSend,    // send output(), and wait for the reply
    kReady,   // commands may be sent
    kFailed,  // why() has the reason
  };

  explicit Handshake(Options options) : options_(std::move(options)) {}

  Step begin();
  Step on_reply(const redisReply& reply);

  std::string_view output() const noexcept { return output_; }
  const std::string& why() const noexcept { return why_; }
  int protocol() const noexcept { return protocol_; }

 private:
  enum class Stage : std::uint8_t { kHello, kAuth, kName, kSelect, kRole, kReady };

  Step enter(Stage stage);
  Step after_name();
  Step begin_resp2();
  Step on_error(std::string_view error);
  Step on_hello_refused(std::string_view error);
  Step on_role(std::string_view role);
  Step fail(std::string_view what, std::string_view said = {});
  void say(std::initializer_list<std::string_view> elements);

  Options options_;
  Stage stage_ = Stage::kHello;
  int protocol_ = 3;
  bool role_known_ = false;
  std::string output_;
  std::string why_;
};

}  // namespace sluice::redis
