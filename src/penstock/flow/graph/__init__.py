"""The graph of a job: its plan as operators and edges, the exchange between tasks, and how it runs."""
