#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "base/request_target.h"
#include "core/period.h"
#include "rules/counter_key.h"
#include "rules/override_text.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"
#include "sluice/block.h"
#include "sluice/limit.h"
#include "sluice/overrides.h"
#include "sluice/store.h"

namespace sluice::server::pages {
namespace {

using base::in_quotes;

constexpr Duration kForever = Duration::max();

// Returns the time from an instant until another one, such as "2027-10-01T00:00:00Z".
Expected<Duration> time_until(std::string_view text, Instant now) {
  if (const auto until = base::parse_rfc3339(text)) return *until - now;
  if (const auto expected = expected_instant(text, {}); !expected.empty()) {
    return Unexpected{in_quotes(text) + " is out of range; " + std::string(expected)};
  }
  return Unexpected{in_quotes(text) + " is no instant; expected one such as 2027-10-01T00:00:00Z"};
}

// Returns how long a key is to be blocked. If that is wrong, writes the reason into the answer and
// returns nothing.
std::optional<Duration> find_length(const Call& call, Instant now) {
  const auto text = call.parameter("for");
  const auto until = call.parameter("until");
  if (text.has_value() == until.has_value()) {
    return refuse(call, 400,
                  "expected one of 'for' and 'until': how long to block, such as "
                  "&for=15m, or &until=2027-10-01T00:00:00Z");
  }
  if (text == "forever") return kForever;
  const auto length = text ? core::parse_period(*text) : time_until(*until, now);
  if (length && *length >= kMinPeriod && (until || *length <= kMaxPeriod)) return *length;
  return refuse(
      call, 400,
      (text ? "'for': " : "'until': ") +
          (!length ? length.error()
           : text  ? in_quotes(*text) + " is out of range; expected 1ms to 366d, or forever"
                   : in_quotes(*until) + " is in the past; expected an instant in the future"));
}

// The block of one key. A limit with a `block` keeps it in the store, where repeated denials start
// it too; the key of another limit is blocked by an override, and so is one for longer than the
// store keeps blocks.
class KeyBlock {
 public:
  KeyBlock(const Call& call, const RuleCounter& counter) : call_(call), counter_(counter) {
    if (call.overrides() != nullptr) override_ = call.overrides()->find(counter.key);
  }

  // Change it. Return whether that was done; if not, write the reason into the answer.
  bool start(Duration length, Instant now) {
    const bool has_block = counter_.limit->block.has_value();
    if (has_block && length <= kMaxPeriod) {
      if (is_blocked()) replaced_ = override_;
      return did({Verb::kBlock, length}) && end_override();
    }
    if (call_.overrides() == nullptr) {
      const std::string detail =
          has_block
              ? "this server has no overrides, which such a long block needs; expected one of "
                "at most 366d"
              : "the limit " + in_quotes(counter_.limit->name) +
                    " has no block, and this server has no overrides; expected a limit with "
                    "'block:' in the rules";
      answer(call_.response, {404, detail});
      return false;
    }
    Override next{.kind = Override::Kind::kBlocked};
    if (length != kForever) next.until = now + length;
    const auto before = call_.admin.overrides->set(counter_.key, next);
    if (!is_done(before)) return false;
    override_ = *before;
    const bool is_longer =
        is_blocked() && (!next.until || (override_->until && *override_->until <= *next.until));
    if (!is_longer) replaced_ = override_;
    override_ = next;
    return true;
  }
  bool end() {
    if (counter_.limit->block) return did(Verb::kUnblock) && end_override();
    if (!end_override()) return false;
    // The limit may have had a `block` before. What the store keeps of that has no effect, so that
    // it need not succeed.
    const auto any = Block::make({.after = 1, .within = kMinPeriod, .time = kMinPeriod});
    Charge charge = counter_.charge(1);
    charge.block = &*any;
    static_cast<void>(store().apply_one(Verb::kUnblock, charge, {}));
    return true;
  }
  // Writes whether it holds, and what it has replaced. Returns false as start() does.
  bool write(JsonWriter& json) const {
    std::optional<Duration> left;
    if (counter_.limit->block) {
      const Decision said = store().apply_one(Verb::kPeek, counter_.block_charge(), {});
      if (said.outcome == Outcome::kFailed) return fail(said, true);
      if (said.reason == Reason::kBlocked) left = said.retry_after.value_or(Duration{0});
    }
    const bool is_given = is_blocked();
    json.member("blocked", is_given || left.has_value());
    if (is_given && override_->until) {
      left = std::max(left.value_or(Duration{0}), *override_->until - SystemClock().now());
    }
    const bool has_end = !is_given || override_->until;
    if (left && has_end) json.member("blocked_for_ms", milliseconds(*left));
    if (replaced_) {
      json.key("replaced").begin_object();
      write_override(json, *replaced_);
      json.end_object();
    }
    return true;
  }

 private:
  Store& store() const { return call_.admin.limiter.store(); }
  bool is_blocked() const { return override_ && override_->kind == Override::Kind::kBlocked; }
  bool end_override() {
    if (!is_blocked()) return true;
    override_.reset();
    return is_done(call_.admin.overrides->unset(counter_.key));
  }
  bool fail(const Decision& said, bool is_changed = false) const {
    answer_failed(call_, counter_, said, is_changed);
    return false;
  }
  bool did(Action action) {
    const Decision said = store().apply_one(action, counter_.charge(1), {});
    return said.allowed() || fail(said);
  }
  bool is_done(const Expected<ServerOverrides::Before>& done) {
    if (!done) answer(call_.response, {503, done.error()});
    return done.has_value();
  }

  const Call& call_;
  const RuleCounter& counter_;
  std::optional<Override> override_, replaced_;
};

// Changes every block by `change`, and answers with their state. `done`: "key blocked: ".
template <typename Change>
void answer_blocks(const Call& call, const Selection& chosen, std::string_view done,
                   const Change& change) {
  answer_each(call, chosen, [&](JsonWriter& json, const RuleCounter& counter) {
    KeyBlock block(call, counter);
    if (!change(block)) return false;
    if (!done.empty()) call.done(std::string(done) + counter.key);
    return block.write(json);
  });
}

// Answers with the blocks that have not ended, whatever the rule.
void list_blocks(const Call& call) {
  if (!call.admin.find_blocks) return answer(call, 404, "this server has no blocks");
  const auto found = call.admin.find_blocks(call.number("count", kListed));
  if (!found) return answer(call, 503, "the blocks cannot be read: " + found.error());
  const RuleSet rules = call.admin.rules.current();
  JsonWriter json;
  json.begin_object().key("blocks").begin_array();
  for (const BlockedKey& block : found->blocks) {
    json.begin_object().member("counter", rules::utf8_counter_key(block.key));
    if (!block.tag.empty()) json.member("tag", block.tag);
    json.member("until", block.until);
    const auto place = rules::place_of(rules, block.key);
    if (!place || !place->limit.block) json.member("effective", false);
    json.end_object();
  }
  json.end_array().member("more", found->more);
  if (call.overrides() != nullptr && call.overrides()->size() > 0) {
    json.member("note", "without blocks by an override, which GET /v1/overrides lists");
  }
  answer(call.response, 200, json.end_object());
}

}  // namespace

void show_blocks(const Call& call) {
  if (!call.parameter("rule")) return list_blocks(call);
  if (const auto chosen = Selection::of(call)) {
    answer_blocks(call, *chosen, {}, [](const KeyBlock&) { return true; });
  }
}

void start_blocks(const Call& call) {
  const auto chosen = Selection::of(call);
  if (!chosen || !chosen->may_change(call, "block")) return;
  const Instant now = SystemClock().now();
  const auto length = find_length(call, now);
  if (!length) return;
  answer_blocks(call, *chosen,
                "key blocked: ", [&](KeyBlock& block) { return block.start(*length, now); });
}

void end_blocks(const Call& call) {
  const auto chosen = Selection::of(call);
  if (!chosen || !chosen->may_change(call, "unblock")) return;
  answer_blocks(call, *chosen, "key unblocked: ", [](KeyBlock& block) { return block.end(); });
}

}  // namespace sluice::server::pages
