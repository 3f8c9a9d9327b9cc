#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "limiter/batch.h"
#include "sluice/limiter.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"
#include "sluice/store.h"

namespace sluice::cli {

struct DecideLine;

// Answers the lines of `sluice decide`: one request in JSON in, one decision in JSON out. The
// subcommand's help describes both.
//
// Thread-safety: one thread at a time. Ownership: borrows the store, the rules and the overrides.
// Cost: that of the store, and a few microseconds of JSON.
class DecisionFilter {
 public:
  // `why` returns why the store could not decide, for error messages, or an empty text.
  explicit DecisionFilter(Store& store, std::function<std::string()> why = {})
      : store_(store), batch_(store), why_(std::move(why)) {}
  // Decides lines with `attributes` by these rules.
  void use(const RuleSet& rules, const Overrides& overrides) {
    rules_ = &rules;
    decider_.emplace(limiter_, RuleStores{.overrides = &overrides});
  }

  // Answers one line, without its line break. An invalid line gets
  // `{"error":"WHERE: WHAT; WHAT WOULD BE RIGHT","line":n}` and changes nothing. If the store could
  // not decide, the line gets an error too; the store may have counted it.
  std::string answer(std::string_view line);
  // Answers a line of more than kMaxLine bytes, which was not read completely.
  std::string refuse_long_line();

  bool had_errors() const noexcept { return had_errors_; }

  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;

 private:
  std::string decide_by_rules(const DecideLine& line, const Action& action, Instant at);
  std::string change_permit(const DecideLine& line, Instant at);
  std::string error(const std::string& text);
  std::string failure(Reason reason) const;

  Store& store_;
  Limiter limiter_{store_};
  Batch batch_;
  const RuleSet* rules_ = nullptr;
  std::optional<RuleDecider> decider_;
  std::function<std::string()> why_;
  std::size_t line_ = 0;
  bool had_errors_ = false;
};

}  // namespace sluice::cli
