"""PyFlink's ``pyflink.datastream.async_retry_predicates``: all of it is planned."""

from __future__ import annotations

from penstock.datastream.refusals import lookup

__getattr__ = lookup("async_retry_predicates")
