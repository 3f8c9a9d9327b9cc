"""Certificates for the tests of TLS, made with openssl."""

import ssl
import subprocess

import harness

KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


def _openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def authority(folder, name):
    """Makes NAME.crt and NAME.key, an authority."""
    words = f"req -x509 {KEY} -keyout {name}.key -out {name}.crt -days 2 -subj /CN={name}"
    _openssl(folder, *words.split())


def certificate(folder, name, by="ca", subject="localhost", names="DNS:localhost,IP:127.0.0.1"):
    """Makes NAME.crt and NAME.key, signed by an authority of the folder."""
    alternative = f"-addext subjectAltName={names}" if names else ""
    request = f"req {KEY} -keyout {name}.key -out {name}.csr -subj /CN={subject} {alternative}"
    _openssl(folder, *request.split())
    words = f"x509 -req -in {name}.csr -CA {by}.crt -CAkey {by}.key -CAcreateserial -days 2"
    _openssl(folder, *words.split(), "-copy_extensions", "copy", "-out", f"{name}.crt")


def client(folder, authority="ca", own=None, protocols=()):
    """Returns the context of a client that trusts an authority and may have a certificate."""
    made = ssl.create_default_context(cafile=str(folder / f"{authority}.crt"))
    if own:
        made.load_cert_chain(folder / f"{own}.crt", folder / f"{own}.key")
    if protocols:
        made.set_alpn_protocols(list(protocols))
    return made


def connect(address, context, timeout=harness.PATIENCE):
    return context.wrap_socket(harness.connect(address, timeout), server_hostname="localhost")
