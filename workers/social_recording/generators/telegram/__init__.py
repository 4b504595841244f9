"""Telegram: what its pages show, and the Bot API with a token."""
