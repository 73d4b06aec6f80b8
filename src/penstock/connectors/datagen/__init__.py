"""The ``datagen`` connector: a source of rows that are made up."""
