"""The ``maxwell-json`` format: changes as Maxwell's daemon writes them."""
