#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/request_target.h"
#include "replay/log_line.h"
#include "replay/log_record.h"
#include "sluice/attributes.h"

namespace sluice::replay {

// The attributes of a logged request: method, path, query.NAME, ip, header.user-agent,
// header.referer and status, and the fields of its line. Escapes of the log are decoded, except in
// the path, which is that of LogParser. Query values are decoded ("%41" and "+"). The first
// parameter of a name counts, and "?name" has an empty value.
//
// Not thread-safe. Borrows the line and the fields of the last show(). The result of find() is
// valid until the next show(). find() allocates only to decode an escape.
class LogAttributes final : public AttributeSource {
 public:
  void show(const LogLine& line, std::span<const LogField> fields = {}) noexcept {
    line_ = &line;
    fields_ = fields;
    decoded_.clear();
  }
  std::optional<std::string_view> find(std::string_view name) const override;

 private:
  std::optional<std::string_view> field(std::string_view logged) const;
  std::optional<std::string_view> query(std::string_view name) const;
  std::optional<std::string_view> other(std::string_view name) const;

  const LogLine* line_ = nullptr;
  std::span<const LogField> fields_;
  mutable base::Buffers decoded_;
};

}  // namespace sluice::replay
