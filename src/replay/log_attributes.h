#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/request_target.h"
#include "replay/log_line.h"
#include "replay/log_parser.h"
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

// A part of a key or of a cost, such as "{header.x-user|ip}".
struct KeyPart {
  std::vector<std::string> names;  // of its attributes; the first that a request has counts
  std::size_t absent = 0;          // the number of the first of them that no request has had

  // Lowers `absent` if a request has one of these attributes. Returns whether it is the first
  // request with the first of them.
  bool look_for(const AttributeSource& attributes);
};

// Returns the parts of a key, as if no request had any of their attributes.
std::vector<KeyPart> parts_of_key(std::string_view key);
// Returns the first part of which no request has an attribute, else the first part whose first
// attribute no request has. Null: there is none.
const KeyPart* lacking_part(std::span<const KeyPart> parts);
// Says what the requests lack, and that they were counted by a fallback or denied.
std::string lack_text(const KeyPart& part, std::uint64_t requests, bool is_shadow);

}  // namespace sluice::replay
