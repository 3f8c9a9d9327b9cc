#include "cli/decide.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <istream>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/quoted.h"
#include "cli/command.h"
#include "cli/store_flags.h"
#include "core/calendar.h"
#include "core/decision.h"
#include "core/limit.h"
#include "core/period.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/permit.h"
#include "sluice/redis_store.h"

namespace sluice::cli {
namespace {

constexpr std::chrono::milliseconds kPatience{2'000};
constexpr std::size_t kMaxKeys = std::size_t{1} << 24;
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 30;

constexpr const char* kDecideHelp =
    R"(Read one request per line from stdin and write one decision per line to stdout, in JSON.
Each request contains an explicit timestamp, in microseconds since the epoch, so the same input
always gives the same output.

  {"at_us":0,"charges":[{"key":"u1","cost":1,"limit":
      {"algorithm":"token_bucket","limit":10,"per":"1s","burst":20}}]}
  {"outcome":"allowed","reason":"ok","limits":
      [{"limit":20,"remaining":19,"reset_after_us":100000}]}

verb: take (default), peek, refund, reset, charge, take_at_most, reserve, release, extend, hold,
settle, cancel. reserve needs max_wait_us. cost: default 1. limit: algorithm, limit, per, and the options of the algorithm:
burst, align, slices, weighting, mode, refill, on_expiry, holds, remember. A fixed_window or a
budget may have {"per":"month",
"zone":"Asia/Shanghai","starts":15}, or per day, week or year. Sluice takes all charges of a line or
none. A denied line and each limit that denied it contain retry_after_us; that of the line is the
longest. It is absent if the reason is never. take_at_most adds taken. reserve and a leaky bucket in
queue mode add delay_us.

With --rules a line may have attributes instead of charges, which these rules decide, with the plans
of the rules and the --overrides of a server with a memory store; the limits are then named:
  {"at_us":0,"attributes":{"path":"/v1/chat","header.x-customer":"42"},"cost":1}

A take of {"algorithm":"concurrency","limit":3,"lease":"30s"} adds a permit, which release and
extend get in place of charges: {"at_us":9,"verb":"release","permit":"TEXT"}.

A hold of {"algorithm":"budget","limit":500,"per":"1d"} needs an "id" of 1 to 128 bytes and a "ttl"
such as "30s" (or "ttl_ms":30000). settle ends the hold of its "id" and spends "actual", or else the
cost of each charge; cancel spends nothing; extend starts a "ttl" again. A take or a charge with an
"id" counts once. The answers have "id", "ends_after_us", and "repeated" or "late" if that is so:
  {"at_us":0,"verb":"hold","id":"a1","ttl":"30s","charges":[{"key":"u1","cost":70,"limit":
      {"algorithm":"budget","limit":500,"per":"1d"}}]}
  {"at_us":9,"verb":"settle","id":"a1","actual":45,"charges":[{"key":"u1","limit":
      {"algorithm":"budget","limit":500,"per":"1d"}}]}
A charge of a budget with "alternative":true is taken instead of the charge before it if that has no
room for its cost; of such budgets in a row one is charged, and the others have "passed_over".

For a line that is not valid, or that the store could not decide, the output is
{"error":"...","line":n}, and the exit status is 1 at the end.

Without --store the counters are in memory. In Redis they use the format of the server and expire
after 24 hours. Use a separate --prefix for experiments.

Exit status: 0 every line was decided; 1 a line was not, or the store is not available; 2 wrong usage.

Examples:
  sluice decide < requests.jsonl
  sluice decide --rules rules.yaml < requests.jsonl
  sluice decide --store redis://127.0.0.1:6379 --prefix trial: < requests.jsonl)";

// Reads a line and its line break. Truncates a line that is too long. Returns false at the end of
// the input.
bool read_line(std::istream& in, std::string& line, bool& too_long) {
  line.clear();
  too_long = false;
  std::streambuf& buffer = *in.rdbuf();
  int c = buffer.sbumpc();
  if (c == std::char_traits<char>::eof()) return false;
  for (; c != std::char_traits<char>::eof() && c != '\n'; c = buffer.sbumpc()) {
    if (line.size() < DecisionFilter::kMaxLine) {
      line.push_back(static_cast<char>(c));
    } else {
      too_long = true;
    }
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

int decide(std::istream& in, std::ostream& out, DecisionFilter& filter) {
  std::string line;
  bool too_long = false;
  while (out && read_line(in, line, too_long)) {
    out << (too_long ? filter.refuse_long_line() : filter.answer(line)) << '\n';
    // Flushes if no input is waiting: the caller may wait for this decision.
    if (in.rdbuf()->in_avail() <= 0) out.flush();
  }
  out.flush();
  return filter.had_errors() || !out ? kFailed : 0;
}

// Records the reason of the latest store failure.
class Reasons final : public StoreObserver {
 public:
  void on(const StoreEvent& event) noexcept override {
    if (event.kind == StoreEventKind::kConnected) return;
    const std::lock_guard lock(mutex_);
    why_ = event.why;
  }
  // Returns the reason and clears it.
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(why_, {});
  }

 private:
  std::mutex mutex_;
  std::string why_;
};

// Reads the files, whose names may be empty.
std::optional<RuleSet> read_rules(const std::string& file, const std::string& overrides_file,
                                  Overrides& overrides) {
  if (file.empty()) {
    if (!overrides_file.empty()) throw wrong_usage("--overrides needs --rules FILE");
    return std::nullopt;
  }
  auto rules = RuleSet::load(file);
  if (!rules) {
    print_errors(rules.error());
    throw Failed("the rules of '" + file + "' are wrong");
  }
  if (!overrides_file.empty()) {
    const auto read = read_overrides(overrides_file, overrides);
    if (!read) throw Failed(read.error());
    if (!*read) throw Failed(overrides_file + ": there is no such file");
  }
  return *std::move(rules);
}

std::unique_ptr<Store> open_store(const server::Config& config, Reasons& reasons) {
  if (config.store == "memory") {
    return std::make_unique<MemoryStore>(
        MemoryStoreOptions{.max_keys = kMaxKeys, .max_log_bytes = kMaxLogBytes});
  }
  RedisOptions options = redis_options_of(config);
  // For a batch of requests, a decision matters more than a short deadline.
  options.deadline = std::max(options.deadline, kPatience);
  auto store = RedisStore::open(options, &reasons);
  if (!store) throw wrong_usage(store.error());
  if (const auto ready = (*store)->wait_until_ready(kPatience); !ready) {
    throw Failed("the store is not available: " + ready.error());
  }
  return *std::move(store);
}

int decide_with(const StoreFlags& flags, const std::string& rules_file,
                const std::string& overrides_file) {
  const server::Config config = config_of(flags);
  Overrides overrides;
  const auto rules = read_rules(rules_file, overrides_file, overrides);
  std::ios::sync_with_stdio(false);
  Reasons reasons;
  const auto store = open_store(config, reasons);
  DecisionFilter filter(*store, [&] { return reasons.take(); });
  if (rules) filter.use(*rules, overrides);
  try {
    return decide(std::cin, std::cout, filter);
  } catch (const std::ios_base::failure&) {
    throw Failed("standard input cannot be read");
  }
}

}  // namespace

void add_decide(Command app) {
  const Command command = app.add_subcommand(
      "decide", "Decide requests from stdin at explicit timestamps", kDecideHelp);
  const auto store = add_store_flags(command);
  store->finds_config = false;  // a filter of requests has the store in memory
  const auto rules = std::make_shared<std::string>(), overrides = std::make_shared<std::string>();
  command.add_option("--rules", *rules, "The rules file that decides lines with attributes",
                     "FILE");
  command.add_option("--overrides", *overrides, "The file of overrides of a server (overrides.txt)",
                     "FILE");
  command.run("decide",
              [store, rules, overrides] { return decide_with(*store, *rules, *overrides); });
}

namespace {

using base::JsonProblem;
using base::JsonValue;
using base::JsonWriter;

// Reports an invalid line: where, what, and what would be right. Caught in this file.
[[noreturn]] void fail(std::string_view where, const std::string& what) {
  throw Failed(where.empty() ? what : std::string(where) + ": " + what);
}

constexpr std::string_view kText = "must be text";
constexpr std::string_view kObject = "must be an object";
constexpr std::string_view kPeriod = "must be text such as \"60s\" or \"500ms\"";
constexpr std::string_view kUnits = "must be a whole number from 0 to 9007199254740991";
constexpr std::string_view kCharges = "must be a list of 1 to 64 charges";

}  // namespace

// A line while it is read. Borrows its texts.
struct DecideLine {
  std::uint64_t at_us = 0;
  Verb verb = Verb::kTake;
  std::optional<std::uint64_t> max_wait_us, cost;
  std::optional<std::vector<Charge>> charges;
  std::optional<std::string_view> permit;
  std::optional<Attributes> attributes;
  // Of budgets.
  std::optional<std::string_view> id;
  std::optional<Duration> ttl;
  std::optional<std::uint64_t> actual;

  // The charge that is read, and its limit.
  std::string_view key;
  std::uint64_t units = 1;
  bool alternative = false;
  LimitSpec spec;
  std::optional<std::string_view> per, lease, zone, starts;
  std::optional<Limit> limit;

  bool set_verb(const JsonValue& value, JsonProblem& problem) {
    constexpr std::array<std::pair<std::string_view, Verb>, 12> kVerbs{
        {{"take", Verb::kTake},
         {"peek", Verb::kPeek},
         {"refund", Verb::kRefund},
         {"reset", Verb::kReset},
         {"charge", Verb::kCharge},
         {"take_at_most", Verb::kTakeAtMost},
         {"reserve", Verb::kReserve},
         {"release", Verb::kRelease},
         {"extend", Verb::kExtend},
         {"hold", Verb::kHold},
         {"settle", Verb::kSettle},
         {"cancel", Verb::kCancel}}};
    for (const auto& [name, of_name] : kVerbs) {
      if (name != value.text) continue;
      verb = of_name;
      return true;
    }
    return problem.is(base::in_quotes(value.text) + " is unknown",
                      "expected take, peek, refund, reset, charge, take_at_most, reserve, release, "
                      "extend, hold, settle or cancel");
  }

  bool set_ttl(const JsonValue& value, JsonProblem& problem) {
    if (ttl) return problem.is("is next to 'ttl_ms'", "expected one of them");
    const auto read = core::parse_period(value.text);
    if (!read) return problem.is(read.error(), {});
    ttl = *read;
    return true;
  }

  bool set_ttl_ms(const JsonValue& value, JsonProblem& problem) {
    if (ttl) return problem.is("is next to 'ttl'", "expected one of them");
    ttl = std::chrono::milliseconds{static_cast<std::int64_t>(value.number)};
    return true;
  }

  bool begin_attributes(const JsonValue&, JsonProblem&) {
    attributes.emplace();
    return true;
  }

  bool add_attribute(const JsonValue& value, JsonProblem& problem) {
    if (attributes->find(value.name)) return problem.is_twice(value.name);
    attributes->set(value.name, value.text);
    return true;
  }

  bool begin_charges(const JsonValue&, JsonProblem&) {
    charges.emplace();
    return true;
  }

  bool begin_charge(const JsonValue&, JsonProblem& problem) {
    if (charges->size() == kMaxCharges) return problem.is_outer(kCharges, {});
    units = 1;
    alternative = false;
    return true;
  }

  bool begin_limit(const JsonValue&, JsonProblem&) {
    spec = {};
    per = lease = zone = starts = std::nullopt;
    return true;
  }

  bool set_algorithm(const JsonValue& value, JsonProblem& problem) {
    const auto algorithm = algorithm_from(value.text);
    if (!algorithm) {
      return problem.is(base::in_quotes(value.text) + " is unknown",
                        "expected " + base::joined(core::kAllAlgorithmNames, " or "));
    }
    spec.algorithm = *algorithm;
    return true;
  }

  // Sets an option to a number, or to the index of a word, which is the value of its enumerator.
  bool set_option(const JsonValue& value, JsonProblem& problem) {
    const auto& option = *std::find_if(core::kLimitOptions.begin(), core::kLimitOptions.end(),
                                       [&](const auto& one) { return one.name == value.name; });
    std::uint64_t number = value.number;
    if (!option.words.empty()) {
      const auto found = std::find(option.words.begin(), option.words.end(), value.text);
      if (found == option.words.end()) {
        return problem.is(base::in_quotes(value.text) + " is unknown",
                          "expected " + base::joined(option.words, " or "));
      }
      number = static_cast<std::uint64_t>(found - option.words.begin());
    }
    if (option.is_time) {
      const auto time = core::parse_period(value.text);
      if (!time) return problem.is(time.error(), {});
      number = static_cast<std::uint64_t>(*time / std::chrono::milliseconds{1});
    }
    core::set_value(spec, option.option, number);
    return true;
  }

  // Sets the calendar of a limit whose `per` is a unit of it.
  bool set_calendar(JsonProblem& problem) {
    const auto unit = core::calendar_unit_from(*per);
    if (!unit) {
      return (!zone && !starts) ||
             problem.is_of(zone ? "zone" : "starts", core::kNeedsCalendar, {});
    }
    CalendarSpec calendar{.unit = *unit};
    if (zone) calendar.zone = *zone;
    if (starts) {
      const auto started = core::starting(calendar, *starts);
      if (!started) return problem.is(started.error(), {});
      calendar = *started;
    }
    const auto made = Calendar::make(calendar);
    if (!made) return problem.is_of("zone", made.error(), {});
    spec.calendar = *made;
    return true;
  }

  bool end_limit(JsonProblem& problem) {
    const bool is_lease = holds_permits(spec.algorithm);
    const std::string_view period = is_lease ? "lease" : "per";
    if (is_lease ? per : lease) {
      return problem.is_of(is_lease ? "per" : "lease",
                           "does not apply to " + std::string(to_string(spec.algorithm)),
                           "expected " + base::in_quotes(period));
    }
    const std::optional<std::string_view>& text = is_lease ? lease : per;
    if (!text) return problem.is_missing(period, {});
    if (!is_lease && !set_calendar(problem)) return false;
    if (spec.calendar == nullptr) {
      const Expected<Duration> read = core::parse_limit_period(*text);
      if (!read) return problem.is_of(period, read.error(), {});
      spec.per = *read;
    }
    const Expected<Limit> made = Limit::make(spec);
    if (!made) return problem.is(made.error(), {});
    limit = *made;
    return true;
  }
};

namespace {

using Member = base::JsonMember<DecideLine>;
using Object = base::JsonObject<DecideLine>;

using base::json_into;

constexpr auto kOfLimit = [] {
  std::array<Member, 6 + core::kLimitOptions.size()> rows{
      Member{"algorithm", base::kJsonText, kText, json_into<&DecideLine::set_algorithm>},
      Member{"limit", base::kJsonWhole, kUnits, json_into<&DecideLine::spec, &LimitSpec::limit>,
             kMaxAmount},
      Member{"per", base::kJsonText, kPeriod, json_into<&DecideLine::per>},
      Member{"lease", base::kJsonText, kPeriod, json_into<&DecideLine::lease>},
      Member{"zone", base::kJsonText, kText, json_into<&DecideLine::zone>},
      Member{"starts", base::kJsonText | base::kJsonNumber, kText, json_into<&DecideLine::starts>}};
  rows[0].required = rows[1].required = true;
  for (std::size_t i = 0; i < core::kLimitOptions.size(); ++i) {
    const bool is_number = core::kLimitOptions[i].words.empty() && !core::kLimitOptions[i].is_time;
    rows[6 + i] = {core::kLimitOptions[i].name, is_number ? base::kJsonWhole : base::kJsonText,
                   is_number ? kUnits : kText, json_into<&DecideLine::set_option>, kMaxAmount};
  }
  return rows;
}();
constexpr Object kLimit(kOfLimit, [](DecideLine& line, JsonProblem& problem) {
  return line.end_limit(problem);
});

constexpr Member kOfCharge[] = {
    {.name = "key",
     .kinds = base::kJsonText,
     .expected = kText,
     .set = json_into<&DecideLine::key>,
     .required = true},
    {"cost", base::kJsonWhole, kUnits, json_into<&DecideLine::units>, kMaxAmount},
    {"alternative", base::kJsonTrue, "must be true", json_into<&DecideLine::alternative>},
    {.name = "limit",
     .kinds = base::kJsonObject,
     .expected = kObject,
     .set = json_into<&DecideLine::begin_limit>,
     .required = true,
     .object = &kLimit}};
constexpr Object kInCharge(kOfCharge, [](DecideLine& line, JsonProblem&) {
  line.charges->push_back({line.key, *line.limit, line.units});
  line.charges->back().alternative = line.alternative;
  return true;
});
constexpr Member kCharge{.kinds = base::kJsonObject,
                         .expected = kObject,
                         .set = json_into<&DecideLine::begin_charge>,
                         .object = &kInCharge};

constexpr Member kAttribute[] = {
    {"", base::kJsonText, kText, json_into<&DecideLine::add_attribute>}};
constexpr Object kAttributes(kAttribute, nullptr, true);

constexpr Member kOfLine[] = {
    {.name = "at_us",
     .kinds = base::kJsonWhole,
     .expected = "must be a whole number from 0 to 4503599627370495",
     .set = json_into<&DecideLine::at_us>,
     .most = static_cast<std::uint64_t>(kLastInstant.time_since_epoch().count()),
     .required = true},
    {"verb", base::kJsonText, kText, json_into<&DecideLine::set_verb>},
    {"max_wait_us", base::kJsonWhole, "must be a whole number from 0 to 86400000000",
     json_into<&DecideLine::max_wait_us>, static_cast<std::uint64_t>(kMaxWait.count())},
    {.name = "charges",
     .kinds = base::kJsonArray,
     .expected = kCharges,
     .set = json_into<&DecideLine::begin_charges>,
     .each = &kCharge},
    {"permit", base::kJsonText, kText, json_into<&DecideLine::permit>},
    {"id", base::kJsonText, kText, json_into<&DecideLine::id>},
    {"ttl", base::kJsonText, kPeriod, json_into<&DecideLine::set_ttl>},
    {"ttl_ms", base::kJsonWhole, "must be a whole number from 1000 to 86400000",
     json_into<&DecideLine::set_ttl_ms>, 86'400'000},
    {"actual", base::kJsonWhole, kUnits, json_into<&DecideLine::actual>, kMaxAmount},
    {.name = "attributes",
     .kinds = base::kJsonObject,
     .expected = "must be an object of texts",
     .set = json_into<&DecideLine::begin_attributes>,
     .object = &kAttributes},
    {"cost", base::kJsonWhole, kUnits, json_into<&DecideLine::cost>, kMaxAmount}};
constexpr Object kInLine(kOfLine);
constexpr Member kLine{.kinds = base::kJsonObject, .expected = kObject, .object = &kInLine};

bool is_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return base::is_digits(text);
}

[[noreturn]] void fail(const JsonProblem& problem) {
  using Kind = JsonProblem::Kind;
  const std::string where = problem.place + (problem.inner.empty() ? "" : "." + problem.inner);
  const std::string key = "key " + base::in_quotes(problem.name);
  switch (problem.kind) {
    case Kind::kSyntax:
    case Kind::kTooDeep:
      fail("column " + std::to_string(problem.at + 1),
           "not valid JSON (" + problem.what + "); expected one object on the line");
    case Kind::kUnknown: fail(where, "unknown " + key + "; " + problem.right);
    case Kind::kTwice: fail(where, "the " + key + " is given twice; give it once");
    case Kind::kMissing: fail(where, "is missing");
    case Kind::kValue:
      fail(where,
           (is_integer(problem.what) ? problem.what + " is out of range; " : "") + problem.right);
    case Kind::kOther: break;
  }
  fail(where, problem.message());
}

// Checks what is for budgets.
void check_id(const DecideLine& line) {
  const bool has_ttl = line.verb == Verb::kHold || line.verb == Verb::kExtend;
  if (line.id && (line.id->empty() || line.id->size() > kMaxIdBytes)) {
    fail("id", "has " + std::to_string(line.id->size()) + " bytes; expected 1 to " +
                   std::to_string(kMaxIdBytes));
  }
  const bool counts_id = needs_id(line.verb) || line.verb == Verb::kTake ||
                         line.verb == Verb::kPeek || line.verb == Verb::kCharge;
  if (line.id && !counts_id) {
    fail("id", "is only for take, peek, charge, hold, settle, cancel and extend; leave it out");
  }
  if (line.id && line.permit) fail("permit", "is next to 'id'; give one of them");
  if (needs_id(line.verb) && !line.id && !line.permit) fail("id", "is missing");
  if (line.ttl && !(has_ttl && line.id)) {
    fail("ttl", "is only for hold and extend with an id; leave it out");
  }
  if (has_ttl && line.id && !line.ttl) fail("ttl", "is missing");
  if (line.ttl && (*line.ttl < kMinHold || *line.ttl > kMaxHold)) {
    fail("ttl", core::format_period(*line.ttl) + " is out of range; it must be 1s to 24h");
  }
  if (line.actual && line.verb != Verb::kSettle) {
    fail("actual", "is only for settle; leave it out");
  }
  if (!line.attributes || !needs_id(line.verb) || line.verb == Verb::kHold) return;
  if (line.verb == Verb::kSettle && !line.actual) fail("actual", "is missing");
  if (line.cost) fail("cost", "is not for settle, cancel and extend; leave it out");
}

Action action_of(const DecideLine& line) {
  check_id(line);
  if (line.verb != Verb::kReserve) {
    if (line.max_wait_us) fail("max_wait_us", "is only for the verb reserve; leave it out");
    return {line.verb, line.ttl.value_or(Duration{0})};
  }
  if (!line.max_wait_us) fail("max_wait_us", "is missing");
  return {line.verb, Duration{static_cast<Duration::rep>(*line.max_wait_us)}};
}

void check_charges(const DecideLine& line) {
  if (!line.charges) fail("charges", "is missing");
  const std::vector<Charge>& charges = *line.charges;
  if (charges.empty()) fail("charges", std::string(kCharges));
  for (std::size_t i = 0; i < charges.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (charges[i].key != charges[j].key || charges[i].limit == charges[j].limit ||
          charges[i].limit.algorithm() != charges[j].limit.algorithm()) {
        continue;
      }
      fail("charges[" + std::to_string(i) + "]",
           "uses the counter of charges[" + std::to_string(j) +
               "] (same key and algorithm) with different numbers; give each limit its own key");
    }
  }
}

// Makes a permit if a take of the charges needs one, and names it in them.
void add_permit(std::vector<Charge>& charges, Verb verb, std::optional<PermitId>& permit) {
  for (std::size_t i = 0; i < charges.size(); ++i) {
    if (!holds_permits(charges[i].limit.algorithm())) continue;
    if (verb == Verb::kCharge) {
      fail("charges[" + std::to_string(i) + "]",
           "concurrency cannot be charged; expected another verb or algorithm");
    }
    if (takes(verb) && !permit) permit = PermitId::random();
  }
  for (Charge& charge : charges) {
    if (permit && holds_permits(charge.limit.algorithm())) charge.permit = &*permit;
  }
}

// Names the id in the charges that can have one, and what they are settled with.
void add_id(std::vector<Charge>& charges, const DecideLine& line, const PermitId& id) {
  bool has_budget = false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    Charge& charge = charges[i];
    const bool is_budget = holds_amounts(charge.limit.algorithm());
    if (!is_budget && line.verb != Verb::kHold && needs_id(line.verb)) {
      fail("charges[" + std::to_string(i) + "]", std::string(to_string(charge.limit.algorithm())) +
                                                     " has no holds; expected only budgets");
    }
    if (is_budget) charge.permit = &id;
    if (line.actual) charge.cost = *line.actual;
    has_budget |= is_budget;
  }
  if (!has_budget) fail("id", "is only for budgets, and no charge is one; leave it out");
}

void write_wait(JsonWriter& out, std::string_view name, std::optional<Duration> wait) {
  if (wait) out.member(name, static_cast<std::uint64_t>(wait->count()));
}

void write_limit(JsonWriter& out, const Decision& d) {
  if (d.passed_over) out.member("passed_over", true);
  out.member("limit", d.capacity).member("remaining", d.remaining);
  write_wait(out, "reset_after_us", d.reset_after);
  write_wait(out, "retry_after_us", d.retry_after);
}

void write_head(JsonWriter& out, const Decision& all) {
  out.begin_object().member("outcome", core::wire_outcome(all.outcome));
  out.member("reason", to_string(all.reason));
}

// Writes the answer up to its limits.
void write_start(JsonWriter& out, const DecideLine& line, const Decision& all,
                 std::string_view permit) {
  write_head(out, all);
  if (line.id) out.member("id", *line.id);
  if (all.repeated) out.member("repeated", true);
  if (all.late) out.member("late", true);
  if (all.ends_after > Duration{0}) write_wait(out, "ends_after_us", all.ends_after);
  write_wait(out, "retry_after_us", all.retry_after);
  write_wait(out, "delay_us", all.delay);
  if (line.verb == Verb::kTakeAtMost && all.allowed()) out.member("taken", all.taken);
  if (!permit.empty()) out.member("permit", permit);
}

std::string to_json(const DecideLine& line, const Decision& all, const Batch& batch,
                    std::string_view permit) {
  JsonWriter out;
  write_start(out, line, all, permit);
  out.key("limits").begin_array();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    out.begin_object();
    write_limit(out, batch.decision(i));
    out.end_object();
  }
  return std::string(out.end_array().end_object().view());
}

std::string to_json(const DecideLine& line, const RuleAnswer& answer) {
  JsonWriter out;
  write_start(out, line, answer.decision, answer.permit);
  if (answer.rule != nullptr) out.member("rule", answer.rule->name);
  if (const auto* const charged = answer.charged()) out.member("charged", charged->limit->name);
  out.key("limits").begin_array();
  for (const LimitAnswer& each : answer.limits) {
    out.begin_object().member("rule", each.rule->name).member("name", each.limit->name);
    write_limit(out, each.decision);
    out.end_object();
  }
  return std::string(out.end_array().end_object().view());
}

}  // namespace

std::string DecisionFilter::answer(std::string_view text) {
  ++line_;
  base::JsonReader<DecideLine> reader;
  DecideLine line;
  try {
    JsonProblem problem;
    if (!reader.read(text, kLine, line, problem)) fail(problem);
    const Action action = action_of(line);
    const Instant at{Duration{static_cast<Duration::rep>(line.at_us)}};
    if (action.verb == Verb::kRelease || (action.verb == Verb::kExtend && !line.id)) {
      return change_permit(line, at);
    }
    if (line.permit) fail("permit", "is only for release and extend; leave it out");
    if (line.attributes) return decide_by_rules(line, action, at);
    if (line.cost) fail("cost", "is of a charge here; expected it in 'charges'");
    check_charges(line);
    std::vector<Charge>& charges = *line.charges;
    std::optional<PermitId> permit, id;
    add_permit(charges, action.verb, permit);
    if (line.id) add_id(charges, line, id.emplace(PermitId::named(*line.id)));
    batch_.clear();
    for (const Charge& charge : charges) batch_.add(charge, {});
    const Decision all = batch_.decide({action, at});
    if (store_failed(all.reason)) return error(failure(all.reason));
    std::string handed_out;
    if (permit && all.allowed()) {
      if (action.verb == Verb::kTakeAtMost && all.taken == 0) charges.clear();
      PermitText::append(*permit, charges, handed_out);
    }
    return to_json(line, all, batch_, handed_out);
  } catch (const Failed& mistake) {
    return error(mistake.what());
  }
}

std::string DecisionFilter::decide_by_rules(const DecideLine& line, const Action& action,
                                            Instant at) {
  if (!decider_) fail("attributes", "need rules; expected the option --rules FILE");
  if (line.charges) fail("charges", "come from the rules; leave them out");
  const auto id = line.id ? std::optional(PermitId::named(*line.id)) : std::nullopt;
  const std::uint64_t cost = line.actual.value_or(line.cost.value_or(1));
  RequestCosts costs = cost;
  if (id) costs.id = &*id;
  const RuleAnswer& answer = decider_->decide(*rules_, *line.attributes, costs, at, action);
  if (store_failed(answer.decision.reason)) return error(failure(answer.decision.reason));
  return to_json(line, answer);
}

std::string DecisionFilter::change_permit(const DecideLine& line, Instant at) {
  if (line.charges) fail("charges", "a permit names its own; leave them out");
  if (!line.permit) fail("permit", "is missing");
  const auto permit = PermitText::parse(*line.permit);
  if (!permit) fail("permit", permit.error());
  const Decision said =
      line.verb == Verb::kRelease ? permit->release(store_, at) : permit->extend(store_, at);
  if (store_failed(said.reason)) return error(failure(said.reason));
  JsonWriter out;
  write_head(out, said);
  return std::string(out.end_object().view());
}

std::string DecisionFilter::refuse_long_line() {
  ++line_;
  return error("the line is too long; at most " + std::to_string(kMaxLine) + " bytes");
}

std::string DecisionFilter::failure(Reason reason) const {
  std::string text = "the store could not decide: " + std::string(to_string(reason));
  if (const std::string why = why_ ? why_() : std::string(); !why.empty()) {
    text.append(" (").append(why).append(")");
  }
  return text;
}

std::string DecisionFilter::error(const std::string& text) {
  had_errors_ = true;
  JsonWriter out;
  out.begin_object().member("error", text).member("line", std::uint64_t{line_}).end_object();
  return std::string(out.view());
}

}  // namespace sluice::cli
