#include "server/rules/rules_manager.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "rules/rule_set.h"

namespace sluice::server {

std::string_view built_in_rules() noexcept {
  return R"(# The built-in example, which is active because no rules were given. See docs/rules.md.
version: 1
domain: example
rules:
  # In shadow mode: decides and counts, and lets everything pass.
  - name: crawlers
    match: { header.user-agent: "~(?i).*(bot|crawler|spider).*" }
    limits:
      - { name: agent, key: "{header.user-agent}", algorithm: sliding_window_counter, limit: 60, per: 1m }
    mode: shadow
    continue: true
  # Few attempts to log in from one address.
  - name: login
    match: { method: POST, path: /login }
    limits:
      - { name: ip, key: "{ip/64}", algorithm: sliding_window_log, limit: 5, per: 1m }
  # Everything else: 100 requests a second from one address, 200 at once.
  - name: everything
    limits:
      - { name: ip, key: "{ip/64}", algorithm: token_bucket, limit: 100, per: 1s, burst: 200 }
)";
}

namespace {

Expected<RuleSet, RulesManager::Errors> parse(const std::vector<RulesText>& texts,
                                              const RuleTerms& terms) {
  return RuleSet::parse(views_of(texts), terms);
}

using Differences = std::vector<rules::RuleDifference>;

// Returns what `made`, the changes of some rules, has lost from `before` to `after`.
Differences lost_of(const Differences& made, const std::vector<RulesText>& before,
                    const std::vector<RulesText>& after) {
  if (made.empty()) return {};
  Differences lost = rules::compare_rules(views_of(before), views_of(after));
  std::erase_if(lost, [&](const rules::RuleDifference& one) {
    return std::ranges::none_of(made, [&](const rules::RuleDifference& change) {
      return change.rule == one.rule && change.limit == one.limit && change.key == one.key;
    });
  });
  return lost;
}

// Parses the rules. Errors: all errors of all files.
Expected<RuleSet, RulesManager::Errors> parse(FilesRead& read, const RuleTerms& terms) {
  auto rules = parse(read.texts, terms);
  if (read.errors.empty()) return rules;
  if (!rules) {
    for (RuleError& error : rules.error()) read.errors.push_back(std::move(error));
  }
  return Unexpected{std::move(read.errors)};
}

Picture joined(Picture files, const Picture& lists) {
  files.insert(files.end(), lists.begin(), lists.end());
  return files;
}

// Makes the change. Returns whether the rule has such a value.
bool change(Rule& rule, const TemporaryChange& by) {
  if (by.key == "mode") {
    rule.mode = by.value == "shadow" && rule.action != RuleAction::kAllow ? RuleMode::kShadow
                                                                          : RuleMode::kEnforce;
    return rule.action != RuleAction::kAllow;
  }
  rule.on_store_error = by.value == "allow"  ? FailurePolicy::kAllow
                        : by.value == "deny" ? FailurePolicy::kDeny
                                             : FailurePolicy::kLocal;
  return rule.action == RuleAction::kLimit;
}

}  // namespace

bool write_change(std::vector<RulesText>& texts, const TemporaryChange& change) {
  rules::RuleChanges values;
  if (!change.limit.empty()) {
    values.numbers.push_back({change.limit, change.key, change.value});
  } else {
    (change.key == "mode" ? values.mode : values.on_store_error) = change.value;
  }
  const std::vector<RuleText> files = views_of(texts);
  auto edit = change.of_plan ? rules::edit_shared(files, rules::kSharedPlans, change.rule, values)
                             : rules::edit_rule(files, change.rule, values);
  if (!edit) return false;
  texts[edit->file].text = std::move(edit->text);
  return true;
}

std::string RulesStatus::undone_text() const {
  std::string text;
  for (const rules::RuleDifference& one : undone) {
    const std::string place = one.limit.empty() ? "rule " + one.rule : one.rule + "/" + one.limit;
    text.append(text.empty() ? "" : "; ").append(one.rule.empty() ? "all rules" : place);
    if (one.kind != rules::RuleDifference::Kind::kChanged) {
      text += one.kind == rules::RuleDifference::Kind::kAdded ? " is there again" : " is gone";
    }
    if (one.key.empty()) continue;
    text.append(": ").append(one.key).append(" ").append(one.before.empty() ? "none" : one.before);
    text.append(" -> ").append(one.after.empty() ? "none" : one.after);
  }
  return text;
}

std::string TemporaryChange::place() const { return (of_plan ? "plans/" : "") + rule; }

std::string TemporaryChange::name() const { return limit.empty() ? key : limit + "." + key; }

bool TemporaryChange::is_of_same(const TemporaryChange& other) const {
  return of_plan == other.of_plan && rule == other.rule && limit == other.limit;
}

// Returns the rules of the texts with the changes that should have an effect, and sets which have.
// Errors: the rules are wrong with the numbers of limits.
Expected<RuleSet, RulesManager::Errors> RulesManager::with_changes(
    const RuleSet& rules, const Texts& texts, std::vector<TemporaryChange>& changes) const {
  Texts changed = texts;
  bool has_numbers = false;
  for (TemporaryChange& one : changes) {
    one.has_effect = one.has_effect && !one.limit.empty() && write_change(changed, one);
    has_numbers = has_numbers || one.has_effect;
  }
  Picture lists;
  auto out = has_numbers ? parse_again(std::move(changed), lists) : rules;
  if (!out || changes.empty()) return out;
  return rules::change_rules(*out, [&](Rule& rule) {
    for (TemporaryChange& one : changes) {
      if (one.limit.empty() && one.rule == rule.name) one.has_effect = change(rule, one);
    }
  });
}

// Returns the rules with the changes, and sets which have an effect. The rules may be others than
// those that the numbers were for: the numbers of a limit hold together or not at all, and the
// latest first.
RuleSet RulesManager::with_fitting(const RuleSet& rules, const Texts& texts,
                                   std::vector<TemporaryChange>& changes) const {
  const auto with = [&](const auto& more) {
    std::vector<TemporaryChange> tried = changes;
    for (TemporaryChange& one : tried) one.has_effect = one.has_effect || more(one);
    auto out = with_changes(rules, texts, tried);
    if (out) changes = std::move(tried);
    return out;
  };
  const auto none = [](const TemporaryChange&) { return false; };
  if (auto all = with([](const TemporaryChange&) { return true; })) return *std::move(all);
  if (auto as_before = with(none)) return *std::move(as_before);
  for (TemporaryChange& one : changes) one.has_effect = false;
  for (auto one = changes.size(); one-- > 0;) {
    if (changes[one].has_effect) continue;
    static_cast<void>(
        with([by = changes[one]](const TemporaryChange& other) { return other.is_of_same(by); }));
  }
  return *with(none);
}

Expected<RuleSet, RulesManager::Errors> RulesManager::parse_files(FilesRead& read,
                                                                  const RuleTerms& terms,
                                                                  Picture& lists) {
  RuleTerms with_lists = terms;
  with_lists.reads_lists = true;
  with_lists.on_list = [&lists](const std::string& path) { lists.push_back(look_at_file(path)); };
  return parse(read, with_lists);
}

std::size_t PastRules::bytes() const noexcept {
  std::size_t bytes = 0;
  for (const RulesText& text : *texts) bytes += text.name.size() + text.text.size();
  return bytes;
}

std::size_t count_limits(const RuleSet& rules) noexcept {
  std::size_t limits = 0;
  for (const Rule& rule : rules.rules()) {
    limits += static_cast<std::size_t>(std::ranges::count_if(
        rules.impl().compiled_of(rule).limits, [](const auto& limit) { return !limit.removed; }));
  }
  return limits;
}

RulesManager::RulesManager(bool from_source, std::vector<std::string> paths, const Clock& clock,
                           const RuleTerms& terms, RuleSet rules, Texts texts)
    : from_source_(from_source),
      paths_(std::move(paths)),
      clock_(&clock),
      terms_(terms),
      active_{1, std::move(rules), std::make_shared<const Texts>(std::move(texts))},
      past_{{1, clock.now(), std::string(kStart), {}, active_.texts}},
      unchanged_(active_.rules),
      read_(*active_.texts) {}

Expected<std::unique_ptr<RulesManager>, RulesManager::Errors> RulesManager::open(
    std::vector<std::string> paths, const Clock& clock, const RuleTerms& terms) {
  FilesRead read = read_files(paths);
  if (paths.empty())
    read.texts.push_back({std::string(kBuiltInName), std::string(built_in_rules())});
  Picture lists;
  auto rules = parse_files(read, terms, lists);
  if (!rules) return Unexpected{std::move(rules.error())};
  std::unique_ptr<RulesManager> manager(new RulesManager(false, std::move(paths), clock, terms,
                                                         *std::move(rules), std::move(read.texts)));
  manager->known_ = joined(std::move(read.picture), lists);
  manager->last_look_ = manager->known_;
  manager->lists_ = std::move(lists);
  return manager;
}

Expected<std::unique_ptr<RulesManager>, RulesManager::Errors> RulesManager::open_source(
    std::vector<RulesText> texts, const Clock& clock, const RuleTerms& terms, std::string by) {
  auto rules = parse(texts, terms);
  if (!rules) return Unexpected{std::move(rules.error())};
  std::unique_ptr<RulesManager> manager(
      new RulesManager(true, {}, clock, terms, *std::move(rules), texts));
  manager->brought_ = std::move(texts);
  if (!by.empty()) manager->past_.front().by.append(", with ").append(by);
  manager->status_.source = std::move(by);
  return manager;
}

Expected<bool, RulesManager::Errors> RulesManager::reload() {
  if (built_in()) return false;
  const std::lock_guard changing(change_mutex_);
  if (from_source_) return adopt({.picture = {}, .texts = brought_, .errors = {}}, "a reload");
  FilesRead read = read_files(paths_);
  Picture files = read.picture;
  auto adopted = adopt(std::move(read), "the rules files");
  files = joined(std::move(files), adopted ? lists_ : look_again(lists_));
  known_ = joined(std::move(files), refused_lists_);
  last_look_ = known_;
  return adopted;
}

Expected<bool, RulesManager::Errors> RulesManager::follow(std::vector<RulesText> texts,
                                                          std::string by) {
  const std::lock_guard changing(change_mutex_);
  bool is_known = texts == brought_;
  {
    const std::lock_guard lock(mutex_);
    status_.older_since.reset();
    is_known = is_known && status_.last_errors.empty();  // else they were refused
  }
  brought_ = texts;
  Expected<bool, Errors> adopted = false;
  if (!is_known) adopted = adopt({.picture = {}, .texts = std::move(texts), .errors = {}}, by);
  const std::lock_guard lock(mutex_);
  if (adopted && read_ == brought_) status_.source = std::move(by);
  return adopted;
}

// Requires change_mutex_.
Expected<bool, RulesManager::Errors> RulesManager::adopt(FilesRead read, std::string by) {
  const bool is_same = read.errors.empty() && *active().texts == read.texts;
  if (is_same && look_again(lists_) == lists_) {
    refused_lists_ = {};
    read_ = std::move(read.texts);
    const std::lock_guard lock(mutex_);
    status_.last_errors.clear();
    status_.differences.clear();
    return false;
  }
  Picture lists;
  auto rules = paths_.empty() ? parse(read, terms_) : parse_files(read, terms_, lists);
  if (!rules) {
    refused_lists_ = std::move(lists);
    return refuse(std::move(rules.error()));
  }
  lists_ = std::move(lists);
  refused_lists_ = {};
  read_ = read.texts;
  Differences undone = lost_of(status_.differences, *active_.texts, read_);
  static_cast<void>(activate(*std::move(rules), std::move(read.texts), std::move(by)));
  const std::lock_guard lock(mutex_);
  status_.undone = std::move(undone);
  status_.last_errors.clear();
  ++status_.reloads;
  return true;
}

Expected<ActiveRules, RulesManager::Errors> RulesManager::replace(
    std::string yaml, std::string name, std::optional<std::uint64_t> expected, std::string by) {
  const std::lock_guard changing(change_mutex_);
  if (expected && *expected != version()) return Unexpected{Errors{}};
  if (by.empty()) by = name;
  Texts texts{{std::move(name), std::move(yaml)}};
  if (ActiveRules now = active(); *now.texts == texts) return now;
  auto rules = parse(texts, terms_);
  if (!rules) return Unexpected{std::move(rules.error())};
  return activate(*std::move(rules), std::move(texts), std::move(by));
}

Expected<RuleSet, RulesManager::Errors> RulesManager::validate(std::string yaml,
                                                               std::string name) const {
  return parse(Texts{{std::move(name), std::move(yaml)}}, terms_);
}

Expected<RuleSet, RulesManager::Errors> RulesManager::check(std::vector<RulesText> texts) const {
  Picture lists;
  return parse_again(std::move(texts), lists);
}

Expected<RuleSet, RulesManager::Errors> RulesManager::parse_again(Texts texts,
                                                                  Picture& lists) const {
  FilesRead read{.picture = {}, .texts = std::move(texts), .errors = {}};
  return paths_.empty() ? parse(read, terms_) : parse_files(read, terms_, lists);
}

// Watches more lists, until files are read. A change that was not reported yet is reported still.
// Requires change_mutex_.
void RulesManager::watch(const Picture& more) {
  const Picture files = look_at(paths_);
  const Picture refused = look_again(refused_lists_);
  Picture lists = look_again(lists_);
  const bool is_known = joined(joined(files, lists), refused) == known_;
  for (const FileLook& look : more) {
    if (std::ranges::find(lists_, look.path, &FileLook::path) != lists_.end()) continue;
    lists_.push_back(look);
    lists.push_back(look);
  }
  if (is_known) known_ = joined(joined(files, lists), refused);
}

Expected<ActiveRules, RulesManager::Errors> RulesManager::revise(std::vector<RulesText> texts,
                                                                 std::uint64_t expected,
                                                                 std::string by) {
  const std::lock_guard changing(change_mutex_);
  if (expected != version()) return Unexpected{Errors{}};
  if (ActiveRules now = active(); *now.texts == texts) return now;
  Picture lists;
  auto rules = parse_again(texts, lists);
  if (!rules) return Unexpected{std::move(rules.error())};
  watch(lists);
  return activate(*std::move(rules), std::move(texts), std::move(by));
}

Expected<ActiveRules, RulesManager::Errors> RulesManager::change_for_now(
    const std::vector<TemporaryChange>& changes, std::string by) {
  const std::lock_guard changing(change_mutex_);
  std::vector<TemporaryChange> all = status_.temporary;
  for (const TemporaryChange& change : changes) {
    std::erase_if(all, [&](const TemporaryChange& old) {
      return (old.until || !change.until) && old.is_of_same(change) && old.key == change.key;
    });
    all.push_back(change);
  }
  for (TemporaryChange& one : all) {
    one.has_effect = one.has_effect || std::ranges::any_of(changes, [&](const auto& change) {
                       return change.is_of_same(one);
                     });
  }
  auto changed = with_changes(unchanged_, *active().texts, all);
  if (!changed) return Unexpected{std::move(changed.error())};
  return swap(unchanged_, active().texts, std::move(all), std::move(by));
}

std::vector<TemporaryChange> RulesManager::end_changes(
    const std::function<bool(const TemporaryChange&)>& has_ended) {
  const std::lock_guard changing(change_mutex_);
  std::vector<TemporaryChange> left = status_.temporary;
  const auto end = std::stable_partition(left.begin(), left.end(), std::not_fn(has_ended));
  std::vector<TemporaryChange> ended(end, left.end());
  left.erase(end, left.end());
  if (!ended.empty()) {
    static_cast<void>(
        swap(unchanged_, active().texts, std::move(left), "the end of a change for a time"));
  }
  return ended;
}

// Takes over the temporary changes that have an end. Requires change_mutex_.
ActiveRules RulesManager::activate(RuleSet rules, Texts texts, std::string by) {
  Differences differences;
  if (texts != read_) differences = rules::compare_rules(views_of(read_), views_of(texts));
  {
    const std::lock_guard lock(mutex_);
    status_.differences = std::move(differences);
    status_.differ_by = by;
    status_.undone.clear();
  }
  std::vector<TemporaryChange> lasting = status_.temporary;
  std::erase_if(lasting, [](const TemporaryChange& change) { return !change.until; });
  return swap(std::move(rules), std::make_shared<const Texts>(std::move(texts)), std::move(lasting),
              std::move(by));
}

// `rules` are without temporary changes. Requires change_mutex_.
ActiveRules RulesManager::swap(RuleSet rules, std::shared_ptr<const Texts> texts,
                               std::vector<TemporaryChange> temporary, std::string by) {
  unchanged_ = std::move(rules);
  const RuleSet changed = with_fitting(unchanged_, *texts, temporary);
  ActiveRules next{version() + 1, rules::keep_removed(current(), changed, clock_->now()),
                   std::move(texts)};
  ActiveRules old = next;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  status_.temporary = std::move(temporary);
  std::swap(old, active_);
  past_.push_front({next.version, clock_->now(), std::move(by), status_.temporary, next.texts});
  std::size_t bytes = 0;
  for (std::size_t i = 1; i < past_.size(); ++i) {
    bytes += past_[i].bytes();
    if (i >= kMostPast || bytes > kMostPastBytes) past_.resize(i);
  }
  // Last: a thread that sees the new version also finds the new rules.
  version_.store(next.version, std::memory_order_release);
  return next;
}

Unexpected<RulesManager::Errors> RulesManager::refuse(Errors errors) {
  const std::lock_guard lock(mutex_);
  status_.last_errors = errors;
  status_.last_failure_at = clock_->now();
  ++status_.failures;
  return {std::move(errors)};
}

void RulesManager::lose(RuleError why, bool from_cache) {
  const std::lock_guard lock(mutex_);
  if (!status_.lost_since) status_.lost_since = clock_->now();
  why_lost_ = std::move(why);
  status_.from_cache = from_cache;
  status_.last_failure_at = clock_->now();
  ++status_.failures;
}

void RulesManager::found() {
  const std::lock_guard lock(mutex_);
  status_.lost_since.reset();
  status_.from_cache = false;
}

void RulesManager::go_back(std::string why) {
  const std::lock_guard lock(mutex_);
  status_.older_since = clock_->now();
  status_.why_older = std::move(why);
}

bool RulesManager::changed_on_disk() {
  if (paths_.empty()) return false;
  const std::lock_guard changing(change_mutex_);
  const Picture lists = joined(look_again(lists_), look_again(refused_lists_));
  return has_settled(joined(look_at(paths_), lists), last_look_, known_);
}

RuleSet RulesManager::current() const {
  const std::lock_guard lock(mutex_);
  return active_.rules;
}

ActiveRules RulesManager::active() const {
  const std::lock_guard lock(mutex_);
  return active_;
}

std::vector<PastRules> RulesManager::history() const {
  const std::lock_guard lock(mutex_);
  return {past_.begin(), past_.end()};
}

std::vector<std::string> RulesManager::new_warnings() {
  const std::lock_guard lock(mutex_);
  std::set<std::string> all;
  std::vector<std::string> fresh;
  const auto add = [&](const std::string& text) {
    if (all.insert(text).second && !warned_.contains(text)) fresh.push_back(text);
  };
  for (const RuleError& warning : active_.rules.warnings()) add(warning.to_string());
  for (const TemporaryChange& one : status_.temporary) {
    if (one.has_effect) continue;
    add("the active rules cannot have the change for a time of " + one.place() + ": " + one.name() +
        " " + one.value);
  }
  warned_ = std::move(all);
  return fresh;
}

RulesStatus RulesManager::status() const {
  const std::lock_guard lock(mutex_);
  RulesStatus status = status_;
  status.version = active_.version;
  status.loaded_at = past_.front().at;
  status.by = past_.front().by;
  status.rules = active_.rules.rules().size();
  status.limits = count_limits(active_.rules);
  const auto warnings = active_.rules.warnings();
  status.warnings = warnings.size();
  const auto first = warnings.first(std::min(warnings.size(), RulesStatus::kFirst));
  status.first_warnings.assign(first.begin(), first.end());
  if (status.older_since && clock_->now() - *status.older_since >= kShown) {
    status.older_since.reset();
  }
  if (status.lost_since) {
    status.why_lost = why_lost_.what;
    status.last_errors.push_back(why_lost_);
  }
  for (const RulesText& text : *active_.texts) status.sources.push_back(text.name);
  return status;
}

}  // namespace sluice::server
