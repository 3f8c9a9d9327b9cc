#include "replay/log_attributes.h"

#include <algorithm>

#include "replay/text.h"
#include "rules/attributes.h"
#include "rules/diagnostics.h"
#include "rules/key_template.h"

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

bool KeyPart::look_for(const AttributeSource& attributes) {
  const auto has = [&](const std::string& name) {
    return !attributes.find(name).value_or("").empty();
  };
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(absent);
  const auto found = std::find_if(names.begin(), end, has);
  if (found == end) return false;
  absent = static_cast<std::size_t>(found - names.begin());
  return absent == 0;
}

std::vector<KeyPart> parts_of_key(std::string_view key) {
  rules::AttributeTable table;
  const auto compiled = rules::KeyTemplate::compile(key, table);
  std::vector<KeyPart> parts;
  if (!compiled) return parts;
  for (const auto& one_of : compiled->needs()) {
    KeyPart& part = parts.emplace_back();
    for (const std::uint32_t attribute : one_of) part.names.push_back(table.names()[attribute]);
    part.absent = part.names.size();
  }
  return parts;
}

const KeyPart* lacking_part(std::span<const KeyPart> parts) {
  const KeyPart* lacking = nullptr;
  for (const KeyPart& part : parts) {
    if (part.absent == part.names.size()) return &part;
    if (part.absent > 0 && lacking == nullptr) lacking = &part;
  }
  return lacking;
}

std::string lack_text(const KeyPart& part, std::uint64_t requests, bool is_shadow) {
  const std::vector<std::string_view> names(part.names.begin(), part.names.end());
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(part.absent);
  const bool has_fallback = end != names.end();
  std::string text = "no request has " + rules::either(std::span(names.begin(), end)) + "; ";
  text += requests == 1 ? "the only one" : "all " + grouped(requests);
  text += is_shadow && !has_fallback ? " would be " : requests == 1 ? " was " : " were ";
  text += has_fallback ? "counted by " + rules::either(std::span(end, names.end()))
                       : "denied by 'on_missing: deny'";
  return text;
}

}  // namespace sluice::replay
