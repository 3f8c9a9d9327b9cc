"""The gateway of docs/llm.md: budgets of teams and agents in front of a fake language model."""

import concurrent.futures
import csv
import datetime
import gzip
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import unittest.mock

from harness import ROOT, Clock, Process, Raw, ServerTest, Sluice, binary, replaced, request, wait_for

sys.path.insert(0, str(ROOT / "examples"))
import llm_gateway  # noqa: E402
import llm_model  # noqa: E402

PAGE = (ROOT / "docs/llm.md").read_text("utf-8")
RULES = re.search(r"```yaml\n(.*?)```", PAGE, re.S)[1]
TEAM, CREDITS, AGENT = 500_000, 2_000_000, 20_000  # the limits of the page
HOLD_SECONDS = llm_gateway.HOLD_MS / 1000
PATH = "/v1/chat/completions"


def rows():
    """Tokens of the prompts and of the answers of real calls."""
    with open(ROOT / "examples/data/llm-requests.csv", encoding="utf-8") as file:
        return [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(file)]


def price_of(call):
    """Micro-dollars of an answer, as the rules of the page have them."""
    of_input, of_output = {"gpt-large": (3, 15), "gpt-small": (1, 2)}[call["model"]]
    return call["prompt_tokens"] * of_input + call["completion_tokens"] * of_output


class Budgets(llm_gateway.Budgets):
    """Sends some requests twice, and loses some settlements. Records what was asked."""

    def __init__(self, address):
        super().__init__(address)
        self.lock, self.lost, self.settled, self.repeated = threading.Lock(), [], {}, []
        self.lose_every = self.repeat_every = 0
        self.calls = 0

    def hold(self, call, attributes):
        first = super().hold(call, attributes)
        with self.lock:
            self.calls += 1
            number = self.calls
        if self.repeat_every and number % self.repeat_every == 0 and first[0] == 200:
            return self.again(first, super().hold(call, attributes))
        return first

    def settle(self, call, attributes, actual):
        with self.lock:
            number = len(self.settled) + len(self.lost) + 1
            is_lost = self.lose_every and number % self.lose_every == 0
            if is_lost:
                self.lost.append((attributes, actual))
            else:
                self.settled[call] = (attributes, actual)
        if is_lost:
            raise ConnectionResetError("a settlement is lost")
        first = super().settle(call, attributes, actual)
        if self.repeat_every and number % self.repeat_every == 0:
            return self.again(first, super().settle(call, attributes, actual))
        return first

    def again(self, first, second):
        with self.lock:
            self.repeated.append((first, second))
        return second


class Model(llm_model.Model):
    """Waits before the second token of an answer to a question with "wait"."""

    def __init__(self):
        super().__init__()
        self.go_on = threading.Event()
        self.started = False

    def before_token(self, words, number):
        self.started = True
        if "wait" in words and number == 1:
            self.go_on.wait()


class Gateways(ServerTest):
    """A gateway, a model and a server for each test."""

    team, agent = TEAM, AGENT

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.clock = cls.stopped_clock()

    def setUp(self):
        self.clock.set(Clock.START * 1_000_000)
        self.model = self.run_server(Model())
        self.addCleanup(self.model.go_on.set)

    def run_server(self, server):
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def start_gateway(self, rules=RULES):
        self.sluice = Sluice(self.folder(), rules, clock=self.clock)
        self.addCleanup(self._stop, self.sluice)
        self.budgets = Budgets(self.sluice.http)
        model = f"127.0.0.1:{self.model.server_address[1]}"
        gateway = self.run_server(llm_gateway.Gateway(0, self.budgets, model))
        gateway.handle_error = lambda *_: None
        quiet = {"log_error": lambda *_: None}
        gateway.RequestHandlerClass = type("Quiet", (llm_gateway.Handler,), quiet)
        self.gateway = f"127.0.0.1:{gateway.server_address[1]}"

    def ask(self, content, team="search", agent="crawler", **more):
        body = {"model": "gpt-large", "stream": True, "messages": [{"role": "user", "content": content}]}
        fields = {"X-Team": team, "X-Agent": agent}
        return request(self.gateway, "POST", PATH, json.dumps({**body, **more}), fields)

    def spent(self, team="search", agent="crawler"):
        answer = request(self.gateway, "GET", "/v1/spending", None, {"X-Team": team, "X-Agent": agent})
        for name, limit in (("team", self.team), ("credits", CREDITS), ("agent", self.agent)):
            self.assertEqual(answer.json[name]["spent"] + answer.json[name]["left"], limit)
        self.credits = answer.json["credits"]["spent"]
        return answer.json["team"]["spent"] + self.credits, answer.json["agent"]["spent"]

    def events(self, answer):
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer["content-type"], "text/event-stream")
        lines = [line for line in answer.body.decode().split("\n") if line]
        self.assertEqual(lines.pop(), "data: [DONE]")
        return [json.loads(line.removeprefix("data: ")) for line in lines]


class Calls(Gateways):
    def test_a_call_is_held_streamed_and_settled(self):
        self.start_gateway()
        events = self.events(self.ask("3 words about tea"))
        text = "".join(event["choices"][0]["delta"]["content"] for event in events[:-1])
        self.assertEqual(text, "word1 word2 word3 ")
        self.assertEqual({event["model"] for event in events}, {"gpt-large"})
        self.assertEqual(self.spent(), (4 * 3 + 3 * 15,) * 2)

    def test_while_a_call_runs_its_most_is_held(self):
        self.start_gateway()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = pool.submit(self.ask, "3 words wait", max_tokens=1000)
            wait_for(lambda: self.spent() == (9 + 15_000,) * 2, "the hold")
            denied = self.ask("3 words", max_tokens=1000)
            self.model.go_on.set()
            self.events(running.result())
        self.assertEqual(denied.status, 429)
        self.assertEqual(self.spent(), (9 + 45,) * 2)

    def test_a_denied_call_gets_an_error_of_openai(self):
        self.start_gateway()
        self.ask("3 words about tea")
        self.assertEqual(self.ask("2 words please", max_tokens=1330).status, 429)
        answer = self.ask("2 words please", max_tokens=1330)
        self.assertEqual(answer["retry-after"], str(16 * 3600))  # until the next day: it is 08:00
        error = answer.json["error"]
        self.assertEqual((error["type"], error["code"]), ("insufficient_quota", "insufficient_quota"))
        self.assertIn("limited", error["message"])
        never = self.ask("2 words please", max_tokens=2000)
        self.assertEqual((never.status, never["retry-after"]), (429, None))
        self.assertEqual(len(self.model.calls), 1)
        self.assertEqual(self.spent(), (57, 57))
        self.clock.advance(16 * 3600)  # a new day
        self.assertEqual(self.spent(), (57, 0))

    def test_a_call_that_the_month_cannot_hold_falls_to_the_credits(self):
        self.team, self.agent = 10_000, 200_000
        self.start_gateway(replaced(RULES, ("500_000", "10_000"), ("20_000", "200_000")))
        self.events(self.ask("3 words", max_tokens=580))  # 6 + 8700 fit
        self.assertEqual((self.spent(), self.credits), ((6 + 45,) * 2, 0))
        self.events(self.ask("3 words", max_tokens=700))  # 6 + 10,500 do not
        self.assertEqual((self.spent(), self.credits), ((102, 102), 51))
        self.events(self.ask("3 words", max_tokens=580))  # a smaller one fits again
        self.assertEqual((self.spent(), self.credits), ((153, 153), 51))

    def test_beyond_90_percent_a_cheaper_model_answers(self):
        self.start_gateway()
        self.assertEqual(self.events(self.ask("2 words", max_tokens=1199))[0]["model"], "gpt-large")
        self.assertEqual(self.events(self.ask("2 words", max_tokens=1200))[0]["model"], "gpt-small")
        self.assertEqual([call["model"] for call in self.model.calls], ["gpt-large", "gpt-small"])
        self.assertEqual(self.spent(), (2 * 3 + 2 * 15 + 2 * 1 + 2 * 2,) * 2)

    def test_a_model_that_fails(self):
        self.start_gateway()
        answer = self.ask("3 words fail")
        self.assertEqual((answer.status, answer.json["error"]["code"]), (502, "model_error"))
        self.assertEqual(self.spent(), (0, 0))  # cancelled
        with self.assertRaises(http.client.IncompleteRead):
            self.ask("10 words break")
        wait_for(lambda: self.spent() == (3 * 3 + 5 * 15,) * 2, "the settlement of what came")

    def test_a_model_that_breaks_off_within_an_event(self):
        self.start_gateway()
        numbers = itertools.count()

        def event(handler, event):
            data = b"data: " + json.dumps(event).encode() + b"\n\n"
            if next(numbers) < 3:
                return handler.chunk(data)
            handler.chunk(data[:30])
            raise ConnectionResetError("the model is gone")

        with unittest.mock.patch.object(llm_model.Handler, "event", event):
            with self.assertRaises(http.client.IncompleteRead):
                self.ask("10 words cut")
            wait_for(lambda: self.budgets.settled, "the settlement of what came")
        wait_for(lambda: self.spent() == (3 * 3 + 3 * 15,) * 2, "the settlement at Sluice")

    def test_a_client_that_leaves_pays_what_came(self):
        self.start_gateway()
        connection = http.client.HTTPConnection(self.gateway, timeout=60)
        body = {"model": "gpt-large", "stream": True, "messages": [{"content": "400 words wait"}]}
        connection.request("POST", PATH, json.dumps(body), {"X-Team": "search", "X-Agent": "crawler"})
        answer = connection.getresponse()
        self.assertIn(b"word1", answer.readline())
        answer.close()
        connection.close()
        self.model.go_on.set()
        wait_for(lambda: self.budgets.settled, "the settlement")
        ((_, actual),) = self.budgets.settled.values()
        wait_for(lambda: self.spent() == (actual, actual), "the settlement at Sluice")
        self.assertTrue(9 + 15 <= actual <= 9 + 400 * 15, actual)

    def test_answers_of_sluice_that_are_lost(self):
        self.start_gateway()
        post, answered, answers = llm_gateway.post, set(), []

        def lossy(address, path, body):
            connection, answer = post(address, path, body)
            if path in ("/v1/check", "/v1/settle", "/v1/cancel") and "id" in body:
                if (path, body["id"]) not in answered:
                    answered.add((path, body["id"]))
                    connection.close()
                    raise ConnectionResetError("the answer is lost")
                answers.append(json.load(answer))
                connection.close()
                connection, answer = post(address, path, body)
            return connection, answer

        with unittest.mock.patch.object(llm_gateway, "post", lossy):
            self.events(self.ask("3 words about tea"))
            self.ask("3 words fail")
        self.assertEqual(len(answers), 4)  # two holds, a settlement, and a cancellation
        self.assertTrue(all(answer["repeated"] for answer in answers), answers)
        self.assertEqual(self.spent(), (57, 57))

    def test_a_hold_whose_answer_is_lost_is_cancelled_if_its_repetition_is_denied(self):
        pace = '      - { name: pace, key: "{header.x-team}", algorithm: gcra, limit: 1, per: 1h, cost: 1 }\n'
        self.start_gateway(replaced(RULES, ("    limits:\n", "    limits:\n" + pace)))
        post, checked = llm_gateway.post, []

        def lossy(address, path, body):
            connection, answer = post(address, path, body)
            if path == "/v1/check" and "id" in body:
                checked.append(answer.status)
                if len(checked) == 1:
                    connection.close()
                    raise ConnectionResetError("the answer is lost")
            return connection, answer

        with unittest.mock.patch.object(llm_gateway, "post", lossy):
            self.assertEqual(self.ask("3 words about tea").status, 429)
        self.assertEqual(checked, [200, 429])
        target = "/v1/keys?rule=models&limit=team&header.x-team=search"
        (team,) = self.sluice.admin_request("GET", target).json["limits"]
        self.assertEqual((team["spent"], team["held"]), (0, 0))

    def test_a_gateway_that_dies(self):
        self.start_gateway()
        model = f"127.0.0.1:{self.model.server_address[1]}"
        argv = [sys.executable, "-B", str(ROOT / "examples/llm_gateway.py"), "--port", "0"]
        process = Process([*argv, "--sluice", self.sluice.http, "--model", model], self.folder(), "gateway",
                          stdout=subprocess.PIPE)  # fmt: skip
        self.addCleanup(process.stop)
        port = int(process.child.stdout.readline().split()[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = {"model": "gpt-large", "stream": True, "messages": [{"content": "3 words wait"}]}
        connection.request("POST", PATH, json.dumps(body), {"X-Team": "search", "X-Agent": "crawler"})
        self.assertIn(b"word1", connection.getresponse().readline())
        process.signal(signal.SIGKILL)
        process.child.wait()
        connection.close()
        most = 9 + 500 * 15
        self.assertEqual(self.spent(), (most, most))
        self.clock.advance(HOLD_SECONDS - 1)
        self.assertEqual(self.spent(), (most, most))
        self.clock.advance(1)
        self.assertEqual(self.spent(), (most, 0))  # on_expiry: charge, and release

    def test_wrong_requests_and_no_answer_from_sluice(self):
        self.start_gateway()
        for more in ({"max_tokens": 0}, {"max_tokens": 1.5}, {"stream": False}, {"messages": "hello"}):
            answer = self.ask("3 words", **more)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (400, "invalid_request_error"))
        self.assertEqual(self.spent(), (0, 0))
        self.budgets.address = "127.0.0.1:1"
        answer = self.ask("3 words")
        self.assertEqual((answer.status, answer.json["error"]["code"]), (503, "budget_unavailable"))
        self.assertEqual(self.model.calls, [])


class Many(Gateways):
    """Real calls at the same time. One in 20 loses its settlement; one in 20 sends requests twice."""

    team, agent = TEAM, 260_000

    def test_the_balances_are_what_the_model_served(self):
        rules = replaced(RULES, ("20_000", "260_000"))
        self.start_gateway(rules)
        self.budgets.lose_every, self.budgets.repeat_every = 19, 20
        teams, agents = ("search", "support"), ("a", "b")

        def call(at, context, generated):
            content = f"{generated} " + "word " * (context - 1)
            team, agent = teams[at % 2], agents[at // 2 % 2]
            return self.ask(content, team, agent, max_tokens=500).status

        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            statuses = list(pool.map(lambda job: call(job[0], *job[1]), enumerate(rows())))
        served = statuses.count(200)
        self.assertEqual(served + statuses.count(429), len(statuses))
        self.assertEqual(served, len(self.budgets.settled) + len(self.budgets.lost))
        self.assertEqual(served, len(self.model.calls))
        self.assertGreater(statuses.count(429), 0)
        self.assertGreater(len(self.budgets.lost), 0)
        self.assertEqual({call["model"] for call in self.model.calls}, {"gpt-large", "gpt-small"})
        self.assertGreater(len(self.budgets.repeated), 0)
        for (status, _, first), (again_status, _, again) in self.budgets.repeated:
            self.assertEqual((status, again_status), (200, 200))
            self.assertNotIn("repeated", first)
            self.assertTrue(again["repeated"])
        self.clock.advance(HOLD_SECONDS)  # the holds that nobody settled end
        self.compare(teams, agents)

    def compare(self, teams, agents):
        """Compares each balance with the sum of what was settled, and of what was held and lost."""
        by_team, by_agent = dict.fromkeys(teams, 0), {}
        for attributes, actual in self.budgets.settled.values():
            team, agent = attributes["header.x-team"], attributes["header.x-agent"]
            by_team[team] += actual
            by_agent[team, agent] = by_agent.get((team, agent), 0) + actual
        for attributes, _ in self.budgets.lost:  # the team is charged, the agent is not
            held = int(attributes["body.input_tokens"]) * 3 + 500 * 15
            by_team[attributes["header.x-team"]] += held
        for team in teams:
            for agent in agents:
                self.assertEqual(self.spent(team, agent), (by_team[team], by_agent[team, agent]))
            self.assertLessEqual(by_team[team], TEAM + CREDITS)
        ended = [*self.budgets.settled.values(), *self.budgets.lost]
        self.assertEqual(sum(actual for _, actual in ended), sum(map(price_of, self.model.calls)))


class Balances:
    """The rules of the page without `degrade`, in this program."""

    def __init__(self, limits):
        self.limits, self.used, self.held = limits, {}, {}

    def fits(self, name, key, units):
        return self.used.get((name, key), 0) + units <= self.limits[name]

    def hold(self, call, team, agent, units):
        """Returns the budget of the team that admits the call, if there is one, and whether that of the
        agent does. If both do, they are charged."""
        first = next((name for name in ("team", "credits") if self.fits(name, team, units)), None)
        agent_fits = self.fits("agent", agent, units)
        if first and agent_fits:
            self.held[call] = [(first, team), ("agent", agent)], units
            self.add(call, units)
        return first, agent_fits

    def add(self, call, units):
        for balance in self.held[call][0]:
            self.used[balance] = self.used.get(balance, 0) + units

    def settle(self, call, units):
        self.add(call, units - self.held[call][1])


class Hour(ServerTest):
    """All 19,366 calls of an hour. Answers take 20 ms a token, so that calls overlap."""

    TEAMS, AGENTS = ("search", "support"), ("a", "b")
    MOST_TOKENS = 1000  # of an answer: no call of the log has more
    LIMITS = {"team": 20_000_000, "credits": 30_000_000, "agent": 30_000_000}
    RULES = replaced(RULES, ("500_000", "20_000_000"), (" 2_000_000", " 30_000_000"), (" 20_000,", " 30_000_000,"),
                     ("    degrade: { at: 90%, headers: { x-model: gpt-small } }\n", ""))  # fmt: skip

    def setUp(self):
        with gzip.open(ROOT / "tests/functional/data/llm-requests.csv.gz", "rt", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.calls = []
        for at, row in enumerate(rows):
            begin = datetime.datetime.fromisoformat(row["TIMESTAMP"][:26])
            team, agent = self.TEAMS[at % 2], self.AGENTS[at // 2 % 3 // 2]  # a has twice as many as b
            self.calls.append((begin, team, agent, int(row["ContextTokens"]), int(row["GeneratedTokens"])))
        self.assertEqual(len(self.calls), 19_366)

    def events(self):
        """Each call when it begins, and when it ends."""
        answer = datetime.timedelta(milliseconds=20)
        begins = [(call[0], 1, at) for at, call in enumerate(self.calls)]
        ends = [(call[0] + answer * call[4], 0, at) for at, call in enumerate(self.calls)]
        return sorted(begins + ends)

    def test_holds_and_settlements_of_all_calls_are_counted_exactly(self):
        server = self.serve(self.RULES, clock=self.stopped_clock())
        balances, sent, expected = Balances(self.LIMITS), [], []
        for _, begins, at in self.events():
            _, team, agent, context, generated = self.calls[at]
            attributes = {"path": PATH, "header.x-team": team, "header.x-agent": agent, "body.model": "gpt-large",
                          "body.input_tokens": str(context), "body.max_tokens": str(self.MOST_TOKENS)}  # fmt: skip
            body = {"attributes": attributes, "id": f"call-{at}"}
            if begins:
                most = 3 * context + 15 * self.MOST_TOKENS
                expected.append(200 if all(balances.hold(at, team, (team, agent), most)) else 429)
                sent.append(("/v1/check", {**body, "hold_ms": llm_gateway.HOLD_MS}))
            elif at in balances.held:
                balances.settle(at, 3 * context + 15 * generated)
                expected.append(200)
                sent.append(("/v1/settle", {**body, "actual": 3 * context + 15 * generated}))
        denied = expected.count(429)
        self.assertTrue(1000 < denied < 10_000, denied)
        self.assertEqual({name for name, _ in balances.used}, {"team", "credits", "agent"})
        with Raw(server.http) as connection:
            statuses = []
            for begin in range(0, len(sent), 100):
                requests = sent[begin : begin + 100]
                connection.send("".join(map(self.text, requests)))
                statuses += [connection.answer().status for _ in requests]
        wrong = [at for at, status in enumerate(statuses) if status != expected[at]]
        self.assertEqual([(at, statuses[at], sent[at]) for at in wrong[:3]], [])
        for team in self.TEAMS:
            for agent in self.AGENTS:
                attributes = {"path": PATH, "header.x-team": team, "header.x-agent": agent, "body.max_tokens": "0"}
                spent = llm_gateway.Budgets(server.http).spending(attributes)
                for name, key in (("team", team), ("credits", team), ("agent", (team, agent))):
                    self.assertEqual(spent[name]["spent"], balances.used.get((name, key), 0), (team, agent, name))

    @staticmethod
    def text(message):
        path, body = message[0], json.dumps(message[1])
        return f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"

    def test_a_replay_of_all_calls_counts_their_units_exactly(self):
        folder = self.folder()
        (folder / "rules.yaml").write_text(self.RULES, "utf-8")
        balances, lines, denied = Balances(self.LIMITS), [], 0
        limits = {name: dict.fromkeys(("requests", "denied", "units", "denied_units"), 0) for name in self.LIMITS}
        for at, (begin, team, agent, context, generated) in enumerate(self.calls):
            units = 3 * context + 15 * generated
            first, agent_fits = balances.hold(at, team, (team, agent), units)
            denied += not (first and agent_fits)
            for name, is_denied in ((first or "team", not first), ("agent", not agent_fits)):
                counts = (1, is_denied, units, units * is_denied)
                for member, number in zip(limits[name], counts, strict=True):
                    limits[name][member] += number
            lines.append(f"{begin.isoformat()},POST,{PATH},{team},{agent},{context},{generated}\n")
        self.assertTrue(all(limits[name]["denied"] > 1000 for name in ("team", "agent")), limits)
        (folder / "calls.csv").write_text("time,method,path,team,agent,in,out\n" + "".join(lines), "utf-8")
        names = {"header.x-team": "team", "header.x-agent": "agent", "body.input_tokens": "in",
                 "body.max_tokens": "out"}  # fmt: skip
        fields = [word for name, column in names.items() for word in ("--field", f"{name}={column}")]
        argv = [binary(), "replay", "--rules", "rules.yaml", "--json", *fields, "calls.csv"]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
        report = json.loads(done.stdout)
        self.assertEqual((report["parsed"], report["denied"], report["warnings"]), (19_366, denied, []))
        reported = {limit["name"]: limit for limit in report["rules"][0]["limits"]}
        for name, counts in limits.items():
            self.assertEqual({member: reported[name][member] for member in counts}, counts, name)


@unittest.skipUnless("LLM_GATEWAY" in os.environ, "the gateway in C++ was not built")
class InCpp(Gateways):
    """The gateway that has Sluice in the program. Its budgets do not renew: it has a real clock."""

    def start_gateway(self, rules=RULES):
        rules = replaced(rules, ("per: month", "per: never"), ("per: day", "per: never"))
        folder = self.folder()
        (folder / "rules.yaml").write_text(rules, "utf-8")
        argv = [os.environ["LLM_GATEWAY"], "rules.yaml", *map(str, self.model.server_address)]
        process = Process(argv, folder, "gateway", stdout=subprocess.PIPE)
        self.addCleanup(process.stop)
        self.gateway = f"127.0.0.1:{int(process.child.stdout.readline().split()[1])}"

    def test_calls_are_held_streamed_and_settled(self):
        self.start_gateway()
        events = self.events(self.ask("3 words about tea"))
        text = "".join(event["choices"][0]["delta"]["content"] for event in events[:-1])
        self.assertEqual(text, "word1 word2 word3 ")
        self.assertEqual(self.spent(), (4 * 3 + 3 * 15,) * 2)
        self.assertEqual(self.events(self.ask("2 words", max_tokens=1200))[0]["model"], "gpt-small")
        denied = self.ask("2 words please", max_tokens=1330)
        self.assertEqual((denied.status, denied.json["error"]["code"]), (429, "insufficient_quota"))
        self.assertEqual(self.spent(), (57 + 2 * 1 + 2 * 2,) * 2)

    def test_while_a_call_runs_its_most_is_held(self):
        self.start_gateway()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = pool.submit(self.ask, "3 words wait", max_tokens=1000)
            wait_for(lambda: self.model.started, "the call")
            fields = {"X-Team": "search", "X-Agent": "crawler"}
            bill = request(self.gateway, "GET", "/v1/spending", None, fields).json
            self.model.go_on.set()
            self.events(running.result())
        self.assertEqual(bill["team"], {"spent": 0, "held": 15_009, "left": TEAM - 15_009})
        self.assertEqual(self.spent(), (9 + 45,) * 2)

    def test_calls_that_fail(self):
        self.start_gateway()
        with self.assertRaises(http.client.HTTPException):
            self.ask("3 words fail")
        wait_for(lambda: self.spent() == (0, 0), "the settlement of nothing")
        with self.assertRaises(http.client.HTTPException):
            self.ask("10 words break")
        wait_for(lambda: self.spent() == (3 * 3 + 5 * 15,) * 2, "the settlement of what came")
        for more in ({"max_tokens": "1"}, {"max_tokens": 1.5}, {"messages": "hello"}):
            answer = self.ask("3 words", **more)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (400, "invalid_request_error"))
        self.assertEqual(self.spent(), (84, 84))


class Prices(ServerTest):
    def test_the_gateway_has_the_prices_of_the_rules(self):
        found = re.findall(r"(gpt-\w+): \{ input: (\d+), output: (\d+) \}", RULES)
        prices = {name: {"input": int(a), "output": int(b)} for name, a, b in found}
        self.assertEqual(prices, llm_gateway.PRICES)


if __name__ == "__main__":
    unittest.main()
