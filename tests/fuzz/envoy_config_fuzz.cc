#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/config.h"
#include "sluice/rule_set.h"

namespace {

using sluice::RuleError;
using sluice::RuleText;

// Every error has a position and a text. The entries that a descriptor names find its limit. If the
// file can be converted, the result loads.
void check(std::string_view text) {
  const RuleText file{"f", text};
  const auto config = sluice::envoy::Config::parse({&file, 1});
  if (!config) {
    if (config.error().empty()) std::abort();
    for (const RuleError& error : config.error()) {
      if (error.line < 1 || error.column < 1 || error.what.empty()) std::abort();
      if (static_cast<std::size_t>(error.line) > text.size() + 1) std::abort();
    }
    return;
  }
  const sluice::envoy::Domain& domain = *config->domains().front();
  for (const sluice::envoy::Descriptor* limited : config->limited()) {
    std::vector<sluice::envoy::Entry> entries;
    for (const auto* at = limited; at != nullptr; at = at->parent) {
      entries.insert(entries.begin(), {at->key, at->value});
    }
    const auto* matched = sluice::envoy::match(domain, entries);
    // An earlier wildcard may match the value and lead to another descriptor.
    if (matched == nullptr) continue;
    std::string counter;
    append_counter(counter, domain, entries, *matched);
    if (counter.find("||") == counter.npos) std::abort();
  }
  std::vector<std::string> remarks;
  const auto rules = sluice::RuleSet::parse(sluice::envoy::convert(domain, remarks), "f");
  // Names and values may be longer than rules allow.
  if (!rules && text.size() < 60) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({reinterpret_cast<const char*>(data), size});
  return 0;
}
