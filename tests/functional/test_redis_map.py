"""A node that names thousands of servers that nobody can reach as the masters of its cluster."""

import concurrent.futures
import contextlib
import socket
import threading
import unittest

from harness import wait_for
from redis_load import SHORT, Client, FaultTest, question

SLOTS = 16384
HELLO = b"%1\r\n+server\r\n+redis\r\n"


def bulk(text):
    return f"${len(text)}\r\n{text}\r\n"


def server_entry(host, port=9):
    return f"*3\r\n{bulk(host)}:{port}\r\n{bulk('id')}"


def slots_reply(masters, replicas, first_host):
    """Returns an answer to CLUSTER SLOTS with this many masters and replicas of each."""
    reply = [f"*{masters}\r\n"]
    for i in range(masters):
        first, last = i * SLOTS // masters, (i + 1) * SLOTS // masters - 1
        reply.append(f"*{3 + replicas}\r\n:{first}\r\n:{last}\r\n" + server_entry(first_host(i)))
        reply += [server_entry(f"127.{10 + k}.{i // 250}.{1 + i % 250}") for k in range(replicas)]
    return "".join(reply).encode()


class Node:
    """Answers CLUSTER SLOTS with these bytes, and every other command with OK."""

    def __init__(self, slots):
        self.slots, self.asked = slots, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as reader:
            while line := reader.readline():
                words = []
                for _ in range(int(line[1:])):
                    size = int(reader.readline()[1:])
                    words.append(reader.read(size + 2)[:-2].upper())
                is_question = words[0] == b"CLUSTER"
                self.asked += is_question
                connection.sendall(self.slots if is_question else
                                   HELLO if words[0] == b"HELLO" else b"+OK\r\n")

    def stop(self):
        self.listening.close()


class ManyMasters(FaultTest):
    def answers(self, replicas, first_host):
        node = Node(slots_reply(3000, replicas, first_host))
        self.addCleanup(node.stop)
        server = self.serve_store(f"redis+cluster://127.0.0.1:{node.port}", threads=1, wait=False,
                                  deadline=SHORT,
                                  breaker={"open_for": "1ms", "longest_open": "1ms"})
        wait_for(lambda: node.asked > 0, what="a question for the map")

        def ask(number):
            said = []
            with Client(server.http) as client:
                while node.asked < 4 or len(said) < 20:
                    said.append(client.ask(question("/allow", f"u{number}-{len(said)}")))
            return said

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            said = [one for some in pool.map(ask, range(4)) for one in some]
        self.assertEqual({(one.status, one.reason) for one in said}, {(200, "fallback")})
        self.assertLess(server.descriptors(), 400)

    def test_servers_that_refuse_connections_hold_up_no_request(self):
        self.answers(0, lambda i: f"127.9.{i // 250}.{1 + i % 250}")

    def test_thousands_of_replicas_hold_up_no_request(self):
        self.answers(8, lambda i: f"127.9.{i // 250}.{1 + i % 250}")

    def test_names_that_do_not_exist_hold_up_no_request(self):
        self.answers(0, lambda i: f"master-{i}.invalid")


if __name__ == "__main__":
    unittest.main()
