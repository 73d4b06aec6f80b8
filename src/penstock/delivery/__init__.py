"""What is true of any transactional target: progress, claims, and the decision what to do with a batch.

The Kafka and PostgreSQL connectors keep records of their own of it.
"""

from penstock.delivery.decisions import Decision, Run, Skip, TakeOver, check_ahead, decide
from penstock.delivery.progress import Claim, Progress, canonical

__all__ = ["Claim", "Decision", "Progress", "Run", "Skip", "TakeOver", "canonical", "check_ahead", "decide"]
