// `sluice ledger`: checks the ledger of budgets (docs/budgets.md), and adds up what was spent. The
// ledger is in files, or in streams next to the counters in Redis.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/civil_time.h"
#include "base/csv.h"
#include "base/quoted.h"
#include "base/time_zone.h"
#include "cli/command.h"
#include "cli/key_command.h"
#include "cli/store_flags.h"
#include "replay/text.h"
#include "rules/diagnostics.h"
#include "server/logging/ledger_lines.h"
#include "stores/redis/client/target.h"
#include "stores/redis/script/stored.h"

namespace sluice::cli {
namespace {

using server::LedgerLine;
using server::LedgerReplay;

constexpr const char* kVerifyHelp =
    R"(Replays the entries of the files, the oldest file first, and compares every balance and every hold
with the entries before. It says what is wrong, or where entries are missing, with file, line and
counter. A start without a stop before it (a server that was killed), an unfinished last line, and a
gap (a first line whose n is not 1, or that has the counters of a snapshot; a counter that began again;
a stream whose first entries are gone) are warnings. So are entries after the snapshot with which a
server began after a crash: their changes were lost, and they do not count. If the last line is no
stop, and no server writes the file, lines may be missing at its end. - is standard input.

Without FILE it reads the ledger of the configuration, or that in Redis, and compares the last balance
of each key with its counter. Changes while it reads do not matter.

Exit status: 0 everything agrees, perhaps with warnings; 1 something is wrong or missing, or a file
cannot be read; 2 wrong usage.

Examples:
  sluice ledger verify /var/lib/sluice/ledger.jsonl
  sluice ledger verify ledger.jsonl.1 ledger.jsonl
  zcat ledger.jsonl.2.gz | sluice ledger verify -
  sluice ledger verify --store redis://127.0.0.1)";

constexpr const char* kSumHelp =
    R"(Adds up what the entries of the files have spent, the oldest file first. A refund, a reset and a
settlement below what was charged before count negative; what a crash has undone does not count. A
hold that nobody settled counts from its end on, as its limit says. --by is a list of key, rule, limit,
day and month. Days and months are those of --zone. --from and --to are days (2026-11-01) or instants
(RFC 3339); --to is the first that does not count. - is standard input. Without FILE it reads the
ledger of the configuration, or that in Redis.

Exit status: 0 printed, perhaps with warnings; 1 something is wrong or missing in the files (`sluice
ledger verify`), or one cannot be read; 2 wrong usage.

Examples:
  sluice ledger sum ledger.jsonl
  sluice ledger sum --by month,rule,limit --csv ledger.jsonl.1 ledger.jsonl
  sluice ledger sum --by key,day --zone Europe/Berlin --from 2026-10-01 --to 2026-11-01 ledger.jsonl
  sluice ledger sum --store redis://127.0.0.1 --by month,key)";

struct LedgerFlags {
  std::shared_ptr<StoreFlags> store;
  std::vector<std::string> files;
  std::string by = "rule,limit,key";
  std::string zone = "UTC";
  std::string from, to;
  bool csv = false;
};

// The balance of a counter in Redis, and the last entry of its ledger, at one moment.
constexpr std::string_view kCompared =
    "return {redis.call('HGET', KEYS[1], 'h') or '',"
    " redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)}";

// Returns the first id of a stream after this one.
std::string next_id(std::string_view id) {
  const std::size_t dash = id.find('-');
  const auto number =
      base::read_number<std::uint64_t>(id.substr(std::min(dash, id.size() - 1) + 1));
  return std::string(id.substr(0, dash)) + "-" + std::to_string(number.value_or(0) + 1);
}

// Reads a ledger, and prints what is wrong with it.
class LedgerReader {
 public:
  // `end`: when the holds end that no entry ends.
  explicit LedgerReader(LedgerReplay::See see, std::optional<Instant> end = {})
      : see_(std::move(see)), end_(end) {}

  void read(const LedgerFlags& flags) {
    std::vector<std::string> files = flags.files;
    if (!files.empty() && !flags.store->store.empty()) {
      throw wrong_usage("both FILE and --store are given; expected one of them");
    }
    if (files.empty()) {
      const server::Config config = config_of(*flags.store);
      if (server::kind_of(config) == server::StoreKind::kRedis) return read(config);
      if (config.ledger.file.empty()) {
        throw wrong_usage("there is no FILE; expected one, or --store URL for a ledger in Redis");
      }
      files.push_back(config.ledger.file);
    }
    std::vector<std::string> texts(files.size());
    begin();
    for (std::size_t i = 0; i < files.size(); ++i) {
      read(files[i], texts[i], [this](const std::string& text) { replay_->prepare(text); });
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      read(files[i], texts[i], [this](const std::string& text) { add(text); });
    }
    finish();
    if (is_cut_ || replay_->is_stopped() || is_written(files.back())) return;
    warn(replay_->has_begun()
             ? "the last line is no stop: the server was killed, or later lines are missing"
             : "there is no line of a ledger");
  }
  int status() const { return wrong_ > 0 ? kFailed : 0; }
  std::uint64_t entries() const { return entries_; }

 private:
  // A replay of its own for each counter in Redis, and one for all files.
  void begin() {
    replay_.emplace(
        [this](bool is_wrong, const std::string& what) { is_wrong ? fail(what) : warn(what); },
        see_);
  }
  void finish() {
    if (end_) replay_->end(*end_);
    entries_ += replay_->entries();
  }

  void read(const server::Config& config) {
    RedisSession session(redis_options_of(config));
    const std::string& prefix = config.redis.options.prefix;
    std::set<std::string> seen;  // SCAN may return a key twice
    session.scan(as_glob(prefix + redis::format::kOfLedgers) + "*",
                 [&](const std::vector<std::string>& keys) {
                   for (const std::string& key : keys) {
                     const auto name = redis::read_ledger_name(key.substr(prefix.size()));
                     if (name && seen.insert(key).second) read_stream(session, prefix, key, *name);
                   }
                   return true;
                 });
    if (cut_ == 0) return;
    place_ = std::to_string(cut_) + " of " + std::to_string(seen.size()) + " streams";
    warn(
        "a gap: their first entries are gone, because a stream keeps about ledger.keep of them; "
        "what those have spent does not count");
  }
  void read_stream(RedisSession& session, const std::string& prefix, const std::string& key,
                   const redis::CounterName& name) {
    constexpr std::size_t kPage = 1000;
    begin();
    const std::string page_size = std::to_string(kPage);
    std::string from = "-";
    for (std::size_t count = kPage; count == kPage;) {
      const auto fill = RedisSession::of_words({"XRANGE", key, from, "+", "COUNT", page_size},
                                               redis::slot_of(key));
      const auto take = [&](const redis::Reply& reply) {
        count = reply.count;
        for (const redis::Reply& one : reply) {
          if (!one.is_array_of(2)) continue;
          place_ = key + " " + std::string(one[0].string());
          from = next_id(one[0].string());
          add(one[1], name);
        }
      };
      try {
        session.ask(fill, take);
      } catch (const Failed& failed) {
        throw Failed("the key " + base::in_quotes(key) +
                     ", of a ledger by its name: " + failed.what());
      }
    }
    finish();
    compare(session, prefix, key);
  }
  void add(const redis::Reply& fields, const redis::CounterName& name) {
    auto entry = redis::read_ledger_entry(fields);
    if (!entry) return fail("it is no entry of a ledger");
    entry->is_of_rule = name.keyspace == Keyspace::kRules;
    entry->key = name.key;
    entry->tag = name.tag;
    if (replay_->entries() == 0 && !entry->is_new) ++cut_;
    replay_->add(server::ledger_line(0, *entry));
  }
  // Compares the last entry with the counter. A counter that is forgotten has none.
  void compare(RedisSession& session, const std::string& prefix, const std::string& key) {
    std::string counter = key.substr(prefix.size() + 1);
    if (counter.starts_with('{')) counter.erase(0, counter.find('}') + 1);
    counter.insert(0, prefix);
    const auto fill =
        RedisSession::of_words({"EVAL", kCompared, "2", counter, key}, redis::slot_of(key));
    session.ask(fill, [&](const redis::Reply& reply) {
      if (!reply.is_array_of(2) || !reply[1].is_array_of(1)) return;
      const std::string_view head = reply[0].string();
      const auto last = redis::read_ledger_entry(reply[1][0][1]);
      if (!last || head.size() != redis::format::kBudgetHead.size()) return;
      const auto balance = redis::format::kBudgetHead.read(head);
      const auto at = static_cast<std::uint64_t>(last->at.time_since_epoch().count());
      if (balance.spent == last->spent_after && balance.held == last->held_after &&
          balance.changed == at) {
        return;
      }
      place_ = key;
      const auto text = [](std::uint64_t spent, std::uint64_t held, std::uint64_t changed) {
        return "spent " + std::to_string(spent) + " and held " + std::to_string(held) + " at " +
               base::to_rfc3339(Instant{Duration{static_cast<std::int64_t>(changed)}}, 6);
      };
      fail(
          "the counter differs from its last entry, so it was changed without its ledger; "
          "expected " +
          text(last->spent_after, last->held_after, at) + ", found " +
          text(balance.spent, balance.held, balance.changed));
    });
  }

  // Reads the lines of a file. Of what can be read only once, such as a pipe, `all` has the text.
  template <typename Take>
  void read(const std::string& file, std::string& all, const Take& take) {
    file_ = file;
    place_ = file;
    number_ = 0;
    std::ifstream stream;
    if (file != "-" && all.empty()) {
      stream.open(file, std::ios::binary);
      // A folder can be opened, but not read.
      if (!stream || (stream.peek(), stream.bad())) {
        throw Failed(replay::printable(file) + ": cannot be read: " + std::strerror(errno));
      }
      stream.clear();
    }
    std::error_code unknown;
    if (all.empty() && (file == "-" || !std::filesystem::is_regular_file(file, unknown))) {
      std::istream& once = file == "-" ? std::cin : stream;
      all.assign(std::istreambuf_iterator<char>(once), {});
      if (file == "-") check_input();
    }
    if (all.empty()) return read_lines(stream, take);
    std::istringstream text(all);
    read_lines(text, take);
  }
  // Gives each line, with its end if it has one.
  template <typename Take>
  void read_lines(std::istream& stream, const Take& take) {
    for (std::string text; std::getline(stream, text);) {
      ++number_;
      if (!stream.eof()) text += '\n';
      take(text);
    }
    if (stream.bad()) throw Failed(replay::printable(file_) + ": cannot be read");
  }
  void add(std::string text) {
    place_ = file_ + ":" + std::to_string(number_);
    is_cut_ = !text.ends_with('\n');
    if (is_cut_ && !text.starts_with(std::string_view("{\"n\":").substr(0, text.size()))) {
      return fail("it is no line of a ledger: " + text);
    }
    if (is_cut_) {
      return warn("the last line is not finished, so it does not count: " + text);
    }
    text.pop_back();
    if (const auto line = server::parse_ledger_line(text)) {
      replay_->add(*line);
    } else {
      fail(line.error());
    }
  }
  // Whether a server writes the file, which it has locked.
  static bool is_written(const std::string& file) {
    if (file == "-") return false;
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return false;
    const bool is_locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(descriptor);
    return is_locked;
  }
  void fail(const std::string& what) {
    ++wrong_;
    say(what);
  }
  void warn(const std::string& what) const { say("warning: " + what); }
  void say(const std::string& what) const {
    std::cerr << replay::printable(place_ + ": " + what) << '\n';
  }

  std::string file_;
  std::uint64_t number_ = 0;
  std::string place_;    // of what is read now
  bool is_cut_ = false;  // the last line
  std::uint64_t wrong_ = 0;
  std::uint64_t cut_ = 0;  // streams whose first entries are gone
  std::uint64_t entries_ = 0;
  const LedgerReplay::See see_;
  const std::optional<Instant> end_;
  std::optional<LedgerReplay> replay_;
};

int verify(const LedgerFlags& flags) {
  std::map<std::string, bool> counters;
  LedgerReader reader([&](const LedgerLine& line) { counters[line.counter + '\n' + line.key]; });
  reader.read(flags);
  if (reader.entries() == 0) {
    std::cout << "no entry\n";
  } else {
    std::cout << reader.entries() << " entries of " << counters.size() << " counters: "
              << (reader.status() == 0 ? "every balance agrees" : "not every balance agrees")
              << '\n';
  }
  return reader.status();
}

// The day of an instant on the clocks of the zone.
std::string day_of(Instant at, const base::TimeZone& zone, std::size_t length) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at.time_since_epoch());
  std::string text;
  base::append_civil(text,
                     Instant{seconds + std::chrono::seconds{zone.offset_at(seconds.count())}});
  return text.substr(0, length);
}

using Columns = std::vector<std::string_view>;  // of groups, by their names

// Returns the text of a line in a column.
std::string column_text(std::string_view column, const LedgerLine& line,
                        const base::TimeZone& zone) {
  if (column == "key") return line.key;
  if (column == "rule") return line.rule;
  if (column == "limit") return line.limit;
  return day_of(line.at, zone, column == "day" ? 10 : 7);
}

Columns columns_of(std::string_view by) {
  const Columns names{"key", "rule", "limit", "day", "month"};
  Columns columns;
  for (const std::string_view name : base::split(by, ',')) {
    if (std::ranges::find(names, name) == names.end()) {
      throw wrong_usage("--by has " + rules::in_quotes(name) + "; expected " +
                        rules::either(names) + ", separated by commas" +
                        rules::did_you_mean(name, names));
    }
    columns.push_back(name);
  }
  return columns;
}

// Reads a day or an instant.
std::optional<Instant> bound_of(const char* flag, const std::string& text,
                                const base::TimeZone& zone) {
  if (text.empty()) return std::nullopt;
  Instant at;
  const bool is_day = text.size() == 10 &&
                      base::read_iso8601(text + "T00:00:00Z", at) == base::TimestampFault::kNone;
  if (is_day) {
    const auto local = std::chrono::floor<std::chrono::seconds>(at.time_since_epoch()).count();
    return Instant{std::chrono::seconds{zone.first_at(local)}};
  }
  if (const auto instant = base::parse_rfc3339(text)) return instant;
  throw wrong_usage(std::string(flag) + " is " + rules::in_quotes(text) +
                    "; expected a day such as 2026-11-01, or an instant such as "
                    "2026-11-01T12:00:00Z");
}

using Groups = std::map<std::vector<std::string>, std::int64_t>;

void print_csv(const Columns& columns, const Groups& groups) {
  std::string out;
  for (const std::string_view column : columns) out.append(column).append(",");
  out += "spent\n";
  for (const auto& [names, spent] : groups) {
    for (const std::string& name : names) {
      base::append_csv_field(out, name);
      out += ',';
    }
    out += std::to_string(spent) + '\n';
  }
  std::cout << out;
}

void print_table(const Columns& columns, const Groups& groups) {
  std::vector<std::vector<std::string>> rows(1);
  rows[0].assign(columns.begin(), columns.end());
  rows[0].emplace_back("spent");
  for (const auto& [names, spent] : groups) {
    auto& row = rows.emplace_back();
    for (const std::string& name : names) row.push_back(replay::printable(name));
    row.push_back(std::to_string(spent));
  }
  std::cout << replay::table_text(rows, columns.size());
}

int sum(const LedgerFlags& flags) {
  const auto columns = columns_of(flags.by);
  const auto zone = base::TimeZone::read(flags.zone);
  if (!zone) throw wrong_usage("--zone: " + zone.error());
  const auto from = bound_of("--from", flags.from, *zone);
  const auto to = bound_of("--to", flags.to, *zone);
  if (from && to && *to <= *from) {
    throw wrong_usage("--to " + flags.to + " is not after --from " + flags.from +
                      "; expected a later day or instant: the first that does not count");
  }
  Groups groups;
  LedgerReader reader(
      [&](const LedgerLine& line) {
        if (line.spent == 0 || (from && line.at < *from) || (to && line.at >= *to)) return;
        std::vector<std::string> names;
        for (const auto column : columns) names.push_back(column_text(column, line, *zone));
        std::int64_t& sum = groups[std::move(names)];
        if (__builtin_add_overflow(sum, line.spent, &sum)) throw Failed("a sum exceeds 63 bits");
      },
      SystemClock::instance().now());
  reader.read(flags);
  flags.csv ? print_csv(columns, groups) : print_table(columns, groups);
  return reader.status();
}

}  // namespace

void add_ledger(Command app) {
  const Command command = app.add_subcommand(
      "ledger", "Check the ledger of budgets, and add it up",
      "Exit status: 0 done; 1 something is wrong or missing; 2 wrong usage.\n\n"
      "Examples:\n  sluice ledger verify ledger.jsonl\n  sluice ledger sum --by rule,key "
      "ledger.jsonl");
  command.require_subcommand();
  const auto add = [&](const char* name, const char* about, const char* help,
                       int (*work)(const LedgerFlags&), bool sums) {
    const Command sub = command.add_subcommand(name, about, help);
    const auto flags = std::make_shared<LedgerFlags>();
    sub.add_option("FILE", flags->files, "The files, the oldest first; - is standard input");
    flags->store = add_store_flags(sub);
    if (sums) {
      sub.add_option("--by", flags->by, "The columns of a group, separated by commas")
          .show_default();
      sub.add_option("--from", flags->from, "The first day or instant that counts", "WHEN");
      sub.add_option("--to", flags->to, "The first day or instant that does not count", "WHEN");
      sub.add_option("--zone", flags->zone, "The time zone of days and months").show_default();
      sub.add_flag("--csv", flags->csv, "Print CSV");
    }
    sub.run(std::string("ledger ") + name, [flags, work] { return work(*flags); });
  };
  add("verify", "Check every balance of a ledger", kVerifyHelp, verify, false);
  add("sum", "Add up who has spent what", kSumHelp, sum, true);
}

}  // namespace sluice::cli
