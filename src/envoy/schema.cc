#include "envoy/schema.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "core/limit.h"

namespace sluice::envoy::schema {
namespace {

using rules::schema::Key;
using rules::schema::Map;
using rules::schema::Type;

// In the order of their enumerators; the loader relies on it.
constexpr std::array<std::string_view, 4> kOnStoreError{"allow", "deny", "local", "error"};

constexpr std::uint64_t kLongestText = 65536;
constexpr std::uint64_t kMostItems = 1000000;

constexpr Key text(std::string_view name, bool required, std::uint64_t least) {
  return {.name = name,
          .type = Type::kText,
          .required = required,
          .least = least,
          .most = kLongestText};
}
constexpr Key flag(std::string_view name) { return {.name = name, .type = Type::kFlag}; }
constexpr Key integer(std::string_view name, std::uint64_t least, std::uint64_t most) {
  return {.name = name, .type = Type::kInteger, .least = least, .most = most};
}

constexpr std::array<Key, 1> kReplacementKeys{text("name", true, 1)};
constexpr Map kReplacement{"replaces", "each of `replaces`", kReplacementKeys};

constexpr std::array<Key, 10> kRateLimitKeys{
    text("unit", false, 1),
    integer("requests_per_unit", 0, kMaxUnits),
    flag("unlimited"),
    text("name", false, 0),
    Key{.name = "replaces", .type = Type::kList, .most = kMostItems, .map = &kReplacement},
    Key{.name = "algorithm", .type = Type::kChoice, .values = core::kAlgorithmNames},
    integer("burst", 0, kMaxUnits),
    Key{.name = "period", .type = Type::kPeriod},
    integer("slices", 1, kMaxSlices),
    Key{.name = "on_store_error", .type = Type::kChoice, .values = kOnStoreError},
};
constexpr Map kRateLimit{"rate_limit", "`rate_limit`", kRateLimitKeys};

// The items of this list contain descriptors again; readers handle the recursion.
constexpr Key kDescriptors{.name = "descriptors", .type = Type::kList, .most = kMostItems};

constexpr std::array<Key, 10> kDescriptorKeys{
    text("key", true, 1),
    text("value", false, 0),
    Key{.name = "rate_limit", .type = Type::kMap, .map = &kRateLimit},
    kDescriptors,
    flag("shadow_mode"),
    flag("quota_mode"),
    flag("detailed_metric"),
    flag("value_to_metric"),
    flag("share_threshold"),
    Key{.name = "metadata", .type = Type::kMap},
};
constexpr Map kDescriptor{"descriptor", "each of `descriptors`", kDescriptorKeys};

constexpr std::array<Key, 2> kFileKeys{text("domain", true, 1), kDescriptors};
constexpr Map kFile{"file", "the top of the file", kFileKeys};

}  // namespace

const Map& file() noexcept { return kFile; }
const Map& descriptor() noexcept { return kDescriptor; }
const Map& rate_limit() noexcept { return kRateLimit; }
const Map& replacement() noexcept { return kReplacement; }

}  // namespace sluice::envoy::schema
