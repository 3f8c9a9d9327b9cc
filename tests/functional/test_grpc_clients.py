"""Independent clients of gRPC and HTTP/2 with the gRPC front end: npm's @grpc/grpc-js, grpc++,
Debian's python3-grpcio, h2load and nghttp; and Envoy's call, byte for byte."""

import ctypes
import json
import os
import struct
import subprocess
import time
import unittest

import grpc

import envoy_harness
import harness
import redis_harness
from envoy_harness import METHOD, PROTO
from test_grpc_transport import Frames

LIMITS = """
domain: shop
descriptors:
  - { key: user, rate_limit: { name: user, unit: day, requests_per_unit: 2 } }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: many, rate_limit: { unit: day, requests_per_unit: 1500 } }
"""
SERVICES = [
    "envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "kuadrant.service.ratelimit.v1.RateLimitService",
]
# The output of every client, without the time until the limit resets.
EXPECTED = {
    "codes": ["OK", "OK", "OVER_LIMIT"],
    "status": {"code": "OVER_LIMIT", "limit": 2, "unit": "DAY", "name": "user", "remaining": 0},
    "free": 2**32 - 1,
    "none": None,
    "invalid": 3,
    "unknown": 12,
    "deadline": 4,
    "check": "SERVING",
    "nobody": 5,
    "watch": "SERVING",
    "services": {"v1": SERVICES, "v1alpha": SERVICES},
}


def setUpModule():
    global rls
    rls = envoy_harness.messages()


def tool(name):
    path = harness.shutil.which(name)
    if not path:
        raise AssertionError(f"{name} is missing: apt-get install nghttp2-client")
    return path


def request(key, value):
    message = rls.RateLimitRequest(domain="shop")
    message.descriptors.add().entries.add(key=key, value=value)
    return message


def framed(message):
    data = message.SerializeToString()
    return struct.pack(">BI", 0, len(data)) + data


def unframed(data):
    compressed, size = struct.unpack(">BI", data[:5])
    assert compressed == 0 and len(data) == 5 + size, data
    return rls.RateLimitResponse.FromString(data[5:])


class Clients(redis_harness.RedisTest):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.serve_grpc()
        cls.redis_server = cls.redis()
        patient = {"deadline": "60s", "connect_timeout": "60s"}
        cls.stuck = cls.serve_grpc(store=cls.redis_server.url, redis=patient)
        cls.redis_server.pause()
        cls.addClassCleanup(cls.redis_server.resume)
        cls.addresses = (envoy_harness.address_of(cls.server), envoy_harness.address_of(cls.stuck))

    @classmethod
    def serve_grpc(cls, **more):
        folder = cls.folder()
        (folder / "shop.yaml").write_text(LIMITS)
        files = {"files": str(folder / "shop.yaml")}
        config = {"listen": {"grpc": "127.0.0.1:0"}, "envoy": files, **more}
        return cls.serve(config=config, clock=cls.stopped_clock())

    def check_output_of(self, *argv, **options):
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=harness.PATIENCE, **options)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        printed = json.loads(ran.stdout)
        self.assertEqual(printed.pop("reset"), 86400 - harness.Clock.START % 86400)
        self.assertEqual(printed, EXPECTED)

    @unittest.skipUnless(os.environ.get("GRPC_CLIENTS"), "the packages of npm are not installed")
    def test_node_client_works(self):
        self.check_output_of("node", "check.mjs", *self.addresses, str(PROTO),
                             cwd=os.environ["GRPC_CLIENTS"])  # fmt: skip

    @unittest.skipUnless(os.environ.get("GRPC_CLIENT"), "grpc++ was not found: libgrpc++-dev")
    def test_cpp_client_works(self):
        self.check_output_of(os.environ["GRPC_CLIENT"], *self.addresses)

    def test_python_client_works(self):
        channels = [envoy_harness.channel_to(server) for server in (self.server, self.stuck)]
        for channel in channels:
            self.addCleanup(channel.close)
        ask, ask_stuck = (envoy_harness.caller(rls, channel) for channel in channels)
        codes = [ask(request("user", "python"), timeout=harness.PATIENCE).overall_code for _ in range(3)]
        self.assertEqual(codes, [1, 1, 2])
        with self.assertRaises(grpc.RpcError) as raised:
            ask_stuck(request("user", "python"), timeout=0.15)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

    def test_the_server_enforces_the_deadline(self):
        """The server sends DEADLINE_EXCEEDED itself, independently of the client."""
        hpack = Hpack()
        self.addCleanup(hpack.close)
        with Frames(self.addresses[1]) as peer:
            header = peer.header(METHOD, te="trailers", grpc_timeout="150m")
            begun = time.monotonic()
            peer.send(peer.HEADERS, header, flags=4, stream=1)
            peer.send(peer.DATA, framed(request("user", "deadline")), flags=1, stream=1)
            while (seen := peer.read())[0] != peer.HEADERS:
                pass
        took = time.monotonic() - begun
        self.assertEqual(hpack.inflate(seen[3])["grpc-status"], "4")
        self.assertGreater(took, 0.14)

    def body_file(self, key, value):
        file = self.folder() / "request.bin"
        file.write_bytes(framed(request(key, value)))
        return str(file)

    def test_h2load_calls_are_all_counted(self):
        body = self.body_file("many", "h2load")
        ran = subprocess.run(
            [tool("h2load"), "-n", "1500", "-c", "5", "-m", "32", "-d", body, "-H", "te: trailers",
             "-H", "content-type: application/grpc", f"http://{self.addresses[0]}{METHOD}"],
            capture_output=True, text=True, timeout=harness.PATIENCE,
        )  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("1500 succeeded, 0 failed, 0 errored", ran.stdout)
        self.assertIn("1500 2xx", ran.stdout)
        # Every call was counted exactly once.
        channel = envoy_harness.channel_to(self.server)
        self.addCleanup(channel.close)
        answer = envoy_harness.caller(rls, channel)(request("many", "h2load"), timeout=harness.PATIENCE)
        self.assertEqual(answer.overall_code, rls.RateLimitResponse.OVER_LIMIT)
        self.assertEqual(answer.statuses[0].limit_remaining, 0)

    def test_nghttp_receives_answers_and_errors(self):
        argv = [tool("nghttp"), "-H", "te: trailers", "-H", "content-type: application/grpc", "-d",
                self.body_file("user", "nghttp")]  # fmt: skip
        url = f"http://{self.addresses[0]}{METHOD}"
        ran = subprocess.run([*argv, url], capture_output=True, timeout=harness.PATIENCE)
        self.assertEqual(unframed(ran.stdout).statuses[0].limit_remaining, 1)
        ran = subprocess.run([*argv, "-nv", url], capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertRegex(ran.stdout, r"content-type: application/grpc\b")
        self.assertRegex(ran.stdout, r"grpc-status: 0\b")
        unknown = subprocess.run([*argv, "-nv", url + "No"], capture_output=True, text=True,
                                 timeout=harness.PATIENCE)  # fmt: skip
        self.assertRegex(unknown.stdout, r"grpc-status: 12\b")


class Hpack:
    """The HPACK coder and decoder of nghttp2, which Envoy uses too."""

    class Field(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p),
                    ("name_size", ctypes.c_size_t), ("value_size", ctypes.c_size_t),
                    ("flags", ctypes.c_uint8)]  # fmt: skip

    def __init__(self):
        self.library = ctypes.CDLL("libnghttp2.so.14")
        self.library.nghttp2_hd_deflate_hd.restype = ctypes.c_ssize_t
        self.library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self.coder, self.decoder = ctypes.c_void_p(), ctypes.c_void_p()
        self.library.nghttp2_hd_deflate_new(ctypes.byref(self.coder), ctypes.c_size_t(4096))
        self.library.nghttp2_hd_inflate_new(ctypes.byref(self.decoder))

    def close(self):
        self.library.nghttp2_hd_deflate_del(self.coder)
        self.library.nghttp2_hd_inflate_del(self.decoder)

    def deflate(self, fields):
        pairs = [(name.encode(), value.encode()) for name, value in fields]
        array = (self.Field * len(pairs))(*((n, v, len(n), len(v), 0) for n, v in pairs))
        out = ctypes.create_string_buffer(4096)
        size = self.library.nghttp2_hd_deflate_hd(
            self.coder, out, ctypes.c_size_t(len(out)), array, ctypes.c_size_t(len(pairs)))
        return out.raw[:size]

    def inflate(self, block):
        """Returns the fields as a dict."""
        fields, at = {}, 0
        while True:
            field, flags = self.Field(), ctypes.c_int(0)
            used = self.library.nghttp2_hd_inflate_hd2(
                self.decoder, ctypes.byref(field), ctypes.byref(flags), block[at:],
                ctypes.c_size_t(len(block) - at), 1)
            assert used >= 0, used
            at += used
            if flags.value & 2:  # a field
                fields[field.name.decode()] = field.value.decode()
            if flags.value & 1:  # the end
                self.library.nghttp2_hd_inflate_end_headers(self.decoder)
                return fields


class EnvoysCall(harness.ServerTest):
    """A connection as Envoy opens and uses it."""

    # No push, 1024 streams, a window of 2^24 bytes per stream.
    SETTINGS = struct.pack(">HIHIHI", 2, 0, 3, 1024, 4, 1 << 24)
    CALL = [
        (":method", "POST"),
        (":path", METHOD),
        (":authority", "sluice"),
        (":scheme", "http"),
        ("te", "trailers"),
        ("grpc-timeout", "60000m"),
        ("content-type", "application/grpc"),
        ("x-request-id", "5e0d8a0c-6a2b-9d8c-b1a6-6a3f9b7d4c11"),
        ("traceparent", "00-80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-01"),
        ("user-agent", "grpc-envoy/1.31.0"),
        ("x-envoy-internal", "true"),
        ("x-forwarded-for", "10.1.2.3"),
        ("x-envoy-expected-rq-timeout-ms", "60000"),
    ]

    @classmethod
    def setUpClass(cls):
        folder = cls.folder()
        (folder / "shop.yaml").write_text(LIMITS)
        files = {"files": str(folder / "shop.yaml")}
        cls.server = cls.serve(config={"listen": {"grpc": "127.0.0.1:0"}, "envoy": files})

    def setUp(self):
        self.frames = Frames(envoy_harness.address_of(self.server), greet=False)
        self.addCleanup(self.frames.socket.close)
        self.hpack = Hpack()
        self.addCleanup(self.hpack.close)
        self.stream = -1

    def greet(self):
        window = struct.pack(">I", (1 << 28) - 65535)
        frame = Frames.frame
        return (Frames.GREETING + frame(Frames.SETTINGS, self.SETTINGS)
                + frame(Frames.WINDOW, window))  # fmt: skip

    def call(self, message, fields=()):
        """Returns the frames of the next call."""
        self.stream += 2
        header = self.hpack.deflate([*self.CALL, *fields])
        return (Frames.frame(Frames.HEADERS, header, flags=4, stream=self.stream)
                + Frames.frame(Frames.DATA, framed(message), flags=1, stream=self.stream))

    def answer(self, stream):
        """Returns the stream's message, and its header and trailers in one dict. Answers settings
        and pings of the server meanwhile."""
        data, fields = b"", {}
        while True:
            kind, flags, on, payload = self.frames.read()
            if kind in (Frames.SETTINGS, Frames.PING) and not flags & 1:
                answered = payload if kind == Frames.PING else b""
                self.frames.send(kind, answered, flags=1)
            if kind == Frames.HEADERS:
                self.assertTrue(flags & 4)
                inflated = self.hpack.inflate(payload)
                fields.update(inflated if on == stream else {})
            self.assertNotIn(kind, (Frames.RST, Frames.GOAWAY))
            if on != stream:
                continue
            if kind == Frames.DATA:
                data += payload
            if flags & 1:
                return unframed(data), fields

    def test_a_call_is_answered(self):
        self.frames.socket.sendall(self.greet() + self.call(request("user", "envoy")))
        message, fields = self.answer(1)
        self.assertEqual(fields[":status"], "200")
        self.assertEqual(fields["content-type"], "application/grpc")
        self.assertEqual(fields["grpc-status"], "0")
        self.assertEqual(message.overall_code, rls.RateLimitResponse.OK)
        self.assertEqual(message.statuses[0].limit_remaining, 1)

    def test_a_second_call_on_the_connection_is_answered(self):
        """Most of its header fields are then indices of one byte."""
        self.frames.socket.sendall(self.greet())
        sizes, codes = [], []
        for _ in range(3):
            call = self.call(request("user", "again"))
            sizes.append(int.from_bytes(call[:3], "big"))
            self.frames.socket.sendall(call)
            codes.append(self.answer(self.stream)[0].overall_code)
        self.assertEqual(codes, [1, 1, 2])
        self.assertLess(sizes[2], sizes[0] / 3)

    def test_a_call_in_pieces_of_one_byte_is_answered(self):
        for byte in self.greet() + self.call(request("user", "bytes")):
            self.frames.socket.sendall(bytes([byte]))
        self.assertEqual(self.answer(1)[0].overall_code, rls.RateLimitResponse.OK)

    def test_concurrent_calls_and_a_ping_are_answered(self):
        calls = b"".join(self.call(request("many", "beside")) for _ in range(100))
        ping = Frames.frame(Frames.PING, b"envoy-ka")
        self.frames.socket.sendall(self.greet() + calls + ping)
        left = {}
        ended, pinged = set(), False
        while len(ended) < 100 or not pinged:
            kind, flags, on, payload = self.frames.read()
            if kind == Frames.DATA:
                left[on] = unframed(payload).statuses[0].limit_remaining
            if kind == Frames.HEADERS and flags & 1:
                ended.add(on)
            pinged |= kind == Frames.PING and flags & 1 and payload == b"envoy-ka"
        self.assertEqual(sorted(left.values()), list(range(1400, 1500)))

    def test_a_reset_stream_does_not_affect_others(self):
        """Envoy resets a stream after its timeout and continues with other streams."""
        call = self.call(request("many", "reset"))
        reset = Frames.frame(Frames.RST, struct.pack(">I", 8), stream=1)
        again = self.call(request("user", "reset"))
        self.frames.socket.sendall(self.greet() + call + reset + again)
        self.assertEqual(self.answer(3)[0].overall_code, rls.RateLimitResponse.OK)


if __name__ == "__main__":
    unittest.main()
