// Rules with lists: an address among a million networks, and a text among a million texts.

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "bench/paired.h"
#include "bench/report.h"
#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "RuleDecider::decide() by a rule with `action: deny` and a list of that many entries, with "
    "the\n"
    "address as text, of which half are in the list: what it takes more than the same with one\n"
    "entry. Bytes: what the heap grows by, for each entry. Processor time of one thread, the "
    "median\n"
    "of 9 rounds.";

double processor_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

class ListsBench {
 public:
  ListsBench() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-lists-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~ListsBench() { std::filesystem::remove_all(folder_); }

  void run(const std::string& name, const std::vector<std::string>& entries,
           const std::vector<std::string>& asked, bool is_text) {
    const std::string attribute = is_text ? "header.x-user" : "ip";
    const double one = measure(load(attribute, {entries.front()}), attribute, asked);
    ::malloc_trim(0);
    const std::size_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
    const RuleSet rules = load(attribute, entries);
    const double bytes = static_cast<double>(::mallinfo2().uordblks + ::mallinfo2().hblkhd) -
                         static_cast<double>(before);
    const double each = bytes / static_cast<double>(entries.size());
    const double all = measure(rules, attribute, asked);
    std::printf("%-6s %8zu entries: %6.1f ns, with one entry %6.1f ns; %5.1f bytes an entry\n",
                name.c_str(), entries.size(), all, one, each);
    promise_at_most("list-" + name + "-ns", all - one, 200);
    promise_at_most("list-" + name + "-bytes", each, 48);
  }

 private:
  RuleSet load(const std::string& attribute, const std::vector<std::string>& entries) {
    std::ofstream list(folder_ / "list.txt");
    for (const std::string& entry : entries) list << entry << '\n';
    list.close();
    std::ofstream(folder_ / "rules.yaml")
        << "version: 1\nrules:\n  - name: list\n    match: { " << attribute
        << ": { in: list.txt } }\n    action: deny\n";
    return RuleSet::load((folder_ / "rules.yaml").string()).value();
  }

  // Returns the nanoseconds of a decision.
  double measure(const RuleSet& rules, const std::string& attribute,
                 const std::vector<std::string>& asked) {
    RuleDecider decider(limiter_);
    std::vector<Attributes> requests;
    requests.reserve(asked.size());
    for (const std::string& value : asked) requests.push_back({{attribute, value}});
    std::vector<double> rounds;
    for (int round = 0; round < 9; ++round) {
      const double start = processor_ns();
      for (const Attributes& request : requests) {
        denied_ += decider.decide(rules, request).decision ? 0 : 1;
      }
      rounds.push_back((processor_ns() - start) / static_cast<double>(requests.size()));
    }
    return median(rounds);
  }

  std::filesystem::path folder_;
  MemoryStore store_;
  Limiter limiter_{store_};
  std::size_t denied_ = 0;
};

std::string v4(std::uint32_t number) {
  return std::to_string(number >> 24) + "." + std::to_string(number >> 16 & 255) + "." +
         std::to_string(number >> 8 & 255) + "." + std::to_string(number & 255);
}

std::string v6(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "2001:%x:%x:%x::", static_cast<unsigned>(number >> 32 & 0xFFFF),
                static_cast<unsigned>(number >> 16 & 0xFFFF),
                static_cast<unsigned>(number & 0xFFFF));
  return text;
}

void run_all(const Options& options) {
  const std::size_t count = options.smoke ? 10'000 : 1'000'000;
  std::mt19937_64 random(5);
  ListsBench bench;
  std::vector<std::string> v4s, v4_asked, v6s, v6_asked, texts, text_asked;
  for (std::size_t i = 0; i < count; ++i) {
    const auto address = static_cast<std::uint32_t>(random()) & ~15U;
    const std::uint64_t high = random();
    v4s.push_back(v4(address) + "/28");
    v6s.push_back(v6(high) + "/64");
    texts.push_back("user-" + std::to_string(random() % 100'000'000));
    if (i % 10 != 0) continue;
    v4_asked.push_back(v4(i % 20 == 0 ? address + 3 : static_cast<std::uint32_t>(random())));
    v6_asked.push_back(v6(i % 20 == 0 ? high : random()) + "7");
    text_asked.push_back(i % 20 == 0 ? texts.back() : "user-x" + std::to_string(i));
  }
  bench.run("v4", v4s, v4_asked, false);
  bench.run("v6", v6s, v6_asked, false);
  bench.run("texts", texts, text_asked, true);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  std::printf("\n== lists: an entry among a million\n%s\n", kLegend);
  run_all(options);
}
