"""PyFlink's ``pyflink.datastream.utils``: all of it is refused, with an alternative."""

from __future__ import annotations

from penstock.datastream.refusals import lookup

__getattr__ = lookup("utils")
