"""TLS by the properties ``ssl.*`` of Java clients: whom to trust and who one is, out of PEM, PKCS #12 and JKS files."""

from penstock.tls.context import TLS_PROPERTIES, Tls, read_tls, tls_context

__all__ = ["TLS_PROPERTIES", "Tls", "read_tls", "tls_context"]
