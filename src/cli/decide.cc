#include "cli/decide.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <istream>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "cli/commands.h"
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

namespace json = boost::json;

// A parser handler that stops at the first duplicate key. basic_parser defines the names of its
// members.
class KeyListener {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return open(false); }
  bool on_object_end(std::size_t, json::error_code&) { return close(); }
  bool on_array_begin(json::error_code&) { return open(true); }
  bool on_array_end(std::size_t, json::error_code&) { return close(); }
  bool on_key_part(json::string_view text, std::size_t, json::error_code&) {
    key_.append(text.data(), text.size());
    return true;
  }
  bool on_key(json::string_view text, std::size_t, json::error_code& error) {
    key_.append(text.data(), text.size());
    Container& object = open_.back();
    object.key = std::move(key_);
    key_.clear();
    if (object.keys.insert(object.key).second) return true;
    duplicate = {path(), object.key};
    error = json::error::extra_data;  // stops the parser; never reported
    return false;
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code&) { return count(); }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code&) { return count(); }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code&) { return count(); }
  bool on_double(double, json::string_view, json::error_code&) { return count(); }
  bool on_bool(bool, json::error_code&) { return count(); }
  bool on_null(json::error_code&) { return count(); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

  std::optional<DuplicateKey> duplicate;

 private:
  // An object or array that has not ended.
  struct Container {
    bool is_array = false;
    std::size_t index = 0;       // array: the index of the current element
    std::string key;             // object: the key of the current member
    std::set<std::string> keys;  // object: all keys so far
  };

  bool open(bool is_array) {
    open_.push_back({.is_array = is_array, .index = 0, .key = {}, .keys = {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return count();
  }
  bool count() {
    if (!open_.empty()) ++open_.back().index;
    return true;
  }

  // The innermost object.
  std::string path() const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (open_[i].is_array) {
        path += '[' + std::to_string(open_[i].index) + ']';
      } else {
        if (!path.empty()) path += '.';
        path += open_[i].key;
      }
    }
    return path;
  }

  std::vector<Container> open_;
  std::string key_;
};

}  // namespace

std::optional<DuplicateKey> find_duplicate_key(std::string_view text) {
  json::basic_parser<KeyListener> parser{json::parse_options()};
  json::error_code error;
  parser.write_some(false, text.data(), text.size(), error);
  return parser.handler().duplicate;
}

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

verb: take (default), peek, refund, reset, charge, take_at_most, reserve, release, extend. reserve
needs max_wait_us. cost: default 1. limit: algorithm, limit, per, and the options of the algorithm:
burst, align, slices, weighting, mode, refill. A fixed_window may have {"per":"month",
"zone":"Asia/Shanghai","starts":15}, or per day, week or year. Sluice takes all charges of a line or
none. A denied line and each limit that denied it contain retry_after_us; that of the line is the
longest. It is absent if the reason is never. take_at_most adds taken. reserve and a leaky bucket in
queue mode add delay_us.

With --rules a line may have attributes instead of charges, which these rules decide, with the plans
of the rules and the --overrides of a server with a memory store; the limits are then named:
  {"at_us":0,"attributes":{"path":"/v1/chat","header.x-customer":"42"},"cost":1}

A take of {"algorithm":"concurrency","limit":3,"lease":"30s"} adds a permit, which release and
extend get in place of charges: {"at_us":9,"verb":"release","permit":"TEXT"}.

For a line that is not valid, or that the store could not decide, the output is
{"error":"...","line":n}, and the exit status is 1 at the end.

Without --store the counters are in memory. In Redis they use the format of the server and expire
after 24 hours. Use a separate --prefix for experiments:
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
  return filter.had_errors() ? kFailed : 0;
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

struct DecideFlags {
  std::shared_ptr<StoreFlags> store;
  std::string rules, overrides;
};

std::optional<RuleSet> read_rules(const DecideFlags& flags, Overrides& overrides) {
  if (flags.rules.empty()) {
    if (!flags.overrides.empty()) throw Failed("--overrides needs --rules FILE", kUsage);
    return std::nullopt;
  }
  auto rules = RuleSet::load(flags.rules);
  if (!rules) {
    for (const RuleError& error : rules.error()) std::cerr << error.to_string() << "\n";
    throw Failed("the rules of '" + flags.rules + "' are wrong");
  }
  if (!flags.overrides.empty()) {
    const auto read = read_overrides(flags.overrides, overrides);
    if (!read) throw Failed(read.error());
    if (!*read) throw Failed(flags.overrides + ": there is no such file");
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
  if (!store) throw Failed(store.error(), kUsage);
  if (const auto ready = (*store)->wait_until_ready(kPatience); !ready) {
    throw Failed("the store is not available: " + ready.error());
  }
  return *std::move(store);
}

int decide_with(const DecideFlags& flags) {
  const server::Config config = config_of(*flags.store);
  Overrides overrides;
  const auto rules = read_rules(flags, overrides);
  std::ios::sync_with_stdio(false);
  Reasons reasons;
  const auto store = open_store(config, reasons);
  DecisionFilter filter(*store, [&] { return reasons.take(); });
  if (rules) filter.use(*rules, overrides);
  return decide(std::cin, std::cout, filter);
}

}  // namespace

void add_decide(Command app, int& status) {
  const Command command =
      app.add_subcommand("decide", "Decide requests from stdin at explicit timestamps");
  const auto flags = std::make_shared<DecideFlags>();
  flags->store = add_store_flags(command);
  command.add_option("--rules", flags->rules, "The rules file that decides lines with attributes")
      .type_name("FILE");
  command
      .add_option("--overrides", flags->overrides,
                  "The file of overrides of a server (overrides.txt)")
      .type_name("FILE");
  command.footer(kDecideHelp);
  command.run(status, "decide", [flags] { return decide_with(*flags); });
}

namespace {

namespace json = boost::json;

// Reports an invalid line: where, what, and what would be right. Caught in this file.
struct Mistake : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(std::string_view where, const std::string& what) {
  throw Mistake(where.empty() ? what : std::string(where) + ": " + what);
}

std::string child(const std::string& where, std::string_view name) {
  return where.empty() ? std::string(name) : where + "." + std::string(name);
}

const json::object& object_at(const json::value& value, std::string_view where,
                              std::span<const std::string_view> keys) {
  const json::object* const object = value.if_object();
  if (object == nullptr) fail(where, "must be an object");
  for (const auto& member : *object) {
    const std::string_view name(member.key().data(), member.key().size());
    if (std::find(keys.begin(), keys.end(), name) == keys.end()) {
      fail(where,
           "unknown key " + base::in_quotes(name) + "; expected one of: " + core::list_of(keys));
    }
  }
  return *object;
}

std::uint64_t integer_at(const json::value& value, const std::string& where, std::uint64_t most) {
  const std::string right = "must be a whole number from 0 to " + std::to_string(most);
  if (const std::int64_t* const number = value.if_int64()) {
    if (*number < 0 || static_cast<std::uint64_t>(*number) > most) {
      fail(where, std::to_string(*number) + " is out of range; " + right);
    }
    return static_cast<std::uint64_t>(*number);
  }
  if (const std::uint64_t* const number = value.if_uint64()) {
    fail(where, std::to_string(*number) + " is out of range; " + right);
  }
  fail(where, right);
}

std::string_view text_at(const json::value& value, const std::string& where) {
  const json::string* const text = value.if_string();
  if (text == nullptr) fail(where, "must be text");
  return {text->data(), text->size()};
}

const json::value& required(const json::object& object, const std::string& where,
                            std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) fail(child(where, name), "is missing");
  return *value;
}

std::optional<std::uint64_t> optional_integer(const json::object& object, const std::string& where,
                                              std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  return integer_at(*value, child(where, name), kMaxUnits);
}

Algorithm algorithm_at(const json::value& value, const std::string& where) {
  const std::string_view name = text_at(value, where);
  const auto algorithm = algorithm_from(name);
  if (algorithm) return *algorithm;
  fail(where, base::in_quotes(name) + " is unknown; expected " +
                  core::list_of(core::kAllAlgorithmNames, "or"));
}

Duration period_at(const json::value& value, const std::string& where) {
  if (!value.is_string()) fail(where, "must be text such as \"60s\" or \"500ms\"");
  const Expected<Duration> period = core::parse_period(text_at(value, where));
  if (!period) fail(where, period.error());
  return *period;
}

// Returns the index of a word, which is the value of its enumerator.
std::uint64_t word_at(const json::value& value, const std::string& where,
                      const core::OptionInfo& option) {
  const std::string_view text = text_at(value, where);
  const auto found = std::find(option.words.begin(), option.words.end(), text);
  if (found == option.words.end()) {
    fail(where,
         base::in_quotes(text) + " is unknown; expected " + core::list_of(option.words, "or"));
  }
  return static_cast<std::uint64_t>(found - option.words.begin());
}

std::vector<std::string_view> limit_keys() {
  std::vector<std::string_view> keys{"algorithm", "limit", "per", "lease", "zone", "starts"};
  for (const core::OptionInfo& option : core::kLimitOptions) keys.push_back(option.name);
  return keys;
}

// Returns the calendar of a limit; null if its `per` is a period.
const Calendar* calendar_at(const json::object& object, const std::string& where) {
  const json::string* const per = required(object, where, "per").if_string();
  const auto unit =
      per != nullptr ? core::calendar_unit_from({per->data(), per->size()}) : std::nullopt;
  const json::value* const zone = object.if_contains("zone");
  const json::value* const starts = object.if_contains("starts");
  if (!unit) {
    const std::string_view name = zone != nullptr ? "zone" : "starts";
    if (zone != nullptr || starts != nullptr) {
      fail(child(where, name), std::string(core::kNeedsCalendar));
    }
    return nullptr;
  }
  CalendarSpec spec{.unit = *unit};
  if (zone != nullptr) spec.zone = text_at(*zone, child(where, "zone"));
  if (starts != nullptr) {
    const std::string text = starts->is_int64()
                                 ? std::to_string(starts->get_int64())
                                 : std::string(text_at(*starts, child(where, "starts")));
    const auto started = core::starting(spec, text);
    if (!started) fail(where, started.error());
    spec = *started;
  }
  const auto calendar = Calendar::make(spec);
  if (!calendar) fail(child(where, "zone"), calendar.error());
  return *calendar;
}

Limit limit_at(const json::value& value, const std::string& where) {
  static const std::vector<std::string_view> keys = limit_keys();
  const json::object& object = object_at(value, where, keys);
  LimitSpec spec;
  spec.algorithm = algorithm_at(required(object, where, "algorithm"), child(where, "algorithm"));
  spec.limit = integer_at(required(object, where, "limit"), child(where, "limit"), kMaxUnits);
  const bool is_lease = holds_permits(spec.algorithm);
  const std::string_view period = is_lease ? "lease" : "per";
  if (const std::string_view other = is_lease ? "per" : "lease"; object.contains(other)) {
    fail(child(where, other), "does not apply to " + std::string(to_string(spec.algorithm)) +
                                  "; expected " + base::in_quotes(period));
  }
  spec.calendar = is_lease ? nullptr : calendar_at(object, where);
  if (spec.calendar == nullptr) {
    spec.per = period_at(required(object, where, period), child(where, period));
  }
  for (const core::OptionInfo& option : core::kLimitOptions) {
    const json::value* const member = object.if_contains(option.name);
    if (member == nullptr) continue;
    const std::string place = child(where, option.name);
    core::set_value(spec, option.option,
                    option.words.empty() ? integer_at(*member, place, kMaxUnits)
                                         : word_at(*member, place, option));
  }
  const Expected<Limit> limit = Limit::make(spec);
  if (!limit) fail(where, limit.error());
  return *limit;
}

Charge charge_at(const json::value& value, const std::string& where) {
  const json::object& object =
      object_at(value, where, std::array<std::string_view, 3>{"key", "cost", "limit"});
  const std::string_view key = text_at(required(object, where, "key"), child(where, "key"));
  const Limit limit = limit_at(required(object, where, "limit"), child(where, "limit"));
  return {key, limit, optional_integer(object, where, "cost").value_or(1)};
}

Verb verb_at(const json::object& object) {
  const json::value* const value = object.if_contains("verb");
  if (value == nullptr) return Verb::kTake;
  const std::string_view name = text_at(*value, "verb");
  if (name == "take") return Verb::kTake;
  if (name == "peek") return Verb::kPeek;
  if (name == "refund") return Verb::kRefund;
  if (name == "reset") return Verb::kReset;
  if (name == "charge") return Verb::kCharge;
  if (name == "take_at_most") return Verb::kTakeAtMost;
  if (name == "reserve") return Verb::kReserve;
  if (name == "release") return Verb::kRelease;
  if (name == "extend") return Verb::kExtend;
  fail("verb", base::in_quotes(name) +
                   " is unknown; expected take, peek, refund, reset, charge, take_at_most, "
                   "reserve, release or extend");
}

Action action_at(const json::object& object) {
  const Verb verb = verb_at(object);
  const json::value* const wait = object.if_contains("max_wait_us");
  if (verb != Verb::kReserve) {
    if (wait != nullptr) fail("max_wait_us", "is only for the verb reserve; leave it out");
    return verb;
  }
  constexpr auto kMost = static_cast<std::uint64_t>(kMaxWait.count());
  const std::uint64_t us = integer_at(required(object, "", "max_wait_us"), "max_wait_us", kMost);
  return {verb, Duration{static_cast<Duration::rep>(us)}};
}

void refuse_one_counter_with_two_limits(const std::vector<Charge>& charges) {
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

std::vector<Charge> charges_at(const json::value& value) {
  const json::array* const array = value.if_array();
  if (array == nullptr || array->empty() || array->size() > kMaxCharges) {
    fail("charges", "must be a list of 1 to " + std::to_string(kMaxCharges) + " charges");
  }
  std::vector<Charge> charges;
  for (std::size_t i = 0; i < array->size(); ++i) {
    charges.push_back(charge_at((*array)[i], "charges[" + std::to_string(i) + "]"));
  }
  refuse_one_counter_with_two_limits(charges);
  return charges;
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

constexpr std::array<std::string_view, 7> kMembers{"at_us",  "verb",       "max_wait_us", "charges",
                                                   "permit", "attributes", "cost"};

Attributes attributes_at(const json::value& value) {
  const json::object* const object = value.if_object();
  if (object == nullptr) fail("attributes", "must be an object of texts");
  Attributes attributes;
  for (const auto& [name, text] : *object) {
    attributes.set(name, text_at(text, child("attributes", name)));
  }
  return attributes;
}

void append_member(std::string& out, std::string_view name, std::uint64_t number) {
  out.append(",\"").append(name).append("\":").append(std::to_string(number));
}

void append_wait(std::string& out, std::string_view name, std::optional<Duration> wait) {
  if (wait) append_member(out, name, static_cast<std::uint64_t>(wait->count()));
}

std::string head_of(const Decision& all) {
  std::string out = "{\"outcome\":\"";
  out.append(core::wire_outcome(all.outcome))
      .append("\",\"reason\":\"")
      .append(to_string(all.reason));
  return out += '"';
}

void append_text(std::string& out, std::string_view name, std::string_view text) {
  out.append("\"").append(name).append("\":").append(json::serialize(json::string_view(text)));
}

void append_limit(std::string& out, const Decision& d) {
  out.append("\"limit\":").append(std::to_string(d.capacity));
  append_member(out, "remaining", d.remaining);
  append_wait(out, "reset_after_us", d.reset_after);
  append_wait(out, "retry_after_us", d.retry_after);
}

// Returns the answer up to its limits.
std::string start_of(Verb verb, const Decision& all, std::string_view permit) {
  std::string out = head_of(all);
  append_wait(out, "retry_after_us", all.retry_after);
  append_wait(out, "delay_us", all.delay);
  if (verb == Verb::kTakeAtMost && all.allowed()) append_member(out, "taken", all.taken);
  if (!permit.empty()) out.append(",\"permit\":\"").append(permit).append("\"");
  return out;
}

std::string to_json(Verb verb, const Decision& all, const Batch& batch, std::string_view permit) {
  std::string out = start_of(verb, all, permit) + ",\"limits\":[";
  for (std::size_t i = 0; i < batch.size(); ++i) {
    out += i > 0 ? ",{" : "{";
    append_limit(out, batch.decision(i));
    out += '}';
  }
  return out + "]}";
}

std::string to_json(Verb verb, const RuleAnswer& answer) {
  std::string out = start_of(verb, answer.decision, answer.permit);
  if (answer.rule != nullptr) append_text(out += ',', "rule", answer.rule->name);
  out += ",\"limits\":[";
  for (const LimitAnswer& each : answer.limits) {
    out += &each == &answer.limits.front() ? "{" : ",{";
    append_text(out, "rule", each.rule->name);
    append_text(out += ',', "name", each.limit->name);
    append_limit(out += ',', each.decision);
    out += '}';
  }
  return out + "]}";
}

json::value parse(std::string_view line) {
  json::parser parser;
  json::error_code error;
  const std::size_t read = parser.write_some(line.data(), line.size(), error);
  if (!error && read < line.size()) error = json::error::extra_data;
  if (error) {
    fail("column " + std::to_string(read + 1),
         "not valid JSON (" + error.message() + "); expected one object on the line");
  }
  if (const auto duplicate = find_duplicate_key(line)) {
    fail(duplicate->where,
         "the key " + base::in_quotes(duplicate->key) + " is given twice; give it once");
  }
  return parser.release();
}

}  // namespace

std::string DecisionFilter::answer(std::string_view line) {
  ++line_;
  try {
    const json::value value = parse(line);
    const json::object& request = object_at(value, "", kMembers);
    const auto last = static_cast<std::uint64_t>(kLastInstant.time_since_epoch().count());
    const std::uint64_t at_us = integer_at(required(request, "", "at_us"), "at_us", last);
    const Action action = action_at(request);
    const Instant at{Duration{static_cast<Duration::rep>(at_us)}};
    if (action.verb == Verb::kRelease || action.verb == Verb::kExtend) {
      return change_permit(request, action.verb, at);
    }
    if (request.contains("permit")) fail("permit", "is only for release and extend; leave it out");
    if (request.contains("attributes")) return decide_by_rules(request, action, at);
    if (request.contains("cost")) fail("cost", "is of a charge here; expected it in 'charges'");
    std::vector<Charge> charges = charges_at(required(request, "", "charges"));
    std::optional<PermitId> permit;
    add_permit(charges, action.verb, permit);
    batch_.clear();
    for (const Charge& charge : charges) batch_.add(charge, {});
    const Decision all = batch_.decide({action, at});
    if (store_failed(all.reason)) return error(failure(all.reason));
    std::string text;
    if (permit && all.allowed()) {
      if (action.verb == Verb::kTakeAtMost && all.taken == 0) charges.clear();
      PermitText::append(*permit, charges, text);
    }
    return to_json(action.verb, all, batch_, text);
  } catch (const Mistake& mistake) {
    return error(mistake.what());
  }
}

std::string DecisionFilter::decide_by_rules(const boost::json::object& request,
                                            const Action& action, Instant at) {
  if (!decider_) fail("attributes", "need rules; expected the option --rules FILE");
  if (request.contains("charges")) fail("charges", "come from the rules; leave them out");
  const Attributes attributes = attributes_at(request.at("attributes"));
  const std::uint64_t cost = optional_integer(request, "", "cost").value_or(1);
  const RuleAnswer& answer = decider_->decide(*rules_, attributes, cost, at, action);
  if (store_failed(answer.decision.reason)) return error(failure(answer.decision.reason));
  return to_json(action.verb, answer);
}

std::string DecisionFilter::change_permit(const boost::json::object& request, Verb verb,
                                          Instant at) {
  if (request.contains("charges")) fail("charges", "a permit names its own; leave them out");
  const auto permit = PermitText::parse(text_at(required(request, "", "permit"), "permit"));
  if (!permit) fail("permit", permit.error());
  const Decision said =
      verb == Verb::kRelease ? permit->release(store_, at) : permit->extend(store_, at);
  if (store_failed(said.reason)) return error(failure(said.reason));
  return head_of(said) + "}";
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
  json::object object;
  object["error"] = text;
  object["line"] = line_;
  return json::serialize(object);
}

}  // namespace sluice::cli
