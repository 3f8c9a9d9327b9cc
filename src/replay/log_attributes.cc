#include "replay/log_attributes.h"

namespace sluice::replay {
namespace {

std::optional<std::string_view> present(std::string_view field) noexcept {
  return field.data() == nullptr ? std::nullopt : std::optional(field);
}

}  // namespace

std::optional<std::string_view> LogAttributes::find(std::string_view name) const {
  constexpr std::string_view kQuery = "query.";
  if (name == "ip") return field(line_->client);
  if (name == "path") return present(line_->path);
  if (name == "method") return field(line_->method);
  if (name == "status") return field(line_->status);
  if (name == "header.user-agent") return field(line_->user_agent);
  if (name == "header.referer") return field(line_->referer);
  if (const auto found = other(name)) return found;
  if (name.starts_with(kQuery)) return query(name.substr(kQuery.size()));
  return std::nullopt;
}

std::optional<std::string_view> LogAttributes::other(std::string_view name) const {
  for (const LogField& field : fields_) {
    if (field.name == name) return field.value;
  }
  return std::nullopt;
}

std::optional<std::string_view> LogAttributes::field(std::string_view logged) const {
  if (logged.data() == nullptr) return std::nullopt;
  if (!line_->escaped || logged.find('\\') == logged.npos) return logged;
  std::string& out = decoded_.next();
  undo_log_escapes(logged, out);
  return out;
}

std::optional<std::string_view> LogAttributes::query(std::string_view name) const {
  const auto whole = field(line_->query);
  if (!whole) return std::nullopt;
  return base::find_query(*whole, name, decoded_);
}

}  // namespace sluice::replay
