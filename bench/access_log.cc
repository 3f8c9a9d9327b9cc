#include "bench/access_log.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

namespace sluice::bench {
namespace {

constexpr std::size_t kClients = 7000;
constexpr std::array kAgents = {
    "Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:64.0) Gecko/20100101 Firefox/64.0",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/71.0 "
    "Safari/537.36",
    "Mozilla/5.0 (compatible; ExampleBot/2.1; +http://www.example.org/bot.html)",
    "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1; .NET CLR 2.0.50727; InfoPath.2)",
    "curl/7.61.1",
};
constexpr std::array kPages = {
    "/",
    "/index.php",
    "/favicon.ico",
    "/robots.txt",
    "/templates/system/css/general.css",
    "/images/stories/slideshow/house_01.jpg",
    "/images/stories/slideshow/house_02.jpg",
    "/media/system/js/tools.js",
    "/administrator/index.php",
    "/index.php?option=contact&id=1",
};

class Writer {
 public:
  explicit Writer(const std::string& path) {
    const std::string command = "gzip -6 > '" + path + "'";
    file_ = popen(command.c_str(), "w");
    if (file_ == nullptr) fail(path);
    path_ = path;
  }
  ~Writer() {
    if (file_ != nullptr && pclose(file_) != 0) fail(path_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void write(std::size_t lines) {
    while (lines > 0) {
      const bool download = pick(32) == 0;
      const std::size_t most = download ? 1 + pick(pick(8) == 0 ? 1500 : 60) : 1 + pick(5);
      const std::size_t count = std::min(lines, most);
      download ? write_download(count) : write_visit(count);
      lines -= count;
      seconds_ += static_cast<std::time_t>(pick(600));
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& path) {
    std::fprintf(stderr, "replay_bench: cannot write %s\n", path.c_str());
    std::exit(1);
  }

  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }

  void write_download(std::size_t count) {
    const std::size_t client = pick(40);
    for (std::size_t i = 0; i < count; ++i) {
      seconds_ += pick(3) == 0;
      line(client, "/archive/access.log", 206, 20'000 + 8 * pick(256), "-", kAgents[0]);
    }
  }
  void write_visit(std::size_t count) {
    const std::size_t client = pick(kClients);
    const char* const agent = kAgents[pick(kAgents.size())];
    for (std::size_t i = 0; i < count; ++i) {
      seconds_ += pick(4) == 0;
      const std::size_t page = pick(kPages.size());
      line(client, kPages[page], page == 2 ? 404 : 200, page < 2 ? 900 + pick(9000) : 271 * page,
           i == 0 ? "-" : "http://www.example.org/index.php?option=content", agent);
    }
  }

  void line(std::size_t client, const char* path, int status, std::size_t bytes,
            const char* referer, const char* agent) {
    char time[32];
    std::tm parts{};
    gmtime_r(&seconds_, &parts);
    std::strftime(time, sizeof(time), "%d/%b/%Y:%H:%M:%S +0000", &parts);
    std::fprintf(file_, "10.%zu.%zu.%zu - - [%s] \"GET %s HTTP/1.1\" %d %zu \"%s\" \"%s\"\n",
                 client % 199, client * 7 % 251, client * 31 % 241, time, path, status, bytes,
                 referer, agent);
  }

  std::FILE* file_ = nullptr;
  std::string path_;
  std::mt19937_64 random_{20180806};
  std::time_t seconds_ = 1'533'506'400;  // 2018-08-05
};

}  // namespace

void write_access_log(const std::string& path, std::size_t lines) { Writer(path).write(lines); }

}  // namespace sluice::bench
