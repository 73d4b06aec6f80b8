"""The ``canal-json`` format: changes as Canal writes them."""
