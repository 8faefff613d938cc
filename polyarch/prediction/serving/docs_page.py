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
        api=api, health=_readable(health), limits=limits, address=address, example=_example(health)
    )


def _readable(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _example(health: Mapping[str, Any]) -> str:
    """An example request for the artifact."""
    if "inputs" in health:
        masks = {one["mask"] for one in health["inputs"]}
        asked = [one for one in health["inputs"] if one["name"] not in masks]
        parts = [f"{json.dumps(one['name'])}: {_instance(one['shape'], one['dtype'])}" for one in asked]
        instance = f"{{{', '.join(parts)}}}"
    elif health["input"]["columns"]:
        columns = health["input"]["columns"]
        instance = json.dumps({column["name"]: _first_value(column["categories"]) for column in columns})
    else:
        instance = _instance(health["input"]["shape"], health["input"]["dtype"])
    return f'{{"instances": [{instance}]}}'.replace("'", "'\\''")


def _instance(shape: list[int], dtype: str) -> str:
    """One example of an input."""
    if len(shape) == 3:
        return '{"image": "BASE64"}'
    zero = {"int64": 0, "bool": True}.get(dtype, 0.0)
    return json.dumps([zero] * shape[0]) if len(shape) == 1 and shape[0] <= 20 else "[...]"


def _first_value(categories: list[str] | None) -> Any:
    return 0 if categories is None else next(iter(categories), None)
