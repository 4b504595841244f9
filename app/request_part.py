"""What a request says beside its body: the base of the models of queries and headers.

Owns nothing but a short cut: Flask-OpenAPI asks such a model for its JSON schema with every request, to see
which values are lists, and Pydantic makes it anew each time: a third of the work of a small request.
"""

from __future__ import annotations

import functools
from typing import Any

from pydantic import BaseModel


class RequestPart(BaseModel):
    """A model of a query or of headers. Its plain schema is made once; whoever asks must not change it."""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The schema; with arguments, as for the specification, a new one."""
        return super().model_json_schema(*args, **kwargs) if args or kwargs else _plain_schema_of(cls)


@functools.cache
def _plain_schema_of(model: type[RequestPart]) -> dict[str, Any]:
    return super(RequestPart, model).model_json_schema()
