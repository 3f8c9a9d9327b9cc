#include "server/api/check/request_limit.h"

#include <array>
#include <span>

#include "core/limit.h"
#include "core/quoted.h"
#include "limiter/limit_arguments.h"

namespace sluice::server {
namespace {

// The members that every limit has, in the order of the words of RL.LIMIT.
constexpr auto kRequired = std::to_array<std::string_view>({"key", "algorithm", "limit", "per"});

}  // namespace

void RequestLimit::clear() noexcept { words_.assign(kRequired.size(), {}); }

// Returns the word of a member that every limit has; null for an option.
std::string_view* RequestLimit::word_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kRequired.size(); ++i) {
    if (name == kRequired[i]) return &words_[i];
  }
  return nullptr;
}

std::optional<std::string> RequestLimit::begin(std::string_view name) {
  name_ = name;
  if (const std::string_view* const word = word_of(name)) {
    if (word->data() == nullptr) return std::nullopt;
    return core::in_quotes(name) + " is given twice; expected it once";
  }
  for (std::size_t i = kRequired.size(); i < words_.size(); i += 2) {
    if (words_[i] == name) return core::in_quotes(name) + " is given twice; expected it once";
  }
  std::string expected = "expected one of: key, algorithm, limit, per";
  bool is_known = name == "zone" || name == "starts";
  for (const core::OptionInfo& option : core::kLimitOptions) {
    is_known |= option.name == name;
    expected.append(", ").append(option.name);
  }
  if (is_known) return std::nullopt;
  return "unknown member " + core::in_quotes(name) + "; " + expected + ", zone, starts";
}

bool RequestLimit::set(std::string_view value) {
  if (std::string_view* const word = word_of(name_)) {
    *word = value;
  } else {
    words_.push_back(name_);
    words_.push_back(value);
  }
  return true;
}

Expected<Limit> RequestLimit::finish() const {
  for (std::size_t i = 0; i < kRequired.size(); ++i) {
    if (words_[i].data() != nullptr) continue;
    return Unexpected{"lacks " + core::in_quotes(kRequired[i]) + "; " + std::string(kExpected)};
  }
  const auto read = parse_limit({}, std::span(words_).subspan(1));
  if (!read) return Unexpected{read.error()};
  return read->limit;
}

}  // namespace sluice::server
