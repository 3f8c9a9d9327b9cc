#include "bench/redis_server.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "bench/threads.h"

namespace sluice::bench {
namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "redis_bench: %s\n", what.c_str());
  std::exit(1);
}

[[noreturn]] void become_server(const std::string& folder, const std::string& socket,
                                const std::vector<std::string>& options, std::size_t cpu) {
  std::vector<std::string> words = {"redis-server", "--port",    "0",
                                    "--unixsocket", socket,      "--dir",
                                    folder,         "--save",    "",
                                    "--appendonly", "no",        "--daemonize",
                                    "no",           "--logfile", folder + "/log"};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!pin_to_cpu(cpu)) _exit(126);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

bool accepts(const std::string& socket) {
  const int fd = connected_to(socket);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace

int connected_to(const std::string& socket) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket.c_str(), sizeof(address.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  ::close(fd);
  return -1;
}

RedisServer::RedisServer(const std::vector<std::string>& options, std::size_t cpu) {
  if (std::thread::hardware_concurrency() < 2) fail("needs two processors");
  std::string name = (std::filesystem::temp_directory_path() / "sluice-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail("cannot make a folder " + name);
  folder_ = name;
  socket_ = name + "/redis.sock";
  pid_ = fork();
  if (pid_ < 0) fail("cannot fork");
  if (pid_ == 0) become_server(name, socket_, options, cpu);
  for (int i = 0; i < 500; ++i) {
    if (accepts(socket_)) return;
    if (waitpid(pid_, nullptr, WNOHANG) != 0) fail("redis-server did not start");
    usleep(10'000);
  }
  fail("redis-server does not answer");
}

RedisServer::~RedisServer() {
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

double RedisServer::cpu_ns() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/schedstat");
  double running = 0;
  file >> running;
  return running;
}

void RedisServer::signal(int number) const { kill(pid_, number); }

}  // namespace sluice::bench
