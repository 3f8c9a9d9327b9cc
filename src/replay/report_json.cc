#include "replay/report.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kTopDenied = 10;

// Writes members of objects and elements of arrays, with the commas between them.
class Writer {
 public:
  Writer& open(char bracket) {
    comma();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  Writer& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  Writer& name(std::string_view name) {
    comma();
    text_ += json_string(name) + ":";
    first_ = true;
    return *this;
  }
  Writer& raw(std::string_view value) {
    comma();
    text_ += value;
    return *this;
  }
  Writer& member(std::string_view key, std::uint64_t value) {
    return name(key).raw(std::to_string(value));
  }
  Writer& member(std::string_view key, std::string_view value) {
    return name(key).raw(json_string(value));
  }
  Writer& member(std::string_view key, const std::optional<Instant>& at) {
    return name(key).raw(at ? json_string(iso_time(*at)) : "null");
  }
  std::string take() { return std::move(text_); }

 private:
  void comma() {
    if (!first_) text_ += ',';
    first_ = false;
  }

  std::string text_;
  bool first_ = true;
};

void write_limit(Writer& out, const LimitTally& limit) {
  out.open('{').member("name", limit.limit->name).member("keys", limit.keys.keys());
  out.member("denied", limit.denied).member("keys_denied", limit.keys.keys_denied());
  out.name("top_denied").open('[');
  for (const DeniedKey& key : limit.keys.most_denied(kTopDenied)) {
    out.open('{').member("key", key.label).member("denied", key.denied).close('}');
  }
  out.close(']').close('}');
}

void write_rule(Writer& out, const RuleTally& rule) {
  out.open('{').member("name", rule.rule->name).member("matched", rule.matched);
  out.member("allowed", rule.matched - rule.denied).member("denied", rule.denied);
  out.name("limits").open('[');
  for (const LimitTally& limit : rule.limits) write_limit(out, limit);
  out.close(']').close('}');
}

void write_rules(Writer& out, const Tally& tally) {
  out.name("rules").open('[');
  for (const RuleTally& rule : tally.rules) write_rule(out, rule);
  out.close(']');
}

// Requests that one set of rules denies and the other does not.
void write_difference(Writer& out, std::string_view name, const Tally& tally) {
  out.name(name).open('{').member("denied", tally.denied);
  write_rules(out, tally);
  out.close('}');
}

void write_comparison(Writer& out, const ReplayComparison& comparison) {
  const Tally& tally = comparison.tally;
  out.name("against").open('{').member("allowed", tally.requests - tally.denied);
  out.member("denied", tally.denied).member("unmatched", tally.unmatched);
  write_rules(out, tally);
  out.close('}').member("denied_both", comparison.denied_both);
  write_difference(out, "denied_only_by_rules", comparison.only_rules);
  write_difference(out, "denied_only_by_against", comparison.only_against);
}

}  // namespace

std::string json_report(const ReplayReport& report) {
  Writer out;
  out.open('{').member("lines", report.lines).member("parsed", report.parsed());
  out.member("skipped", report.skipped).name("formats").open('[');
  for (const LogFormat format : report.formats) out.raw(json_string(to_string(format)));
  out.close(']');
  out.member("first", report.first).member("last", report.last);
  out.member("allowed", report.allowed()).member("denied", report.tally.denied);
  out.member("unmatched", report.tally.unmatched);
  write_rules(out, report.tally);
  if (report.comparison) write_comparison(out, *report.comparison);
  out.member("elapsed_ms", static_cast<std::uint64_t>(report.elapsed.count())).close('}');
  return out.take() + "\n";
}

}  // namespace sluice::replay
