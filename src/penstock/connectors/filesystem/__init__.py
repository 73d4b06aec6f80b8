"""The ``filesystem`` connector: tables in the files of a folder."""
