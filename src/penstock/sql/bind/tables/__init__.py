"""What a query reads: tables, constants, hints and collections."""
