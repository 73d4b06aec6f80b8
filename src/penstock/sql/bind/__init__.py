"""From syntax to the typed plan: names, types and functions are looked up."""
