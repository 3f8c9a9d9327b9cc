#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rules/override_text.h"
#include "server/api/admin/override_body.h"
#include "server/api/admin/pages.h"
#include "server/protocol/http/request_target.h"

// POST /v1/overrides: sets many overrides, one JSON object a line.
namespace sluice::server::pages {
namespace {

using Entry = Overrides::Page::Entry;

struct Lines {
  std::vector<Entry> entries;  // without those that have ended
  std::uint64_t count = 0;
  std::uint64_t ended = 0;
  std::uint64_t added = 0;                   // counters without an override until now
  std::uint64_t unknown = 0;                 // of a rule or a limit that is not there; left out
  std::vector<std::uint64_t> unknown_lines;  // the first of them
};

Unexpected<rules::OverrideError> wrong(std::string what) { return {{std::move(what)}}; }

Expected<Entry, rules::OverrideError> read_entry(const RuleSet& rules, std::string_view text) {
  auto line = read_override_line(text);
  if (!line) return wrong(std::move(line.error()));
  const Override& given = line->body.given;
  if (line->counter.empty()) {
    auto place = rules::find_place_error(rules, line->rule, line->limit_name, line->body.names);
    if (place) return Unexpected{std::move(*place)};
  }
  if (!line->problem.empty()) return wrong(std::move(line->problem));
  if (line->counter.empty()) {
    auto named = name_override(rules, line->rule, line->limit_name, line->body.attributes, given);
    if (!named) return wrong(std::move(named.error()));
    line->counter = std::move(*named);
  } else {
    auto checked = rules::check_counter(rules, line->counter, given);
    if (!checked) return Unexpected{std::move(checked.error())};
    line->counter = std::move(*checked);
  }
  if (line->counter.size() > Overrides::kLongestKey) return wrong(too_long(line->counter));
  return Entry{std::move(line->counter), std::move(line->body.given)};
}

void answer_wrong(const Call& call, std::uint64_t number, const rules::OverrideError& error) {
  std::string members = "\"line\":" + std::to_string(number);
  if (error.lacks_limit) members += ",\"unknown\":true";
  if (!error.unknown_name.empty()) {
    members += ",\"attribute\":" + boost::json::serialize(boost::json::string(error.unknown_name));
  }
  answer(call.response, {400, error.what}, members);
}

bool has_flag(const Call& call, std::string_view name) {
  Buffers buffers;
  return find_query(call.query, name, buffers) == "true";
}

// Reads the lines of a body.
class LineReader {
 public:
  explicit LineReader(const Call& call)
      : call_(call), skips_unknown_(has_flag(call, "skip_unknown")) {}

  // Answers the first error, and returns nothing; else returns the lines.
  std::optional<Lines> read() {
    std::string_view rest = call_.request.body;
    for (std::uint64_t number = 1; !rest.empty(); ++number) {
      std::string_view text = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(text.size() + 1, rest.size()));
      if (text.ends_with('\r')) text.remove_suffix(1);
      if (!text.empty() && !take(number, text)) return std::nullopt;
    }
    return std::move(lines_);
  }

 private:
  bool take(std::uint64_t number, std::string_view text) {
    auto entry = read_entry(rules_, text);
    ++lines_.count;
    if (entry) {
      add(std::move(*entry));
    } else if (skips_unknown_ && entry.error().lacks_limit) {
      constexpr std::size_t kShown = 20;
      ++lines_.unknown;
      if (lines_.unknown_lines.size() < kShown) lines_.unknown_lines.push_back(number);
    } else {
      answer_wrong(call_, number, entry.error());
      return false;
    }
    return true;
  }
  void add(Entry entry) {
    if (entry.given.until && *entry.given.until <= now_) {
      ++lines_.ended;
      return;
    }
    const bool is_first = seen_.insert(entry.counter).second;
    if (is_first && !call_.overrides()->find(entry.counter)) ++lines_.added;
    lines_.entries.push_back(std::move(entry));
  }

  const Call& call_;
  const bool skips_unknown_;
  const RuleSet rules_ = call_.parts.rules.current();
  const Instant now_ = SystemClock().now();
  std::unordered_set<std::string> seen_;
  Lines lines_;
};

}  // namespace

void import_overrides(const Call& call) {
  if (lacks_overrides(call)) return;
  const auto lines = LineReader(call).read();
  if (!lines) return;
  const std::uint64_t there = call.overrides()->size();
  const std::uint64_t most = call.overrides()->most();
  const std::uint64_t room = most - std::min(there, most);
  if (lines->added > room) {
    const std::string detail = "there are " + std::to_string(there) + " overrides and " +
                               std::to_string(lines->added) + " new ones; expected at most " +
                               std::to_string(most) + " together";
    return answer(call.response, {409, detail});
  }
  if (!has_flag(call, "dry_run")) {
    const auto set = call.parts.overrides->set_all(lines->entries, has_flag(call, "more"));
    if (!set) return answer(call.response, {503, set.error()});
    call.done("overrides set: " + std::to_string(lines->entries.size()));
  }
  JsonWriter json;
  json.begin_object().member("count", lines->count).member("ended", lines->ended);
  json.member("new", lines->added).member("room", room);
  if (lines->unknown > 0) {
    json.member("unknown", lines->unknown).key("unknown_lines").begin_array();
    for (const std::uint64_t line : lines->unknown_lines) json.value(line);
    json.end_array();
  }
  answer(call.response, 200, json.end_object());
}

}  // namespace sluice::server::pages
