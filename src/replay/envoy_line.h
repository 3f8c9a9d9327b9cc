#pragma once

#include <string_view>

#include "replay/log_line.h"
#include "replay/log_record.h"

namespace sluice::replay {

// Reads lines of Envoy's default text format:
//
//   [2026-11-23T10:00:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "agent"
//   "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "example.org" "10.0.2.1:80"
//
// The client is the last address of X-Forwarded-For, which Envoy has added or checked. Fields
// before and after the quoted ones may differ, as in the default of Istio. Not thread-safe.
class EnvoyLineReader {
 public:
  LineFault read(std::string_view line, LogLine& out, LogExtras& extras);

 private:
  LogTimeReader times_;
};

}  // namespace sluice::replay
