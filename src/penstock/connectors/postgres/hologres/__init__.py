"""The ``hologres`` connector: PostgreSQL's protocol, with the options of Realtime Compute."""
