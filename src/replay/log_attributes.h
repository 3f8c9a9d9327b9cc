#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "replay/log_line.h"
#include "sluice/attributes.h"

namespace sluice::replay {

// What a logged request is to the rules: method, path, query.NAME, ip, header.user-agent,
// header.referer and status, as the server saw them: the log's escapes are undone. A path stays as
// it was sent, escapes of the URL included; query values are decoded ("%41" and "+"), the first of
// a name counts, and "?name" is an empty value.
//
// Not thread-safe. Borrows the line that it was last shown; what find() returns is valid until the
// next. Finding costs no allocation unless an escape has to be undone.
class LogAttributes final : public AttributeSource {
 public:
  void show(const LogLine& line) noexcept {
    line_ = &line;
    decoded_used_ = 0;
  }
  std::optional<std::string_view> find(std::string_view name) const override;

 private:
  std::optional<std::string_view> field(std::string_view logged) const;
  std::optional<std::string_view> query(std::string_view name) const;
  std::string& fresh_buffer() const;

  const LogLine* line_ = nullptr;
  // Buffers of undone escapes, kept from line to line; a deque, as views into them must stay.
  mutable std::deque<std::string> decoded_;
  mutable std::size_t decoded_used_ = 0;
};

// Decodes %HH and '+' of a query into `out`; a '%' without two hex digits stays.
void decode_query(std::string_view encoded, std::string& out);

}  // namespace sluice::replay
