"""How a job runs: each setting declared once, for ``SET``, YAML, Python and the command line."""

from penstock.settings.job import BATCH, DROP, ERROR, FAIL, FORCE, IGNORE, NONE, TRIM_PAD, WRAP, Settings
from penstock.settings.kerberos import KerberosSettings
from penstock.settings.restart import ExponentialDelay, FailureRate, FixedDelay, RestartStrategy

__all__ = [
    "BATCH",
    "DROP",
    "ERROR",
    "FAIL",
    "FORCE",
    "IGNORE",
    "NONE",
    "TRIM_PAD",
    "WRAP",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "KerberosSettings",
    "RestartStrategy",
    "Settings",
]
