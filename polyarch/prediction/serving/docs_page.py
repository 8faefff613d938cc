"""The documentation page of the service; it loads nothing from other servers."""

import json
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader

from polyarch.prediction.serving.instances import RequestLimits


def render(api: Mapping[str, Any], health: Mapping[str, Any], limits: RequestLimits, address: str) -> str:
    """Renders an OpenAPI description."""
    environment = Environment(loader=PackageLoader("polyarch.prediction.serving"), autoescape=True)
    environment.filters["readable"] = _readable
    return environment.get_template("docs.html").render(
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
