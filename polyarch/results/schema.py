"""The JSON schema of ``results.json``."""

from typing import Any

from pydantic.json_schema import models_json_schema

from polyarch.plugins import METHODS, method_named
from polyarch.results.runs import Results


def results_schema() -> dict[str, Any]:
    """What a results file of this version holds; ``record`` is that of any method that is installed."""
    records = {name: method_named(name).Record for name in METHODS}
    models = [Results, *dict.fromkeys(records.values())]
    references, shared = models_json_schema([(model, "serialization") for model in models])
    found = {model: reference for (model, _), reference in references.items()}
    definitions = shared["$defs"]
    schema: dict[str, Any] = definitions.pop(Results.__name__)
    record = schema["properties"]["record"]
    record["anyOf"] = [*(found[model] for model in models[1:]), {"type": "null"}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions, **schema}
