"""A server over TLS, for tests of clients."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import trustme


class Responding(BaseHTTPRequestHandler):
    """It responds to each request with 204."""

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def https_server(certificate: trustme.LeafCert, *, asks_for_one: bool = False) -> Iterator[str]:
    """The host and the port of a server with this certificate. With `asks_for_one` it demands one of the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if asks_for_one:
        context.verify_mode = ssl.CERT_REQUIRED
    certificate.configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Responding)
    # The handshake is done in the thread of the request, where a refusal is an error that nobody has to see.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
