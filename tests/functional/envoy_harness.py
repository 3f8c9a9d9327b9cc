"""Messages of Envoy's rate limit service, made of proto/, and the calls of it."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def messages():
    """The module of the service's messages, made by protoc."""
    made = tempfile.mkdtemp(prefix="sluice-proto-")
    unittest.addModuleCleanup(shutil.rmtree, made)
    files = [str(path.relative_to(PROTO)) for path in (PROTO / "envoy").rglob("*.proto")]
    subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={made}", *files], check=True)
    sys.path.insert(0, made)
    from envoy.service.ratelimit.v3 import rls_pb2

    return rls_pb2


def caller(rls, channel):
    """What asks ShouldRateLimit with a message."""
    return channel.unary_unary(
        METHOD,
        request_serializer=rls.RateLimitRequest.SerializeToString,
        response_deserializer=rls.RateLimitResponse.FromString,
    )


def address_of(server):
    return dict(word.split("=", 1) for word in server.ready_line.split()[1:])["grpc"]


def channel_to(server):
    return grpc.insecure_channel(address_of(server))
