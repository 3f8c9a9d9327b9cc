#include "rules/rule_set.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "rules/counter_key.h"
#include "rules/loader.h"
#include "rules/yaml_tree.h"

namespace sluice {
namespace rules {

bool Condition::holds(AttributeValues& values) const {
  const auto& value = values.get(attribute);
  if (!value) return false;
  for (const Pattern& pattern : any_of) {
    if (pattern.matches(*value)) return true;
  }
  return false;
}

bool CompiledRule::matches(AttributeValues& values) const {
  for (const Condition& condition : conditions) {
    if (!condition.holds(values)) return false;
  }
  return true;
}

std::string counter_prefix(std::string_view domain, std::string_view rule, std::string_view limit) {
  std::string out;
  append_escaped(out, domain, Escape::kName);
  append_escaped(out += '|', rule, Escape::kName);
  append_escaped(out += '|', limit, Escape::kName);
  return out;
}

namespace {

using LoadResult = Expected<std::string, std::string>;

LoadResult read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Unexpected{"the file cannot be opened: " + std::string(std::strerror(errno))};
  std::string bytes(kMaxFileBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.bad() || (file.fail() && !file.eof())) return Unexpected{"the file cannot be read"};
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace
}  // namespace rules

Expected<RuleSet, std::vector<RuleError>> RuleSet::parse(std::string_view yaml,
                                                         std::string_view file) {
  auto impl = rules::load_rules(yaml, file);
  if (!impl) return Unexpected{std::move(impl.error())};
  return RuleSet(std::move(impl.value()));
}

Expected<RuleSet, std::vector<RuleError>> RuleSet::load(const std::string& path) {
  const auto bytes = rules::read_file(path);
  if (bytes) return parse(*bytes, path);
  return Unexpected{std::vector<RuleError>{
      {path, 1, 1, bytes.error(), "expected a file of rules that can be read"}}};
}

const std::string& RuleSet::domain() const noexcept { return impl_->domain; }

std::span<const Rule> RuleSet::rules() const noexcept { return impl_->rules; }

const Rule* RuleSet::find(std::string_view name) const noexcept {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? nullptr : &impl_->rules[found->second];
}

}  // namespace sluice
