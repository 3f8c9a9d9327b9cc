#!/usr/bin/env python3
"""A gateway with the API of OpenAI that keeps teams and agents within their budgets.

    llm_gateway.py [--port 8000] [--sluice 127.0.0.1:8080] [--model 127.0.0.1:9000]

POST /v1/chat/completions holds the cost that the call can have at most, passes the answer of the model
on as it comes, and settles what was used. GET /v1/spending says what the caller's team and agent have
spent. docs/llm.md has the rules, and describes each step.
"""

import argparse
import http.client
import http.server
import json
import sys
import time
import uuid

# Micro-dollars a token, as in the rules: the gateway computes the actual cost.
PRICES = {"gpt-large": {"input": 3, "output": 15}, "gpt-small": {"input": 1, "output": 2}}
HOLD_MS = 120_000  # longer than an answer takes


def cost(model, usage):
    price = PRICES.get(model, PRICES["gpt-large"])
    return usage["prompt_tokens"] * price["input"] + usage["completion_tokens"] * price["output"]


def count_tokens(messages):
    """One token for each word. A real gateway uses the tokenizer of its model."""
    return sum(len(message["content"].split()) for message in messages)


def post(address, path, body):
    """Returns the connection, which the caller closes, and the answer."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()
    except BaseException:
        connection.close()
        raise


# [start budgets]
class Budgets:
    """Asks Sluice. Each request of a call has its id, so that it counts once even if it is sent again."""

    def __init__(self, address):
        self.address = address

    def ask(self, path, body, lost=None):
        """Returns the status, the Retry-After and the body of the answer. Retries if no answer comes, and
        adds the error to `lost`."""
        lost = [] if lost is None else lost
        for pause in (0.1, 0.5, None):
            try:
                connection, answer = post(self.address, path, body)
                try:
                    return answer.status, answer.getheader("Retry-After"), json.load(answer)
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException) as error:
                if pause is None:
                    raise
                lost.append(error)
                time.sleep(pause)

    def hold(self, call, attributes):
        lost = []
        answer = self.ask("/v1/check", {"attributes": attributes, "id": call, "hold_ms": HOLD_MS}, lost)
        if lost and answer[0] != 200:  # the request whose answer is lost can have held
            self.cancel(call, attributes)
        return answer

    def settle(self, call, attributes, actual):
        return self.ask("/v1/settle", {"attributes": attributes, "id": call, "actual": actual})

    def cancel(self, call, attributes):
        return self.ask("/v1/cancel", {"attributes": attributes, "id": call})

    def spending(self, attributes):
        """What is spent (and held), and what is left. `attributes` are those of a call without tokens."""
        limits = self.ask("/v1/check", {"attributes": attributes, "verb": "peek"})[2]["limits"]
        return {limit["name"]: {"spent": limit["limit"] - limit["remaining"], "left": limit["remaining"]}
                for limit in limits}  # fmt: skip
# [end budgets]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    # [start call]
    def do_POST(self):
        budgets, call = self.server.budgets, uuid.uuid4().hex
        try:
            request = self.read_request()
            attributes = self.attributes(request)
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            return self.fail(400, "invalid_request_error", f"wrong request: {wrong}")
        try:
            status, retry_after, held = budgets.hold(call, attributes)
        except (OSError, http.client.HTTPException) as error:
            self.end(budgets.cancel, call, attributes)
            return self.fail(503, "budget_unavailable", f"no answer from Sluice: {error}")
        if status == 429:
            return self.fail(429, "insufficient_quota", "the budget is used up: " + held["reason"],
                             {"Retry-After": retry_after} if retry_after else {})  # fmt: skip
        if status != 200:
            return self.fail(500, "budget_error", json.dumps(held))
        request["model"] = held.get("headers", {}).get("x-model", request["model"])
        try:
            connection, answer = post(self.server.model, self.path, request)
            if answer.status != 200:
                connection.close()
                raise OSError(f"status {answer.status}")
        except (OSError, http.client.HTTPException) as error:
            self.end(budgets.cancel, call, attributes)
            return self.fail(502, "model_error", f"the model failed: {error}")
        usage = {"prompt_tokens": int(attributes["body.input_tokens"]), "completion_tokens": 0}
        is_whole = self.relay(answer, usage)
        connection.close()
        self.end(budgets.settle, call, attributes, cost(request["model"], usage))
        if is_whole:
            self.chunk(b"")
        self.close_connection = not is_whole
    # [end call]

    def end(self, how, *arguments):
        """Settles or cancels. If Sluice does not answer, the hold ends by itself (`on_expiry`)."""
        try:
            status, _, answer = how(*arguments)
            if status != 200:
                self.log_error("not settled: %s", json.dumps(answer))
        except (OSError, http.client.HTTPException) as error:
            self.log_error("not settled: %s", error)

    def read_request(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)))
        if self.path != "/v1/chat/completions" or request.get("stream") is not True:
            raise ValueError('only /v1/chat/completions with "stream": true is here')
        request.setdefault("max_tokens", 500)
        if type(request["max_tokens"]) is not int or request["max_tokens"] < 1:
            raise ValueError("max_tokens must be a whole number from 1 on")
        request["stream_options"] = {"include_usage": True}
        return request

    def attributes(self, request):
        """What the rules read. A real gateway knows team and agent from the API key."""
        return {
            "path": self.path,
            "header.x-team": self.headers["X-Team"] or "nobody",
            "header.x-agent": self.headers["X-Agent"] or "none",
            "body.model": str(request["model"]),
            "body.input_tokens": str(count_tokens(request["messages"])),
            "body.max_tokens": str(request["max_tokens"]),
        }

    def relay(self, answer, usage):
        """Passes the events on as they come, and counts their tokens. Returns whether all came and
        could be sent."""
        is_whole = False
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for line in answer:
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    usage["completion_tokens"] += 1
                    usage.update(event.get("usage") or {})
                is_whole = is_whole or line.startswith(b"data: [DONE]")
                self.chunk(line)
        except (OSError, http.client.HTTPException, ValueError):  # or an event breaks off
            is_whole = False
        return is_whole

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def do_GET(self):
        caller = self.attributes({"model": "none", "messages": [], "max_tokens": 0})
        try:
            self.answer(200, self.server.budgets.spending({**caller, "path": "/v1/chat/completions"}))
        except (OSError, http.client.HTTPException) as error:
            self.fail(503, "budget_unavailable", f"no answer from Sluice: {error}")

    def fail(self, status, code, message, fields=()):
        """Answers as OpenAI does."""
        error = {"message": message, "type": code, "param": None, "code": code}
        self.answer(status, {"error": error}, fields)

    def answer(self, status, body, fields=()):
        data = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **dict(fields)}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, *_):
        pass


class Gateway(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # connections that wait to be accepted

    def __init__(self, port, budgets, model):
        super().__init__(("127.0.0.1", port), Handler)
        self.budgets, self.model = budgets, model


def main(arguments):
    parser = argparse.ArgumentParser(description="A gateway that keeps teams within their budgets.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--sluice", default="127.0.0.1:8080", help="where sluice serve listens")
    parser.add_argument("--model", default="127.0.0.1:9000", help="where the model listens")
    options = parser.parse_args(arguments)
    gateway = Gateway(options.port, Budgets(options.sluice), options.model)
    print("ready", gateway.server_address[1], flush=True)
    gateway.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
