"""Pictures and data of matplotlib's figures. Imports nothing of it: whoever has a figure has loaded it."""

import base64
import io
import re
import sys
import warnings

from . import boxes

UNIT = re.compile(r"[(\[]([^()\[\]]+)[)\]]\s*$")
SCALES = {"linear", "log", "symlog", "logit", "function", "functionlog", "asinh"}


def forms_of(figure):
    """The picture and, where the figure is one of the known kinds, the data behind it."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    forms = {"png": base64.b64encode(picture.getvalue()).decode()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chart = chart_of(figure)
    except Exception:
        # A figure of an unusual make is a picture all the same.
        chart = None
    if chart is not None:
        forms["chart"] = chart
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        # What was shown is not shown again at the end of the cell.
        pyplot.close(figure)
    return forms


def chart_of(figure):
    charts = [chart_of_axes(axes) for axes in figure.axes]
    if not charts:
        return None
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if getattr(figure, "_suptitle", None) is not None else ""
    return {"type": "superchart", "title": title, "elements": charts}


def chart_of_axes(axes):
    title = axes.get_title()
    for kind, reader in READERS:
        elements = reader(axes)
        if elements:
            break
    else:
        kind, elements = "unknown", []
    chart = {"type": kind, "title": title, "elements": elements}
    if kind in ("pie", "unknown"):
        return chart
    for name in ("x", "y"):
        label = getattr(axes, f"get_{name}label")() or None
        unit = UNIT.search(label) if label else None
        chart[f"{name}_label"] = label
        chart[f"{name}_unit"] = unit.group(1) if unit else None
        if kind in ("line", "scatter"):
            chart.update(scale_of(axes, name))
    return chart


def converter_name(axis):
    converter = getattr(axis, "_converter", None) or getattr(axis, "converter", None)
    return type(converter).__name__


def scale_of(axes, name):
    axis = getattr(axes, f"{name}axis")
    scale = getattr(axes, f"get_{name}scale")()
    converter = converter_name(axis)
    if "Date" in converter:
        scale = "datetime"
    elif "Category" in converter:
        scale = "categorical"
    ticks = [coordinate(axis, tick) for tick in getattr(axes, f"get_{name}ticks")()]
    labels = [label.get_text() for label in getattr(axes, f"get_{name}ticklabels")()]
    known = scale in SCALES or scale in ("datetime", "categorical")
    return {f"{name}_ticks": ticks, f"{name}_tick_labels": labels, f"{name}_scale": scale if known else "unknown"}


def coordinate(axis, value):
    """A number, or the date or the word that it stands for."""
    converter = converter_name(axis)
    if "Date" in converter:
        from matplotlib.dates import num2date

        return num2date(value).isoformat()
    if "Category" in converter:
        names = {number: name for name, number in axis.units._mapping.items()}
        return names.get(int(value), number_of(value)) if float(value).is_integer() else number_of(value)
    return number_of(value)


def number_of(value):
    value = float(value)
    return int(value) if value.is_integer() else value


def points_of(axes, xs, ys):
    return [(coordinate(axes.xaxis, x), coordinate(axes.yaxis, y)) for x, y in zip(xs, ys)]


def label_of(artist):
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def wedges(axes):
    found = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    return [
        {
            "label": label_of(wedge),
            "angle": abs(number_of(wedge.theta2 - wedge.theta1)),
            "radius": number_of(wedge.r),
        }
        for wedge in found
    ]


def bars(axes):
    elements = []
    for container in axes.containers:
        if type(container).__name__ != "BarContainer":
            continue
        lying = getattr(container, "orientation", "vertical") == "horizontal"
        labels = tick_labels(axes, "y" if lying else "x")
        for bar in container:
            middle = bar.get_y() + bar.get_height() / 2 if lying else bar.get_x() + bar.get_width() / 2
            label = labels.get(round(float(middle), 6))
            if label is None:
                label = str(coordinate(axes.yaxis if lying else axes.xaxis, middle))
            value = number_of(bar.get_width() if lying else bar.get_height())
            elements.append({"label": label, "group": label_of(container), "value": value})
    return elements


def tick_labels(axes, name):
    ticks = getattr(axes, f"get_{name}ticks")()
    labels = [label.get_text() for label in getattr(axes, f"get_{name}ticklabels")()]
    return {round(float(tick), 6): label for tick, label in zip(ticks, labels) if label}


def scattered(axes):
    return [
        {"label": label_of(collection), "points": points_of(axes, *zip(*collection.get_offsets()))}
        for collection in axes.collections
        if type(collection).__name__ == "PathCollection" and len(collection.get_offsets())
    ]


def lines(axes):
    # Lines that span the axes, such as a threshold, are drawn in other coordinates.
    return [
        {"label": label_of(line), "points": points_of(axes, line.get_xdata(orig=False), line.get_ydata(orig=False))}
        for line in axes.get_lines()
        if line.get_transform() == axes.transData
    ]


READERS = (
    ("pie", wedges),
    ("box_and_whisker", lambda axes: boxes.elements_of(axes, tick_labels)),
    ("bar", bars),
    ("scatter", scattered),
    ("line", lines),
)
