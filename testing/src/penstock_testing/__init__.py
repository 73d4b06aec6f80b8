"""A kit for testing jobs against faults: numbered records and a verifier, a proxy that breaks connections at an exact
step of Kafka's protocol, records at which a job crashes, stops or pauses, and a view of open transactions.

docs/testing.md has examples.
"""

from penstock_testing.disturbance import Disturbance, Mishap
from penstock_testing.frames import Api, Catch, Frame, Then, Trap, pid_of
from penstock_testing.numbered import NumberedRecords
from penstock_testing.proxy import KafkaProxy, ProxiedCluster
from penstock_testing.transactions import TransactionInspector
from penstock_testing.verifier import Verdict, Verifier

__all__ = [
    "Api",
    "Catch",
    "Disturbance",
    "Frame",
    "KafkaProxy",
    "Mishap",
    "NumberedRecords",
    "ProxiedCluster",
    "Then",
    "TransactionInspector",
    "Trap",
    "Verdict",
    "Verifier",
    "pid_of",
]
