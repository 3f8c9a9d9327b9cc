#include "server/logging/ledger_lines.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/civil_time.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/quoted.h"
#include "core/budget.h"
#include "core/limit.h"
#include "rules/counter_key.h"
#include "rules/diagnostics.h"

namespace sluice::server {
namespace {

using base::JsonProblem;
using base::JsonValue;
using core::budget::plus;

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
  return {name, base::kJsonText, kText, base::json_into<Text>};
}
template <auto Instant>
constexpr Member instant(std::string_view name) {
  return {name, base::kJsonText, "expected an instant in RFC 3339", set_instant<Instant>};
}
template <auto Number>
constexpr Member whole(std::string_view name, std::uint64_t most = kMaxAmount) {
  return {name, base::kJsonWhole, kNumber, base::json_into<Number>, most};
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
    {"new", base::kJsonTrue, "expected true", base::json_into<&LedgerLine::is_new>},
    whole<&LedgerLine::lost>("lost"),
    {"rotated", base::kJsonTrue, "expected true", base::json_into<&LedgerLine::rotated>},
    instant<&LedgerLine::restored>("restored"),
    text<&LedgerLine::version>("version"),
    text<&LedgerLine::cut>("cut"),
    {.kinds = base::kJsonAny & ~(base::kJsonObject | base::kJsonArray)},  // of a later version
};
constexpr base::JsonObject<LedgerLine> kObject(kMembers);
constexpr Member kTop{
    .kinds = base::kJsonObject, .expected = "expected an object", .object = &kObject};

std::string hex(const IdHash& hash) {
  std::string out;
  for (const std::uint8_t byte : hash) base::append_lower_hex(out, static_cast<char>(byte));
  return out;
}

std::string amount(std::uint64_t number) { return std::to_string(number); }
// As compared balances are computed: below 0, if the line is wrong.
std::string signed_amount(std::uint64_t number) {
  return std::to_string(static_cast<std::int64_t>(number));
}
std::string name_of(const LedgerLine& line) {
  return base::in_quotes(line.counter.empty() ? line.key : line.counter);
}

// Sets the rule, the limit and the key of a counter of rules. Returns false if it is none.
bool set_names(LedgerLine& line, std::string_view counter) {
  const auto name = rules::parse_counter_key(counter);
  if (!name) return false;
  line.rule = name->rule;
  line.limit = name->limit;
  line.key.clear();
  for (const auto& part : name->parts) line.key += part.has_value ? part.value : part.name;
  return true;
}

std::string names_in_text(const LedgerLine& line) {
  return "rule " + base::in_quotes(line.rule) + ", limit " + base::in_quotes(line.limit) +
         " and key " + base::in_quotes(line.key);
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
  if (is_new) json.member("new", true);
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
  line.is_new = entry.is_new;
  line.spent = entry.spent;
  line.held = entry.held;
  line.spent_after = entry.spent_after;
  line.held_after = entry.held_after;
  line.limit_units = entry.limit;
  line.window = entry.window;
  line.counter = rules::utf8_counter_key(entry.key);
  line.key = line.counter;
  line.tag = entry.tag;
  line.id = entry.id;
  if (!entry.is_of_rule || !set_names(line, entry.key)) line.counter.clear();
  if (entry.hash) line.hash = hex(*entry.hash);
  const bool is_hold = entry.kind == LedgerKind::kHold ||
                       (entry.kind == LedgerKind::kUndo && entry.ends != Instant{});
  if (is_hold || entry.kind == LedgerKind::kExtend) line.ends = entry.ends;
  if (is_hold) line.on_expiry = core::to_string(entry.on_expiry);
  return line;
}

Expected<LedgerLine> parse_ledger_line(std::string_view text) {
  base::JsonReader<LedgerLine> reader;
  JsonProblem problem;
  LedgerLine line;
  if (reader.read(text, kTop, line, problem)) return line;
  return Unexpected{problem.message_by_path("it is no object; expected a line of a ledger")};
}

void LedgerReplay::prepare(std::string_view text) {
  if (text.find("\"start\"") == text.npos) return;
  const auto line = parse_ledger_line(text);
  if (!line || line->kind != "start") return;
  restored_.push_back(line->rotated ? Instant::max() : line->restored.value_or(Instant::max()));
  counts_until_ = std::min(counts_until_, restored_.back());
}

void LedgerReplay::add(const LedgerLine& line) {
  // The file before was renamed while no server ran.
  const bool begins_file = line.kind == "start" && line.n == 1 && is_stopped();
  if (last_.n != 0 && line.n != last_.n + 1 && !begins_file) {
    wrong(line, "lines are missing or out of order; expected n " + amount(last_.n + 1) +
                    ", found " + amount(line.n));
    lose_all();
  } else if (line.kind != "gap" && is_after_gap(line)) {
    warn("a gap: lines before n " + amount(line.n) +
         " are in an earlier file, or missing; what they have spent "
         "does not count");
  }
  if (line.kind == "start") {
    begin(line);
    counts_until_ = Instant::max();
    for (std::size_t i = ++starts_; i < restored_.size(); ++i) {
      counts_until_ = std::min(counts_until_, restored_[i]);
    }
  } else if (line.kind == "gap") {
    wrong(line, amount(line.lost) + " entries are missing, which could not be written");
    lose_all();
  } else if (line.is_entry()) {
    ++entries_;
    if (line.at > counts_until_) {
      ++undone_;
    } else {
      follow(line);
    }
  }
  last_ = line;
}

void LedgerReplay::end(Instant now) {
  for (auto& [name, counter] : counters_) expire(counter, now, now);
}

// From here on the balances are those of the next lines.
void LedgerReplay::lose_all() noexcept {
  ++era_;
  is_whole_ = false;
}

// A server begins, with the counters of a snapshot or with none; or another file of the same one.
void LedgerReplay::begin(const LedgerLine& line) {
  const bool has_stopped = last_.kind == "stop";
  if (!line.cut.empty()) warn("the line before was cut: " + line.cut);
  if (last_.n != 0 && !has_stopped) {
    warn(
        "a start without a stop before it: that server was killed, so its last entries, of at "
        "most ledger.flush, may be missing; or its log says how many could not be written");
  }
  if (const std::uint64_t undone = std::exchange(undone_, 0); undone > 0) {
    warn(amount(undone) + (undone == 1 ? " entry" : " entries") +
         " after the snapshot were undone by a crash, so they do not count");
  }
  if (line.rotated && has_stopped && last_.rotated) return;
  if (!line.rotated && !line.restored) {
    end(line.at);
    counters_.clear();
    is_whole_ = true;
  } else if (!has_stopped || !line.restored || *line.restored < last_.at) {
    lose_all();
    if (line.restored) restored_era_ = era_;
  }
}

void LedgerReplay::wrong(const LedgerLine& line, const std::string& what) {
  report_(true, (line.is_entry() ? name_of(line) + ": " : "") + what);
}

void LedgerReplay::follow(const LedgerLine& line) {
  const auto [found, is_new] =
      counters_.try_emplace(line.counter + '\n' + line.key + '\n' + line.tag);
  Counter& counter = found->second;
  if (is_new) {
    counter = {.rule = line.rule, .limit = line.limit, .key = line.key};
    counter.era = is_whole_ ? era_ : era_ - 1;
    check_names(line);
  }
  check_id(line);
  compare(counter, line);
  counter.last = line.at;
  counter.spent = line.spent_after;
  counter.held = line.held_after;
  follow_hold(counter, line);
  see_(line);
}

// A line names its counter, and again by rule, limit and key, by which `sum` groups. A key that is
// not UTF-8 is different in the line.
void LedgerReplay::check_names(const LedgerLine& line) {
  LedgerLine named;
  if (line.counter.empty() || !set_names(named, line.counter)) return;
  const bool is_text = rules::find_invalid_utf8(named.key) == named.key.npos;
  const bool agrees =
      named.rule == line.rule && named.limit == line.limit && (named.key == line.key || !is_text);
  if (agrees) return;
  wrong(line, "it has another name than its counter; expected " + names_in_text(named) +
                  ", found " + names_in_text(line));
}

// A counter knows an id by its hash. In a line, U+FFFD replaces what is not UTF-8.
void LedgerReplay::check_id(const LedgerLine& line) {
  if (line.id.empty() || line.hash.empty() || line.id.find("\uFFFD") != line.id.npos) return;
  const std::string hash = hex(core::HoldName(PermitId::named(line.id)).bytes());
  if (hash == line.hash) return;
  wrong(line, "its id " + base::in_quotes(line.id) + " has another hash; expected " + hash +
                  ", found " + line.hash);
}

// Ends the holds whose time is over at an instant of the window.
void LedgerReplay::expire(Counter& counter, Instant at, Instant window) {
  if (counter.first_end > at) return;
  counter.first_end = Instant::max();
  for (auto one = counter.open.begin(); one != counter.open.end();) {
    const Hold hold = one->second;
    if (hold.ends > at) {
      counter.first_end = std::min(counter.first_end, hold.ends);
      ++one;
      continue;
    }
    one = counter.open.erase(one);
    counter.held -= std::min(counter.held, hold.cost);
    counter.open_held -= hold.cost;
    if (!hold.charges) continue;
    if (hold.ends >= window) counter.spent = plus(counter.spent, hold.cost);
    see_({.at = hold.ends,
          .kind = "charged",
          .rule = counter.rule,
          .limit = counter.limit,
          .key = counter.key,
          .spent = static_cast<std::int64_t>(hold.cost)});
  }
}

// The counter was evicted, or it was forgotten at the end of a window that a longer one contains
// now.
void LedgerReplay::begin_again(Counter& counter, const LedgerLine& line) {
  if (counter.spent > 0 || counter.held > 0) {
    warn(name_of(line) +
         ": a gap: its counter was evicted, or forgotten before its limit got a "
         "longer 'per', and began again; what it had does not count any more: "
         "spent " +
         amount(counter.spent) + " and held " + amount(counter.held));
  }
  counter = {.rule = line.rule, .limit = line.limit, .key = line.key, .era = counter.era};
}

// A snapshot is not made at one instant, and may have entries that were not written any more: what
// the counter had spent before its first line after a restart says what of them counts.
void LedgerReplay::correct(const Counter& counter, const LedgerLine& line, std::uint64_t spent) {
  see_({.at = line.at,
        .kind = "restored",
        .rule = counter.rule,
        .limit = counter.limit,
        .key = counter.key,
        .counter = line.counter,
        .spent = static_cast<std::int64_t>(spent - counter.spent)});
}

// Compares a counter at the instant of a line with what it was before the line.
void LedgerReplay::compare(Counter& counter, const LedgerLine& line) {
  const std::uint64_t spent = line.spent_after - static_cast<std::uint64_t>(line.spent);
  const std::uint64_t held = line.held_after - static_cast<std::uint64_t>(line.held);
  const bool is_other = std::exchange(counter.era, era_) != era_;
  const bool is_restored = is_other && era_ == restored_era_ && counter.last > kFirstInstant;
  if (counter.last < line.window) counter.spent = 0;
  if (line.kind != "charged" && line.kind != "released") expire(counter, line.at, line.window);
  if (line.is_new && !is_other) begin_again(counter, line);
  const std::uint64_t open = counter.open_held;
  const bool is_held = counter.held == held ||
                       (counter.unknown > 0 && held >= open && held <= plus(open, counter.unknown));
  if (!is_other && line.at < counter.last)
    wrong(line, "its instant is before that of its last line");
  if ((!is_other || is_restored) && counter.spent == spent && is_held) {
    counter.unknown = held - std::min(held, open);
    return;
  }
  if (!is_other) {
    wrong(line, "its balance before; expected spent " + amount(counter.spent) + " and held " +
                    amount(counter.held) + ", found spent " + signed_amount(spent) + " and held " +
                    signed_amount(held));
  }
  if (is_restored && counter.spent != spent) correct(counter, line, spent);
  counter.open.clear();
  counter.open_held = 0;
  counter.unknown = held;
  counter.is_whole = false;
}

void LedgerReplay::follow_hold(Counter& counter, const LedgerLine& line) {
  const auto hold = counter.open.find(line.hash);
  const bool is_open = !line.hash.empty() && hold != counter.open.end();
  const std::string unknown = "the hold " + line.hash + " has ended before, or never began";
  const auto freed = static_cast<std::uint64_t>(-line.held);
  if (line.kind == "hold" && !is_open) {
    counter.open[line.hash] = {static_cast<std::uint64_t>(line.held), line.ends,
                               line.on_expiry != "release"};
    counter.open_held += static_cast<std::uint64_t>(line.held);
    counter.first_end = std::min(counter.first_end, line.ends);
  } else if (line.kind == "hold") {
    wrong(line, "the hold " + line.hash + " is open already");
  } else if (line.kind == "undo" && line.ends != Instant{}) {  // it is open again, or not longer
    if (!is_open) {
      counter.open[line.hash].cost = static_cast<std::uint64_t>(line.held);
      counter.open_held += static_cast<std::uint64_t>(line.held);
    }
    counter.open[line.hash].ends = line.ends;
    counter.open[line.hash].charges = line.on_expiry != "release";
    counter.first_end = std::min(counter.first_end, line.ends);
  } else if (line.kind == "extend") {
    if (is_open) hold->second.ends = line.ends;
    counter.first_end = std::min(counter.first_end, line.ends);
    if (!is_open && counter.is_whole) wrong(line, unknown);
  } else if (line.kind == "reset") {
    counter = {.rule = line.rule, .limit = line.limit, .key = line.key, .era = counter.era};
  } else if (is_open) {
    if (freed != hold->second.cost) {
      wrong(line, "the cost of its hold; expected held -" + amount(hold->second.cost) + ", found " +
                      std::to_string(line.held));
    }
    counter.open_held -= hold->second.cost;
    counter.open.erase(hold);
  } else if (line.held != 0 || line.kind == "settle") {
    if (counter.is_whole) wrong(line, unknown);
    counter.unknown -= std::min(counter.unknown, freed);
  }
}

}  // namespace sluice::server
