"""The outside world on this machine: tracker, GitHub, X, web sites. Counts calls and fails on request."""
