"""Real servers as child processes, and the outside world as a local one; for the CLI and the tests alone."""
