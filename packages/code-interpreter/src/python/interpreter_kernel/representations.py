"""The forms in which a value can be shown."""

import base64
import json
import sys

from . import figures

# Method of the value, and the name of the form in a result.
METHODS = {
    "_repr_html_": "html",
    "_repr_markdown_": "markdown",
    "_repr_svg_": "svg",
    "_repr_png_": "png",
    "_repr_jpeg_": "jpeg",
    "_repr_pdf_": "pdf",
    "_repr_latex_": "latex",
    "_repr_json_": "json",
    "_repr_javascript_": "javascript",
}
MEDIA_TYPES = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
}
RESERVED = {"type", "is_main_result"}


def text_of(value):
    """A string stands for itself; everything else shows how Python writes it."""
    return value if isinstance(value, str) else repr(value)


def as_form(data):
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], dict):
        # Some methods add details of how to show it.
        data = data[0]
    if isinstance(data, (bytes, bytearray)):
        return base64.b64encode(data).decode()
    return data


def method_of(value, name):
    """A method of the value's class. Objects that answer to every name have none."""
    if isinstance(value, type) or not callable(getattr(type(value), name, None)):
        return None
    return getattr(value, name)


def media_forms(bundle):
    """The forms of a dictionary by media types. Unknown types keep their names."""
    forms = {}
    for media_type, data in bundle.items():
        name = MEDIA_TYPES.get(media_type, media_type)
        if data is not None and name not in RESERVED:
            forms[name] = as_form(data)
    return forms


def forms_of(value):
    """Every form of the value, or None when it has shown itself."""
    show = method_of(value, "_ipython_display_")
    if show is not None:
        show()
        return None
    forms = {}
    bundle = method_of(value, "_repr_mimebundle_")
    if bundle is not None:
        data = bundle()
        forms.update(media_forms(data[0] if isinstance(data, tuple) else data or {}))
    for name, form in METHODS.items():
        method = method_of(value, name)
        data = method() if method is not None and form not in forms else None
        if data is not None:
            forms[form] = as_form(data)
    forms.setdefault("text", text_of(value))
    forms.update(known_forms(value))
    return forms


def known_forms(value):
    """Forms of values of well-known libraries, which are looked at only when the cell has loaded them."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, getattr(pandas, "DataFrame", ())):
        return {"data": columns_of(value)}
    figure = sys.modules.get("matplotlib.figure")
    if figure is not None and isinstance(value, getattr(figure, "Figure", ())):
        return figures.forms_of(value)
    return {}


def columns_of(frame):
    """The columns of a table as lists, with dates as text."""
    columns = json.loads(frame.to_json(orient="split", date_format="iso", default_handler=str))
    rows = columns["data"]
    return {str(name): [row[index] for row in rows] for index, name in enumerate(columns["columns"])}
