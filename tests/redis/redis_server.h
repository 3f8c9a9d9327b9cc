#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stores/redis/client/command.h"
#include "stores/redis/client/pipeline.h"
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

// Returns a descriptor that is connected to the Unix socket of this path, or -1.
inline int connected_to(const std::string& path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  ::close(fd);
  return -1;
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
    const int fd = connected_to(socket());
    if (fd >= 0) ::close(fd);
    return fd >= 0;
  }

  std::vector<std::string> options_;
  std::string config_file_;
  std::string folder_;
  pid_t pid_ = -1;
};

// A reply that owns its texts and elements.
class Reply {
 public:
  using enum sluice::redis::Reply::Type;

  explicit Reply(const sluice::redis::Reply& from) : root_(copy(from)) {}
  Reply(Reply&&) = default;
  Reply& operator=(Reply&&) = default;

  const sluice::redis::Reply& operator*() const noexcept { return root_; }
  const sluice::redis::Reply* operator->() const noexcept { return &root_; }

 private:
  sluice::redis::Reply copy(const sluice::redis::Reply& from) {
    sluice::redis::Reply to = from;
    to.text = texts_.emplace_back(from.text);
    std::vector<sluice::redis::Reply>& elements = arrays_.emplace_back();
    for (const sluice::redis::Reply& one : from) elements.push_back(copy(one));
    to.first = elements.data();
    return to;
  }

  // Lists, because their elements keep their addresses.
  std::list<std::string> texts_;
  std::list<std::vector<sluice::redis::Reply>> arrays_;
  sluice::redis::Reply root_;
};

// A blocking connection to a server. Throws std::runtime_error if the connection fails. Returns a
// server's error as a reply.
class RedisConnection {
 public:
  explicit RedisConnection(const RedisServer& server) : fd_(connected_to(server.socket())) {
    if (fd_ < 0) throw std::runtime_error("cannot connect");
  }
  ~RedisConnection() { ::close(fd_); }
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
    sluice::redis::append_size('*', words.size(), output_);
    for (const std::string_view word : words) sluice::redis::append_element(word, output_);
  }
  // Appends the bytes of a command.
  void append_raw(std::string_view bytes) { output_ += bytes; }
  Reply next() {
    using Progress = sluice::redis::ReplyReader::Progress;
    Progress progress = reader_.next();
    if (progress == Progress::kMore) send();
    for (; progress == Progress::kMore; progress = reader_.next()) receive();
    if (progress == Progress::kBad) throw std::runtime_error(std::string(reader_.why()));
    return Reply(reader_.reply());
  }

  // Returns the text of a string reply, or an empty text for other replies.
  static std::string text(const Reply& reply) { return std::string(reply->text); }

 private:
  void send() {
    for (std::string_view rest = output_; !rest.empty();) {
      const ssize_t sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) throw std::runtime_error("lost the connection");
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    output_.clear();
  }
  void receive() {
    const std::span<char> room = reader_.prepare(1);
    ssize_t got = 0;
    do {
      got = ::recv(fd_, room.data(), room.size(), 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) throw std::runtime_error("lost the connection");
    reader_.commit(static_cast<std::size_t>(got));
  }

  int fd_;
  std::string output_;
  sluice::redis::ReplyReader reader_;
};

}  // namespace sluice_redis
