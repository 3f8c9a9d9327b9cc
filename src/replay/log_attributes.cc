#include "replay/log_attributes.h"

#include "base/quoted.h"

namespace sluice::replay {
namespace {

bool needs_decoding(std::string_view encoded) noexcept {
  return encoded.find_first_of("%+") != encoded.npos;
}

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
  std::string& out = fresh_buffer();
  undo_log_escapes(logged, out);
  return out;
}

std::optional<std::string_view> LogAttributes::query(std::string_view name) const {
  const auto whole = field(line_->query);
  if (!whole) return std::nullopt;
  std::string_view rest = *whole;
  for (bool more = true; more;) {
    const std::size_t ampersand = rest.find('&');
    const std::string_view pair = rest.substr(0, ampersand);
    more = ampersand != rest.npos;
    if (more) rest.remove_prefix(ampersand + 1);
    const std::size_t equals = pair.find('=');
    std::string_view key = pair.substr(0, equals);
    std::string decoded_key;
    if (needs_decoding(key)) {
      decode_query(key, decoded_key);
      key = decoded_key;
    }
    if (key != name) continue;
    const std::string_view value =
        equals == pair.npos ? std::string_view("") : pair.substr(equals + 1);
    if (!needs_decoding(value)) return value;
    std::string& out = fresh_buffer();
    decode_query(value, out);
    return out;
  }
  return std::nullopt;
}

std::string& LogAttributes::fresh_buffer() const {
  if (decoded_used_ == decoded_.size()) decoded_.emplace_back();
  return decoded_[decoded_used_++];
}

void decode_query(std::string_view encoded, std::string& out) {
  out.clear();
  while (!encoded.empty()) {
    const bool is_space = encoded.front() == '+';
    const char byte = base::take_decoded(encoded);
    out.push_back(is_space ? ' ' : byte);
  }
}

}  // namespace sluice::replay
