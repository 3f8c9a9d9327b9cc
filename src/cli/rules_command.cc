// `sluice rules`: checks and converts rules, compares them, changes numbers of a running server,
// and pushes rules to Redis, where servers follow them; shows what was changed, and takes it back.
// Rules and their history are in Redis, or in a server that its administration answers for.

#include <algorithm>
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/quoted.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/rule_differences.h"
#include "cli/store_flags.h"
#include "envoy/config.h"
#include "replay/text.h"
#include "rules/rule_changes.h"
#include "rules/rule_set.h"
#include "rules/yaml_tree.h"
#include "server/rules/published_rules.h"
#include "server/rules/redis_rules.h"
#include "server/rules/rules_files.h"
#include "server/rules/rules_manager.h"
#include "sluice/memory_store.h"
#include "sluice/rule_set.h"

namespace sluice::cli {
namespace {

using rules::RuleDifference;
using server::PastPush;
using server::PublishedRules;
using server::RulesText;

std::string summary_of(const RuleSet& rules) {
  return replay::plural(rules.rules().size(), "rule") + ", " +
         replay::plural(server::count_limits(rules), "limit");
}

std::string version_of(const std::optional<PublishedRules>& rules) {
  return rules ? "version " + std::to_string(rules->version) : "no rules";
}

// Adds the flags that select the rules in Redis.
std::shared_ptr<StoreFlags> add_place_flags(Command command) {
  auto flags = add_store_flags(command);
  command.add_option("--rules-key", flags->rules_key,
                     "The key of the rules in Redis [PREFIXrules]");
  return flags;
}

// The flags of a command for rules in Redis or of a server.
struct SourceFlags {
  Command command;
  std::shared_ptr<StoreFlags> store;
  std::shared_ptr<AdminFlags> admin;
};

SourceFlags add_source_flags(Command command) {
  SourceFlags flags{command, add_place_flags(command), nullptr};
  flags.admin = add_admin_flags(command, true);
  return flags;
}

// The flags for rules in Redis. A store of the environment leaves open where the rules are: a
// configuration in the current folder may say it.
StoreFlags place_of(const SourceFlags& flags) {
  StoreFlags place = *flags.store;
  place.finds_config = flags.admin->admin.empty();
  const bool is_open = place.config.empty() && !flags.command.names("--store");
  if (is_open && place.finds_config && has_local_config()) place.config = kLocalConfig;
  return place;
}

// Whether the rules are in Redis. Otherwise a server is asked. Flags come first, then variables of
// the environment, then the configuration.
bool is_in_redis(const SourceFlags& flags, const server::Config& config) {
  if (flags.command.names("--admin")) return false;
  if (flags.command.names("--store") || !flags.store->rules_key.empty()) return true;
  const char* const rules = std::getenv("SLUICE_RULES");  // a flag of the server
  if (rules != nullptr && *rules != '\0') return std::string_view(rules) == "redis";
  if (!flags.admin->admin.empty()) return false;
  return server::kind_of(config) == server::StoreKind::kRedis && config.rules.empty();
}

using Texts = std::vector<RulesText>;

// Rules with the changes for a time on top of them, which only those of a server have.
struct VersionRules {
  Texts texts;
  std::vector<server::TemporaryChange> temporary;

  Texts with_temporary() const { return texts_with(texts, temporary); }
};

// The rules of the present and of the past, from Redis or from a server. What it throws names
// these.
class RulesSource {
 public:
  // Of rules in Redis.
  RulesSource(const StoreFlags& flags, const server::Config& config) { open(flags, config); }
  explicit RulesSource(const SourceFlags& flags) {
    const StoreFlags place = place_of(flags);
    const server::Config config = config_of(place);
    if (cli::is_in_redis(flags, config)) {
      open(place, config);
    } else {
      AdminFlags admin = *flags.admin;
      admin.config = flags.store->config;
      server_ = std::make_unique<AdminClient>(admin);
    }
  }

  // Else a server is asked.
  bool is_in_redis() const noexcept { return redis_ != nullptr; }
  AdminClient& server() noexcept { return *server_; }
  // Whose versions these are: those of Redis and of each server have numbers of their own.
  std::string name() const {
    return is_in_redis() ? "rules in Redis, " + place()
                         : "rules of the server at " + server_->address() + " since its start";
  }

  // Of rules in Redis:
  const std::string& key() const noexcept { return key_; }
  const std::string& address() const noexcept { return redis_->shown(); }
  // Returns nothing if nothing was pushed.
  std::optional<PublishedRules> read() {
    auto found = ask([&](redis::Command& command) { server::fill_in_read_rules(command, key_); },
                     server::read_rules);
    if (!found) {
      throw Failed(place() + " holds " + found.error() + ". Delete it first if it is not needed");
    }
    return *std::move(found);
  }
  // Returns whether the rules replaced those with the id `old`.
  bool put(const PublishedRules& rules, const std::string& old) {
    Expected<bool> pushed = true;
    redis_->ask(
        [&](redis::Command& command) {
          if (scripting_) return server::fill_in_push(command, key_, rules, old);
          server::fill_in_overwrite(command, key_, rules);
        },
        [&](const redis::Reply& reply) {
          if (scripting_) pushed = server::read_pushed(reply);
        });
    if (!pushed) throw Failed(pushed.error());
    return *pushed;
  }

  // Returns the latest first. Of rules in Redis none, if nothing was pushed.
  std::vector<PastPush> history() {
    if (is_in_redis()) {
      auto found =
          ask([&](redis::Command& command) { server::fill_in_read_history(command, key_); },
              server::read_history);
      if (!found) throw Failed(place() + " holds " + found.error());
      return *std::move(found);
    }
    std::vector<PastPush> past;
    const auto json = server_->ask_json("GET", "/v1/rules/history");
    for (const boost::json::object* row : server_->objects_in(json, "versions")) {
      past.push_back({.id = {},
                      .version = number_in(*row, "version"),
                      .pushed_at = text_in(*row, "at"),
                      .files = number_in(*row, "files"),
                      .bytes = number_in(*row, "bytes"),
                      .by = text_in(*row, "by")});
      temporary_[past.back().version] = temporary_in(*row);
    }
    if (past.empty()) throw Failed(server_->strange());
    return past;
  }
  // The changes for a time on top of the rules of a version, which history() has found.
  const std::vector<server::TemporaryChange>& temporary(const PastPush& push) {
    return temporary_[push.version];
  }
  Texts past(const PastPush& push) {
    if (!is_in_redis()) return texts_of(*server_, push.version);
    auto found =
        ask([&](redis::Command& command) { server::fill_in_read_past(command, key_, push.id); },
            [&](const redis::Reply& reply) { return server::read_past(reply, push); });
    if (!found) throw Failed("version " + std::to_string(push.version) + ": " + found.error());
    return *std::move(found);
  }
  // Returns the rules of a version, and the changes for a time on top of them.
  VersionRules version(const PastPush& push) { return {past(push), temporary(push)}; }
  // Returns the present rules.
  VersionRules now() {
    if (!is_in_redis()) return version(history().front());
    auto found = read();
    if (!found) throw Failed(server::no_rules_at(key_));
    return {std::move(found->texts), {}};
  }

 private:
  void open(const StoreFlags& flags, const server::Config& config) {
    redis_ = std::make_unique<RedisSession>(redis_options_of(config));
    key_ = flags.rules_key.empty() ? server::rules_key(config.redis) : flags.rules_key;
    scripting_ = config.redis.options.scripting;
  }
  std::string place() const { return key_ + " at " + redis_->shown(); }
  // Returns what `read` finds in the reply.
  template <typename Read>
  std::invoke_result_t<const Read&, const redis::Reply&> ask(const RedisSession::Fill& fill,
                                                             const Read& read) {
    std::invoke_result_t<const Read&, const redis::Reply&> found = Unexpected{"no answer"};
    try {
      redis_->ask(fill, [&](const redis::Reply& reply) { found = read(reply); });
    } catch (const Failed& failed) {
      throw Failed(key_ + " at " + failed.what());
    }
    return found;
  }

  std::unique_ptr<RedisSession> redis_;
  std::string key_;
  bool scripting_ = true;
  std::unique_ptr<AdminClient> server_;
  std::map<std::uint64_t, std::vector<server::TemporaryChange>> temporary_;
};

// Returns the rules of valid texts, or nothing after printing all errors.
std::optional<RuleSet> check_texts(const server::FilesRead& read, const RuleTerms& terms) {
  auto rules = RuleSet::parse(views_of(read.texts), terms);
  std::vector<RuleError> errors = read.errors;
  if (!rules) errors.insert(errors.end(), rules.error().begin(), rules.error().end());
  print_errors(errors);
  if (!errors.empty()) return std::nullopt;
  return *std::move(rules);
}

// How rules are pushed.
struct PushFlags {
  std::optional<std::uint64_t> expect;
  bool dry_run = false;
  bool is_strict = false;
  std::string by;
};

// Adds --expect, --dry-run and --by.
std::shared_ptr<PushFlags> add_push_flags(Command command) {
  auto flags = std::make_shared<PushFlags>();
  command
      .add_option("--expect", flags->expect, "Push only if this version is in Redis; 0: no rules",
                  "VERSION")
      .non_negative();
  command.add_flag("--dry-run", flags->dry_run, "Print what would change without pushing");
  command.add_option("--by", flags->by, "Who pushes, for the history [USER@HOST]", "NAME")
      .check(server::find_wrong_by);
  return flags;
}

// Prints the command that makes the rules before a rollback active again. `options` say where.
void print_undo(std::uint64_t before, const std::string& options) {
  std::cout << std::flush;
  std::cerr << "undo: sluice rules rollback " << before << replay::printable(options) << '\n';
}

// Pushes the rules and prints their version and what they change. A rollback has a `note`, which
// follows the name of who pushes in the history, prints the version last, and how to undo it with
// these `options`. Returns the exit status.
int push_rules(RulesSource& place, const PushFlags& flags, Texts texts, const RuleSet& valid,
               const std::string& note = {}, const std::string& options = {}) {
  const auto old = place.read();
  const std::string there = version_of(old);
  if (flags.expect && *flags.expect != (old ? old->version : 0)) {
    throw Failed(place.key() + " has " + there + "; expected version " +
                 std::to_string(*flags.expect) + " there. Nothing was pushed");
  }
  if (old && old->texts == texts) {
    std::cout << place.key() << ": " << there << " already has these rules\n";
    return 0;
  }
  auto rules = server::publish(old ? old->version + 1 : 1, server::pushed_now(), std::move(texts));
  if (!rules) throw Failed(rules.error());
  rules->by = (flags.by.empty() ? who() : flags.by) + note;
  const std::string done =
      std::to_string(rules->version) + ", " + summary_of(valid) + "; before " + there;
  // The rules before may be of a version that this one cannot read.
  const auto was = RuleSet::parse(views_of(old ? old->texts : Texts()), RuleTerms());
  const auto differences =
      old && was ? compare_texts(old->texts, rules->texts) : std::vector<RuleDifference>();
  if (!flags.dry_run && !place.put(*rules, old ? old->id : "")) {
    throw Failed(place.key() +
                 ": other rules were pushed at the same time. Your rules were not pushed. Check "
                 "those rules (sluice rules show), then push again");
  }
  if (flags.dry_run && !note.empty()) std::cout << place.name() << '\n';
  if (!note.empty()) print_text(differences);
  std::cout << place.key() << (flags.dry_run ? ": would become version " : ": version ") << done
            << '\n';
  if (note.empty()) print_text(differences);
  const std::size_t limits = was ? server::count_limits(*was) : 0;
  if (limits > 0 && server::count_limits(valid) == 0) {
    std::cout << "these rules have no limit; before there were " << limits << '\n';
  }
  if (!note.empty() && !flags.dry_run && old) print_undo(old->version, options);
  return 0;
}

// The latest push with that version or id.
const PastPush& find_push(const std::vector<PastPush>& pushes, const std::string& id) {
  const auto found = std::find_if(pushes.begin(), pushes.end(), [&](const PastPush& push) {
    return push.id == id || std::to_string(push.version) == id;
  });
  if (found != pushes.end()) return *found;
  const auto [least, most] = std::minmax_element(
      pushes.begin(), pushes.end(),
      [](const PastPush& a, const PastPush& b) { return a.version < b.version; });
  const std::string expected =
      pushes.empty() ? "there is no history"
                     : "expected a version from " + std::to_string(least->version) + " to " +
                           std::to_string(most->version) + ", or an id of sluice rules history";
  throw Failed("the history has no push '" + id + "'; " + expected);
}

constexpr const char* kDiffHelp =
    R"(Compare two sets of rules by what they mean: which rules and limits were added (+) and removed
(-), and which of their values changed (~). Comments, spelling and files do not matter.

OLD and NEW are each a file, a directory, - for standard input, a version of sluice rules history, or
redis for the rules in Redis (./redis and ./3 are files). Rules from standard input or from Redis
cannot name lists (in: FILE).

With one argument, the other side are the rules that are active now: a file would change them by
this, and this has changed since a version. As for history, they are in Redis with --store, or if
the environment or the configuration says so; otherwise the administration of a server (--admin) is
asked.

A version of a server has the changes for a time that it had then (sluice rules set --for). A file does
not end those of the active rules: they are left out, and named on standard error.

Exit status: 0 equal; 1 different; 2 wrong usage, or rules that cannot be read.

Examples:
  sluice rules diff rules.yaml new.yaml
  sluice rules diff 3 5 --store redis://127.0.0.1:6379
  sluice rules diff redis rules.d --store redis://127.0.0.1:6379)";

constexpr int kTrouble = 2;

// Reads a file, the files of a directory, or standard input for "-".
server::FilesRead read_rules(const std::string& file) {
  if (file != "-") return server::read_files({file});
  server::FilesRead read;
  auto text = read_file(file);
  if (text) {
    read.texts.push_back({file, *std::move(text)});
  } else {
    read.errors = std::move(text.error());
  }
  return read;
}

// Returns the rules of one side, or prints their errors.
VersionRules read(const SourceFlags& flags, const std::string& from) {
  server::FilesRead read;
  RuleTerms terms;
  if (base::is_digits(from)) {  // a version
    RulesSource source(flags);
    return source.version(find_push(source.history(), from));
  }
  if (from == "redis") {
    read.texts = RulesSource(*flags.store, config_of(*flags.store)).now().texts;
  } else {
    read = read_rules(from);
    terms.reads_lists = from != "-";
  }
  if (!check_texts(read, terms)) throw Failed("the rules of '" + from + "' are wrong");
  return {std::move(read.texts), {}};
}

// Returns the differences of the arguments, and the changes for a time of the later rules.
std::vector<RuleDifference> differences_of(const SourceFlags& flags, const std::string& before,
                                           const std::optional<std::string>& after,
                                           std::vector<server::TemporaryChange>& temporary) try {
  const VersionRules given = read(flags, before);
  const bool is_older = after || base::is_digits(before);
  const VersionRules other = after ? read(flags, *after) : RulesSource(flags).now();
  if (is_older) {
    temporary = other.temporary;
    return compare_texts(given.with_temporary(), other.with_temporary());
  }
  std::cerr << on_top_text(other.temporary);
  return compare_texts(other.texts, given.texts);
} catch (const Failed& failed) {
  throw Failed(failed.what(), kTrouble);
}

int diff(const SourceFlags& flags, const std::string& before,
         const std::optional<std::string>& after, bool is_json) {
  std::vector<server::TemporaryChange> temporary;
  const std::vector<RuleDifference> found = differences_of(flags, before, after, temporary);
  if (is_json) {
    base::JsonWriter json;
    json.begin_object().member("equal", found.empty()).key("differences").begin_array();
    for (const RuleDifference& one : found) rules::write_json(one, json);
    std::cout << json.end_array().end_object().view() << '\n';
  } else {
    for (const RuleDifference& one : found) {
      std::cout << text_of(one) << until_of(one, temporary) << '\n';
    }
  }
  return found.empty() ? 0 : 1;
}

// Adds the subcommand diff to `rules`: compares rules of files, of Redis and of a server.
void add_diff(Command rules) {
  const Command command = rules.add_subcommand("diff", "Compare two sets of rules", kDiffHelp);
  const auto source = add_source_flags(command);
  const auto before = std::make_shared<std::string>();
  const auto after = std::make_shared<std::optional<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command.add_option("OLD", *before, "A file, a directory, a version, - or redis").required();
  command.add_option("NEW", *after, "The same");
  command.add_flag("--json", *json, "Print one JSON object");
  command.run("rules diff",
              [source, before, after, json] { return diff(source, *before, *after, *json); });
}

constexpr const char* kHistoryHelp =
    R"(Print the latest versions of the rules, the latest first: when and by whom each was made, and
what it changed.

With --store or --rules-key, these are the last 50 pushes of rules to Redis. Redis also keeps the
rules of these pushes, at most 64 MiB in total; it drops the oldest first. Pushes with `scripting:
off` and pushes by older versions of Sluice are not in the history.

With --admin, the administration of a server says which rules it has used since its start, at most
50 versions and 8 MiB.

Without these flags, the first that is there decides: SLUICE_RULES (redis, or files of a server),
SLUICE_ADMIN, the `rules` of the configuration, or a store in Redis (SLUICE_STORE, or `store` of the
configuration). Otherwise the server at 127.0.0.1:6070 is asked. So while SLUICE_ADMIN is set, only the
token is read from --config FILE.

Exit status: 0 printed; 1 there is no history, or it cannot be read; 2 wrong usage.

Examples:
  sluice rules history
  sluice rules history --store redis://127.0.0.1:6379 --max 3
  sluice rules history --json --config /etc/sluice/sluice.yaml)";

// What a version changed. Absent: the rules of it or of the one before it are not kept.
using Changes = std::optional<std::vector<RuleDifference>>;

void print_json(const PastPush& push, const Changes& changes) {
  base::JsonWriter json;
  json.begin_object().member("version", push.version);
  if (!push.id.empty()) json.member("id", push.id);
  json.member("pushed_at", push.pushed_at).member("by", push.by);
  json.member("files", push.files).member("bytes", push.bytes);
  if (changes) {
    json.key("differences").begin_array();
    for (const RuleDifference& one : *changes) rules::write_json(one, json);
    json.end_array();
  }
  std::cout << json.end_object().view() << '\n';
}

void print_version(const PastPush& push, const Changes& changes,
                   const std::vector<server::TemporaryChange>& temporary) {
  constexpr std::size_t kMost = 20;
  std::cout << "version " << push.version << ", " << replay::printable(push.pushed_at) << ", by "
            << replay::printable(push.by) << '\n';
  if (!changes) {
    std::cout << "  the first version whose rules are kept\n";
    return;
  }
  if (changes->empty()) std::cout << "  no rule means anything else\n";
  for (std::size_t i = 0; i < std::min(changes->size(), kMost); ++i) {
    const RuleDifference& one = (*changes)[i];
    std::cout << "  " << text_of(one) << until_of(one, temporary) << '\n';
  }
  if (changes->size() > kMost) {
    std::cout << "  and " << changes->size() - kMost << " more; see sluice rules diff\n";
  }
}

int history(const SourceFlags& flags, std::uint64_t most, bool json) {
  RulesSource source(flags);
  const auto pushes = source.history();
  if (pushes.empty()) {
    throw Failed("there is no history of " + source.key() +
                 "; it begins with the next sluice rules push");
  }
  const auto texts_of = [&](std::size_t i) -> std::optional<Texts> {
    if (i >= pushes.size()) return std::nullopt;
    try {
      return source.version(pushes[i]).with_temporary();
    } catch (const Failed&) {
      return std::nullopt;  // Redis has dropped them
    }
  };
  auto texts = texts_of(0);
  if (!json) std::cout << source.name() << '\n';
  for (std::size_t i = 0; i < std::min<std::size_t>(pushes.size(), most); ++i) {
    auto before = texts_of(i + 1);
    const Changes changes =
        texts && before ? Changes(compare_texts(*before, *texts)) : std::nullopt;
    json ? print_json(pushes[i], changes)
         : print_version(pushes[i], changes, source.temporary(pushes[i]));
    texts = std::move(before);
  }
  return 0;
}

// Adds the subcommand history to `rules`: prints the latest versions of the rules.
void add_history(Command rules) {
  const Command command =
      rules.add_subcommand("history", "Print what each version changed", kHistoryHelp);
  const auto source = add_source_flags(command);
  const auto most = std::make_shared<std::uint64_t>(50);
  const auto json = std::make_shared<bool>(false);
  command.add_option("--max", *most, "How many versions at most", "N")
      .range(std::uint64_t{1}, std::uint64_t{1000})
      .show_default();
  command.add_flag("--json", *json, "Print a JSON object for each version");
  command.run("rules history", [source, most, json] { return history(source, *most, *json); });
}

constexpr const char* kRollbackHelp =
    R"(Make the rules of an earlier version active again, as a new version. ID is a version or an id of
`sluice rules history`. The output is what changes, and the new version. With --store, or if the
environment or the configuration says so, as for history, the rules are pushed to Redis; otherwise the
administration of a server (--admin) does it, until its files change. stderr says how to undo it.
A server counts its versions from its start, Redis its pushes: --dry-run prints whose version ID is,
and what would change.

Exit status: 0 done; 1 the rules are wrong or could not be changed; 2 wrong usage.

Examples:
  sluice rules rollback 7 --dry-run
  sluice rules rollback 7 --expect 9 --config /etc/sluice/sluice.yaml)";

std::vector<RuleError> warnings_of(const Texts& texts) {
  std::vector<RuleError> warnings;
  static_cast<void>(rules::load_rules(views_of(texts), RuleTerms(), &warnings));
  return warnings;
}

int roll_back_server(RulesSource& source, const PushFlags& flags, const std::string& id,
                     const std::string& options) {
  const auto past = source.history();
  const PastPush& push = find_push(past, id);
  AdminClient& server = source.server();
  const std::string expected = flags.expect ? std::to_string(*flags.expect) : "";
  if (flags.dry_run) {
    if (flags.expect && past.front().version != *flags.expect) {
      throw Failed("the server has version " + std::to_string(past.front().version) +
                   " of the rules; expected version " + expected + " there. Nothing was changed");
    }
    const Texts now = source.past(past.front());
    const Texts then = source.past(push);
    const auto differences = compare_texts(now, then);
    std::cout << source.name() << '\n';
    print_text(differences);
    auto warnings = warnings_of(then);
    std::erase_if(warnings, [known = warnings_of(now)](const RuleError& one) {
      return std::ranges::find(known, one.what, &RuleError::what) != known.end();
    });
    print_warnings(warnings);
    const int status = differences.empty() ? print_same() : 0;
    std::cout << on_top_text(source.temporary(past.front()));
    return status;
  }
  const std::string version = "?version=" + std::to_string(push.version) + "&";
  const auto answer =
      server.ask_json("POST", "/v1/rules/rollback" + version + by_query(flags.by), {}, expected);
  const int status = print_changed(server, answer);
  std::cout << on_top_text(temporary_in(server.ask_json("GET", "/v1/status")));
  const std::uint64_t before = past.front().version;
  const bool is_changed = is_true(answer, "changed") || answer.contains("pushed_version");
  if (is_changed && before != push.version) print_undo(before, options);
  return status;
}

int roll_back(const SourceFlags& source_flags, const PushFlags& flags, const std::string& id) {
  RulesSource source(source_flags);
  const std::string config = option_text("--config", source_flags.store->config);
  if (!source.is_in_redis()) {
    return roll_back_server(source, flags, id, options_of(*source_flags.admin) + config);
  }
  const auto pushes = source.history();
  const PastPush& push = find_push(pushes, id);
  server::FilesRead read{.picture = {}, .texts = source.past(push), .errors = {}};
  const auto rules = check_texts(read, server::rule_terms(config_of(place_of(source_flags))));
  if (!rules) return kFailed;
  print_warnings(rules->warnings());
  const bool has_store = source_flags.command.names("--store");
  return push_rules(source, flags, std::move(read.texts), *rules,
                    " (rollback to version " + std::to_string(push.version) + ")",
                    option_text("--store", has_store ? source.address() : "") +
                        option_text("--rules-key", source_flags.store->rules_key) + config);
}

// Adds the subcommand rollback to `rules`: makes an earlier version active again.
void add_rollback(Command rules) {
  const Command command = rules.add_subcommand(
      "rollback", "Make the rules of an earlier version active again", kRollbackHelp);
  const auto source = add_source_flags(command);
  const auto flags = add_push_flags(command);
  const auto id = std::make_shared<std::string>();
  command.add_option("ID", *id, "The version, or the id of a push").required();
  command.run("rules rollback", [source, flags, id] { return roll_back(source, *flags, *id); });
}

constexpr const char* kPushHelp =
    R"(Check the files as one set and replace the rules in Redis with them, in one step. Every
server with `rules: redis` on this store uses them within a second. The output is the new version, and
how it differs from the one before, as of sluice rules diff. First look at that with --dry-run: a push
replaces all rules.

Redis keeps the last 50 pushes (sluice rules history) with the user and the host that pushed;
--by names somebody else.

If two pushes happen at the same time, the later one fails. With --expect, a push also fails if
the version in Redis is another one.
Warnings are printed; with --strict, rules with warnings are not pushed.

Exit status: 0 pushed; 1 the rules are wrong or could not be pushed; 2 wrong usage.

Examples:
  sluice rules push rules.yaml --dry-run
  sluice rules push rules.yaml --store redis://127.0.0.1:6379
  sluice rules push rules.d --config /etc/sluice/sluice.yaml --expect 7)";

constexpr const char* kShowHelp =
    R"(Print the active rules: the text of each file, after a comment with its name. If there is one
file, the output is valid input for `sluice rules check -` and `sluice rules push`. With --store, or if
the environment or the configuration says so, as for history, the rules are read from Redis; otherwise
from the administration of a server (--admin). Changes for a time are not in the text.

Exit status: 0 printed; 1 there are no rules, or they cannot be read; 2 wrong usage.

Examples:
  sluice rules show --admin 127.0.0.1:6070 >rules.yaml
  sluice rules show --store redis://127.0.0.1:6379)";

using Files = std::vector<std::string>;

int push(const StoreFlags& place_flags, const PushFlags& flags, const Files& files) {
  const server::Config config = config_of(place_flags);
  redis_options_of(config);  // before the errors of the rules
  server::FilesRead read = server::read_files(files);
  const auto rules = check_texts(read, server::rule_terms(config));
  if (!rules) return kFailed;
  print_warnings(rules->warnings());
  if (flags.is_strict && !rules->warnings().empty()) return kFailed;
  RulesSource place(place_flags, config);
  return push_rules(place, flags, std::move(read.texts), *rules);
}

int show(const SourceFlags& flags) {
  RulesSource source(flags);
  PublishedRules rules;
  if (source.is_in_redis()) {
    auto found = source.read();
    if (!found) throw Failed(server::no_rules_at(source.key()));
    rules = *std::move(found);
  } else {
    const PastPush now = source.history().front();
    rules = {.version = now.version,
             .id = {},
             .pushed_at = now.pushed_at,
             .by = now.by,
             .texts = source.past(now)};
  }
  const std::string since = (source.is_in_redis() ? ", pushed " : ", active since ") +
                            rules.pushed_at + (rules.by.empty() ? "" : " by ") + rules.by;
  for (const RulesText& text : rules.texts) {
    std::cout << "# " << replay::printable(text.name) << " (version " << rules.version
              << replay::printable(since) << ")\n"
              << text.text << (text.text.ends_with('\n') ? "" : "\n");
  }
  return 0;
}

// Adds the subcommand push to `rules`: publishes rules files in Redis.
void add_push(Command rules) {
  const Command command =
      rules.add_subcommand("push", "Publish rules files in Redis for all servers", kPushHelp);
  const auto place = add_place_flags(command);
  const auto flags = add_push_flags(command);
  command.add_flag("--strict", flags->is_strict, "Push nothing if there are warnings");
  const auto files = std::make_shared<Files>();
  command.add_option("FILE", *files, "Rules files and directories").required();
  command.run("rules push", [place, flags, files] { return push(*place, *flags, *files); });
}

// Adds the subcommand show to `rules`: prints the rules in Redis or of a server.
void add_show(Command rules) {
  const Command command = rules.add_subcommand("show", "Print the active rules", kShowHelp);
  const auto flags = add_source_flags(command);
  command.run("rules show", [flags] { return show(flags); });
}

// The files of a directory are one set, as for `sluice serve`.
Expected<std::string, std::vector<RuleError>> check_rules(const std::string& file,
                                                          const RuleTerms& terms,
                                                          std::vector<RuleError>& warnings) {
  server::FilesRead read = read_rules(file);
  const auto texts = views_of(read.texts);
  const auto rules = RuleSet::parse(texts, terms);
  if (rules && read.errors.empty()) {
    warnings.assign(rules->warnings().begin(), rules->warnings().end());
    return summary_of(*rules);
  }
  if (!rules) {
    static_cast<void>(rules::load_rules(texts, terms, &warnings));
    std::ranges::copy(rules.error(), std::back_inserter(read.errors));
  }
  return Unexpected{std::move(read.errors)};
}

// Prints Envoy's file as native rules. Prints differences in behaviour to standard error.
int convert(const std::string& file) {
  const auto fail = [](std::span<const RuleError> errors) {
    print_errors(errors);
    return kFailed;
  };
  const auto text = rules::read_file(file);
  if (!text) return fail(text.error());
  const std::array<RuleText, 1> files{{{file, *text}}};
  const auto config = envoy::Config::parse(files);
  if (!config) return fail(config.error());
  std::vector<std::string> remarks;
  const std::string yaml = envoy::convert(*config->domains().front(), remarks);
  for (const std::string& one : remarks) std::cerr << file << ": note: " << one << '\n';
  const auto rules = RuleSet::parse(yaml, "the rules of " + file);
  if (!rules) return fail(rules.error());
  std::cout << yaml << std::flush;
  return std::cout ? 0 : kFailed;
}

void add_convert(Command command) {
  const Command app = command.add_subcommand(
      "convert", "Convert a file of Envoy's rate limit service to native rules",
      "Differences in behaviour are printed to stderr (docs/envoy.md).\n\n"
      "Exit status: 0 converted; 1 the file is wrong or cannot be read; 2 wrong usage.\n\n"
      "Examples:\n  sluice rules convert ratelimit/config.yaml > rules.yaml");
  auto file = std::make_shared<std::string>();
  app.add_option("FILE", *file, "Envoy's file").required();
  app.run({}, [file] { return convert(*file); });
}

}  // namespace

void add_rules(Command app) {
  const Command command = app.add_subcommand(
      "rules", "Check, compare, change, convert and publish rules",
      "Exit status: 0 done; 1 not done, or rules are wrong or different; 2 wrong usage.\n\n"
      "Examples:\n  sluice rules check rules.yaml\n  sluice rules set order/user limit=20");
  command.require_subcommand();
  add_push(command);
  add_show(command);
  add_diff(command);
  add_history(command);
  add_rollback(command);
  add_rules_set(command);
  add_convert(command);
  const auto terms = std::make_shared<RuleTerms>(
      RuleTerms{.max_log_bytes = MemoryStoreOptions{}.max_log_bytes, .reads_lists = true});
  add_check(command, {.files = "rules files, and the files of a directory as one set",
                      .example = "rules check --strict rules.yaml",
                      .check =
                          [terms](const std::string& file, std::vector<RuleError>& warnings) {
                            return check_rules(file, *terms, warnings);
                          },
                      .add_options =
                          [terms](Command check) {
                            check
                                .add_option(
                                    "--max-log-bytes", terms->max_log_bytes,
                                    "memory.max_log_bytes of the server: warns about logs that do "
                                    "not fit; 0 for Redis")
                                .range(std::uint64_t{0}, std::uint64_t{1} << 40)
                                .show_default();
                          }});
}

}  // namespace sluice::cli
