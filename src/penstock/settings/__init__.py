"""How a job runs: each setting declared once, for ``SET``, YAML, Python and the command line."""

from penstock.settings.job import BATCH, DROP, ERROR, FORCE, IGNORE, NONE, TRIM_PAD, Settings
from penstock.settings.kerberos import KerberosSettings
from penstock.settings.restart import ExponentialDelay, FailureRate, FixedDelay, RestartStrategy

__all__ = [
    "BATCH",
    "DROP",
    "ERROR",
    "FORCE",
    "IGNORE",
    "NONE",
    "TRIM_PAD",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "KerberosSettings",
    "RestartStrategy",
    "Settings",
]
