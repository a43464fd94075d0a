"""Certificates of other servers that are refused, and errors of connections, as text."""

from __future__ import annotations

import errno
import os
import socket
import ssl

from leyden.server.printable import quoted

# OpenSSL, x509_vfy.h: nobody who is trusted has signed the certificate, or nobody is known who has.
_UNKNOWN_ISSUER = {18, 19, 20, 21}


def is_of_unknown_issuer(error: BaseException) -> bool:
    """Whether a certificate was refused because its issuer is not trusted."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _UNKNOWN_ISSUER


def issuer_mend() -> str:
    """How to trust a certificate, where the file that the environment names does not have its issuer."""
    path = os.environ.get("SSL_CERT_FILE")
    if not path:
        return "to trust it, start Leyden with the variable SSL_CERT_FILE: a PEM file that has its issuer"
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:  # `ssl.SSLError` is one
        return f"the file of SSL_CERT_FILE, {quoted(path, 200)}, is not used ({plain_error(error)}): give a PEM file"
    return f"the file of SSL_CERT_FILE, {quoted(path, 200)}, does not have its issuer: give a PEM file that has it"


def plain_error(error: Exception) -> str:
    """A connection error as text, without the names of the client's own settings."""
    match error:
        case ssl.SSLCertVerificationError():
            return error.verify_message
        case ssl.SSLError():
            return (error.reason or str(error)).replace("_", " ").lower()
        case socket.gaierror() if error.strerror is not None:
            return error.strerror.lower()
        case OSError() if error.errno is not None and error.errno > 0:
            return os.strerror(error.errno).lower()
        case ConnectionResetError():
            return os.strerror(errno.ECONNRESET).lower()
    return str(error) or type(error).__name__
