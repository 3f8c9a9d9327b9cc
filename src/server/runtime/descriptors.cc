#include "server/runtime/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>

namespace sluice::server {
namespace {

// Files that are open for a short time: rules, certificates, tokens, name resolution.
constexpr std::size_t kFiles = 32;
// Connections of a loop to the servers of Redis.
constexpr std::size_t kToRedis = 16;
constexpr std::size_t kForAdministration = 16;
// The fewest connections of each kind, if the limit is too low for anything else.
constexpr std::size_t kLeast = 8;

}  // namespace

DescriptorPlan plan_descriptors(const DescriptorPlan::Needs& needs) {
  const std::size_t others = needs.open + kFiles + (needs.redis ? (needs.loops + 1) * kToRedis : 0);
  const std::size_t left = needs.limit > others ? needs.limit - others : 0;
  DescriptorPlan plan{.connections = std::max(left, 2 * kLeast), .reserve = 0, .warning = {}};
  plan.reserve = std::clamp(plan.connections / 4, kLeast, kForAdministration);
  if (plan.connections - plan.reserve < needs.connections) {
    plan.warning = "the limit of " + std::to_string(needs.limit) + " open files is enough for " +
                   std::to_string(plan.connections - plan.reserve) +
                   " connections, but bounds.connections allows " +
                   std::to_string(needs.connections) +
                   " on all listeners together; raise the limit (ulimit -n, LimitNOFILE) to " +
                   std::to_string(others + needs.connections + kForAdministration);
  }
  return plan;
}

std::size_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur == limit.rlim_max) return limit.rlim_cur;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

std::size_t count_open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc/self/fd"), ::closedir);
  if (!all) return 0;
  std::size_t count = 0;
  while (const dirent* const entry = ::readdir(all.get())) count += entry->d_name[0] != '.' ? 1 : 0;
  return count;
}

}  // namespace sluice::server
