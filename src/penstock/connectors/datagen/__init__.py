"""The ``datagen`` connector: a source of generated rows."""
