#include "server/api/resp/front_end.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/api/resp/test_front_end.h"

namespace sluice::server::resp {
namespace {

using std::chrono::milliseconds;
using Waits = WaitingStore::Waits;

const std::string kThrottle = frame({"CL.THROTTLE", "k", "99999", "1", "1000"});

std::string throttled(int remaining, int reset) {
  return "*5\r\n:0\r\n:100000\r\n:" + std::to_string(remaining) +
         "\r\n:-1\r\n:" + std::to_string(reset) + "\r\n";
}

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(condition());
}

TEST(Door, AnswersFramesThatComeByteByByte) {
  TestDoor door;
  const TestPeer peer(door.path);
  for (const char c : "PING\r\n" + frame({"ECHO", "a\r\nb"}) + "ECHO 'c d'\r\n" + kThrottle) {
    ASSERT_EQ(peer.send({&c, 1}), 1u);
  }
  const std::string expected = "+PONG\r\n$4\r\na\r\nb\r\n$3\r\nc d\r\n" + throttled(99999, 1000);
  EXPECT_EQ(peer.read(expected.size()), expected);
}

// Deeper than any buffer between the two.
TEST(Door, AnswersPipelinesOfAnyDepthInTheirOrder) {
  for (const bool waits : {false, true}) {
    TestDoor::Options options;
    if (waits) options.waits = Waits::kNot;
    TestDoor door(options);
    const TestPeer peer(door.path);
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

TEST(Door, AClientThatDoesNotReadIsPausedAndThenClosed) {
  TestDoor::Options options;
  options.bounds.write_timeout = milliseconds(300);
  TestDoor door(options);
  const TestPeer peer(door.path);
  const std::string request = frame({"ECHO", std::string(60000, 'x')});
  std::size_t sent = 0;
  std::size_t once = 0;
  do {
    once = peer.send(request);
    sent += once;
    ASSERT_LT(sent, std::size_t{20} << 20) << "it was not paused";
  } while (once == request.size());
  wait_until([&] { return door.common.connections == 0; });
}

TEST(Door, AnswersAProtocolErrorAfterWhatCameBeforeAndCloses) {
  TestDoor door;
  const TestPeer peer(door.path);
  peer.send("PING\r\n*1\r\nPING\r\nPING\r\n");
  EXPECT_EQ(peer.read_to_end(), "+PONG\r\n-ERR Protocol error: expected '$', got 'P'\r\n");
}

// Else any web page could have a browser reset counters.
TEST(Door, CarriesOutNothingOfWhatABrowserSends) {
  for (const std::string head :
       {"POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", "host: a\r\n"}) {
    TestDoor door;
    const TestPeer peer(door.path);
    peer.send("PING\r\n" + head + "\r\nECHO body\r\n");
    const std::string replies = peer.read_to_end();
    EXPECT_EQ(replies.substr(0, 7), "+PONG\r\n");
    EXPECT_EQ(replies.find("body"), replies.npos) << replies;
  }
}

TEST(Door, ClosesBehindTheReplyToQuit) {
  TestDoor door;
  const TestPeer peer(door.path);
  peer.send("QUIT\r\nPING\r\n");
  EXPECT_EQ(peer.read_to_end(), "+OK\r\n");
}

TEST(Door, RequestsOverTheBoundsAreRefusedAndTheConnectionCloses) {
  TestDoor::Options options;
  options.bounds.body_bytes = 1024;
  TestDoor door(options);
  const TestPeer long_one(door.path);
  long_one.send("*2\r\n$4\r\nECHO\r\n$1025\r\n");
  EXPECT_EQ(long_one.read_to_end(), "-ERR Protocol error: invalid bulk length\r\n");
  const TestPeer wide(door.path);
  wide.send("*4097\r\n");
  EXPECT_EQ(wide.read_to_end(), "-ERR Protocol error: invalid multibulk length\r\n");
}

TEST(Door, ConnectionsOverTheCapAreToldSo) {
  TestDoor::Options options;
  options.bounds.connections = 1;
  TestDoor door(options);
  const TestPeer first(door.path);
  EXPECT_EQ(first.ask("PING\r\n", 7), "+PONG\r\n");
  const TestPeer second(door.path);
  EXPECT_EQ(second.read_to_end(), "-ERR max number of clients reached\r\n");
  EXPECT_EQ(first.ask("PING\r\n", 7), "+PONG\r\n");
}

TEST(Door, WhoShowsNoPasswordIsClosed) {
  TestDoor::Options options;
  options.bounds.header_timeout = milliseconds(100);
  options.users = {{"default", "secret", Role::kCheckOnly}};
  TestDoor door(options);
  const TestPeer silent(door.path);
  const TestPeer known(door.path);
  EXPECT_EQ(known.ask("AUTH secret\r\n", 5), "+OK\r\n");
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_EQ(known.ask("PING\r\n", 7), "+PONG\r\n");
}

TEST(Door, ARequestThatDoesNotEndIsClosed) {
  TestDoor::Options options;
  options.bounds.body_timeout = milliseconds(100);
  TestDoor door(options);
  const TestPeer peer(door.path);
  EXPECT_EQ(peer.ask("PING\r\n*2\r\n$4\r\nEC", 7), "+PONG\r\n");
  EXPECT_EQ(peer.read_to_end(), "");
}

TEST(Door, RepliesKeepTheirOrderWhereTheStoreWaits) {
  TestDoor::Options options;
  options.waits = Waits::kForMs;
  TestDoor door(options);
  std::vector<std::unique_ptr<TestPeer>> peers;
  for (int i = 0; i < 20; ++i) peers.push_back(std::make_unique<TestPeer>(door.path));
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
  EXPECT_GT(door.stores->store.most_under_way, 1u);
  EXPECT_LE(door.stores->store.most_under_way, 8u);
}

TEST(Door, AClientThatLeavesWhileItsRequestWaitsDisturbsNobody) {
  TestDoor::Options options;
  options.waits = Waits::kForTest;
  TestDoor door(options);
  auto gone = std::make_unique<TestPeer>(door.path);
  gone->send(kThrottle + kThrottle);
  wait_until([&] { return door.stores->store.under_way == 1; });
  const TestPeer stays(door.path);
  stays.send(kThrottle);
  wait_until([&] { return door.stores->store.under_way == 2; });
  gone.reset();
  door.stores->store.waits = Waits::kNot;
  door.on_loop([&] { door.stores->store.release(true); });
  EXPECT_EQ(stays.read(5), "*5\r\n:");
  door.on_loop([&] { door.stores->store.release(); });
  wait_until([&] { return door.common.connections == 1; });
}

TEST(Door, WhatComesWhileItWaitsIsAnsweredBehindIt) {
  TestDoor::Options options;
  options.waits = Waits::kForTest;
  TestDoor door(options);
  const TestPeer peer(door.path);
  peer.send(kThrottle);
  wait_until([&] { return door.stores->store.under_way == 1; });
  peer.send("PING\r\n");
  peer.send("PING\r\n");
  door.on_loop([&] { door.stores->store.release(); });
  const std::string expected = throttled(99999, 1000) + "+PONG\r\n+PONG\r\n";
  EXPECT_EQ(peer.read(expected.size()), expected);
}

TEST(Door, NewRulesHoldForTheNextRequestAlsoWhereOneWaits) {
  for (const bool waits : {false, true}) {
    TestDoor::Options options;
    if (waits) options.waits = Waits::kForTest;
    TestDoor door(options);
    const TestPeer waiting(door.path);
    if (waits) {
      waiting.send(kThrottle);
      wait_until([&] { return door.stores->store.under_way == 1; });
      door.stores->store.waits = Waits::kNot;
    }
    door.parts.folder.write("rules.yaml", rules_named("fresh"));
    ASSERT_TRUE(door.parts.manager->reload());
    door.on_loop([&] { door.door->follow_rules(); });
    const TestPeer peer(door.path);
    peer.send(frame({"RL.CHECK", "fresh"}));
    EXPECT_NE(peer.read(60).find("allowed"), std::string::npos);
    if (!waits) continue;
    door.on_loop([&] { door.stores->store.release(); });
    EXPECT_EQ(waiting.read(5), "*5\r\n:");
  }
}

TEST(Door, DrainsWhatHasBeenAskedAndThenCloses) {
  for (const bool waits : {false, true}) {
    TestDoor::Options options;
    if (waits) options.waits = Waits::kForTest;
    TestDoor door(options);
    const TestPeer idle(door.path);
    EXPECT_EQ(idle.ask("PING\r\n", 7), "+PONG\r\n");
    const TestPeer busy(door.path);
    if (waits) {
      busy.send(kThrottle);
      wait_until([&] { return door.stores->store.under_way == 1; });
    } else {
      EXPECT_EQ(busy.ask("PING\r\n", 7), "+PONG\r\n");
    }
    std::promise<void> drained;
    door.on_loop([&] { door.door->drain([&] { drained.set_value(); }); });
    if (waits) {
      door.on_loop([&] { door.stores->store.release(); });
    } else {
      busy.send(kThrottle);
    }
    EXPECT_EQ(busy.read_to_end(), throttled(99999, 1000));
    EXPECT_EQ(idle.read_to_end(), "");
    const TestPeer* const both[] = {&busy, &idle};
    for (const TestPeer* peer : both) const_cast<TestPeer*>(peer)->close();  // NOLINT
    drained.get_future().wait();
    EXPECT_EQ(door.common.connections, 0u);
  }
}

TEST(Door, CountsWhatBefallsIt) {
  TestDoor door;
  {
    const TestPeer peer(door.path);
    peer.send("PING\r\nPING\r\n*x\r\n");
    peer.read_to_end();
  }
  wait_until([&] { return door.common.connections == 0; });
  const std::string text = door.parts.registry.text();
  EXPECT_NE(text.find("door=\"resp\"} 2\n"), std::string::npos) << text.substr(0, 3000);
}

}  // namespace
}  // namespace sluice::server::resp
