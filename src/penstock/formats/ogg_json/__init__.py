"""The ``ogg-json`` format: changes as Oracle GoldenGate writes them."""
