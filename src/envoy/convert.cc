#include "envoy/config.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/quoted.h"
#include "core/limit.h"
#include "core/period.h"
#include "rules/attributes.h"
#include "rules/schema.h"

namespace sluice::envoy {
namespace {

using Path = std::vector<const Descriptor*>;

std::string yaml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append("\\").push_back(c);
    } else if (byte < 0x20 || byte == 0x7F) {
      base::append_hex(out += "\\x", c);
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

// Returns the characters of a name that fit into `most` bytes, by default those of a limit's name.
std::string_view shortened(std::string_view name, std::size_t most = 128) {
  if (name.size() <= most) return name;
  const std::string_view cut = name.substr(0, most);
  return cut.substr(0, std::min(base::find_invalid_utf8(cut), cut.size()));
}

bool is_plain(char c) { return base::is_letter_or("_-/", c); }

// Whether a rule takes the value for this text: values of `ip` are networks, and methods in lower
// case are refused.
bool is_text(const Descriptor& descriptor) {
  const bool is_refused =
      descriptor.key == "ip" ||
      (descriptor.key == "method" && base::upper_case(descriptor.value) != descriptor.value);
  return !is_refused && std::ranges::all_of(descriptor.value, is_plain);
}

// Returns a pattern of native rules; a regular expression if no simpler pattern means the same.
std::string pattern_of(const Descriptor& descriptor) {
  if (descriptor.value.empty()) return "**";
  if (is_text(descriptor)) return descriptor.value;
  std::string out = "~(?s)";
  for (const char c : descriptor.value) {
    if (c == '*') {
      out += ".*";
      continue;
    }
    const bool plain = is_plain(c) || c == ' ' || static_cast<unsigned char>(c) >= 0x80;
    if (!plain) out += '\\';
    out += c;
  }
  return out;
}

Path path_of(const Descriptor& descriptor) {
  Path path;
  for (const Descriptor* at = &descriptor; at != nullptr; at = at->parent) path.push_back(at);
  std::ranges::reverse(path);
  return path;
}

constexpr std::string_view kHeader =
    "# Converted from a configuration of Envoy's rate limit service. The first rule that matches\n"
    "# a descriptor decides. Besides the differences that the conversion printed, these apply:\n"
    "# - A rule also matches a descriptor that has more entries than the rule requires.\n"
    "# - A rule does not limit a descriptor if its key contains a value that is empty.\n"
    "# - If the first entries of a descriptor match by value, but the next entry does not match\n"
    "#   there, the rules for other wildcards and for any value are tried.\n";

class Converter {
 public:
  Converter(const Domain& domain, std::vector<std::string>& remarks)
      : domain_(domain), remarks_(remarks) {}

  std::string run() {
    collect(domain_.descriptors);
    std::ranges::stable_sort(all_, [this](const Path& a, const Path& b) {
      if (a.size() != b.size()) return a.size() > b.size();
      return std::ranges::lexicographical_compare(
          a, b, {}, [this](const Descriptor* one) { return rank_of(*one); },
          [this](const Descriptor* one) { return rank_of(*one); });
    });
    out_ = std::string(kHeader) + "version: 1\ndomain: " + yaml_quoted(domain_.name) + "\nrules:\n";
    const std::size_t empty = out_.size();
    for (const Path& path : all_) write(path);
    if (out_.size() == empty) out_.replace(empty - 1, 1, " []\n");
    return std::move(out_);
  }

 private:
  // Envoy tries a value before wildcards, these in the order of the file, and then any value.
  std::pair<int, std::size_t> rank_of(const Descriptor& descriptor) const {
    if (descriptor.is_wildcard()) return {1, wildcards_.at(&descriptor)};
    return {descriptor.value.empty() ? 2 : 0, 0};
  }

  void collect(const std::vector<std::unique_ptr<Descriptor>>& descriptors) {
    for (const auto& descriptor : descriptors) {
      if (descriptor->is_wildcard()) wildcards_.emplace(descriptor.get(), wildcards_.size());
      all_.push_back(path_of(*descriptor));
      collect(descriptor->children);
    }
  }

  void remark(const Descriptor& descriptor, std::string_view what) {
    remarks_.push_back(descriptor.rule.name + ": " + std::string(what));
  }

  void remark_error_policy() {
    if (std::exchange(remarked_policy_, true)) return;
    remarks_.push_back(
        domain_.name +
        ": requests are allowed if the store fails, instead of failing with an error");
  }

  void write(const Path& path) {
    const Descriptor& last = *path.back();
    if (!last.rate_limit && !last.children.empty()) return;
    if (!can_convert(path)) return;
    remark_differences(path);
    out_ += "  - name: " + yaml_quoted(unique_name(last)) + "\n    match:\n";
    for (const Descriptor* descriptor : path) {
      out_ += "      " + yaml_quoted(descriptor->key) + ": " +
              yaml_quoted(pattern_of(*descriptor)) + "\n";
    }
    if (!last.rate_limit || !last.rate_limit->limit) {
      remark(last, "limited to 4294967295 per second, because a rule has at least one limit");
      out_ +=
          "    limits: [ { name: unlimited, algorithm: fixed_window, limit: 4294967295, per: 1s, "
          "align: clock } ]\n";
      return;
    }
    if (last.shadow_mode) out_ += "    mode: shadow\n";
    const auto policy = last.rate_limit->on_store_error.value_or(FailurePolicy::kAllow);
    out_ += "    on_store_error: " + std::string(rules::schema::word_of(policy)) + "\n";
    write_limit(path);
  }

  bool can_convert(const Path& path) {
    const Descriptor& last = *path.back();
    std::set<std::string> keys;
    for (const Descriptor* descriptor : path) {
      // `not`, and these characters in key templates, have a meaning.
      if (descriptor->key == "not" || rules::find_name_error(descriptor->key) ||
          descriptor->key.find_first_of("|/{}") != std::string::npos) {
        remark(last,
               "omitted: its key '" + descriptor->key + "' cannot be the name of an attribute");
        return false;
      }
      if (!keys.insert(rules::normalized(descriptor->key)).second) {
        remark(last, "omitted: its path contains the key '" + descriptor->key + "' more than once");
        return false;
      }
    }
    return true;
  }

  void remark_differences(const Path& path) {
    const Descriptor& last = *path.back();
    if (!last.rate_limit) return;
    const RateLimit& limit = *last.rate_limit;
    if (!limit.replaces.empty()) {
      remark(last, "'replaces' is omitted: a rule cannot replace limits of other descriptors");
    }
    if (last.quota_mode) remark(last, "'quota_mode' is omitted: the limit is enforced");
    if (!last.metadata.empty()) remark(last, "'metadata' is omitted");
    if (last.detailed_metric || last.value_to_metric) {
      remark(last, "metrics of rules do not contain values of requests");
    }
    if (limit.limit && !limit.on_store_error) {
      remark_error_policy();
    }
  }

  void write_limit(const Path& path) {
    const RateLimit& of = *path.back()->rate_limit;
    const Limit& limit = *of.limit;
    std::string key;
    for (const Descriptor* descriptor : path) {
      if (descriptor->share_threshold) continue;
      if (descriptor->value.empty() || descriptor->is_wildcard()) {
        key += (key.empty() ? "{" : "|{") + descriptor->key + "}";
      }
    }
    out_ += "    limits:\n      - { name: " +
            yaml_quoted(of.name.empty() ? "limit" : shortened(of.name));
    if (!key.empty()) out_ += ", key: " + yaml_quoted(key);
    out_ += ", algorithm: " + std::string(to_string(limit.algorithm()));
    out_ += ", limit: " + std::to_string(limit.limit());
    out_ += ", per: " + core::format_period(limit.period());
    const LimitSpec spec = core::spec_of(limit);
    for (const core::OptionInfo& option : core::kLimitOptions) {
      const auto value = core::value_of(spec, option.option);
      if (!value) continue;
      if (option.words.empty()) {
        out_.append(", ").append(option.name).append(": ") += std::to_string(*value);
      } else if (*value != 0) {  // the first word is the default
        out_.append(", ").append(option.name).append(": ").append(option.words[*value]);
      }
    }
    out_ += " }\n";
  }

  std::string unique_name(const Descriptor& descriptor) {
    // Names are shortened, and a long domain leaves no room for the rest.
    const std::string& whole = descriptor.rule.name;
    const std::string_view rest =
        std::string_view(whole).substr(std::min(domain_.name.size() + 1, whole.size()));
    const std::string name(rest.empty() ? "descriptor" : shortened(rest, 100));
    std::string out = name;
    for (int i = 2; !names_.insert(out).second; ++i) out = name + " #" + std::to_string(i);
    return out;
  }

  const Domain& domain_;
  std::vector<Path> all_;
  std::map<const Descriptor*, std::size_t> wildcards_;  // with their order in the file
  std::set<std::string> names_;
  bool remarked_policy_ = false;
  std::string out_;
  std::vector<std::string>& remarks_;
};

}  // namespace

std::string convert(const Domain& domain, std::vector<std::string>& remarks) {
  return Converter(domain, remarks).run();
}

}  // namespace sluice::envoy
