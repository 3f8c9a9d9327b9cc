"""Sluice servers that find their Redis through Sentinels, while the master changes."""

import time
import unittest

from harness import wait_for
from redis_load import NOT_REPLICATED, SHORT, Callers, FaultTest


class Failover(FaultTest):
    def setUp(self):
        self.redis_set = self.sentinels()
        self.server = self.serve_store(self.redis_set.url, deadline=SHORT)

    def wait_until_replicated(self):
        def all_have_all():
            state = self.redis_set.master().info("replication")
            offset = f"offset={state['master_repl_offset']},"
            return all(offset in value for key, value in state.items()
                       if key.startswith("slave") and "ip=" in value)

        wait_for(all_have_all, what="the replicas having everything")

    def test_kill_9_of_the_master_under_load_loses_only_what_was_not_replicated(self):
        master = self.redis_set.master()
        with Callers(self, self.server, forgets=True) as callers:
            time.sleep(NOT_REPLICATED + 0.5)
            killed = time.monotonic()
            master.kill()
            callers.wait_for_all("fallback")
            self.redis_set.wait_for_master_other_than(master)
            callers.wait_for_all("ok")
        for caller in callers.callers:
            admitted = [s.at for s in caller.said if s.outcome == "allowed"]
            unsure = sum(killed - NOT_REPLICATED < at <= killed + 0.25 for at in admitted)
            self.assertGreaterEqual(self.used(self.server, caller.user),
                                    caller.base + len(admitted) - unsure)

    def test_a_replicated_limit_is_exact_on_the_next_master(self):
        server = self.serve_store(self.redis_set.url)
        self.assertEqual(self.take(server, "/refuse", "u", 12), 12)
        self.wait_until_replicated()
        master = self.redis_set.master()
        master.kill()
        self.redis_set.wait_for_master_other_than(master)
        self.wait_until_decided(server)
        self.assertEqual(self.take(server, "/refuse", "u", 20), 8)

    def test_a_former_master_that_comes_back_is_not_used(self):
        master = self.redis_set.master()
        with Callers(self, self.server, forgets=True) as callers:
            master.pause()
            callers.wait_for_all("fallback")
            self.redis_set.wait_for_master_other_than(master)
            callers.wait_for_all("ok")
            master.resume()  # still reports itself as a master until the Sentinels demote it
            asked = self.scripts_run(master)
            time.sleep(2)
            callers.wait_for_all("ok")
            self.assertEqual(self.scripts_run(master), asked)

    def test_servers_follow_a_failover_while_the_old_master_still_answers(self):
        self.redis_set.sentinels[0].command("SENTINEL", "FAILOVER", self.redis_set.name)
        with Callers(self, self.server, forgets=True) as callers:
            old = self.redis_set.servers[0]
            new = self.redis_set.wait_for_master_other_than(old)
            wait_for(lambda: self.scripts_run(new) > 100, what="requests at the new master")
            callers.wait_for_all("ok")
            asked = self.scripts_run(old)
            time.sleep(1)
            self.assertEqual(self.scripts_run(old), asked)

    @staticmethod
    def scripts_run(redis):
        """Returns how many scripts clients have run on the server."""
        line = redis.info("commandstats").get("cmdstat_evalsha", "calls=0,")
        return int(line.split("calls=")[1].split(",")[0])


class Sentinels(FaultTest):
    """Servers need Sentinels only to connect."""

    def test_any_sentinel_is_enough_to_connect_and_none_to_stay_connected(self):
        redis_set = self.sentinels()
        first, second, third = redis_set.sentinels
        first.kill()
        server = self.serve_store(redis_set.url)
        with Callers(self, server) as callers:
            second.kill()
            third.kill()
            time.sleep(1)
        self.assertEqual(set(callers.reasons()), {"ok"})
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)
        third.start()
        redis_set.servers[0].command("CLIENT", "KILL", "TYPE", "normal")
        self.wait_until_decided(server)


if __name__ == "__main__":
    unittest.main()
