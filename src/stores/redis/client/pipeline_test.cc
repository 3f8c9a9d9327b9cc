#include "stores/redis/client/pipeline.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "stores/redis/client/test_reply.h"

namespace sluice::redis::pipeline_test {
namespace {

using namespace std::chrono_literals;
using Kind = Pipeline::Event::Kind;

constexpr Script kOne = {.name = "one", .text = "return 1", .sha1 = "aa"};
constexpr Script kTwo = {.name = "two", .text = "return 2", .sha1 = "bb"};
constexpr std::string_view kNoScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

class Named final : public Command {
 public:
  explicit Named(std::string_view text) : name(text) {}
  void done(const Answer&) noexcept override {}
  void append_for_module(std::string& out) override { out.append("<").append(name).append(">"); }
  std::string name;
};

class PipelineTest : public ::testing::Test {
 public:
  static Time at(std::chrono::milliseconds time) { return Time(time); }

  Command& make(std::string_view name, std::chrono::milliseconds deadline = 100ms) {
    Named& command = commands.emplace_back(name);
    command.append(name);
    command.deadline = at(deadline);
    return command;
  }
  Command& make(std::string_view name, const Script& script) {
    Command& command = make(name);
    command.script = &script;
    return command;
  }
  Command& make_for_module(std::string_view name) {
    Command& command = make(name, kOne);
    command.has_module_form = true;
    return command;
  }
  bool submit(Command& command, bool asking = false) { return pipeline.submit(command, asking); }
  // What is to be sent now.
  std::string sent() {
    std::string out;
    pipeline.take_output(out);
    pipeline.handed(out.size());
    return out;
  }
  // The events that these bytes bring: "a=+OK ", "a!ERR no ", "a:script ", "broken: why ".
  std::string hears(std::string_view bytes) {
    reader.feed(bytes);
    std::string out;
    while (true) {
      const Pipeline::Event action = pipeline.next(reader);
      const std::string name =
          action.command != nullptr ? static_cast<Named*>(action.command)->name : "";
      switch (action.kind) {
        case Kind::kNothing: return out;
        case Kind::kFinish:
          out += name + (action.answer.failure == Failure::kNone ? "=" : "");
          out += described(*action.answer.reply) + " ";
          break;
        case Kind::kScriptSent: out += name + ":script "; break;
        case Kind::kBroken: return out + "broken: " + std::string(action.answer.text);
      }
    }
  }
  static std::string shown(const std::vector<Pipeline::Event>& ended) {
    std::string out;
    for (const auto& one : ended) {
      const bool is_unsent = one.answer.failure == Failure::kUnavailable;
      out += static_cast<Named*>(one.command)->name + (is_unsent ? ":unsent " : ":sent ");
    }
    return out;
  }
  std::string expire(std::chrono::milliseconds now) {
    std::vector<Pipeline::Event> ended;
    pipeline.expire(at(now), ended);
    return shown(ended);
  }
  std::string abandon() {
    std::vector<Pipeline::Event> ended;
    pipeline.abandon("lost", ended);
    return shown(ended);
  }

  std::deque<Named> commands;
  Pipeline pipeline{8};
  ReplyReader reader;
};

std::string by_hash(std::string_view name, const Script& script) {
  return list({"EVALSHA", script.sha1, name});
}
std::string by_text(std::string_view name, const Script& script) {
  return list({"EVAL", script.text, name});
}

TEST_F(PipelineTest, SendsWaitingCommandsWhenItOpensAndLaterOnesAtOnce) {
  submit(make("a"));
  submit(make("b", kOne));
  EXPECT_EQ(sent(), "");
  pipeline.open();
  EXPECT_EQ(sent(), list({"a"}) + by_hash("b", kOne));
  submit(make("c"));
  EXPECT_EQ(sent(), list({"c"}));
  EXPECT_EQ(hears("+1\r\n:2\r\n$1\r\n3\r\n"), "a=+1 b=2 c=\"3\" ");
  EXPECT_EQ(pipeline.live(), 0u);
}

TEST_F(PipelineTest, RefusesCommandsIfTooManyAreUnderWay) {
  pipeline.open();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(submit(make("a")));
  EXPECT_FALSE(submit(make("b")));
  hears("+OK\r\n");
  EXPECT_TRUE(submit(make("b")));
}

TEST_F(PipelineTest, ReturnsErrorsAndDoesNotRepeatTheCommands) {
  pipeline.open();
  for (const std::string error : {"ERR no", "MOVED 1 h:1", "BUSY", "OOM x", "noscript x"}) {
    submit(make("a", kOne));
    sent();
    EXPECT_EQ(hears("-" + error + "\r\n"), "a!" + error + " ");
    EXPECT_EQ(sent(), "");
  }
}

TEST_F(PipelineTest, SendsTheTextOfAScriptThatTheServerDoesNotKnow) {
  pipeline.open();
  submit(make("a", kOne));
  EXPECT_EQ(sent(), by_hash("a", kOne));
  EXPECT_EQ(hears(kNoScript), "a:script ");
  EXPECT_EQ(sent(), by_text("a", kOne));
  EXPECT_EQ(hears(":1\r\n"), "a=1 ");
}

TEST_F(PipelineTest, SendsTheTextOnceForAllCommandsUnderWay) {
  pipeline.open();
  submit(make("a", kOne));
  submit(make("b", kOne));
  submit(make("c", kTwo));
  submit(make("d"));
  sent();
  const std::string refused(kNoScript);
  EXPECT_EQ(hears(refused + refused + refused + "+OK\r\n"), "a:script c:script d=+OK ");
  EXPECT_EQ(sent(), by_text("a", kOne) + by_hash("b", kOne) + by_text("c", kTwo));
  EXPECT_EQ(hears(":1\r\n:2\r\n:3\r\n"), "a=1 b=2 c=3 ");
}

TEST_F(PipelineTest, SendsTheTextAgainIfTheServerHasForgottenIt) {
  pipeline.open();
  submit(make("a", kOne));
  submit(make("b", kOne));
  sent();
  EXPECT_EQ(hears(std::string(kNoScript) + std::string(kNoScript)), "a:script ");
  sent();
  EXPECT_EQ(hears(":1\r\n" + std::string(kNoScript)), "a=1 b:script ");
  EXPECT_EQ(sent(), by_text("b", kOne));
  EXPECT_EQ(hears(":2\r\n"), "b=2 ");
}

TEST_F(PipelineTest, SendsACommandByItsHashAtMostTwice) {
  pipeline.open();
  for (const std::string_view name : {"a", "b", "c"}) submit(make(name, kOne));
  sent();
  const std::string refused(kNoScript);
  EXPECT_EQ(hears(refused + refused + refused), "a:script ");
  EXPECT_EQ(sent(), by_text("a", kOne) + by_hash("b", kOne) + by_hash("c", kOne));
  EXPECT_EQ(hears(":1\r\n" + refused + refused), "a=1 b:script c:script ");
  EXPECT_EQ(sent(), by_text("b", kOne) + by_text("c", kOne));
}

TEST_F(PipelineTest, RepeatsNoCommandSentAsTextOrWithoutAScript) {
  pipeline.open();
  submit(make("a"));
  submit(make("b", kOne));
  sent();
  EXPECT_EQ(hears("-NOSCRIPT 1\r\n-NOSCRIPT 2\r\n"), "a!NOSCRIPT 1 b:script ");
  sent();
  EXPECT_EQ(hears("-NOSCRIPT 3\r\n"), "b!NOSCRIPT 3 ");
  EXPECT_EQ(sent(), "");
}

TEST_F(PipelineTest, SendsAskingBeforeACommandAndSkipsItsReply) {
  pipeline.open();
  submit(make("a", kOne), true);
  submit(make("b"));
  EXPECT_EQ(sent(), list({"ASKING"}) + by_hash("a", kOne) + list({"b"}));
  EXPECT_EQ(hears("+OK\r\n" + std::string(kNoScript)), "a:script ");
  EXPECT_EQ(sent(), list({"ASKING"}) + by_text("a", kOne));
  EXPECT_EQ(hears("+B\r\n-ERR Cluster support disabled\r\n:1\r\n"), "b=+B a=1 ");
}

TEST_F(PipelineTest, DropsTheReplyToACommandThatHasEnded) {
  pipeline.open();
  submit(make("a", 10ms));
  submit(make("b", 20ms));
  sent();
  EXPECT_EQ(pipeline.next_deadline(), at(10ms));
  EXPECT_EQ(expire(9ms), "");
  EXPECT_EQ(expire(10ms), "a:sent ");
  EXPECT_EQ(pipeline.next_deadline(), at(20ms));
  EXPECT_EQ(pipeline.live(), 1u);
  EXPECT_EQ(pipeline.in_flight(), 2u);
  EXPECT_EQ(hears("+LATE\r\n+OK\r\n"), "b=+OK ");
  EXPECT_EQ(pipeline.next_deadline(), std::nullopt);
}

TEST_F(PipelineTest, EndsTheNextCommandAtItsDeadlineAfterALateReply) {
  pipeline.open();
  submit(make("a", 10ms));
  submit(make("b", 20ms));
  submit(make("c", 30ms));
  EXPECT_EQ(expire(10ms), "a:sent ");
  EXPECT_EQ(hears("+LATE\r\n"), "");
  EXPECT_EQ(pipeline.next_deadline(), at(20ms));
  EXPECT_EQ(expire(20ms), "b:sent ");
}

TEST_F(PipelineTest, DoesNotSendTheTextForACommandThatHasEnded) {
  pipeline.open();
  submit(make("a", kOne));
  sent();
  EXPECT_EQ(expire(100ms), "a:sent ");
  EXPECT_EQ(hears(kNoScript), "");
  EXPECT_EQ(sent(), "");
}

TEST_F(PipelineTest, NeverSendsCommandsThatEndedBeforeItOpened) {
  submit(make("a", 10ms));
  submit(make("b", 20ms));
  EXPECT_EQ(expire(10ms), "a:unsent ");
  pipeline.open();
  EXPECT_EQ(sent(), list({"b"}));
  EXPECT_EQ(hears("+OK\r\n"), "b=+OK ");
}

TEST_F(PipelineTest, CountsCommandsInItsOutputAsSentAtADeadline) {
  pipeline.open();
  submit(make("a", 10ms));
  EXPECT_EQ(expire(10ms), "a:sent ");  // for it will be
  EXPECT_EQ(sent(), list({"a"}));
  EXPECT_EQ(hears("+LATE\r\n"), "");
}

TEST_F(PipelineTest, EndsCommandsWhoseDeadlinesAreNotInOrder) {
  pipeline.open();
  submit(make("a", 30ms));
  submit(make("b", 10ms));
  submit(make("c", 20ms));
  EXPECT_EQ(pipeline.next_deadline(), at(10ms));
  EXPECT_EQ(expire(20ms), "b:sent c:sent ");
  EXPECT_EQ(pipeline.next_deadline(), at(30ms));
  EXPECT_EQ(hears("+A\r\n+B\r\n+C\r\n"), "a=+A ");
}

TEST_F(PipelineTest, EndsSentAndUnsentCommandsWithDifferentReasons) {
  pipeline.open();
  submit(make("a"));
  submit(make("b"));
  std::string out;
  pipeline.take_output(out);
  pipeline.handed(list({"a"}).size() + 1);  // one byte of the second
  submit(make("c"));
  EXPECT_EQ(abandon(), "a:sent b:sent c:unsent ");
  EXPECT_EQ(pipeline.live(), 0u);
}

TEST_F(PipelineTest, IsBrokenByAReplyWithoutARequest) {
  pipeline.open();
  EXPECT_EQ(hears("+OK\r\n"), "broken: the server sent a reply without a command");
}

TEST_F(PipelineTest, IsBrokenByAnErrorWithoutARequest) {
  pipeline.open();
  EXPECT_EQ(hears("-ERR max number of clients reached\r\n"),
            "broken: ERR max number of clients reached");
}

TEST_F(PipelineTest, KeepsTheOrderOfManyCommands) {
  pipeline.open();
  Pipeline large(1000);
  large.open();
  std::size_t submitted = 0;
  std::size_t answered = 0;
  std::vector<Named> all;
  all.reserve(1000);
  for (int i = 0; i < 1000; ++i) all.emplace_back(std::to_string(i));
  for (const std::size_t step : {7u, 100u, 300u, 593u}) {
    for (std::size_t i = 0; i < step; ++i) large.submit(all[submitted++], false);
    for (std::size_t i = 0; i < step / 2; ++i) {
      reader.feed("+OK\r\n");
      ASSERT_EQ(large.next(reader).command, &all[answered++]);
    }
  }
}

// --- the module ---

constexpr std::string_view kUnknownCommand =
    "-ERR unknown command 'SLUICE.APPLY', with args beginning with:\r\n";
constexpr std::string_view kFull = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

std::string by_hash(std::string_view name) {
  return "*3\r\n$7\r\nEVALSHA\r\n$2\r\naa\r\n$1\r\n" + std::string(name) + "\r\n";
}

TEST_F(PipelineTest, AsksForTheModuleWithOneCommandAndUsesItAfterItsAnswer) {
  pipeline.open();
  Command& first = make_for_module("a");
  submit(first);
  submit(make_for_module("b"));
  EXPECT_EQ(sent(), "<a>" + by_hash("b"));
  EXPECT_EQ(hears("+OK\r\n+OK\r\n"), "a=+OK b=+OK ");
  EXPECT_TRUE(first.is_by_module);
  submit(make_for_module("c"));
  submit(make_for_module("d"));
  EXPECT_EQ(sent(), "<c><d>");
}

TEST_F(PipelineTest, UsesScriptsOfAServerWithoutTheModule) {
  pipeline.open();
  Command& first = make_for_module("a");
  submit(first);
  EXPECT_EQ(sent(), "<a>");
  EXPECT_EQ(hears(kUnknownCommand), "");
  EXPECT_EQ(sent(), by_hash("a"));
  submit(make_for_module("b"));
  EXPECT_EQ(sent(), by_hash("b"));
  EXPECT_EQ(hears("+OK\r\n+OK\r\n"), "a=+OK b=+OK ");
  EXPECT_FALSE(first.is_by_module);
}

// A server that does not know the command says so before anything else.
TEST_F(PipelineTest, UsesTheModuleAfterAnyOtherError) {
  pipeline.open();
  submit(make_for_module("a"));
  EXPECT_EQ(sent(), "<a>");
  EXPECT_EQ(hears("-LOADING Redis is loading the dataset in memory\r\n"),
            "a!LOADING Redis is loading the dataset in memory ");
  submit(make_for_module("b"));
  submit(make_for_module("c"));
  EXPECT_EQ(sent(), "<b><c>");
  EXPECT_EQ(hears("-READONLY a replica\r\n+OK\r\n"), "b!READONLY a replica c=+OK ");
}

TEST_F(PipelineTest, UsesScriptsIfTheServerLosesItsModule) {
  pipeline.open();
  submit(make_for_module("a"));
  EXPECT_EQ(sent(), "<a>");
  EXPECT_EQ(hears("-LOADING\r\n"), "a!LOADING ");
  submit(make_for_module("b"));
  EXPECT_EQ(sent(), "<b>");
  EXPECT_EQ(hears(kUnknownCommand), "");
  submit(make_for_module("c"));
  EXPECT_EQ(sent(), by_hash("b") + by_hash("c"));
}

TEST_F(PipelineTest, UsesAScriptForOneCommandIfTheMemoryIsFull) {
  pipeline.open();
  submit(make_for_module("a"));
  EXPECT_EQ(sent(), "<a>");
  EXPECT_EQ(hears("+OK\r\n"), "a=+OK ");
  submit(make_for_module("b"));
  EXPECT_EQ(sent(), "<b>");
  EXPECT_EQ(hears(kFull), "");
  submit(make_for_module("c"));
  EXPECT_EQ(sent(), by_hash("b") + "<c>");
  EXPECT_EQ(hears("+OK\r\n-FOREIGNVALUE k\r\n"), "b=+OK c!FOREIGNVALUE k ");
}

TEST_F(PipelineTest, DoesNotRepeatACommandOfTheModuleThatHasEnded) {
  pipeline.open();
  submit(make_for_module("a"));
  EXPECT_EQ(sent(), "<a>");
  EXPECT_EQ(expire(100ms), "a:sent ");
  EXPECT_EQ(hears(kUnknownCommand), "");
  EXPECT_EQ(sent(), "");
}

TEST_F(PipelineTest, SendsTheTextOfAScriptThatKeepsTheOrderToAServerWithTheModule) {
  pipeline.open();
  submit(make_for_module("a"));
  EXPECT_EQ(sent(), "<a>");
  Command& undo = make("b", kTwo);
  undo.keeps_order = true;
  submit(undo);
  EXPECT_EQ(sent(), "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 2\r\n$1\r\nb\r\n");
}

}  // namespace
}  // namespace sluice::redis::pipeline_test
