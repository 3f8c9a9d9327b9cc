#include "stores/redis/client/link.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "stores/redis/client/test_command.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;
using Kind = LinkAction::Kind;

constexpr Script kScript = {.name = "one", .text = "return 1", .sha1 = "aa"};
constexpr std::string_view kSetName = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$6\r\nsluice\r\n";

// A connection that speaks RESP2 without a password, so that its handshake is CLIENT SETNAME.
class LinkMachineTest : public ::testing::Test {
 protected:
  static LinkOptions options() {
    return {.protocol = 2, .max_pending = 3, .connect_timeout = 1s, .longest_silence = 300ms};
  }
  TestCommand& make(std::initializer_list<std::string_view> words,
                    LinkMachine::Duration deadline = 100ms) {
    TestCommand& command = commands.emplace_back(words);
    command.deadline = now + deadline;
    return command;
  }
  std::string submit(TestCommand& command, bool asking = false) {
    return std::string(machine.submit(command, asking, now));
  }
  // Executes the actions, and describes them: "ready PING=+PONG close ended(why) ".
  std::string actions() {
    std::string out;
    for (;;) {
      const LinkAction action = machine.next();
      auto* const command = static_cast<TestCommand*>(action.command);
      switch (action.kind) {
        case Kind::kNothing: return out;
        case Kind::kReady: out += "ready "; break;
        case Kind::kFinish:
        case Kind::kError:
          command->done(action.answer);
          out += command->name + "=" + command->said + " ";
          break;
        case Kind::kScriptSent: out += command->name + ":script "; break;
        case Kind::kClose: out += "close "; break;
        case Kind::kEnded: out += "ended(" + machine.why() + ") "; break;
      }
    }
  }
  std::string hears(std::string_view bytes) {
    const auto room = machine.room();
    std::copy(bytes.begin(), bytes.end(), room.begin());
    machine.on_input(bytes.size(), now);
    return actions();
  }
  std::string sends() {
    std::string out;
    if (!machine.has_output()) return out;
    machine.take_output(out);
    machine.on_output(out.size());
    return out;
  }
  // Moves the time, and runs the timer whenever it is due.
  std::string wait(LinkMachine::Duration time) {
    const Time end = now + time;
    std::string out;
    while (machine.wake_at() <= end) {
      now = machine.wake_at();
      machine.on_timer(now);
      out += actions();
    }
    now = end;
    return out;
  }
  void become_ready() {
    machine.on_connected(now);
    ASSERT_EQ(sends(), kSetName);
    ASSERT_EQ(hears("+OK\r\n"), "ready ");
  }

  Time now{1h};
  std::deque<TestCommand> commands;
  LinkMachine machine{options()};
};

TEST_F(LinkMachineTest, SendsTheHandshakeAndThenTheCommandsThatWaited) {
  submit(make({"PING"}));
  EXPECT_FALSE(machine.has_output());
  machine.on_connected(now);
  EXPECT_EQ(sends(), kSetName);
  EXPECT_FALSE(machine.is_ready());
  EXPECT_EQ(hears("+OK\r\n"), "ready ");
  EXPECT_TRUE(machine.is_ready());
  EXPECT_EQ(sends(), "*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(hears("+PONG\r\n"), "PING=+PONG ");
}

TEST_F(LinkMachineTest, SendsAllCommandsOfATurnInOnePieceAndAnswersThemInOrder) {
  become_ready();
  for (const char* name : {"A", "B", "C"}) submit(make({name}));
  EXPECT_EQ(sends(), "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n*1\r\n$1\r\nC\r\n");
  EXPECT_EQ(hears(":1\r\n:2\r\n:3\r\n"), "A=1 B=2 C=3 ");
  EXPECT_EQ(machine.pending(), 0u);
}

TEST_F(LinkMachineTest, WaitsForTheRestOfAReply) {
  become_ready();
  submit(make({"A"}));
  submit(make({"B"}));
  sends();
  EXPECT_EQ(hears("$5\r\nhe"), "");
  EXPECT_EQ(hears("llo\r\n*2\r\n:1\r"), "A=\"hello\" ");
  EXPECT_EQ(hears("\n:2\r\n"), "B=[1 2] ");
}

TEST_F(LinkMachineTest, AcceptsACommandThatIsSubmittedAgainFromItsAnswer) {
  become_ready();
  TestCommand& again = make({"INCR"});
  again.then = [&] {
    if (again.times < 3) submit(again);
  };
  submit(again);
  EXPECT_EQ(hears(":1\r\n:2\r\n:3\r\n"), "INCR=1 INCR=2 INCR=3 ");
  EXPECT_EQ(again.times, 3);
}

TEST_F(LinkMachineTest, SendsAScriptAsTextIfTheServerDoesNotKnowIt) {
  become_ready();
  TestCommand script(kScript, {"0"});
  script.deadline = now + 1s;
  submit(script);
  EXPECT_EQ(sends(), "*3\r\n$7\r\nEVALSHA\r\n$2\r\naa\r\n$1\r\n0\r\n");
  EXPECT_EQ(hears("-NOSCRIPT No matching script.\r\n"), "0:script ");
  EXPECT_EQ(sends(), "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n");
  EXPECT_EQ(hears(":1\r\n"), "0=1 ");
}

TEST_F(LinkMachineTest, ReturnsMovedAsAnError) {
  become_ready();
  submit(make({"GET"}));
  EXPECT_EQ(hears("-MOVED 42 10.0.0.2:6379\r\n"), "GET=!MOVED 42 10.0.0.2:6379 ");
  EXPECT_EQ(machine.pending(), 0u);
}

TEST_F(LinkMachineTest, SendsAskingBeforeARedirectedCommand) {
  become_ready();
  submit(make({"GET"}), true);
  EXPECT_EQ(sends(), "*1\r\n$6\r\nASKING\r\n*1\r\n$3\r\nGET\r\n");
  EXPECT_EQ(hears("+OK\r\n:1\r\n"), "GET=1 ");
}

TEST_F(LinkMachineTest, RefusesCommandsIfTooManyAreUnderWay) {
  become_ready();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(submit(make({"A"})), "");
  EXPECT_EQ(submit(make({"B"})), "too many requests are pending");
  EXPECT_EQ(hears(":1\r\n"), "A=1 ");
  EXPECT_EQ(submit(make({"B"})), "");
}

TEST_F(LinkMachineTest, EndsACommandAtItsDeadlineAndDropsItsReply) {
  become_ready();
  submit(make({"A"}));
  EXPECT_EQ(wait(100ms - 1us), "");
  EXPECT_EQ(wait(1us), "A=timeout: no answer by the deadline ");
  submit(make({"B"}));
  EXPECT_EQ(hears(":1\r\n:2\r\n"), "B=2 ");
}

TEST_F(LinkMachineTest, EndsCommandsThatWaitForTheConnectionAtTheirDeadlines) {
  submit(make({"A"}, 20ms));
  submit(make({"B"}, 10ms));
  EXPECT_EQ(wait(15ms), "B=unavailable: not sent by the deadline ");
  EXPECT_EQ(wait(15ms), "A=unavailable: not sent by the deadline ");
  become_ready();
  EXPECT_EQ(sends(), "");
}

TEST_F(LinkMachineTest, EndsDeadlinesCloseToEachOtherTogether) {
  become_ready();
  submit(make({"A"}, 10ms));
  submit(make({"B"}, 10ms + 100us));
  submit(make({"C"}, 10ms + 200us));
  EXPECT_EQ(wait(10ms), "A=timeout: no answer by the deadline ");
  EXPECT_EQ(machine.wake_at(), now + 500us);
}

TEST_F(LinkMachineTest, ClosesTheConnectionIfTheServerIsSilentWhileRepliesAreDue) {
  become_ready();
  submit(make({"A"}));
  EXPECT_EQ(wait(299ms), "A=timeout: no answer by the deadline ");
  submit(make({"B"}));
  sends();
  EXPECT_EQ(wait(1ms),
            "close B=lost: the server has not answered for 300 ms "
            "ended(the server has not answered for 300 ms) ");
}

TEST_F(LinkMachineTest, KeepsAnIdleConnection) {
  become_ready();
  EXPECT_EQ(wait(1h), "");
  submit(make({"A"}));
  EXPECT_EQ(wait(200ms), "A=timeout: no answer by the deadline ");
  EXPECT_TRUE(machine.is_ready());
}

TEST_F(LinkMachineTest, ClosesTheConnectionIfTheHandshakeIsNotAnswered) {
  machine.on_connected(now);
  EXPECT_EQ(wait(999ms), "");
  EXPECT_EQ(wait(1ms), "close ended(the server has not answered for 1000 ms) ");
  EXPECT_FALSE(machine.was_ready());
}

TEST_F(LinkMachineTest, EndsWithTheReasonOfARefusedHandshake) {
  submit(make({"A"}));
  machine.on_connected(now);
  EXPECT_EQ(hears("-NOAUTH Authentication required.\r\n"),
            "close A=unavailable: the server requires a password (it says: NOAUTH Authentication "
            "required.) ended(the server requires a password (it says: NOAUTH Authentication "
            "required.)) ");
}

TEST_F(LinkMachineTest, EndsSentAndUnsentCommandsWithDifferentReasons) {
  become_ready();
  submit(make({"A"}));
  sends();
  submit(make({"B"}));
  machine.on_closed("the server closed the connection");
  EXPECT_EQ(actions(),
            "close A=lost: the server closed the connection "
            "B=unavailable: the server closed the connection "
            "ended(the server closed the connection) ");
  EXPECT_TRUE(machine.was_ready());
}

TEST_F(LinkMachineTest, DoesNotCountTheHandshakeAsACommandThatWasSent) {
  submit(make({"A"}));
  machine.on_connected(now);
  std::string greeting;
  machine.take_output(greeting);
  ASSERT_EQ(hears("+OK\r\n"), "ready ");
  machine.on_output(greeting.size());  // reported late
  machine.on_closed("lost");
  EXPECT_EQ(actions(), "close A=unavailable: lost ended(lost) ");
}

TEST_F(LinkMachineTest, RefusesCommandsOnceItHasEnded) {
  become_ready();
  TestCommand& first = make({"A"});
  std::string refusal;
  first.then = [&] { refusal = submit(first); };
  submit(first);
  machine.on_closed("lost");
  EXPECT_EQ(actions(), "close A=unavailable: lost ended(lost) ");
  EXPECT_EQ(refusal, "the connection has ended");
  machine.on_closed("again");
  EXPECT_EQ(actions(), "") << "it ends once";
  EXPECT_EQ(machine.wake_at(), Time::max());
}

TEST_F(LinkMachineTest, EndsIfTheServerSendsAReplyWithoutARequest) {
  become_ready();
  EXPECT_EQ(hears("+HELLO\r\n"), "close ended(the server sent a reply without a command) ");
}

TEST_F(LinkMachineTest, EndsIfTheServerSendsAMalformedReply) {
  become_ready();
  submit(make({"A"}));
  sends();
  EXPECT_EQ(hears("HTTP/1.1 400 Bad Request\r\n").find("close A=lost: the server does not speak"),
            0u);
}

}  // namespace
}  // namespace sluice::redis
