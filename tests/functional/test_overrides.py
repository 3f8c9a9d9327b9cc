"""Overrides of keys: the administration sets them, and a file keeps them."""

import fcntl
import http.client
import json
import os
import threading
import unittest

from harness import PATIENCE, Raw, ServerTest, Sluice, free_port, wait_for

RULES = """
version: 1
plans:
  free: { requests: { limit: 2, per: 1h } }
  pro: { requests: { limit: 5, per: 1h } }
rules:
  - name: api
    plan: { from: "{header.x-plan}", default: free }
    limits: [ { name: requests, key: "{header.x-customer}", algorithm: token_bucket } ]
"""
PATH = "/v1/overrides/api/requests"
COUNTER = "default|api|requests|header.x-customer="


class Overrides(ServerTest):
    def setUp(self):
        self.sluice = self.serve(rules=RULES)

    def check(self, customer, **more):
        return self.sluice.check({"attributes": {"header.x-customer": customer, **more}})

    def set(self, customer, **given):
        body = json.dumps({"attributes": {"header.x-customer": customer}, **given})
        return self.sluice.admin_request("PUT", PATH, body)

    def limit_of(self, customer, **more):
        return self.check(customer, **more).json["limits"][0]["limit"]

    def test_each_kind_counts_at_once(self):
        self.assertEqual(self.limit_of("1"), 2)
        self.assertEqual(self.limit_of("1", **{"header.x-plan": "pro"}), 5)
        self.assertEqual(self.set("1", plan="pro").status, 200)
        self.assertEqual(self.limit_of("1"), 5)
        self.assertEqual(self.set("1", limit=100).status, 200)
        self.assertEqual(self.limit_of("1"), 100)
        self.assertEqual(self.set("1", unlimited=True).status, 200)
        self.assertEqual(self.check("1").json["limits"], [])
        self.assertEqual(self.set("1", blocked=True).status, 200)
        denied = self.check("1")
        self.assertEqual((denied.status, denied.json["reason"]), (429, "blocked"))
        self.assertNotIn("retry_after_ms", denied.json)
        self.assertEqual(
            self.set("1", blocked=True, until="2100-01-01T00:00:00Z").status, 200
        )
        self.assertGreater(self.check("1").json["retry_after_ms"], 86_400_000)
        removed = self.sluice.admin_request("DELETE", PATH + "?header.x-customer=1")
        self.assertEqual(removed.status, 200)
        self.assertEqual(self.limit_of("1"), 2)

    def test_mistakes_are_explained(self):
        wrong = self.sluice.admin_request("PUT", "/v1/overrides/api/request", '{"limit":1}')
        self.assertEqual(wrong.status, 404)
        self.assertEqual(
            wrong.json["detail"],
            "the rule 'api' has no limit 'request'; expected one of: requests",
        )


    def lock(self, path):
        """Locks a file or folder as `flock -x` does, until the end of the test."""
        descriptor = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def test_a_process_that_holds_a_lock_does_not_hang_the_server(self):
        resp = f"127.0.0.1:{free_port()}"
        self.sluice = self.serve(RULES, {"listen": {"resp": resp}, "threads": 1})
        self.lock(self.sluice.folder)
        self.assertEqual(self.set("1", limit=3).status, 200)
        self.lock(self.sluice.folder / "overrides.txt.lock")
        refused = self.set("1", limit=4)
        self.assertEqual(refused.status, 503)
        self.assertIn("another process has locked", refused.json["detail"])
        with Raw(resp) as raw:
            raw.send(b"RL.OVERRIDE SET api requests header.x-customer 1 LIMIT 5\r\n")
            self.assertIn(b"-ERR nothing was changed, because", raw.reader.readline())
        self.assertEqual(self.limit_of("1"), 3)
        self.assertEqual(self.sluice.stop(), 0)


class Changes(threading.Thread):
    """Sets overrides, one after another, until `ends` is set or `server` returns None. Remembers the
    limit of each customer whose change was answered."""

    def __init__(self, server, name, import_lines=0):
        super().__init__(daemon=True)
        self.server, self.name_of_keys, self.import_lines = server, name, import_lines
        self.answered, self.under_way, self.ends = {}, {}, False

    def ask(self, server):
        # Few after the first, or the file that each change writes would grow with the machine's speed.
        count = self.import_lines if len(self.answered) < 4 * self.import_lines else 1
        keys = {f"{self.name_of_keys}-{len(self.answered) + i}": 10 + len(self.answered) + i
                for i in range(count)}
        self.under_way = keys
        if self.import_lines:
            lines = "".join(
                json.dumps({"counter": COUNTER + key, "limit": limit}) + "\n"
                for key, limit in keys.items()
            )
            return keys, server.admin_request("POST", "/v1/overrides", lines)
        [(key, limit)] = keys.items()
        body = {"attributes": {"header.x-customer": key}, "limit": limit}
        return keys, server.admin_request("PUT", PATH, json.dumps(body))

    def run(self):
        while not self.ends and (server := self.server()) is not None:
            try:
                keys, answer = self.ask(server)
            except (OSError, ValueError, http.client.HTTPException):
                continue  # the server has ended
            if answer.status == 200:
                self.answered.update(keys)


class Survival(ServerTest):
    """What was answered is there after a kill, and after a server was succeeded."""

    def whole_file(self, folder):
        """Returns the limits in the file by customer, if it is whole."""
        lines = (folder / "overrides.txt").read_text("utf-8").split("\n")
        self.assertEqual((lines[0], lines[-1]), ("sluice overrides 1", ""))
        self.assertEqual(lines[-2], f"end {len(lines) - 3}")
        pairs = (line.split("\t") for line in lines[1:-2])
        return {key.removeprefix(COUNTER): int(text.split("=")[1]) for text, key in pairs}

    def assert_kept(self, clients, kept):
        for client in clients:
            self.assertEqual({key: kept.get(key) for key in client.answered}, client.answered)
        known = {key for client in clients for key in (*client.answered, *client.under_way)}
        self.assertEqual(set(kept) - known, set(), "nobody has set these")

    def limits_of(self, server):
        limits, cursor = {}, "0"
        while cursor:
            page = server.admin_request("GET", f"/v1/overrides?count=10000&cursor={cursor}").json
            for one in page["overrides"]:
                limits[one["counter"].removeprefix(COUNTER)] = one["limit"]
            cursor = page.get("next")
        self.assertEqual(len(limits), page["total"])
        return limits

    def test_nothing_that_was_answered_is_lost_by_kills_between_writes(self):
        folder = self.folder()
        for turn in range(6):
            sluice = Sluice(folder, RULES)
            self.addClassCleanup(sluice.stop)  # its status is that of the kill
            current = [sluice]
            clients = [Changes(lambda: current[0], f"{turn}-put"),
                       Changes(lambda: current[0], f"{turn}-import", 500)]
            for client in clients:
                client.start()
            enough = 5 + 7 * turn  # puts, so that the kills hit other moments
            wait_for(lambda: len(clients[0].answered) >= enough and clients[1].answered,
                     what="the first answers")
            sluice.kill()
            current[0] = None
            for client in clients:
                client.join(PATIENCE)
            kept = self.whole_file(folder)
            kept = {key: limit for key, limit in kept.items() if key.startswith(f"{turn}-")}
            self.assert_kept(clients, kept)
        last = self.serve(flags=["--rules", str(sluice.rules_file)])
        self.assertEqual(self.limits_of(last), self.whole_file(folder))

    def test_a_successor_has_what_was_set_at_its_predecessor(self):
        config = {
            "listen": {"http": f"127.0.0.1:{free_port()}", "admin": f"127.0.0.1:{free_port()}"},
            "drain": {"handover": str(self.folder() / "handover.sock")},
        }
        rules = self.folder() / "rules.yaml"
        rules.write_text(RULES)
        config["rules"] = str(rules)
        servers = [self.serve(config=config)]
        clients = [Changes(lambda: servers[-1], "put"), Changes(lambda: servers[-1], "import", 50)]
        for client in clients:
            client.start()
        for _ in range(4):
            before = [len(client.answered) for client in clients]
            wait_for(lambda: all(len(c.answered) > b + 3 for c, b in zip(clients, before)),
                     what="more answers")
            servers.append(self.serve(config=config))
            self.assertEqual(servers[-2].wait(), 0)
        for client in clients:
            client.ends = True
            client.join(PATIENCE)
        self.assert_kept(clients, self.limits_of(servers[-1]))
        self.assert_kept(clients, self.whole_file(rules.parent))

    def test_parts_of_an_import_are_kept_at_the_end_of_a_server(self):
        line = json.dumps({"counter": COUNTER + "1", "limit": 9}) + "\n"
        sluice = self.serve(RULES)
        answer = sluice.admin_request("POST", "/v1/overrides?more=true", line)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(sluice.stop(), 0)
        self.assertEqual(self.whole_file(sluice.folder), {"1": 9})


if __name__ == "__main__":
    unittest.main()
