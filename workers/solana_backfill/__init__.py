"""Solana backfill: signatures of the past become canonical transactions, each stored once."""
