#include "server/protocol/resp/connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/api/resp/test_front_end.h"
#include "tests/support/wait_until.h"

namespace sluice::server::resp {
namespace {

using std::chrono::milliseconds;
using testing::wait_until;
using Waits = WaitingStore::Waits;

const std::string kThrottle = frame({"CL.THROTTLE", "k", "99999", "1", "1000"});

std::string throttled(int remaining, int reset) {
  return "*5\r\n:0\r\n:100000\r\n:" + std::to_string(remaining) +
         "\r\n:-1\r\n:" + std::to_string(reset) + "\r\n";
}

TEST(FrontEnd, AnswersFramesThatComeByteByByte) {
  TestFrontEnd front_end;
  const TestPeer peer(front_end.path);
  for (const char c : "PING\r\n" + frame({"ECHO", "a\r\nb"}) + "ECHO 'c d'\r\n" + kThrottle) {
    ASSERT_EQ(peer.send({&c, 1}), 1u);
  }
  const std::string expected = "+PONG\r\n$4\r\na\r\nb\r\n$3\r\nc d\r\n" + throttled(99999, 1000);
  EXPECT_EQ(peer.read(expected.size()), expected);
}

// Deeper than all buffers between client and server.
TEST(FrontEnd, AnswersPipelinesOfAnyDepthInTheirOrder) {
  for (const bool waits : {false, true}) {
    TestFrontEnd::Options options;
    if (waits) options.waits = Waits::kNot;
    TestFrontEnd front_end(options);
    const TestPeer peer(front_end.path);
    std::string requests;
    std::string expected;
    for (int i = 0; i < 20000; ++i) {
      const std::string text = std::to_string(i) + std::string(50, 'x');
      requests += frame({"ECHO", text});
      expected += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    }
    std::thread writer([&] { EXPECT_EQ(peer.send(requests), requests.size()); });
    EXPECT_TRUE(peer.read(expected.size()) == expected);
    writer.join();
  }
}

TEST(FrontEnd, AnswersOthersWhileTheFileOfOverridesIsWritten) {
  TestFrontEnd::Options options;
  options.changes_elsewhere = true;
  TestFrontEnd front_end(options);
  const auto there = [&] { return front_end.parts.overrides->all().size(); };
  const TestPeer peer(front_end.path);
  const TestPeer other(front_end.path);
  const std::string login = frame({"RL.OVERRIDE", "SET", "login", "ip", "ip", "::1", "LIMIT", "7"});
  for (const std::string_view part : {"SET", "UNSET"}) {
    const std::string change =
        part == "SET" ? login : frame({"RL.OVERRIDE", "UNSET", "login", "ip", "ip", "::1"});
    peer.send(frame({"ECHO", "a"}) + change + frame({"ECHO", "b"}));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(other.ask("PING\r\n", 7), "+PONG\r\n");
    EXPECT_EQ(there(), part == "SET" ? 0U : 1U);
    wait_until("the change is made", [&] {
      front_end.elsewhere.restart();
      return front_end.elsewhere.poll() > 0;
    });
    EXPECT_EQ(there(), part == "SET" ? 1U : 0U);
    const std::string expected =
        "$1\r\na\r\n" + std::string(part == "SET" ? "+OK" : ":1") + "\r\n$1\r\nb\r\n";
    EXPECT_EQ(peer.read(expected.size()), expected);
  }
  peer.send(login);
  EXPECT_EQ(other.ask("PING\r\n", 7), "+PONG\r\n");
}

TEST(FrontEnd, AClientThatDoesNotReadIsPausedAndThenClosed) {
  TestFrontEnd::Options options;
  options.bounds.write_timeout = milliseconds(300);
  TestFrontEnd front_end(options);
  const TestPeer peer(front_end.path);
  const std::string request = frame({"ECHO", std::string(60000, 'x')});
  std::size_t sent = 0;
  std::size_t once = 0;
  do {
    once = peer.send(request);
    sent += once;
    ASSERT_LT(sent, std::size_t{20} << 20) << "it was not paused";
  } while (once == request.size());
  wait_until("the connection is closed", [&] { return front_end.connections == 0; });
}

TEST(FrontEnd, AnswersAProtocolErrorAfterEarlierRequestsAndCloses) {
  TestFrontEnd front_end;
  const TestPeer peer(front_end.path);
  peer.send("PING\r\n*1\r\nPING\r\nPING\r\n");
  EXPECT_EQ(peer.read_to_end(), "+PONG\r\n-ERR Protocol error: expected '$', got 'P'\r\n");
}

// Otherwise any web page could make a browser reset counters.
TEST(FrontEnd, ExecutesNothingThatABrowserSends) {
  for (const std::string head :
       {"POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", "host: a\r\n"}) {
    TestFrontEnd front_end;
    const TestPeer peer(front_end.path);
    peer.send("PING\r\n" + head + "\r\nECHO body\r\n");
    const std::string replies = peer.read_to_end();
    EXPECT_EQ(replies.substr(0, 7), "+PONG\r\n");
    EXPECT_EQ(replies.find("body"), replies.npos) << replies;
  }
}

TEST(FrontEnd, ClosesAfterTheReplyToQuit) {
  TestFrontEnd front_end;
  const TestPeer peer(front_end.path);
  peer.send("QUIT\r\nPING\r\n");
  EXPECT_EQ(peer.read_to_end(), "+OK\r\n");
}

TEST(FrontEnd, RequestsOverTheBoundsAreRefusedAndTheConnectionCloses) {
  TestFrontEnd::Options options;
  options.bounds.body_bytes = 1024;
  TestFrontEnd front_end(options);
  const TestPeer long_one(front_end.path);
  long_one.send("*2\r\n$4\r\nECHO\r\n$1025\r\n");
  EXPECT_EQ(long_one.read_to_end(), "-ERR Protocol error: invalid bulk length\r\n");
  const TestPeer wide(front_end.path);
  wide.send("*4097\r\n");
  EXPECT_EQ(wide.read_to_end(), "-ERR Protocol error: invalid multibulk length\r\n");
}

TEST(FrontEnd, ConnectionsOverTheCapGetAnError) {
  TestFrontEnd::Options options;
  options.bounds.connections = 1;
  TestFrontEnd front_end(options);
  const TestPeer first(front_end.path);
  EXPECT_EQ(first.ask("PING\r\n", 7), "+PONG\r\n");
  const TestPeer second(front_end.path);
  EXPECT_EQ(second.read_to_end(), "-ERR max number of clients reached\r\n");
  EXPECT_EQ(first.ask("PING\r\n", 7), "+PONG\r\n");
}

TEST(FrontEnd, AClientThatDoesNotLogInIsClosed) {
  TestFrontEnd::Options options;
  options.bounds.header_timeout = milliseconds(100);
  options.users = {{"default", Role::kCheck, "secret"}};
  TestFrontEnd front_end(options);
  const TestPeer silent(front_end.path);
  const TestPeer known(front_end.path);
  EXPECT_EQ(known.ask("AUTH secret\r\n", 5), "+OK\r\n");
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_EQ(known.ask("PING\r\n", 7), "+PONG\r\n");
}

TEST(FrontEnd, ARequestThatDoesNotEndIsClosed) {
  TestFrontEnd::Options options;
  options.bounds.body_timeout = milliseconds(100);
  TestFrontEnd front_end(options);
  const TestPeer peer(front_end.path);
  EXPECT_EQ(peer.ask("PING\r\n*2\r\n$4\r\nEC", 7), "+PONG\r\n");
  EXPECT_EQ(peer.read_to_end(), "");
}

TEST(FrontEnd, RepliesKeepTheirOrderIfTheStoreWaits) {
  TestFrontEnd::Options options;
  options.waits = Waits::kForMs;
  TestFrontEnd front_end(options);
  std::vector<std::unique_ptr<TestPeer>> peers;
  for (int i = 0; i < 20; ++i) peers.push_back(std::make_unique<TestPeer>(front_end.path));
  for (int i = 0; i < 20; ++i) {
    const std::string key = std::to_string(i);
    std::string requests;
    for (int n = 0; n < 10; ++n) {
      requests += frame({"CL.THROTTLE", key, "99999", "1", "1000"}) + "ECHO " + key + "\r\n";
    }
    peers[static_cast<std::size_t>(i)]->send(requests);
  }
  for (int i = 0; i < 20; ++i) {
    const std::string key = std::to_string(i);
    std::string expected;
    for (int n = 0; n < 10; ++n) {
      expected += throttled(99999 - n, 1000 * (n + 1)) + "$" + std::to_string(key.size()) + "\r\n" +
                  key + "\r\n";
    }
    EXPECT_EQ(peers[static_cast<std::size_t>(i)]->read(expected.size()), expected);
  }
  EXPECT_GT(front_end.stores->store.most_under_way, 1u);
  EXPECT_LE(front_end.stores->store.most_under_way, 8u);
}

TEST(FrontEnd, AClientThatLeavesWhileItsRequestWaitsDoesNotAffectOthers) {
  TestFrontEnd::Options options;
  options.waits = Waits::kForTest;
  TestFrontEnd front_end(options);
  auto gone = std::make_unique<TestPeer>(front_end.path);
  gone->send(kThrottle + kThrottle);
  wait_until("one request is under way", [&] { return front_end.stores->store.under_way == 1; });
  const TestPeer stays(front_end.path);
  stays.send(kThrottle);
  wait_until("two requests are under way", [&] { return front_end.stores->store.under_way == 2; });
  gone.reset();
  front_end.stores->store.waits = Waits::kNot;
  front_end.on_loop([&] { front_end.stores->store.release(true); });
  EXPECT_EQ(stays.read(5), "*5\r\n:");
  front_end.on_loop([&] { front_end.stores->store.release(); });
  wait_until("one connection is left", [&] { return front_end.connections == 1; });
}

TEST(FrontEnd, RequestsThatArriveDuringAWaitAreAnsweredAfterIt) {
  TestFrontEnd::Options options;
  options.waits = Waits::kForTest;
  TestFrontEnd front_end(options);
  const TestPeer peer(front_end.path);
  peer.send(kThrottle);
  wait_until("one request is under way", [&] { return front_end.stores->store.under_way == 1; });
  peer.send("PING\r\n");
  peer.send("PING\r\n");
  front_end.on_loop([&] { front_end.stores->store.release(); });
  const std::string expected = throttled(99999, 1000) + "+PONG\r\n+PONG\r\n";
  EXPECT_EQ(peer.read(expected.size()), expected);
}

TEST(FrontEnd, NewRulesApplyToTheNextRequestEvenIfOneWaits) {
  for (const bool waits : {false, true}) {
    TestFrontEnd::Options options;
    if (waits) options.waits = Waits::kForTest;
    TestFrontEnd front_end(options);
    const TestPeer waiting(front_end.path);
    if (waits) {
      waiting.send(kThrottle);
      wait_until("one request is under way",
                 [&] { return front_end.stores->store.under_way == 1; });
      front_end.stores->store.waits = Waits::kNot;
    }
    front_end.parts.folder.write("rules.yaml", rules_named("fresh"));
    ASSERT_TRUE(front_end.parts.manager->reload());
    front_end.on_loop([&] { front_end.front_end->follow_rules(); });
    const TestPeer peer(front_end.path);
    peer.send(frame({"RL.CHECK", "fresh"}));
    EXPECT_NE(peer.read(60).find("allowed"), std::string::npos);
    if (!waits) continue;
    front_end.on_loop([&] { front_end.stores->store.release(); });
    EXPECT_EQ(waiting.read(5), "*5\r\n:");
  }
}

TEST(FrontEnd, AnswersPendingRequestsWhileDrainingAndThenCloses) {
  for (const bool waits : {false, true}) {
    TestFrontEnd::Options options;
    if (waits) options.waits = Waits::kForTest;
    TestFrontEnd front_end(options);
    const TestPeer idle(front_end.path);
    EXPECT_EQ(idle.ask("PING\r\n", 7), "+PONG\r\n");
    const TestPeer busy(front_end.path);
    if (waits) {
      busy.send(kThrottle);
      wait_until("one request is under way",
                 [&] { return front_end.stores->store.under_way == 1; });
    } else {
      EXPECT_EQ(busy.ask("PING\r\n", 7), "+PONG\r\n");
    }
    std::promise<void> drained;
    front_end.on_loop([&] { front_end.front_end->drain([&] { drained.set_value(); }); });
    if (waits) {
      front_end.on_loop([&] { front_end.stores->store.release(); });
    } else {
      busy.send(kThrottle);
    }
    EXPECT_EQ(busy.read_to_end(), throttled(99999, 1000));
    EXPECT_EQ(idle.read_to_end(), "");
    const TestPeer* const both[] = {&busy, &idle};
    for (const TestPeer* peer : both) const_cast<TestPeer*>(peer)->close();  // NOLINT
    drained.get_future().wait();
    EXPECT_EQ(front_end.connections, 0u);
  }
}

TEST(FrontEnd, CountsItsEvents) {
  TestFrontEnd front_end;
  {
    const TestPeer peer(front_end.path);
    peer.send("PING\r\nPING\r\n*x\r\n");
    peer.read_to_end();
  }
  wait_until("the connection is closed", [&] { return front_end.connections == 0; });
  const std::string text = front_end.parts.registry.text();
  EXPECT_NE(text.find("front_end=\"resp\"} 2\n"), std::string::npos) << text.substr(0, 3000);
}

}  // namespace
}  // namespace sluice::server::resp
