"""The transport of the gRPC front end, tested with gRPC's own client and with single frames."""

import signal
import struct
import time

import grpc

import harness

RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
HEALTH = "/grpc.health.v1.Health/"
REFLECTION = "/grpc.reflection.{}.ServerReflection/ServerReflectionInfo"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def field(number, value):
    """Returns a bytes field of a message in the format of protobuf."""
    value = value.encode() if isinstance(value, str) else value
    size, out = len(value), b""
    while size > 127:
        out, size = out + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + out + bytes([size]) + value


def request(domain="shop", key="user", value="u1"):
    return field(1, domain) + field(2, field(1, field(1, key) + field(2, value)))


def channel(address, **options):
    return grpc.insecure_channel(address, options=list(options.items()))


def grpc_address(server):
    return server.front_ends["grpc"]


def unary(over, path, message=b"", timeout=harness.PATIENCE, **options):
    return over.unary_unary(path)(message, timeout=timeout, **options)


def status_of(over, path, message=b"", **options):
    """Returns the status code and the text of a call that fails."""
    try:
        unary(over, path, message, **options)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


class Frames:
    """A connection that sends any frames of HTTP/2, valid or invalid."""

    GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)

    def __init__(self, address, greet=True):
        self.socket = harness.connect(address)
        if greet:
            self.socket.sendall(self.GREETING + self.frame(self.SETTINGS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    @staticmethod
    def frame(kind, payload=b"", flags=0, stream=0):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
            ">I", stream
        ) + payload

    @staticmethod
    def literal(name, value):
        """Returns a header field without compression or index."""
        name, value = name.encode(), value.encode()
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    @classmethod
    def header(cls, path=RATE_LIMIT, **fields):
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "localhost",
            "content-type": "application/grpc",
            **{name.replace("_", "-"): value for name, value in fields.items()},
        }
        return b"".join(cls.literal(*pair) for pair in fields.items())

    def send(self, *arguments, **options):
        self.socket.sendall(self.frame(*arguments, **options))
        return self

    def read_exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def read(self):
        """Returns (type, flags, stream, payload)."""
        head = self.read_exactly(9)
        size = int.from_bytes(head[:3], "big")
        return head[3], head[4], int.from_bytes(head[5:], "big"), self.read_exactly(size)

    def goaway(self):
        """Returns the error code of the GOAWAY frame, or None if the connection ends without one."""
        try:
            while True:
                kind, _, _, payload = self.read()
                if kind == self.GOAWAY:
                    return struct.unpack(">II", payload[:8])[1]
        except (EOFError, ConnectionError):
            return None


class Transport(harness.ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.serve(
            config={
                "listen": {"grpc": "127.0.0.1:0"},
                "bounds": {"header_timeout": f"{harness.PATIENCE}s"},
            }
        )
        cls.address = grpc_address(cls.server)
        cls.channel = channel(cls.address)
        cls.addClassCleanup(cls.channel.close)

    def alive(self):
        self.assertEqual(unary(self.channel, HEALTH + "Check"), SERVING)

    def test_health_reports_the_server_and_its_service(self):
        for name in ("", "ratelimit"):
            self.assertEqual(unary(self.channel, HEALTH + "Check", field(1, name)), SERVING)
        code, _ = status_of(self.channel, HEALTH + "Check", field(1, "other"))
        self.assertEqual(code, grpc.StatusCode.NOT_FOUND)

    def test_health_can_be_watched(self):
        for name, first in (("ratelimit", SERVING), ("other", SERVICE_UNKNOWN)):
            watch = self.channel.unary_stream(HEALTH + "Watch")(field(1, name), timeout=harness.PATIENCE)
            self.assertEqual(next(watch), first)
            watch.cancel()

    def test_an_unknown_path_is_unimplemented(self):
        for path in ("/nowhere/Nothing", HEALTH + "Other", RATE_LIMIT + "/"):
            code, _ = status_of(self.channel, path, request())
            self.assertEqual(code, grpc.StatusCode.UNIMPLEMENTED)

    def test_error_messages_reach_the_client(self):
        code, text = status_of(self.channel, HEALTH + "Check", field(1, "other"))
        self.assertEqual(text, 'unknown service; expected "" or "ratelimit"')

    def test_a_message_over_the_bound_is_refused(self):
        big = channel(self.address, **{"grpc.max_send_message_length": -1})
        self.addCleanup(big.close)
        code, text = status_of(big, RATE_LIMIT, request(value="x" * (1 << 20)))
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("1048576", text)
        self.alive()

    def test_gzip_is_accepted_and_other_encodings_are_not(self):
        message = field(1, "ratelimit") + field(15, b"z" * 5000)  # an unknown field
        gzip = unary(self.channel, HEALTH + "Check", message, compression=grpc.Compression.Gzip)
        self.assertEqual(gzip, SERVING)
        code, _ = status_of(
            self.channel, HEALTH + "Check", message, compression=grpc.Compression.Deflate
        )
        self.assertEqual(code, grpc.StatusCode.UNIMPLEMENTED)

    def test_a_gzip_bomb_is_refused(self):
        message = b"\x7a" + b"\x80\x80\x80\x08" + b"\0" * (1 << 24)
        code, _ = status_of(
            self.channel, HEALTH + "Check", message, compression=grpc.Compression.Gzip
        )
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_reflection_lists_and_describes_services(self):
        for version in ("v1", "v1alpha"):
            asks = [field(7, "")]
            for symbol in ("grpc.health.v1.Health", "kuadrant.service.ratelimit.v1.RateLimitService.Reserve", "no.such.thing"):
                asks.append(field(4, symbol))
            call = self.channel.stream_stream(REFLECTION.format(version))(iter(asks), timeout=harness.PATIENCE)
            services, file, reserve, unknown = list(call)
            for name in (
                b"envoy.service.ratelimit.v3.RateLimitService",
                b"kuadrant.service.ratelimit.v1.RateLimitService",
                b"grpc.health.v1.Health",
            ):
                self.assertIn(name, services)
            self.assertIn(b"HealthCheckRequest", file)
            self.assertIn(b"reservation_released", reserve)
            self.assertIn(b"is not known here", unknown)

    def test_hundreds_of_concurrent_calls_are_answered(self):
        calls = [
            self.channel.unary_unary(HEALTH + "Check").future(b"", timeout=harness.PATIENCE) for _ in range(500)
        ]
        self.assertEqual({call.result() for call in calls}, {SERVING})

    def test_an_expired_deadline_is_reported(self):
        with Frames(self.address) as peer:
            header = peer.header(HEALTH + "Check", grpc_timeout="0n")
            peer.send(peer.HEADERS, header, flags=5, stream=1)
            while (seen := peer.read())[0] != peer.HEADERS:
                pass
            self.assertEqual(seen[1] & 1, 1)
            self.assertIn(b"\x01\x34", seen[3].replace(b"\x81\x69", b"\x014"))

    def test_http1_gets_400_that_mentions_grpc(self):
        answer = harness.exchange(self.address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(answer.status, 400)
        self.assertIn(b"gRPC", answer.body)

    def test_a_call_may_arrive_one_byte_at_a_time(self):
        with Frames(self.address, greet=False) as peer:
            header = peer.header(HEALTH + "Check")
            words = (
                peer.GREETING
                + peer.frame(peer.SETTINGS)
                + peer.frame(peer.HEADERS, header, flags=4, stream=1)
                + peer.frame(peer.DATA, b"\0" * 5, flags=1, stream=1)
            )
            for i in range(len(words)):
                peer.socket.sendall(words[i : i + 1])
            seen = [peer.read() for _ in range(6)]
            data = [payload for kind, _, _, payload in seen if kind == peer.DATA]
            self.assertEqual(data, [b"\0\0\0\0\x02" + SERVING])

    def test_a_flood_is_stopped(self):
        def resets(peer):
            for i in range(4000):
                stream = 2 * i + 1
                peer.send(peer.HEADERS, peer.header(), flags=4, stream=stream)
                peer.send(peer.RST, b"\0\0\0\x08", stream=stream)

        def continuations(peer):
            peer.send(peer.HEADERS, peer.header(), stream=1)
            for _ in range(4000):
                peer.send(peer.CONTINUATION, peer.literal("a", "b"), stream=1)

        def of(frame):
            return lambda peer: peer.socket.sendall(frame * 20000)

        floods = {
            "resets": resets,
            "continuations": continuations,
            "pings": of(Frames.frame(Frames.PING, b"12345678")),
            "settings": of(Frames.frame(Frames.SETTINGS)),
            "windows": of(Frames.frame(Frames.WINDOW, b"\0\0\0\x01")),
            "priorities": of(Frames.frame(Frames.PRIORITY, b"\0\0\0\0\x01", stream=1)),
            "unknown types": of(Frames.frame(0x42, b"whatever", flags=255)),
            "empty unknown types": of(Frames.frame(0x42)),
        }
        for name, flood in floods.items():
            with self.subTest(name), Frames(self.address) as peer:
                try:
                    flood(peer)
                except ConnectionError:
                    pass
                self.assertNotEqual(peer.goaway(), 0)
                self.alive()

    def test_a_client_that_does_not_read_is_paused_and_disconnected(self):
        server = self.serve(
            config={"listen": {"grpc": "127.0.0.1:0"}, "bounds": {"write_timeout": "500ms"}}
        )
        address = grpc_address(server)
        before = server.resident_bytes()
        with Frames(address) as peer:
            peer.socket.settimeout(0.2)
            began = time.monotonic()
            stream, reset = 1, None
            while reset is None and time.monotonic() - began < harness.PATIENCE:
                calls = b""
                for stream in range(stream, stream + 400, 2):
                    calls += peer.frame(
                        peer.HEADERS, peer.header(HEALTH + "Check"), flags=4, stream=stream
                    ) + peer.frame(peer.DATA, b"\0" * 5, flags=1, stream=stream)
                stream += 2
                try:
                    peer.socket.sendall(calls)
                except TimeoutError:
                    # Half a frame may have been sent, so no valid frame can follow.
                    self.assertLess(server.resident_bytes() - before, 32 << 20)
                except ConnectionError as error:
                    reset = error
            self.assertIsNotNone(reset, "who reads nothing was served on")
        with channel(address) as over:
            self.assertEqual(unary(over, HEALTH + "Check"), SERVING)

    def test_empty_data_frames_are_a_flood(self):
        with Frames(self.address) as peer:
            peer.send(peer.HEADERS, peer.header(), flags=4, stream=1)
            try:
                peer.socket.sendall(peer.frame(peer.DATA, stream=1) * 20000)
            except ConnectionError:
                pass
            self.assertNotEqual(peer.goaway(), 0)
        self.alive()

    def test_a_header_over_the_bound_ends_only_its_call(self):
        with Frames(self.address) as peer:
            long = b"".join(peer.literal(f"x{i}", "y" * 100) for i in range(300))
            peer.send(peer.HEADERS, peer.header()[:0] + peer.header() + long[:8000], stream=1)
            for i in range(8000, len(long), 8000):
                last = 4 if i + 8000 >= len(long) else 0
                peer.send(peer.CONTINUATION, long[i : i + 8000], flags=last, stream=1)
            peer.send(peer.HEADERS, peer.header(HEALTH + "Check"), flags=4, stream=3)
            peer.send(peer.DATA, b"\0" * 5, flags=1, stream=3)
            kinds = {}
            while peer.DATA not in kinds:
                kind, _, stream, _ = peer.read()
                kinds[kind] = stream
            self.assertEqual(kinds[peer.RST], 1)
            self.assertEqual(kinds[peer.DATA], 3)

    def test_invalid_calls_are_refused(self):
        for fields, status in (
            ({":method": "GET"}, "405"),
            ({"content-type": "application/json"}, "415"),
            ({"content-type": "application/grpc+json"}, "415"),
        ):
            with Frames(self.address) as peer:
                peer.send(peer.HEADERS, peer.header(**fields), flags=5, stream=1)
                while (seen := peer.read())[0] != peer.HEADERS:
                    pass
                self.assertIn(status.encode(), self.unhuffed(seen[3]))

    @staticmethod
    def unhuffed(block):
        """Returns the field :status, whose digits HPACK may have compressed."""
        packed = {b"\x08\x02": b"405", b"\x0b\x82": b"415"}
        return block + b"".join(v for k, v in packed.items() if k in block) + repr(block).encode()

    def test_resources_are_released(self):
        before = self.server.descriptors()
        for _ in range(200):
            with Frames(self.address) as peer:
                peer.send(peer.HEADERS, peer.header(), flags=4, stream=1)
        harness.wait_for(lambda: self.server.descriptors() <= before + 2, what="closed sockets")


class Timeouts(harness.ServerTest):
    @classmethod
    def setUpClass(cls):
        bounds = {"header_timeout": "300ms", "idle_timeout": "1s"}
        server = cls.serve(config={"listen": {"grpc": "127.0.0.1:0"}, "bounds": bounds})
        cls.address = grpc_address(server)

    def test_silent_clients_are_disconnected(self):
        for words in (b"", Frames.GREETING[:10], Frames.GREETING):
            with harness.Raw(self.address) as raw:
                raw.send(words)
                raw.reader.read()

    def test_an_endless_header_ends_the_connection(self):
        with Frames(self.address) as peer:
            peer.send(peer.HEADERS, peer.header(HEALTH + "Check"), stream=1)
            self.assertEqual(peer.goaway(), 0)
            with self.assertRaises(EOFError):
                peer.read()

    def test_an_idle_connection_receives_goaway(self):
        with Frames(self.address) as peer:
            began = time.monotonic()
            self.assertEqual(peer.goaway(), 0)
            self.assertGreater(time.monotonic() - began, 0.9)
            with self.assertRaises((EOFError, ConnectionError)):
                while True:
                    peer.read()


class Drain(harness.ServerTest):
    def drain(self, delay):
        """Returns a server that drains, a channel to it, and a watch of its health."""
        config = {"listen": {"grpc": "127.0.0.1:0"}, "drain": {"delay": delay}}
        server = harness.Sluice(self.folder(), config=config)
        self.addCleanup(server.stop)
        over = channel(grpc_address(server))
        self.addCleanup(over.close)
        watch = over.unary_stream(HEALTH + "Watch")(b"", timeout=harness.PATIENCE)
        self.assertEqual(next(watch), SERVING)
        server.signal(signal.SIGTERM)
        return server, over, watch

    def test_during_the_delay_watchers_are_notified_and_calls_are_answered(self):
        server, over, watch = self.drain(f"{2 * harness.PATIENCE}s")
        self.assertEqual(next(watch), NOT_SERVING)
        self.assertEqual(unary(over, HEALTH + "Check"), NOT_SERVING)
        server.signal(signal.SIGTERM)  # ends the server at once

    def test_after_the_delay_streams_end(self):
        server, _, watch = self.drain("10ms")
        self.assertEqual(next(watch), NOT_SERVING)
        with self.assertRaises(grpc.RpcError):
            next(watch)
        self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    import unittest

    unittest.main()
