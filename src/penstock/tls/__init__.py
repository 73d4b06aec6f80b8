"""TLS by the properties ``ssl.*`` of Java clients, with trust and key stores in PEM, PKCS #12 and JKS."""

from penstock.tls.context import TLS_PROPERTIES, Tls, build_tls_context, read_tls
