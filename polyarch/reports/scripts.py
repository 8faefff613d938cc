"""JavaScript and JSON inside a page, so that nothing in them can end or open an element."""

import json
import math
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from markupsafe import Markup

ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def embedded_json(value: Any) -> Markup:
    """JSON for a ``<script type="application/json">``: the same values, with no character that HTML knows."""
    text = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)


@cache
def library() -> Markup:
    """Vega, Vega-Lite and Vega-Embed as one script that sets ``window.vegaEmbed``; about 0.9 MB."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    known = version in vl_convert.get_vegalite_versions()  # the newest one reads what the others read
    return embedded(
        vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version if known else None)
    )


@cache
def resource(name: str) -> Markup:
    """A script or style sheet of ours, as it is."""
    return embedded(files("polyarch.reports").joinpath("templates", name).read_text(encoding="utf-8"))


def content_security_policy(*scripts: str, connects: bool = False) -> str:
    """Only these scripts run, nothing is loaded from anywhere; styles are free because charts set them.

    Args:
        connects: whether scripts may ask the server that the page comes from.
    """
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    own = " connect-src 'self';" if connects else ""
    return f"default-src 'none'; img-src data:;{own} style-src 'unsafe-inline'; script-src {hashes}; base-uri 'none'"


def embedded(script: str) -> Markup:
    """A script or style sheet that cannot end its element."""
    # Browsers read line ends as \n before they compute the hash of a script.
    text = script.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")
    return Markup(text)


def _finite(value: Any) -> Any:
    """Numbers that JSON has no word for become null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
