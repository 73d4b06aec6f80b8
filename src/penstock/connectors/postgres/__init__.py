"""The ``postgres`` connector: a sink that inserts rows into tables of a PostgreSQL database, exactly once."""
