"""Front ends of a server with the domain `contract`, the library and a replay: each decides
requests by their attributes, and says what it can of the decision."""

import functools
import json
import os
import subprocess
import time
import urllib.parse

import envoy_harness
from harness import PATIENCE, Clock, binary, request
from resp_harness import Resp, RespError

messages = functools.cache(envoy_harness.messages)


class Said:
    """What a front end says of a decision. None: it does not say so."""

    def __init__(self, allowed, reason=None, remaining=None, near=None, wait=None):
        self.allowed, self.reason, self.remaining = allowed, reason, remaining
        self.near, self.wait = near, wait


class FrontEnd:
    """Overrides, blocks by hand and reports go through the administration and HTTP, unless the
    front end has a request for them."""

    def __init__(self, server):
        self.server, self.rule = server, "plan"

    def close(self):
        pass

    def admin(self, method, target, body=None):
        answer = self.server.admin_request(method, target, body)
        assert answer.status == 200, answer

    def override(self, attributes, given):
        body = json.dumps({"attributes": attributes, **given})
        self.admin("PUT", f"/v1/overrides/{self.rule}/requests", body)

    def block(self, attributes):
        query = {"rule": self.rule, "for": "1h", **attributes}
        self.admin("PUT", "/v1/blocks?" + urllib.parse.urlencode(query))

    def report(self, attributes, status, cost):
        response = {"header.x-cost": str(cost)} if cost else {}
        body = json.dumps({"attributes": attributes, "status": status, "response": response})
        answer = request(self.server.http, "POST", "/v1/report", body)
        assert answer.status == 200, answer


class Http(FrontEnd):
    name = "http"

    def check(self, attributes):
        answer = self.server.check({"attributes": attributes})
        said = answer.json
        allowed = said["outcome"] == "allowed"
        assert (answer.status == 200) == allowed, answer
        wait = said.get("retry_after_ms")
        return Said(allowed, said["reason"],
                    [one["remaining"] for one in said["limits"] if "remaining" in one],
                    [one["near"] for one in said["limits"] if "near" in one],
                    wait and wait / 1000)  # fmt: skip


class Auth(FrontEnd):
    name = "auth"

    @staticmethod
    def fields(attributes):
        fields = dict(attributes)
        ip, path = fields.pop("ip"), fields.pop("path")
        parts = {"query": {}, "header": {}, "body": {}}
        for name, value in fields.items():
            part, name = name.split(".", 1)
            parts[part][name] = value
        uri = path + "?" + urllib.parse.urlencode(parts["query"])
        original = {"X-Original-Method": "GET", "X-Original-URI": uri, "X-Forwarded-For": ip}
        return {**original, **parts["header"]}

    def check(self, attributes):
        answer = self.server.get("/v1/auth", self.fields(attributes))
        assert answer.status in (200, 403, 429), answer
        wait = answer["retry-after"]
        return Said(answer.status == 200, wait=wait and int(wait))

    def report(self, attributes, status, cost):
        response = {"X-Sluice-Response-X-Cost": str(cost)} if cost else {}
        fields = {**self.fields(attributes), **response}
        answer = self.server.get(f"/v1/report?status={status}", fields)
        assert answer.status == 200, answer


class RespCommands(FrontEnd):
    name = "resp"

    def __init__(self, server):
        super().__init__(server)
        self.resp = Resp(server.front_ends["resp"])
        self.close = self.resp.close
        self.resp.ask("HELLO", 3)

    def ask(self, *words):
        answer = self.resp.ask(*words)
        assert not isinstance(answer, RespError), answer
        return answer

    def words(self, attributes):
        return [word for pair in attributes.items() for word in pair]

    def check(self, attributes):
        answer = self.ask("RL.CHECK", "*", *self.words(attributes))
        wait = answer[b"retry_after_ms"]
        return Said(answer[b"outcome"] == b"allowed", answer[b"reason"].decode(),
                    [one[b"remaining"] for one in answer[b"limits"]
                     if one.get(b"remaining") is not None],
                    [bool(one[b"near"]) for one in answer[b"limits"] if b"near" in one],
                    wait and wait / 1000)  # fmt: skip

    def report(self, attributes, status, cost):
        response = ["header.x-cost", cost] if cost else []
        self.ask("RL.REPORT", "*", *self.words(attributes), "status", status, *response)


class Rls(FrontEnd):
    name = "rls"

    def __init__(self, server):
        super().__init__(server)
        self.messages = messages()
        channel = envoy_harness.channel_to(server)
        self.close, self.call = channel.close, envoy_harness.caller(self.messages, channel)

    def check(self, attributes):
        message = self.messages.RateLimitRequest(domain="contract")
        descriptor = message.descriptors.add()
        for name, value in attributes.items():
            descriptor.entries.add(key=name, value=value)
        answer = self.call(message, timeout=PATIENCE)
        allowed = answer.overall_code == self.messages.RateLimitResponse.OK
        (status,) = answer.statuses
        wait = None if allowed else status.duration_until_reset.seconds
        return Said(allowed, wait=wait)


class Library(FrontEnd):
    name = "library"

    def __init__(self, server):
        super().__init__(server)
        self.child = subprocess.Popen(
            [os.environ["SLUICE_LIBRARY_CLIENT"], server.rules_file],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

    def close(self):
        self.child.stdin.close()
        status = self.child.wait(30)
        self.child.stdout.close()
        assert status == 0, status

    def ask(self, command, *words):
        *words, attributes = words
        pairs = (f"{name}={value}" for name, value in attributes.items())
        self.child.stdin.write("\t".join([command, *words, *pairs]) + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().split()

    def check(self, attributes):
        outcome, reason, *limits = self.ask("check", attributes)
        return Said(outcome == "allowed", reason, [int(left) for left in limits[::2]],
                    [near == "near" for near in limits[1::2]])  # fmt: skip

    def override(self, attributes, given):
        how = given.get("limit") or given.get("plan") or next(iter(given))
        assert self.ask("override", self.rule, "requests", str(how), attributes) == ["set"]

    def block(self, attributes):
        assert self.ask("block", "3600000", attributes)[0] == "allowed"

    def report(self, attributes, status, cost):
        assert self.ask("report", str(status), str(cost or ""), attributes)[0] == "allowed"


class Replay(FrontEnd):
    """Replays the log of the requests so far. The last one is denied if the log without it has one
    denial less."""

    name = "replay"

    def __init__(self, server):
        super().__init__(server)
        self.lines, self.denied = [], 0
        self.stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(Clock.START))

    def replay(self):
        overrides = self.server.folder / "overrides.txt"
        more = ["--overrides", overrides] if overrides.exists() else []
        ran = subprocess.run(
            [binary(), "replay", "--rules", self.server.rules_file, "--json", *more, "-"],
            input="".join(self.lines), capture_output=True, text=True, check=True)  # fmt: skip
        report = json.loads(ran.stdout)
        assert report["skipped"] == 0, ran.stderr
        return report["denied"]

    def check(self, attributes):
        uri = Auth.fields(attributes)["X-Original-URI"]
        self.lines.append(f'{attributes["ip"]} - - [{self.stamp}] "GET {uri} HTTP/1.1" 200 1\n')
        before, self.denied = self.denied, self.replay()
        return Said(self.denied == before)

    def report(self, attributes, status, cost):
        self.lines[-1] = self.lines[-1].replace('" 200 ', f'" {status} ')
        assert self.replay() == self.denied
