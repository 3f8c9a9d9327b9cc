#include "stores/redis/script/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/limit.h"

namespace sluice::redis::plan_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kBucket = token_bucket(10).per(1min);
constexpr Instant kNow{Duration{1700000000123456}};

class Sent final : public Command {
 public:
  void done(const Answer&) noexcept override {}
};

// The elements of a command's tail.
std::vector<std::string> elements_of(const Command& command) {
  std::vector<std::string> elements;
  std::string_view rest = command.tail;
  while (!rest.empty()) {
    const std::size_t line = rest.find("\r\n");
    if (rest[0] != '$' || line == rest.npos) break;
    const std::size_t size = std::stoul(std::string(rest.substr(1, line - 1)));
    elements.emplace_back(rest.substr(line + 2, size));
    if (rest.substr(line + 2 + size, 2) != "\r\n") break;
    rest.remove_prefix(line + 2 + size + 2);
  }
  EXPECT_TRUE(rest.empty()) << rest;
  EXPECT_EQ(elements.size(), command.elements);
  return elements;
}

// The script call for one part of a plan.
struct Call {
  std::vector<std::string> keys;
  std::vector<std::string> arguments;
  std::optional<std::uint16_t> slot;
};

Call call_of(Plan& plan, std::size_t part) {
  Sent command;
  command.tail = "of an earlier request";
  command.elements = 7;
  command.slot = 3;
  plan.write(part, command);
  EXPECT_NE(command.script, nullptr);
  const std::vector<std::string> elements = elements_of(command);
  const std::size_t count = std::stoul(elements.at(0));
  Call call;
  call.keys.assign(elements.begin() + 1, elements.begin() + 1 + static_cast<long>(count));
  call.arguments.assign(elements.begin() + 1 + static_cast<long>(count), elements.end());
  call.slot = command.slot;
  return call;
}

std::vector<std::string> keys_of(std::span<const Charge> charges, std::string_view prefix = "p:") {
  Plan plan;
  EXPECT_TRUE(plan.begin({.prefix = std::string(prefix)}, Verb::kTake, charges, kNow));
  EXPECT_EQ(plan.parts(), 1u);
  return call_of(plan, 0).keys;
}

bool is_valid(std::span<const Charge> charges, std::optional<Instant> now = kNow) {
  Plan plan;
  return plan.begin({.prefix = "p:"}, Verb::kTake, charges, now);
}

using Keys = std::vector<std::string>;

TEST(Plan, NamesACounterAfterPrefixAlgorithmTagAndKey) {
  const std::vector<Charge> charges = {{"k", fixed_window(1).per(1s)},
                                       {"k", sliding_window_log(1).per(1s)},
                                       {"k", sliding_window_counter(1).per(1s)},
                                       {"k", sliding_window_hybrid(1).per(1s)},
                                       {"k", leaky_bucket(1).per(1s)},
                                       {"k", token_bucket(1).per(1s)},
                                       {"k", gcra(1).per(1s)},
                                       {"k", gcra(1).per(1s), 1, "tag"}};
  EXPECT_EQ(keys_of(charges), (Keys{"p:f{}k", "p:l{}k", "p:c{}k", "p:h{}k", "p:b{}k", "p:t{}k",
                                    "p:g{}k", "p:g{tag}k"}));
}

TEST(Plan, WritesKeysByteForByteAndEscapesBracesInTags) {
  const std::string key("{a}\0\r\n\xFF%", 8);
  const std::vector<Charge> charges = {{key, kBucket, 1, "x{y}%z\n"}, {"", kBucket}};
  EXPECT_EQ(keys_of(charges, ""), (Keys{"t{x{y%7D%25z\n}" + key, "t{}"}));
}

TEST(Plan, SendsOneArgumentForAllChargesOnACounter) {
  const std::vector<Charge> charges = {
      {"a", kBucket}, {"b", kBucket}, {"a", kBucket, 5}, {"a", kBucket, 1, "t"}, {"b", kBucket}};
  EXPECT_EQ(keys_of(charges), (Keys{"p:t{}a", "p:t{}b", "p:t{t}a"}));
}

TEST(Plan, SumsTheCostsOnOneCounter) {
  const auto arguments = [](std::vector<std::uint64_t> costs) {
    std::vector<Charge> charges;
    for (const std::uint64_t cost : costs) charges.push_back({"a", kBucket, cost});
    Plan plan;
    EXPECT_TRUE(plan.begin({.prefix = ""}, Verb::kTake, charges, kNow));
    return call_of(plan, 0).arguments;
  };
  EXPECT_EQ(arguments({2, 3}), arguments({5}));
  EXPECT_EQ(arguments({0, 4, 0}), arguments({4}));
  EXPECT_NE(arguments({2}), arguments({3}));
  // A sum that overflows stays beyond every limit.
  EXPECT_NE(arguments({~std::uint64_t{0}, 1}), arguments({0}));
  EXPECT_EQ(arguments({~std::uint64_t{0}, 1}), arguments({~std::uint64_t{0}}));
}

TEST(Plan, IsInvalidWithoutChargesAndWithTooMany) {
  EXPECT_FALSE(is_valid({}));
  const std::vector<Charge> most(kMaxCharges, Charge{"a", kBucket});
  EXPECT_TRUE(is_valid(most));
  const std::vector<Charge> more(kMaxCharges + 1, Charge{"a", kBucket});
  EXPECT_FALSE(is_valid(more));
}

TEST(Plan, IsInvalidBeforeTheFirstAndAfterTheLastInstant) {
  const std::vector<Charge> charges = {{"a", kBucket}};
  EXPECT_TRUE(is_valid(charges, kFirstInstant));
  EXPECT_TRUE(is_valid(charges, kLastInstant));
  EXPECT_TRUE(is_valid(charges, std::nullopt));
  EXPECT_FALSE(is_valid(charges, kFirstInstant - Duration{1}));
  EXPECT_FALSE(is_valid(charges, kLastInstant + Duration{1}));
}

TEST(Plan, IsInvalidIfChargesOnOneCounterHaveDifferentLimits) {
  const auto valid = [](const Limit& one, const Limit& other) {
    const std::vector<Charge> charges = {{"a", one}, {"b", kBucket}, {"a", other}};
    return is_valid(charges);
  };
  EXPECT_TRUE(valid(kBucket, kBucket));
  EXPECT_TRUE(valid(kBucket, token_bucket(10).per(1min).burst(10)));
  EXPECT_FALSE(valid(kBucket, token_bucket(11).per(1min)));
  EXPECT_FALSE(valid(kBucket, token_bucket(10).per(2min)));
  EXPECT_FALSE(valid(kBucket, kBucket.burst(11)));
  EXPECT_FALSE(valid(kBucket, kBucket.refilled_at_intervals()));
  EXPECT_FALSE(
      valid(sliding_window_counter(1).per(1s), sliding_window_counter(1).per(1s).slices(9)));
  EXPECT_TRUE(valid(kBucket, gcra(9).per(1s)));
}

TEST(Plan, KeepsNothingOfThePreviousRequest) {
  Plan plan;
  const std::vector<Charge> many(5, Charge{"a", kBucket, 3, "t"});
  ASSERT_TRUE(plan.begin({.prefix = "long prefix:"}, Verb::kReset, many, std::nullopt));
  EXPECT_FALSE(plan.begin({.prefix = "p:"}, Verb::kTake, {}, kNow));
  const std::vector<Charge> one = {{"b", kBucket}};
  ASSERT_TRUE(plan.begin({.prefix = "p:"}, Verb::kTake, one, kNow));
  Plan fresh;
  ASSERT_TRUE(fresh.begin({.prefix = "p:"}, Verb::kTake, one, kNow));
  EXPECT_EQ(call_of(plan, 0).keys, call_of(fresh, 0).keys);
  EXPECT_EQ(call_of(plan, 0).arguments, call_of(fresh, 0).arguments);
}

// --- by slot ---

TEST(PlanBySlot, MakesOneCallForTheCountersOfEachSlot) {
  const std::vector<Charge> charges = {{"a", kBucket, 1, "x"},
                                       {"b", kBucket, 1, "y"},
                                       {"c", kBucket, 1, "x"},
                                       {"d", gcra(5).per(1s), 1, "y"}};
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:", .by_slot = true}, Verb::kTake, charges, kNow));
  ASSERT_EQ(plan.parts(), 2u);
  std::set<std::string> keys;
  for (std::size_t part = 0; part < plan.parts(); ++part) {
    const Call call = call_of(plan, part);
    EXPECT_EQ(call.keys.size(), 2u);
    for (const std::string& key : call.keys) {
      EXPECT_EQ(call.slot, slot_of(key));
      EXPECT_TRUE(keys.insert(key).second);
    }
  }
  EXPECT_EQ(keys, (std::set<std::string>{"p:t{x}a", "p:t{y}b", "p:t{x}c", "p:g{y}d"}));
}

TEST(PlanBySlot, IgnoresBracesInKeys) {
  const std::vector<Charge> charges = {{"{same}1", kBucket}, {"{same}2", kBucket}};
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:", .by_slot = true}, Verb::kTake, charges, kNow));
  EXPECT_EQ(plan.parts(), 2u);
}

TEST(PlanBySlot, MakesACallForEachOfManySlots) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kMaxCharges; ++i) names.push_back("key" + std::to_string(i));
  std::vector<Charge> charges;
  std::set<std::uint16_t> slots;
  for (const std::string& name : names) {
    charges.push_back({name, kBucket});
    slots.insert(slot_of("p:t{}" + name));
  }
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:", .by_slot = true}, Verb::kTake, charges, kNow));
  EXPECT_EQ(plan.parts(), slots.size());
}

TEST(PlanBySlot, IsOneCallWithoutASlotIfItIsOff) {
  const std::vector<Charge> charges = {{"a", kBucket}, {"b", kBucket}};
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:"}, Verb::kTake, charges, kNow));
  EXPECT_EQ(plan.parts(), 1u);
  EXPECT_EQ(call_of(plan, 0).slot, std::nullopt);
}

// --- verbs ---

// A number in bytes, the least significant first.
std::string bytes(std::uint64_t number, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

std::vector<std::string> arguments_of(Action action, std::span<const Charge> charges,
                                      std::optional<Instant> now = kNow) {
  Plan plan;
  EXPECT_TRUE(plan.begin({.prefix = "p:"}, action, charges, now));
  return call_of(plan, 0).arguments;
}

TEST(PlanVerbs, HaveNumbers) {
  const Charge charge{"a", kBucket, 3};
  const std::vector<std::string> take = arguments_of(Verb::kTake, {&charge, 1});
  const std::vector<std::string> counted = arguments_of(Verb::kCharge, {&charge, 1});
  EXPECT_EQ(take[0][0], '\x00');
  EXPECT_EQ(counted[0][0], '\x05');
  EXPECT_EQ(counted[1], take[1]);
}

TEST(PlanVerbs, ReserveWithinAWaitThatAScriptCanCompute) {
  const Charge charge{"a", kBucket, 3};
  const std::string take = arguments_of(Verb::kTake, {&charge, 1})[1];
  EXPECT_EQ(arguments_of({Verb::kReserve, 2s}, {&charge, 1})[0][0], '\x06');
  EXPECT_EQ(arguments_of({Verb::kReserve, 2s}, {&charge, 1})[1], take + bytes(2000000, 7));
  EXPECT_EQ(arguments_of({Verb::kReserve, Duration::max()}, {&charge, 1})[1],
            take + bytes(static_cast<std::uint64_t>(kMaxWait.count()), 7));
  Plan plan;
  EXPECT_FALSE(plan.begin({.prefix = "p:"}, {Verb::kReserve, Duration{-1}}, {&charge, 1}, kNow));
}

TEST(PlanVerbs, TakeAtMostSendsTheLeastCostAndTheNumberOfCharges) {
  const std::vector<Charge> charges = {{"a", kBucket, 7}, {"b", kBucket, 9}, {"a", kBucket, 3}};
  const std::vector<std::string> sent = arguments_of(Verb::kTakeAtMost, charges);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0][0], '\x08');
  EXPECT_EQ(sent[1], arguments_of(Verb::kTake, {&charges[2], 1})[1] + bytes(2, 7));
  EXPECT_EQ(sent[2], arguments_of(Verb::kTake, {&charges[1], 1})[1] + bytes(1, 7));
}

TEST(PlanVerbs, TakeAtMostWithOneChargeHasTheArgumentOfATake) {
  const Charge charge{"a", kBucket, 7};
  const std::vector<std::string> sent = arguments_of(Verb::kTakeAtMost, {&charge, 1});
  EXPECT_EQ(sent[0][0], '\x07');
  EXPECT_EQ(sent[1], arguments_of(Verb::kTake, {&charge, 1})[1]);
}

TEST(PlanVerbs, ReserveOnCountersThatCannotBeReservedAheadIsATake) {
  const Charge charge{"a", fixed_window(5).per(1s), 3};
  EXPECT_EQ(arguments_of({Verb::kReserve, 2s}, {&charge, 1}),
            arguments_of(Verb::kTake, {&charge, 1}));
}

TEST(PlanVerbs, FollowTheArgumentOfOneChargeAtTheServersTime) {
  const Charge charge{"a", kBucket, 3};
  const auto sent = [&](Action action) { return arguments_of(action, {&charge, 1}, std::nullopt); };
  const std::vector<std::string> take = sent(Verb::kTake);
  ASSERT_EQ(take.size(), 1u);
  EXPECT_EQ(sent(Verb::kCharge), (std::vector<std::string>{take[0], "\x05"}));
  EXPECT_EQ(sent({Verb::kReserve, 2s}),
            (std::vector<std::string>{take[0] + bytes(2000000, 7), "\x06"}));
  EXPECT_EQ(sent(Verb::kPeek).size(), 2u) << "with the request before it";
}

TEST(PlanVerbs, TakeAtMostOfNothingIsATakeOfNothing) {
  const std::vector<Charge> charges = {{"a", kBucket, 7}, {"b", kBucket, 0}};
  const std::vector<Charge> nothing = {{"a", kBucket, 0}, {"b", kBucket, 0}};
  EXPECT_EQ(arguments_of(Verb::kTakeAtMost, charges), arguments_of(Verb::kTake, nothing));
}

TEST(PlanVerbs, TakeAtMostNeedsOneSlot) {
  const std::vector<Charge> apart = {{"a", kBucket}, {"b", kBucket}};
  const std::vector<Charge> together = {{"a", kBucket, 1, "t"}, {"b", kBucket, 1, "t"}};
  Plan plan;
  EXPECT_FALSE(plan.begin({.prefix = "p:", .by_slot = true}, Verb::kTakeAtMost, apart, kNow));
  EXPECT_TRUE(plan.begin({.prefix = "p:", .by_slot = true}, Verb::kTakeAtMost, together, kNow));
}

// --- replies ---

// A reply that owns its text and its elements.
struct BuiltReply {
  Reply reply{};
  std::string text;
  std::vector<BuiltReply> children;
  std::vector<Reply> elements;

  const Reply& get() {
    reply.text = text;
    elements.clear();
    for (BuiltReply& child : children) {
      elements.push_back(child.get());
    }
    reply.first = elements.data();
    reply.count = elements.size();
    return reply;
  }
};

BuiltReply of_type(Reply::Type type, std::string text = {}, long long integer = 0) {
  BuiltReply built;
  built.reply.type = type;
  built.reply.integer = integer;
  built.text = std::move(text);
  return built;
}

BuiltReply array_of(std::vector<BuiltReply> children) {
  BuiltReply built = of_type(Reply::kArray);
  built.children = std::move(children);
  return built;
}

std::vector<BuiltReply> strange_replies() {
  std::vector<BuiltReply> replies = {
      of_type(Reply::kNil),
      of_type(Reply::kStatus, "OK"),
      of_type(Reply::kString),
      of_type(Reply::kString, "x"),
      of_type(Reply::kInteger, "", -1),
      of_type(Reply::kInteger, "", 1LL << 62),
      array_of({}),
      array_of({of_type(Reply::kNil)}),
      array_of({of_type(Reply::kString, "1"), of_type(Reply::kNil)}),
      array_of({array_of({array_of({})})}),
      array_of(std::vector<BuiltReply>(200, of_type(Reply::kInteger, "", -5))),
  };
  return replies;
}

TEST(PlanReplies, OfOtherTypesAreMalformed) {
  const std::vector<Charge> charges = {{"a", kBucket}, {"b", fixed_window(3).per(1s)}};
  for (const std::size_t count : {1u, 2u}) {
    for (BuiltReply& reply : strange_replies()) {
      Plan plan;
      ASSERT_TRUE(plan.begin({.prefix = "p:"}, Verb::kTake, std::span(charges).first(count), kNow));
      EXPECT_EQ(plan.read(0, reply.get()), Plan::Read::kMalformed)
          << static_cast<int>(reply.reply.type);
    }
  }
}

constexpr std::uint64_t kNowTicks = 1700000000123456;
constexpr std::uint64_t kAdmits = std::uint64_t{1} << 52;

Plan::Read read_text(Plan& plan, std::size_t part, const std::string& text) {
  BuiltReply reply = of_type(Reply::kString, text);
  return plan.read(part, reply.get());
}

// The state of a bucket whose units were spent at kNow.
std::string bucket_state(std::uint32_t units, const Limit& limit) {
  return "\xC1\x11" + bytes(kNowTicks, 7) + bytes(0, 6) + bytes(units, 4) +
         bytes(core::LimitAccess::tag(limit) << 1, 4) + bytes((kNowTicks >> 20) + 100, 4);
}

TEST(PlanReplies, ContainTheStateFromWhichThePlanComputesTheNumbers) {
  const std::vector<Charge> charges = {{"a", kBucket, 3}};
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:"}, Verb::kTake, charges, kNow));
  std::array<Decision, 1> each;
  Decision all;

  ASSERT_EQ(read_text(plan, 0, bytes(kNowTicks + kAdmits, 7) + bytes(0, 2)), Plan::Read::kAllowed);
  plan.answer(each, all);
  EXPECT_EQ(all, (Decision{.capacity = 10, .remaining = 7, .reset_after = 18s}));
  EXPECT_EQ(each[0], all);

  const std::string found = bucket_state(9, kBucket);
  ASSERT_EQ(read_text(plan, 0, bytes(kNowTicks, 7) + bytes(found.size(), 2) + found),
            Plan::Read::kDenied);
  plan.answer(each, all);
  EXPECT_EQ(all, (Decision{.outcome = Outcome::kDenied,
                           .reason = Reason::kLimited,
                           .capacity = 10,
                           .remaining = 1,
                           .reset_after = 54s,
                           .retry_after = 12s}));
}

// Plan makes the decision again. A reply with another decision is malformed.
TEST(PlanReplies, ThatContradictThemselvesAreMalformed) {
  const std::vector<Charge> charges = {{"a", kBucket, 3}};
  const std::string fits = bucket_state(7, kBucket);
  const std::string full = bucket_state(9, kBucket);
  const auto reply = [](std::uint64_t head, const std::string& state) {
    return bytes(head, 7) + bytes(state.size(), 2) + state;
  };
  const std::vector<std::string> replies = {
      reply(kNowTicks, fits),
      reply(kNowTicks + kAdmits, full),
      reply(kNowTicks + 1 + kAdmits, fits),
      reply(kNowTicks + 2 * kAdmits, fits),
      reply(kNowTicks + kAdmits, fits) + "x",
      reply(kNowTicks + kAdmits, fits.substr(0, 26)),
      reply(kNowTicks + kAdmits, "\xC1\x12" + fits.substr(2)),
      reply(kNowTicks + kAdmits, fits).substr(0, 20),
      reply(kNowTicks + kAdmits, fits.substr(0, 23) + bytes(1, 4)),  // forgotten before its change
      bytes(kNowTicks + kAdmits, 7),
      bytes(kNowTicks + kAdmits, 6)};
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:"}, Verb::kTake, charges, kNow));
  ASSERT_EQ(read_text(plan, 0, reply(kNowTicks + kAdmits, fits)), Plan::Read::kAllowed);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(read_text(plan, 0, replies[i]), Plan::Read::kMalformed) << i;
  }
}

TEST(PlanReplies, OfATakeAtTheServersTimeHaveNoSize) {
  const std::vector<Charge> charges = {{"a", kBucket, 3}};
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:"}, Verb::kTake, charges, std::nullopt));
  EXPECT_EQ(read_text(plan, 0, bytes(kNowTicks + kAdmits, 7)), Plan::Read::kAllowed);
  EXPECT_EQ(read_text(plan, 0, bytes(kNowTicks + kAdmits, 7) + bucket_state(7, kBucket)),
            Plan::Read::kAllowed);
  EXPECT_EQ(read_text(plan, 0, bytes(kNowTicks, 7) + bucket_state(8, kBucket)),
            Plan::Read::kDenied);
}

TEST(PlanReplies, OfAllowedPartsAreAnsweredWithoutTheTakeIfAnotherPartDenies) {
  const std::vector<Charge> charges = {{"a", kBucket, 3, "x"}, {"b", kBucket, 3, "y"}};
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:", .by_slot = true}, Verb::kTake, charges, kNow));
  ASSERT_EQ(plan.parts(), 2u);
  const std::string full = bucket_state(9, kBucket);
  ASSERT_EQ(read_text(plan, 0, bytes(kNowTicks + kAdmits, 7) + bytes(0, 2)), Plan::Read::kAllowed);
  ASSERT_EQ(read_text(plan, 1, bytes(kNowTicks, 7) + bytes(full.size(), 2) + full),
            Plan::Read::kDenied);
  std::array<Decision, 2> each;
  Decision all;
  plan.answer(each, all);
  EXPECT_EQ(each[0], (Decision{.capacity = 10, .remaining = 10}));
  EXPECT_EQ(each[1].retry_after, Duration{12s});
  EXPECT_EQ(all, each[1]);
}

TEST(PlanUndo, HasTheKeysTheCostAndTheInstantOfTheTake) {
  const std::vector<Charge> charges = {{"a", kBucket, 3, "x"}, {"b", kBucket, 4, "y"}};
  Plan plan;
  ASSERT_TRUE(plan.begin({.prefix = "p:", .by_slot = true}, Verb::kTake, charges, std::nullopt));
  ASSERT_EQ(read_text(plan, 1, bytes(kNowTicks + kAdmits, 7)), Plan::Read::kAllowed);
  const std::vector<std::string> take = call_of(plan, 1).arguments;
  Sent command;
  plan.write_undo(1, command);
  const std::vector<std::string> elements = elements_of(command);
  ASSERT_EQ(elements.size(), 4u);
  EXPECT_EQ(elements[0], "1");
  EXPECT_EQ(elements[1], "p:t{y}b");
  EXPECT_EQ(elements[2][0], '\x04');
  EXPECT_EQ(elements[3], take.back() + bytes(kNowTicks, 7));
  EXPECT_EQ(command.slot, slot_of("p:t{y}b"));
}

// Any reply is a decision or malformed. Plan never reads beyond its end.
TEST(PlanReplies, OfRandomNumbersAndBytesAreReadSafely) {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::vector<Charge> charges = {{"a", kBucket}, {"b", leaky_bucket(3).per(1s).queueing()}};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<BuiltReply> children;
    for (std::uint64_t n = below(12); n > 0; --n) {
      std::string bytes(below(48), '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      const bool is_text = below(2) == 0;
      children.push_back(of_type(is_text ? Reply::kString : Reply::kInteger, bytes,
                                 static_cast<long long>(random() >> below(64))));
    }
    BuiltReply reply = children.size() == 1 ? children[0] : array_of(children);
    Plan plan;
    ASSERT_TRUE(plan.begin({.prefix = "p:", .by_slot = false}, Verb::kTake, charges, kNow));
    if (plan.read(0, reply.get()) == Plan::Read::kMalformed) continue;
    std::array<Decision, 2> each;
    Decision all;
    plan.answer(each, all);
    for (std::size_t c = 0; c < charges.size(); ++c) {
      EXPECT_EQ(each[c].capacity, charges[c].limit.capacity());
      EXPECT_LE(each[c].remaining, charges[c].limit.capacity());
      EXPECT_GE(each[c].reset_after.count(), 0);
    }
  }
}

TEST(ForeignValues, AreDistinguishedFromOtherErrors) {
  EXPECT_TRUE(
      Plan::is_foreign_value("WRONGTYPE Operation against a key holding the wrong kind of value"));
  for (const std::string_view error :
       {"", "ERR", "ERR unknown command", "OOM command not allowed when used memory > 'maxmemory'.",
        "READONLY You can't write against a read only replica.", "NOSCRIPT No matching script.",
        "MOVED 3999 127.0.0.1:6381", "LOADING Redis is loading the dataset in memory",
        "WRONGPASS invalid username-password pair or user is disabled."}) {
    EXPECT_FALSE(Plan::is_foreign_value(error)) << error;
  }
}

TEST(FullServers, AreDistinguishedFromOtherErrors) {
  for (const std::string_view error :
       {"STOREFULL 1: no memory for a new counter",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "ERR Error running script (call to f_2ca9): @user_script: 510: -OOM command not allowed"}) {
    EXPECT_TRUE(Plan::is_full(error)) << error;
  }
  for (const std::string_view error :
       {"", "ERR", "FOREIGNVALUE sluice:t{}OOM x holds another type", "READONLY You can't write",
        "ERR Error running script: FOREIGNVALUE sluice:t{}OOM x holds another type"}) {
    EXPECT_FALSE(Plan::is_full(error)) << error;
  }
}

}  // namespace
}  // namespace sluice::redis::plan_test
