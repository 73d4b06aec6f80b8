"""Commands that ``penstock`` has with this distribution: servers in the background, the demonstration, and what
``penstock doctor`` says of servers."""
