"""Apify: runs of paid actors, each paid once."""
