#!/usr/bin/env python3
"""A fake language model with the API of OpenAI, for trying llm_gateway.py.

    llm_model.py [PORT]

A token is a word. The answer has as many words as the first number in the question says, and at most
`max_tokens`. A question with the word "fail" is answered with status 500, and with "break" the answer
breaks off in its middle.
"""

import http.server
import json
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = " ".join(message["content"] for message in request["messages"]).split()
        wanted = next((int(word) for word in words if word.isdigit()), 20)
        tokens = min(wanted, request["max_tokens"])
        if "fail" in words:
            self.send_error(500)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(tokens // 2 if "break" in words else tokens):
            self.server.before_token(words, number)
            delta = {"content": f"word{number + 1} "}
            self.event({"model": request["model"], "choices": [{"index": 0, "delta": delta}]})
        if "break" in words:
            self.close_connection = True
            return
        usage = {"prompt_tokens": len(words), "completion_tokens": tokens}
        self.server.calls.append({"model": request["model"], **usage})
        self.event({"model": request["model"], "choices": [], "usage": usage})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, event):
        self.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_):
        pass


class Model(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.calls = []  # the usage of each answer

    def before_token(self, words, number):
        """A test can wait here."""

    def handle_error(self, *_):
        pass  # a client has gone


if __name__ == "__main__":
    Model(int(sys.argv[1]) if len(sys.argv) > 1 else 9000).serve_forever()
