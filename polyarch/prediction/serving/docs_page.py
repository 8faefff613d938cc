"""The documentation page of the service; it loads nothing from other servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment

from polyarch.prediction.serving.instances import RequestLimits

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ api.info.title }} {{ api.info.version }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { background: #f3f3f3; color: #222; padding: .75rem; overflow-x: auto; border-radius: .25rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .25rem .75rem .25rem 0; vertical-align: top; }
</style>
</head>
<body>
<h1>{{ api.info.title }} {{ api.info.version }}</h1>
<p>{{ api.info.description }} The same description for programs: <a href="/openapi.json">/openapi.json</a>.</p>
<h2>Try it</h2>
<pre>curl -H 'content-type: application/json' -d '{{ example }}' {{ address }}</pre>
<p>At most {{ limits.max_instances }} instances, {{ limits.max_bytes }} bytes and {{ limits.max_pixels }} pixels of
encoded images in one request.</p>
<h2>This artifact</h2>
<pre>{{ health }}</pre>
{% for path, methods in api.paths.items() %}{% for method, operation in methods.items() %}
<h2>{{ method | upper }} {{ path }}</h2>
<p>{{ operation.description }}</p>
<table><tr><th>status</th><th></th></tr>
{% for status, response in operation.responses.items() %}
<tr><td>{{ status }}</td><td>{{ response.description }}</td></tr>
{% endfor %}</table>
{% if operation.requestBody %}<p>Request:</p>
<pre>{{ operation.requestBody.content["application/json"].schema | readable }}</pre>{% endif %}
{% endfor %}{% endfor %}
<h2>Messages</h2>
{% for name, schema in api.components.schemas.items() %}<h3>{{ name }}</h3>
<pre>{{ schema | readable }}</pre>
{% endfor %}
</body>
</html>
"""


def render(api: Mapping[str, Any], health: Mapping[str, Any], limits: RequestLimits, address: str) -> str:
    """Renders an OpenAPI description."""
    environment = Environment(autoescape=True)
    environment.filters["readable"] = _readable
    return environment.from_string(TEMPLATE).render(
        api=api, health=_readable(health), limits=limits, address=address, example=_example(health["input"])
    )


def _readable(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _example(description: Mapping[str, Any]) -> str:
    """An example request for the artifact."""
    columns, shape = description["columns"], description["shape"]
    if columns:
        instance = json.dumps({column["name"]: _first_value(column["categories"]) for column in columns})
    elif len(shape) == 3:
        instance = '{"image": "BASE64"}'
    else:
        instance = json.dumps([0.0] * shape[0]) if len(shape) == 1 and shape[0] <= 20 else "[...]"
    return f'{{"instances": [{instance}]}}'.replace("'", "'\\''")


def _first_value(categories: list[str] | None) -> Any:
    return 0 if categories is None else next(iter(categories), None)
