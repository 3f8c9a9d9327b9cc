#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/paired.h"

namespace sluice::bench {

// The command-line options of every benchmark.
struct Options {
  bool smoke = false;    // runs each case briefly, without a meaningful measurement
  bool quick = false;    // without the cases of ten million keys
  bool large = false;    // adds the cases of a hundred million keys
  std::size_t keys = 0;  // only the cases with this number of keys; 0: all

  // Exits with status 2 at an unknown option.
  static Options from(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--smoke") == 0) {
        options.smoke = true;
      } else if (std::strcmp(argv[i], "--quick") == 0) {
        options.quick = true;
      } else if (std::strcmp(argv[i], "--large") == 0) {
        options.large = true;
      } else if (std::strcmp(argv[i], "--keys") == 0 && i + 1 < argc) {
        options.keys = std::strtoul(argv[++i], nullptr, 10);
      } else {
        std::fprintf(stderr, "%s: unknown option %s\n", argv[0], argv[i]);
        std::exit(2);
      }
    }
    return options;
  }
  PairedOptions paired() const {
    if (smoke) return {.pairs = 3, .block = std::chrono::microseconds{200}};
    return {};
  }
};

inline void table(const std::string& title, const std::string& legend) {
  std::printf("\n== %s\n%s\n", title.c_str(), legend.c_str());
  std::printf("  %-44s %10s %10s %7s  %s\n", "case", "ns/op", "base ns", "ratio", "quartiles");
  std::fflush(stdout);
}

inline void row(const std::string& name, const Ratio& r, const std::string& note = "") {
  std::printf("  %-44s %10.1f %10.1f %7.2f  %.2f..%.2f  %s\n", name.c_str(), r.subject_ns,
              r.base_ns, r.ratio, r.low, r.high, note.c_str());
  std::fflush(stdout);
}

// Prints the lines that bench/run collects: `promise NAME MEASURED TARGET met|short`.
inline void promise(const std::string& name, double measured, const char* target, bool met) {
  std::printf("promise %s %.2f %s %s\n", name.c_str(), measured, target, met ? "met" : "short");
  std::fflush(stdout);
}
inline void promise_at_most(const std::string& name, double measured, double most) {
  char target[32];
  std::snprintf(target, sizeof(target), "<=%g", most);
  promise(name, measured, target, measured <= most);
}
inline void promise_at_least(const std::string& name, double measured, double least) {
  char target[32];
  std::snprintf(target, sizeof(target), ">=%g", least);
  promise(name, measured, target, measured >= least);
}

// 1000000 → "1M", 1000 → "1k".
inline std::string short_count(std::size_t n) {
  if (n >= 1'000'000 && n % 1'000'000 == 0) return std::to_string(n / 1'000'000) + "M";
  if (n >= 1'000 && n % 1'000 == 0) return std::to_string(n / 1'000) + "k";
  return std::to_string(n);
}

}  // namespace sluice::bench
