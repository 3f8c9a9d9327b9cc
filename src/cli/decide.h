#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/store.h"

namespace sluice::cli {

// The work of `sluice decide`: one request in JSON in, one decision in JSON out. What a line may
// say and what comes back is in the subcommand's help.
//
// Not thread-safe. Borrows the store. Cost: the store's and a few microseconds of JSON.
class DecisionFilter {
 public:
  // `why` says why the store could not decide, for errors: in words, or nothing.
  explicit DecisionFilter(Store& store, std::function<std::string()> why = {})
      : store_(store), why_(std::move(why)) {}

  // Answers one line, without its line break. A line that is not valid gets
  // `{"error":"WHERE: WHAT; WHAT WOULD BE RIGHT","line":n}`, and changes nothing. So does one that
  // the store could not decide, or not in time; that may have been counted.
  std::string answer(std::string_view line);
  // As answer(), for a line of over kMaxLine bytes, which was not read whole.
  std::string refuse_long_line();

  bool had_errors() const noexcept { return had_errors_; }

  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;

 private:
  std::string error(const std::string& text);
  std::string failure(Reason reason) const;

  Store& store_;
  std::function<std::string()> why_;
  std::size_t line_ = 0;
  bool had_errors_ = false;
};

}  // namespace sluice::cli
