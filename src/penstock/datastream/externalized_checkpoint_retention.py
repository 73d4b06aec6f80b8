"""What happens to the checkpoint of a job that is cancelled."""

from __future__ import annotations

import enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(enum.Enum):
    """PyFlink's choices. Here checkpoints are always kept; delete the job's folder to forget one."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
