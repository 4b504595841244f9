"""The specification as one HTML page, made on the server: no script, and nothing comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from flask import render_template_string

Spec: TypeAlias = Mapping[str, Any]

_BOUNDS = {
    "minimum": "from",
    "maximum": "to",
    "minLength": "at least this long:",
    "maxLength": "at most this long:",
    "minItems": "at least this many:",
    "maxItems": "at most this many:",
    "pattern": "pattern",
    "default": "default",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }} API</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem 1.5rem 4rem; }
h2 { border-top: 1px solid #8885; margin-top: 2.5rem; padding-top: 1rem; }
code, .method { font-family: ui-monospace, monospace; font-size: .93em; }
.method { background: #2456a6; border-radius: 3px; color: #fff; padding: .15em .5em; }
table { border-collapse: collapse; margin: .5rem 0 1rem; width: 100%; }
caption { font-weight: 600; text-align: left; }
th, td { border-bottom: 1px solid #8884; padding: .3rem .8rem .3rem 0; }
th, td { text-align: left; vertical-align: top; }
p { white-space: pre-line; }
.note { color: #666; }
</style>
</head>
<body>
<h1>{{ title }} API</h1>
<p>{{ description }}</p>
<nav><ul>
{% for operation in operations -%}
<li><a href="#{{ operation.id }}"><code>{{ operation.method }} {{ operation.path }}</code></a>
{{ operation.summary }}</li>
{% endfor -%}
<li><a href="#shapes">Shapes</a></li>
</ul></nav>
{% macro fields(caption, rows) -%}
<table><caption>{{ caption }}</caption>
<tr><th>Name</th><th>Type</th><th>Meaning</th></tr>
{% for row in rows -%}
<tr><td><code>{{ row.name }}</code>{% if row.is_required %} *{% endif %}</td><td>{{ row.type }}</td>
<td>{{ row.meaning }}</td></tr>
{% endfor -%}
</table>
{%- endmacro %}
{% for operation in operations %}
<section id="{{ operation.id }}">
<h2><span class="method">{{ operation.method }}</span> <code>{{ operation.path }}</code></h2>
<p><strong>{{ operation.summary }}.</strong> {{ operation.description }}
<span class="note">{{ "Needs the key." if operation.needs_key else "Open to everybody." }}</span></p>
{% if operation.parameters %}{{ fields("Parameters", operation.parameters) }}{% endif %}
{% if operation.body %}{{ fields(operation.body_caption, operation.body) }}{% endif %}
<table><caption>Answers</caption>
<tr><th>Status</th><th>Shape</th><th>Headers</th><th>Meaning</th></tr>
{% for answer in operation.answers -%}
<tr><td>{{ answer.status }}</td><td>{{ answer.shape }}</td><td>{{ answer.headers }}</td>
<td>{{ answer.meaning }}{% if answer.code %} <code>{{ answer.code }}</code>{% endif %}</td></tr>
{% endfor -%}
</table>
</section>
{% endfor %}
<section id="shapes">
<h2>Shapes</h2>
{% for shape in shapes %}
<h3 id="shape-{{ shape.name }}">{{ shape.name }}</h3>
<p>{{ shape.description }}</p>
{% if shape.fields %}{{ fields("Fields", shape.fields) }}{% endif %}
{% endfor %}
</section>
<p class="note">* must be there</p>
</body>
</html>
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One row about a value that is sent or answered."""

    name: str
    type: str
    meaning: str
    is_required: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One row about an answer."""

    status: str
    shape: str
    headers: str
    meaning: str
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One operation, ready to be shown."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    needs_key: bool
    parameters: list[Field]
    body_caption: str
    body: list[Field]
    answers: list[Answer]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """One named schema."""

    name: str
    description: str
    fields: list[Field]


def page_of(spec: Spec) -> str:
    """Render the page."""
    schemas = spec["components"]["schemas"]
    return render_template_string(
        _PAGE,
        title=spec["info"]["title"],
        description=spec["info"].get("description", ""),
        operations=list(_operations(spec)),
        shapes=[_shape(name, schemas[name]) for name in sorted(schemas)],
    )


def _operations(spec: Spec) -> Iterator[Operation]:
    schemas = spec["components"]["schemas"]
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {})
            schema = _resolved(_first_content(body).get("schema", {}), schemas)
            yield Operation(
                id=operation["operationId"],
                method=method.upper(),
                path=path,
                summary=operation["summary"],
                description=operation.get("description", ""),
                needs_key=bool(operation.get("security")),
                parameters=[
                    _field(
                        f"{each['name']} ({each['in']})",
                        each["schema"],
                        is_required=each["required"],
                    )
                    for each in operation.get("parameters", [])
                ],
                body_caption="Body" if body.get("required") else "Body, may be left out",
                body=_fields(schema),
                answers=[_answer(status, each) for status, each in sorted(operation["responses"].items())],
            )


def _answer(status: str, response: Spec) -> Answer:
    content = _first_content(response)
    return Answer(
        status=status,
        shape=_words_of(content.get("schema", {})) if content else "no body",
        headers=", ".join(response.get("headers", {})),
        meaning=response["description"],
        code=content.get("example", {}).get("code", ""),
    )


def _shape(name: str, schema: Spec) -> Shape:
    description = schema.get("description", "")
    if "enum" in schema:
        description = f"{description} One of: {', '.join(map(str, schema['enum']))}."
    return Shape(name=name, description=description, fields=_fields(schema))


def _first_content(message: Spec) -> Spec:
    contents: list[Spec] = list(message.get("content", {}).values())
    return contents[0] if contents else {}


def _resolved(schema: Spec, schemas: Spec) -> Spec:
    found: Spec = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _fields(schema: Spec) -> list[Field]:
    required = schema.get("required", ())
    return [
        _field(name, each, is_required=name in required)
        for name, each in schema.get("properties", {}).items()
    ]


def _field(name: str, schema: Spec, *, is_required: bool) -> Field:
    bounds = [each for each in (schema, *schema.get("anyOf", ())) if "$ref" not in each]
    notes = [
        schema.get("description", ""),
        *(f"{words} {each[key]}" for each in bounds for key, words in _BOUNDS.items() if key in each),
        *(f"e.g. {example}" for example in schema.get("examples", ())),
    ]
    return Field(
        name=name,
        type=_words_of(schema),
        meaning="; ".join(note for note in notes if note),
        is_required=is_required,
    )


def _words_of(schema: Spec) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_words_of(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_words_of(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "anything")
