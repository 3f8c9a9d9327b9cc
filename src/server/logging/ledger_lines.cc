#include "server/logging/ledger_lines.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/civil_time.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/quoted.h"
#include "rules/counter_key.h"

namespace sluice::server {
namespace {

using base::JsonProblem;
using base::JsonValue;

constexpr std::array<std::string_view, 3> kOtherKinds{"start", "stop", "gap"};
constexpr std::string_view kNumber = "expected a whole number of at most 53 bits";
constexpr std::string_view kText = "expected text";

template <auto Member>
bool set_instant(LedgerLine& line, const JsonValue& value, JsonProblem& problem) {
  const auto at = base::parse_rfc3339(value.text);
  if (!at) return problem.is_value(value.text, "expected an instant in RFC 3339");
  line.*Member = *at;
  return true;
}

template <auto Member>
bool set_change(LedgerLine& line, const JsonValue& value, JsonProblem& problem) {
  const char* const end = value.text.data() + value.text.size();
  const auto read = std::from_chars(value.text.data(), end, line.*Member);
  constexpr auto kMost = static_cast<std::int64_t>(kMaxAmount);
  const bool is_whole = read.ec == std::errc() && read.ptr == end;
  if (is_whole && line.*Member >= -kMost && line.*Member <= kMost) return true;
  return problem.is_value(value.text, kNumber);
}

bool set_kind(LedgerLine& line, const JsonValue& value, JsonProblem& problem) {
  line.kind = value.text;
  const auto is_kind = [&](std::string_view kind) { return kind == line.kind; };
  if (std::ranges::any_of(kLedgerKinds, is_kind) || std::ranges::any_of(kOtherKinds, is_kind)) {
    return true;
  }
  return problem.is_value(base::in_quotes(value.text), "expected a kind of this version");
}

using Member = base::JsonMember<LedgerLine>;

template <auto Text>
constexpr Member text(std::string_view name) {
  return {name, base::kJsonText, kText, base::json_into<Text, LedgerLine>};
}
template <auto Instant>
constexpr Member instant(std::string_view name) {
  return {name, base::kJsonText, "expected an instant in RFC 3339", set_instant<Instant>};
}
template <auto Number>
constexpr Member whole(std::string_view name, std::uint64_t most = kMaxAmount) {
  return {name, base::kJsonWhole, kNumber, base::json_into<Number, LedgerLine>, most};
}
template <auto Number>
constexpr Member change(std::string_view name) {
  return {name, base::kJsonNumber, kNumber, set_change<Number>};
}
constexpr Member required(Member member) {
  member.required = true;
  return member;
}

constexpr Member kMembers[] = {
    required(whole<&LedgerLine::n>("n")),
    required(instant<&LedgerLine::at>("at")),
    required({"kind", base::kJsonText, kText, set_kind}),
    text<&LedgerLine::rule>("rule"),
    text<&LedgerLine::limit>("limit"),
    text<&LedgerLine::key>("key"),
    text<&LedgerLine::counter>("counter"),
    text<&LedgerLine::tag>("tag"),
    text<&LedgerLine::id>("id"),
    text<&LedgerLine::hash>("hash"),
    change<&LedgerLine::spent>("spent"),
    change<&LedgerLine::held>("held"),
    whole<&LedgerLine::spent_after>("spent_after"),
    whole<&LedgerLine::held_after>("held_after"),
    whole<&LedgerLine::limit_units>("limit_units"),
    instant<&LedgerLine::window>("window"),
    instant<&LedgerLine::ends>("ends"),
    text<&LedgerLine::on_expiry>("on_expiry"),
    whole<&LedgerLine::lost>("lost"),
    {"rotated", base::kJsonTrue, "expected true",
     base::json_into<&LedgerLine::rotated, LedgerLine>},
    instant<&LedgerLine::restored>("restored"),
    text<&LedgerLine::version>("version"),
    text<&LedgerLine::cut>("cut"),
    {.kinds = base::kJsonAny & ~(base::kJsonObject | base::kJsonArray)},  // of a later version
};
constexpr base::JsonObject<LedgerLine> kObject(kMembers);
constexpr Member kTop{
    .kinds = base::kJsonObject, .expected = "expected an object", .object = &kObject};

std::string hex(const IdHash& hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : hash) out.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return out;
}

}  // namespace

std::string LedgerLine::text() const {
  base::JsonWriter json;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) json.member(name, std::string_view(value));
  };
  json.begin_object().member("n", n).member("at", at).member("kind", std::string_view(kind));
  add("rule", rule);
  add("limit", limit);
  if (is_entry()) json.member("key", std::string_view(key));
  add("counter", counter);
  add("tag", tag);
  add("id", id);
  add("hash", hash);
  if (is_entry()) {
    json.member("spent", spent).member("spent_after", spent_after).member("held", held);
    json.member("held_after", held_after).member("limit_units", limit_units);
    if (window != kFirstInstant) json.member("window", window);
  }
  if (ends != Instant{}) json.member("ends", ends);
  add("on_expiry", on_expiry);
  if (kind == "gap") json.member("lost", lost);
  if (rotated) json.member("rotated", true);
  if (restored) json.member("restored", *restored);
  add("version", version);
  add("cut", cut);
  return std::string(json.end_object().view());
}

LedgerLine ledger_line(std::uint64_t n, const LedgerEntry& entry) {
  LedgerLine line;
  line.n = n;
  line.at = entry.at;
  line.kind = kLedgerKinds[static_cast<std::size_t>(entry.kind)];
  line.spent = entry.spent;
  line.held = entry.held;
  line.spent_after = entry.spent_after;
  line.held_after = entry.held_after;
  line.limit_units = entry.limit;
  line.window = entry.window;
  const auto name = entry.is_of_rule ? rules::parse_counter_key(entry.key)
                                     : Expected<rules::CounterKey>(Unexpected{std::string()});
  line.counter = rules::utf8_counter_key(entry.key);
  line.key = line.counter;
  line.tag = entry.tag;
  line.id = entry.id;
  if (name) {
    line.rule = name->rule;
    line.limit = name->limit;
    line.key.clear();
    for (const auto& part : name->parts) line.key += part.has_value ? part.value : part.name;
  } else {
    line.counter.clear();
  }
  if (entry.hash) line.hash = hex(*entry.hash);
  const bool is_hold = entry.kind == LedgerKind::kHold;
  if (is_hold || entry.kind == LedgerKind::kExtend) line.ends = entry.ends;
  if (is_hold) line.on_expiry = entry.on_expiry == OnExpiry::kCharge ? "charge" : "release";
  return line;
}

Expected<LedgerLine> parse_ledger_line(std::string_view text) {
  base::JsonReader<LedgerLine> reader;
  JsonProblem problem;
  LedgerLine line;
  if (reader.read(text, kTop, line, problem)) return line;
  return Unexpected{problem.message_by_path("it is no object; expected a line of a ledger")};
}

}  // namespace sluice::server
