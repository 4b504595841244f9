"""X: posts, accounts and communities, from free and paid sources; `sources.py` says which is asked."""
