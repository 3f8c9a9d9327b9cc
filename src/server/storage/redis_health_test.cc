#include "server/storage/stores.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::server {
namespace {

TEST(ServerInfo, HasWhatTheServerSays) {
  const ServerInfo info = ServerInfo::read(
      "# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nmaxmemory:2097152\r\n"
      "# Stats\r\ntotal_commands_processed:42\r\nevicted_keys:7\r\n"
      "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n"
      "slave0:ip=127.0.0.1,port=1,state=online,offset=900,lag=1\r\n"
      "slave1:ip=127.0.0.1,port=2,state=online,offset=400,lag=0\r\n"
      "master_repl_offset:1000\r\n");
  EXPECT_EQ(info.used_memory, 1048576u);
  EXPECT_EQ(info.max_memory, 2097152u);
  EXPECT_EQ(info.commands, 42u);
  EXPECT_EQ(info.evicted_keys, 7u);
  EXPECT_EQ(info.replicas, 2u);
  EXPECT_EQ(info.lag_bytes, 600u);
  EXPECT_EQ(info.lag_seconds, 1u);
}

TEST(ServerInfo, SaysThatCountersInUseMayBeDeleted) {
  const auto trouble = [](const std::string& text) {
    ServerInfo info = ServerInfo::read(text);
    info.name = "a:1";
    return info.trouble();
  };
  EXPECT_EQ(trouble("maxmemory:0\r\n"), "") << "it does not say";
  EXPECT_EQ(trouble("maxmemory_policy:noeviction\r\n"), "");
  EXPECT_EQ(trouble("maxmemory_policy:volatile-ttl\r\n"),
            "a:1 deletes counters in use when its memory is full: maxmemory-policy is "
            "volatile-ttl; expected noeviction");
}

TEST(ServerInfo, LacksWhatIsAbsentOrMalformed) {
  for (const std::string text :
       {"", "used_memory:", "used_memory:-1\r\nslave0:\r\nslave:offset=1,lag=1",
        "used_memory:1x\nslave1:lag=,offset=\nevicted_keys\nslaves:lag=2\nmaxmemory:"
        "99999999999999999999"}) {
    const ServerInfo info = ServerInfo::read(text);
    EXPECT_FALSE(info.used_memory || info.max_memory || info.evicted_keys || info.commands);
    EXPECT_FALSE(info.replicas || info.lag_bytes || info.lag_seconds) << text;
  }
}

TEST(ServerInfo, AReplicaThatIsAheadInTheTextIsNotBehind) {
  const ServerInfo info = ServerInfo::read("slave0:offset=11,lag=0\nmaster_repl_offset:10\n");
  EXPECT_EQ(info.lag_bytes, 0u);
}

}  // namespace
}  // namespace sluice::server
