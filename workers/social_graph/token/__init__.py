"""Tokens: thin state, and the outcome of each of a token's URLs. The model and its repository.

The document is the mark that a token has been seen.
"""

from workers.social_graph.token.model import RetryableURL, Token, TokenSocialURL, TokenWeb
from workers.social_graph.token.repository import TokenRepository

__all__ = ["RetryableURL", "Token", "TokenRepository", "TokenSocialURL", "TokenWeb"]
