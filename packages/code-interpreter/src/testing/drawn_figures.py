"""Figures as matplotlib makes them, as far as their data is read. Prints the chart of each as a line of JSON."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from interpreter_kernel import figures  # noqa: E402
from interpreter_kernel.events import encode  # noqa: E402


class Thing:
    def __init__(self, **members):
        self.__dict__.update(members)

    def __getattr__(self, name):
        if name.startswith("get_"):
            value = self.__dict__.get("_" + name[4:])
            return lambda *_arguments, **_options: value
        raise AttributeError(name)


def of_class(name, **members):
    return type(name, (Thing,), {})(**members)


DATA = object()


def text(value):
    return Thing(_text=value)


def axes(lines=(), patches=(), collections=(), containers=(), title="", ticks=(0, 1), labels=("0", "1"), **more):
    return Thing(
        _title=title,
        _xlabel=more.get("xlabel", ""),
        _ylabel=more.get("ylabel", ""),
        _xscale=more.get("xscale", "linear"),
        _yscale="linear",
        _xticks=ticks,
        _yticks=ticks,
        _xticklabels=[text(label) for label in labels],
        _yticklabels=[text(label) for label in labels],
        _lines=list(lines),
        patches=list(patches),
        collections=list(collections),
        containers=list(containers),
        xaxis=Thing(_converter=more.get("converter")),
        yaxis=Thing(_converter=None),
        transData=DATA,
    )


def line(xs, ys, label="", style="-", transform=DATA):
    return Thing(_xdata=xs, _ydata=ys, _label=label, _linestyle=style, _transform=transform)


def bar(x, height):
    return Thing(_x=x, _width=0.8, _height=height, _y=0)


def box(middle, low, high, end, far, outliers=()):
    """The lines of one box plot."""
    left, right = middle - 0.25, middle + 0.25
    return [
        line([left, right, right, left, left], [low, low, high, high, low]),
        line([middle, middle], [low, end]),
        line([middle, middle], [high, far]),
        line([left + 0.1, right - 0.1], [end, end]),
        line([left + 0.1, right - 0.1], [far, far]),
        line([left, right], [(low + high) / 2] * 2),
        line([middle] * len(outliers), list(outliers), style="None"),
    ]


def laid(lines):
    return [line(one._ydata, one._xdata, style=one._linestyle) for one in lines]


class BarContainer(list):
    orientation = "vertical"

    def get_label(self):
        return "g"


FIGURES = {
    "line": [axes([line([1, 2], [3.5, 4], "a"), line([0, 1], [9, 9], transform=None)], title="T", xlabel="Time (s)")],
    "not finite": [axes([line([1, float("nan")], [float("inf"), 2], "_child0")])],
    "scale": [axes([line([1], [2])], xscale="own")],
    "scatter": [axes(collections=[of_class("PathCollection", _offsets=[(1, 2), (3, 4)], _label="s")])],
    "bar": [axes(containers=[BarContainer([bar(-0.4, 3), bar(0.6, 4)])], labels=("p", "q"))],
    "pie": [axes(patches=[of_class("Wedge", theta1=0, theta2=90, r=1, _label="w")])],
    "boxes": [axes([*box(1, 2, 4, 1, 4, [30]), *box(2, 2, 6, 1, 7)], ticks=(1, 2), labels=("m", "n"))],
    "boxes that lie": [axes(laid(box(1, 2, 4, 1, 5)), ticks=(1,), labels=("m",))],
    "a square": [axes([line([0, 1, 1, 0, 0], [0, 0, 1, 1, 0])])],
    "unknown": [axes()],
    "none": [],
    "several": [axes([line([1], [2])]), axes()],
}


for name, members in FIGURES.items():
    figure = Thing(axes=members, _suptitle=text("All"))
    print(encode([name, figures.chart_of(figure)]))
