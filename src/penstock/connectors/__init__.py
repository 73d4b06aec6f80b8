"""The built-in connectors, one folder each; found by name through ``penstock.spi.connectors``."""
