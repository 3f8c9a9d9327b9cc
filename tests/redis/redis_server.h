#pragma once

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/wait_until.h"

// Real Redis servers for tests.
namespace sluice_redis {

// The redis-server that the tests start: the program that the environment variable
// SLUICE_REDIS_SERVER names, or that of the PATH.
inline const char* redis_program() {
  const char* const named = std::getenv("SLUICE_REDIS_SERVER");
  return named != nullptr && *named != '\0' ? named : "redis-server";
}

// The module that the servers of the tests load: the file that the environment variable
// SLUICE_MODULE names; null if none.
inline const char* module_file() {
  const char* const named = std::getenv("SLUICE_MODULE");
  return named != nullptr && *named != '\0' ? named : nullptr;
}

// A redis-server process for one test: in a new folder, on a Unix socket in it (and on a TCP port
// if requested), without persistence. It ends with this object, and with this process. Throws
// std::runtime_error if it cannot be started.
class RedisServer {
 public:
  // Options of the server's command line, such as {"--maxmemory", "10mb"}. They follow the
  // configuration file, if given. A Sentinel needs the file and writes to it.
  explicit RedisServer(std::vector<std::string> options = {}, std::string config_file = {})
      : options_(std::move(options)), config_file_(std::move(config_file)) {
    std::string folder = (std::filesystem::temp_directory_path() / "sluice-redis-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp: " + folder);
    folder_ = folder;
    start();
  }
  ~RedisServer() {
    kill_now();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const std::string& folder() const noexcept { return folder_; }
  std::string socket() const { return folder_ + "/redis.sock"; }
  std::string url() const { return "redis+unix://" + socket(); }
  std::string log_file() const { return folder_ + "/redis.log"; }
  pid_t pid() const noexcept { return pid_; }

  // Has the effect of kill -9.
  void kill_now() noexcept {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::kill(pid_, SIGCONT);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Returns when every thread has stopped. The signal alone lets other threads run for a while.
  void pause() const noexcept {
    ::kill(pid_, SIGSTOP);
    siginfo_t stopped;
    ::waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED | WNOWAIT);
  }
  void resume() const noexcept { ::kill(pid_, SIGCONT); }

  // Starts a stopped server again, with the same options and folder, and without data.
  void start() {
    const std::string path = socket();
    ::unlink(path.c_str());
    std::vector<std::string> words = {
        redis_program(), "--port", "0",           "--unixsocket", path,    "--save", "",
        "--appendonly",  "no",     "--daemonize", "no",           "--dir", folder_,  "--logfile",
        log_file()};
    if (!config_file_.empty()) words.insert(words.begin() + 1, config_file_);
    if (module_file() != nullptr) words.insert(words.end(), {"--loadmodule", module_file()});
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) become_server(arguments.data(), parent);
    wait_until_it_listens();
  }

 private:
  [[noreturn]] static void become_server(char* const* arguments, pid_t parent) noexcept {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(nowhere, fd);
    execvp(arguments[0], arguments);
    _exit(127);
  }

  void wait_until_it_listens() {
    sluice::testing::wait_until(std::string(redis_program()) + " listens on " + socket(), [&] {
      if (can_connect()) return true;
      if (waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
      pid_ = -1;
      throw std::runtime_error(std::string(redis_program()) + " does not start; see " + log_file());
    });
  }

  bool can_connect() const noexcept {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket().c_str(), sizeof(address.sun_path) - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool can = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    return can;
  }

  std::vector<std::string> options_;
  std::string config_file_;
  std::string folder_;
  pid_t pid_ = -1;
};

struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

// A blocking connection to a server. Throws std::runtime_error if the connection fails. Returns a
// server's error as a reply.
class RedisConnection {
 public:
  explicit RedisConnection(const RedisServer& server)
      : context_(redisConnectUnix(server.socket().c_str())) {
    if (context_ == nullptr || context_->err != 0) throw std::runtime_error("cannot connect");
  }
  ~RedisConnection() { redisFree(context_); }
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  Reply run(std::initializer_list<std::string_view> words) {
    append(words);
    return next();
  }
  void append(std::initializer_list<std::string_view> words) {
    append_words({words.begin(), words.size()});
  }
  void append_words(std::span<const std::string_view> words) {
    std::vector<const char*> at;
    std::vector<std::size_t> sizes;
    for (const std::string_view word : words) {
      at.push_back(word.data());
      sizes.push_back(word.size());
    }
    redisAppendCommandArgv(context_, static_cast<int>(at.size()), at.data(), sizes.data());
  }
  // Returns the bytes of a command.
  void append_raw(std::string_view bytes) {
    redisAppendFormattedCommand(context_, bytes.data(), bytes.size());
  }
  Reply next() {
    void* reply = nullptr;
    if (redisGetReply(context_, &reply) != REDIS_OK) {
      throw std::runtime_error(std::string("lost the connection: ") + context_->errstr);
    }
    return Reply(static_cast<redisReply*>(reply));
  }

  // Returns the text of a string reply, or an empty text for other replies.
  static std::string text(const Reply& reply) {
    return reply->str == nullptr ? std::string() : std::string(reply->str, reply->len);
  }

 private:
  redisContext* context_;
};

}  // namespace sluice_redis
