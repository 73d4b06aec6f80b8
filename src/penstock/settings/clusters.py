"""Keys of Flink's clusters and their processes, which files may hold and which have no effect here."""

from __future__ import annotations

from collections.abc import Mapping

#: What applies in place of keys about processes and their memory.
SPARK_DECIDES = "Spark's own configuration decides."
_METRICS = "docs/metrics.md lists the metrics, and says how they are read."

#: What applies here, with the keys, as in :data:`penstock.settings.tuning.TUNING`.
CLUSTERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    SPARK_DECIDES: {
        "akka.*": ("How the processes of a cluster call one another, in former versions.", "(none)"),
        "blob.*": ("How files of a job reach the machines.", "(none)"),
        "cleanup-strategy.*": ("How a cluster tries again to delete what a job has left.", "(none)"),
        "client.*": ("How clients wait for a cluster.", "(none)"),
        "cluster.*": ("Threads and registration of the processes of a cluster.", "(none)"),
        "compiler.*": ("How files of text are sampled.", "(none)"),
        "env.*": ("The environment and JVM options of the processes of a cluster.", "(none)"),
        "execution.attached": ("Whether the client waits for the job to end.", "false"),
        "execution.job-listeners": ("Classes that are notified when jobs begin and end.", "(none)"),
        "execution.job-status-changed-listeners": (
            "Classes that are notified when the status of a job changes.",
            "(none)",
        ),
        "execution.program-config.*": ("What a program may configure.", "(none)"),
        "execution.shutdown-on-application-finish": ("Whether the cluster ends with its program.", "true"),
        "execution.shutdown-on-attached-exit": ("Whether the cluster ends with its client.", "false"),
        "execution.submit-failed-job-on-application-error": (
            "Whether a program that fails is shown as a job.",
            "false",
        ),
        "execution.target": ("Where a job runs.", "(none)"),
        "external-resource.*": ("Devices of the machines.", "(none)"),
        "external-resources": ("The names of devices of the machines.", "(none)"),
        "heartbeat.*": ("How processes notice that another one has ended.", "(none)"),
        "high-availability.*": ("How another JobManager takes over.", "(none)"),
        "historyserver.*": ("The server that shows jobs that have ended.", "(none)"),
        "io.tmp.dirs": ("Folders for files that are needed for a short time.", "(none)"),
        "jmx.*": ("The port of JMX.", "(none)"),
        "job-event.*": ("What a JobManager logs of a batch for its successor.", "(none)"),
        "job-result-store.*": ("Where results of jobs are kept.", "(none)"),
        "jobmanager.*": ("Addresses, memory and scheduling of the JobManager.", "(none)"),
        "jobstore.*": ("How many jobs that have ended are shown.", "(none)"),
        "kubernetes.*": ("How a cluster runs on Kubernetes.", "(none)"),
        "minicluster.*": ("The cluster in one process.", "(none)"),
        "pekko.*": ("How the processes of a cluster call one another.", "(none)"),
        "plugin.*": ("How classes of plugins are found.", "(none)"),
        "process.*": ("The folders of the processes of a cluster.", "(none)"),
        "queryable-state.*": ("Servers that answer queries of state.", "(none)"),
        "resourcemanager.*": ("How TaskManagers are started.", "(none)"),
        "rest.*": ("The REST interface of a cluster.", "(none)"),
        "scheduler-mode": ("Whether a job takes all machines that it finds.", "(none)"),
        "security.context.*": ("Classes that log in.", "(none)"),
        "security.delegation.*": ("Tokens of Hadoop that processes pass on.", "(none)"),
        "security.module.*": ("Classes that log in.", "(none)"),
        "security.ssl.*": ("Encryption between the processes of a cluster.", "(none)"),
        "shuffle-service-factory.*": ("The class that moves rows between tasks.", "(none)"),
        "slot.*": ("How slots are requested.", "(none)"),
        "slotmanager.*": ("How slots are assigned.", "(none)"),
        "slow-task-detector.*": ("When a task of a batch is slow.", "(none)"),
        "sql-gateway.*": ("The server that takes statements.", "(none)"),
        "task.*": ("How tasks are cancelled.", "(none)"),
        "taskmanager.*": ("Memory, slots and network of TaskManagers.", "(none)"),
        "user.artifacts.*": ("How files of a job are fetched.", "(none)"),
        "web.*": ("The web interface of a cluster.", "(none)"),
        "yarn.*": ("How a cluster runs on YARN.", "(none)"),
        "zookeeper.*": ("How a cluster logs in to ZooKeeper.", "(none)"),
    },
    _METRICS: {
        "events.*": ("Where events are reported to.", "(none)"),
        "metrics.*": ("What is measured, how it is named, and where it is reported to.", "(none)"),
        "traces.*": ("Where traces are reported to.", "(none)"),
    },
}
