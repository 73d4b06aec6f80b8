"""``penstock`` without a safeguard, to make sure that cells can fail: ``python mutant.py MUTATION run FILE ...``."""

from __future__ import annotations

import sys
import uuid
from typing import Any


def skip_fencing() -> None:
    """Each start has a transactional id of its own, and does not take the former ones over; it reads their progress."""
    from penstock.connectors.kafka.targets import ExactlyOnceTarget
    from penstock.kafka.transactions import TransactionClient

    own = uuid.uuid4().hex
    make, init = ExactlyOnceTarget.__init__, TransactionClient.init

    def make_with_own_id(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self.transactional_id += f"-{own}"

    def init_own(self: Any, *args: Any, **kwargs: Any) -> Any:
        return init(self, *args, **kwargs) if self.transactional_id.endswith(own) else None

    ExactlyOnceTarget.__init__ = make_with_own_id
    TransactionClient.init = init_own


def ignore_progress() -> None:
    """Every batch is published, whatever the progress record says."""
    from penstock.connectors.kafka import targets
    from penstock.kafka.progress import Run

    targets.decide = lambda *args, **kwargs: Run()


MUTATIONS = {"skip-fencing": skip_fencing, "ignore-progress": ignore_progress}

if __name__ == "__main__":
    sys.path.pop(0)  # this folder
    MUTATIONS[sys.argv[1]]()
    from penstock.cli.main import main

    sys.exit(main(sys.argv[2:]))
