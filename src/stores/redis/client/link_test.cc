#include "stores/redis/client/link.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>

#include "stores/redis/client/target.h"
#include "stores/redis/client/test_command.h"
#include "stores/redis/client/test_event_loop.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

constexpr Script kScript = {.name = "one", .text = "return 1", .sha1 = "aa"};
constexpr std::string_view kSetName = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$6\r\nsluice\r\n";

// A connection that speaks RESP2 without a password, so that its handshake is CLIENT SETNAME. The
// test is its owner, the server and the clock.
class LinkTest : public ::testing::Test {
 protected:
  // Reports what the link says and how its commands end: "ready PING=+PONG ended(why) ".
  class Owner final : public LinkOwner, public StoreObserver {
   public:
    explicit Owner(std::unique_ptr<EventLoop> loop)
        : LinkOwner(std::move(loop), make_target({}).value(), this) {}
    void submit(Command&) noexcept override {}
    bool ready() const noexcept override { return false; }
    void on_ready(Link&) override { said += "ready "; }
    void on_ended(Link& link, std::string_view why, bool was_ready) override {
      EXPECT_FALSE(link.ready());
      said.append(was_ready ? "ended(" : "failed(").append(why).append(") ");
    }
    bool on_error(Link&, Command&, std::string_view) override { return false; }
    void on(const StoreEvent& event) noexcept override {
      if (event.kind == StoreEventKind::kScriptLoaded) said.append(event.why).append(":script ");
    }
    std::shared_ptr<Link> connect(LinkOptions options) {
      return Link::connect(*this, {"10.0.0.1", 6379}, std::move(options), counters_);
    }
    std::string said;
  };

  TestCommand& make(std::initializer_list<std::string_view> words,
                    Time::duration deadline = 100ms) {
    TestCommand& command = commands.emplace_back(words);
    command.deadline = loop.now() + deadline;
    command.then = [&] { note(command); };
    return command;
  }
  void note(const TestCommand& command) { owner.said += command.name + "=" + command.said + " "; }
  void submit(TestCommand& command, bool asking = false) {
    link->submit(command, loop.now(), asking);
  }
  std::string said() { return std::exchange(owner.said, {}); }
  std::string hears(std::string_view bytes) {
    server().says(bytes);
    return said();
  }
  std::string sends() { return server().sent(); }
  // Moves the time, and runs the timer whenever it is due.
  std::string wait(Time::duration time) {
    loop.wait(time);
    return said();
  }
  std::string ends(const std::string& why) {
    server().ends(why);
    return said();
  }
  TestTransport& server() { return loop.last(); }
  void become_ready() {
    server().accept();
    ASSERT_EQ(sends(), kSetName);
    ASSERT_EQ(hears("+OK\r\n"), "ready ");
  }

  TestEventLoop& loop = *new TestEventLoop;
  Owner owner{std::unique_ptr<EventLoop>(&loop)};
  std::deque<TestCommand> commands;
  std::shared_ptr<Link> link = owner.connect(
      {.protocol = 2, .max_pending = 3, .connect_timeout = 1s, .longest_silence = 300ms});
};

TEST_F(LinkTest, SendsTheHandshakeAndThenTheCommandsThatWaited) {
  submit(make({"PING"}));
  EXPECT_EQ(said(), "");
  server().accept();
  EXPECT_EQ(sends(), kSetName);
  EXPECT_FALSE(link->ready());
  EXPECT_EQ(hears("+OK\r\n"), "ready ");
  EXPECT_TRUE(link->ready());
  EXPECT_EQ(sends(), "*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(hears("+PONG\r\n"), "PING=+PONG ");
}

TEST_F(LinkTest, SendsAllCommandsOfATurnInOnePieceAndAnswersThemInOrder) {
  become_ready();
  for (const char* name : {"A", "B", "C"}) submit(make({name}));
  EXPECT_EQ(sends(), "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n*1\r\n$1\r\nC\r\n");
  EXPECT_EQ(hears(":1\r\n:2\r\n:3\r\n"), "A=1 B=2 C=3 ");
  EXPECT_EQ(link->pending(), 0u);
}

TEST_F(LinkTest, WaitsForTheRestOfAReply) {
  become_ready();
  submit(make({"A"}));
  submit(make({"B"}));
  sends();
  EXPECT_EQ(hears("$5\r\nhe"), "");
  EXPECT_EQ(hears("llo\r\n*2\r\n:1\r"), "A=\"hello\" ");
  EXPECT_EQ(hears("\n:2\r\n"), "B=[1 2] ");
}

TEST_F(LinkTest, AcceptsACommandThatIsSubmittedAgainFromItsAnswer) {
  become_ready();
  TestCommand& again = make({"INCR"});
  again.then = [&] {
    note(again);
    if (again.times < 3) submit(again);
  };
  submit(again);
  EXPECT_EQ(hears(":1\r\n:2\r\n:3\r\n"), "INCR=1 INCR=2 INCR=3 ");
  EXPECT_EQ(again.times, 3);
}

TEST_F(LinkTest, SendsAScriptAsTextIfTheServerDoesNotKnowIt) {
  become_ready();
  TestCommand script(kScript, {"0"});
  script.deadline = loop.now() + 1s;
  submit(script);
  EXPECT_EQ(sends(), "*3\r\n$7\r\nEVALSHA\r\n$2\r\naa\r\n$1\r\n0\r\n");
  EXPECT_EQ(hears("-NOSCRIPT No matching script.\r\n"), "one:script ");
  EXPECT_EQ(sends(), "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n");
  hears(":1\r\n");
  EXPECT_EQ(script.said, "1");
  EXPECT_EQ(owner.stats().scripts_sent, 1u);
}

TEST_F(LinkTest, ReturnsMovedAsAnError) {
  become_ready();
  submit(make({"GET"}));
  EXPECT_EQ(hears("-MOVED 42 10.0.0.2:6379\r\n"), "GET=!MOVED 42 10.0.0.2:6379 ");
  EXPECT_EQ(link->pending(), 0u);
}

TEST_F(LinkTest, SendsAskingBeforeARedirectedCommand) {
  become_ready();
  submit(make({"GET"}), true);
  EXPECT_EQ(sends(), "*1\r\n$6\r\nASKING\r\n*1\r\n$3\r\nGET\r\n");
  EXPECT_EQ(hears("+OK\r\n:1\r\n"), "GET=1 ");
}

TEST_F(LinkTest, RefusesCommandsIfTooManyAreUnderWay) {
  become_ready();
  for (int i = 0; i < 3; ++i) submit(make({"A"}));
  EXPECT_EQ(said(), "");
  submit(make({"B"}));
  EXPECT_EQ(said(), "B=unavailable: too many requests are pending ");
  EXPECT_EQ(hears(":1\r\n"), "A=1 ");
  submit(make({"B"}));
  EXPECT_EQ(said(), "");
  EXPECT_EQ(owner.stats().requests, 4u);
  EXPECT_EQ(owner.stats().errors, 1u);
  EXPECT_EQ(owner.stats().pending, 3u);
}

TEST_F(LinkTest, EndsACommandAtItsDeadlineAndDropsItsReply) {
  become_ready();
  submit(make({"A"}));
  EXPECT_EQ(wait(100ms - 1us), "");
  EXPECT_EQ(wait(1us), "A=timeout: no answer by the deadline ");
  submit(make({"B"}));
  EXPECT_EQ(hears(":1\r\n:2\r\n"), "B=2 ");
}

TEST_F(LinkTest, EndsCommandsThatWaitForTheConnectionAtTheirDeadlines) {
  submit(make({"A"}, 20ms));
  submit(make({"B"}, 10ms));
  EXPECT_EQ(wait(15ms), "B=unavailable: not sent by the deadline ");
  EXPECT_EQ(wait(15ms), "A=unavailable: not sent by the deadline ");
  become_ready();
  EXPECT_EQ(sends(), "");
}

TEST_F(LinkTest, EndsDeadlinesCloseToEachOtherTogether) {
  become_ready();
  submit(make({"A"}, 10ms));
  submit(make({"B"}, 10ms + 100us));
  submit(make({"C"}, 10ms + 200us));
  EXPECT_EQ(wait(10ms), "A=timeout: no answer by the deadline ");
  EXPECT_EQ(wait(500us - 1us), "");
  EXPECT_EQ(wait(1us),
            "B=timeout: no answer by the deadline C=timeout: no answer by the deadline ");
}

TEST_F(LinkTest, ClosesTheConnectionIfTheServerIsSilentWhileRepliesAreDue) {
  become_ready();
  submit(make({"A"}));
  EXPECT_EQ(wait(299ms), "A=timeout: no answer by the deadline ");
  submit(make({"B"}));
  sends();
  EXPECT_EQ(wait(1ms),
            "B=lost: the server has not answered for 300 ms "
            "ended(the server has not answered for 300 ms) ");
}

TEST_F(LinkTest, KeepsAnIdleConnection) {
  become_ready();
  EXPECT_EQ(wait(1h), "");
  submit(make({"A"}));
  EXPECT_EQ(wait(200ms), "A=timeout: no answer by the deadline ");
  EXPECT_TRUE(link->ready());
}

TEST_F(LinkTest, ClosesTheConnectionIfTheHandshakeIsNotAnswered) {
  server().accept();
  EXPECT_EQ(wait(999ms), "");
  EXPECT_EQ(wait(1ms), "failed(the server has not answered for 1000 ms) ");
  EXPECT_FALSE(server().is_open());
}

TEST_F(LinkTest, EndsWithTheReasonOfARefusedHandshake) {
  submit(make({"A"}));
  server().accept();
  EXPECT_EQ(hears("-NOAUTH Authentication required.\r\n"),
            "A=unavailable: the server requires a password (it says: NOAUTH Authentication "
            "required.) failed(the server requires a password (it says: NOAUTH Authentication "
            "required.)) ");
}

TEST_F(LinkTest, EndsSentAndUnsentCommandsWithDifferentReasons) {
  become_ready();
  submit(make({"A"}));
  sends();
  submit(make({"B"}));
  EXPECT_EQ(ends("the server closed the connection"),
            "A=lost: the server closed the connection "
            "B=unavailable: the server closed the connection "
            "ended(the server closed the connection) ");
  EXPECT_EQ(owner.stats().connects, 1u);
  EXPECT_EQ(owner.stats().connected, 0u);
}

TEST_F(LinkTest, DoesNotCountTheHandshakeAsACommandThatWasSent) {
  submit(make({"A"}));
  server().accept();
  std::string greeting;
  link->take_output(greeting);
  ASSERT_EQ(hears("+OK\r\n"), "ready ");
  link->on_output(greeting.size());  // reported late
  EXPECT_EQ(ends("lost"), "A=unavailable: lost ended(lost) ");
}

TEST_F(LinkTest, RefusesCommandsOnceItHasEnded) {
  become_ready();
  TestCommand& first = make({"A"});
  first.then = [&] {
    note(first);
    if (first.times == 1) submit(first);
  };
  submit(first);
  EXPECT_EQ(ends("lost"),
            "A=unavailable: lost A=unavailable: the connection has ended ended(lost) ");
  link->on_closed("again");
  EXPECT_EQ(wait(1h), "") << "it ends once";
}

TEST_F(LinkTest, MayBeReleasedByACommandThatEnds) {
  become_ready();
  TestCommand& first = make({"A"});
  first.then = [&] {
    note(first);
    link.reset();
  };
  submit(first);
  submit(make({"B"}));
  sends();
  EXPECT_EQ(hears(":1\r\n:2\r\n"), "A=1 B=lost: the connection is closed ");
  EXPECT_FALSE(server().is_open());
}

TEST_F(LinkTest, EndsIfTheServerSendsAReplyWithoutARequest) {
  become_ready();
  EXPECT_EQ(hears("+HELLO\r\n"), "ended(the server sent a reply without a command) ");
}

TEST_F(LinkTest, EndsIfTheServerSendsAMalformedReply) {
  become_ready();
  submit(make({"A"}));
  sends();
  EXPECT_EQ(hears("HTTP/1.1 400 Bad Request\r\n").find("A=lost: the server does not speak"), 0u);
}

}  // namespace
}  // namespace sluice::redis
