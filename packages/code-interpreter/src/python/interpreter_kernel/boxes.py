"""Box plots, read back from the lines that they are drawn with."""


def numbers(values):
    return [float(value) for value in values]


def outline(artist):
    """Corners of a box: a line of five points that ends where it began, or a patch."""
    if hasattr(artist, "get_xdata"):
        xs, ys = numbers(artist.get_xdata(orig=False)), numbers(artist.get_ydata(orig=False))
    else:
        points = artist.get_path().vertices
        xs, ys = numbers(points[:, 0]), numbers(points[:, 1])
    closed = len(xs) >= 5 and len(set(xs)) == 2 and len(set(ys)) == 2
    return (min(xs), max(xs), min(ys), max(ys)) if closed else None


def elements_of(axes, tick_labels):
    """The boxes of the axes; none unless each has a median and whiskers, as only box plots do."""
    patches = [patch for patch in axes.patches if type(patch).__name__ == "PathPatch"]
    lines = list(axes.get_lines())
    found = [box for box in map(outline, [*lines, *patches]) if box is not None]
    if not found or len(lines) < 3 * len(found):
        return []
    lying = is_lying(lines, found)
    labels = tick_labels(axes, "y" if lying else "x")
    elements = [element_of(box, lines, lying, labels) for box in found]
    return [] if None in elements else elements


def turned(line, lying):
    xs, ys = numbers(line.get_xdata(orig=False)), numbers(line.get_ydata(orig=False))
    return (ys, xs) if lying else (xs, ys)


def is_lying(lines, boxes):
    """Whether the whiskers of the first box leave it sideways."""
    left, right, low, high = boxes[0]
    middle = (low + high) / 2
    for line in lines:
        xs, ys = turned(line, False)
        outside = max(xs, default=right) <= left or min(xs, default=left) >= right
        if len(xs) == 2 and outside and ys[0] == ys[1] and abs(ys[0] - middle) < 1e-9:
            return True
    return False


def element_of(box, lines, lying, labels):
    left, right, low, high = (box[2], box[3], box[0], box[1]) if lying else box
    middle = (left + right) / 2
    median, ends, outliers = None, [], []
    for line in lines:
        across, along = turned(line, lying)
        if len(across) == 2 and across[0] == across[1] and abs(across[0] - middle) < 1e-9:
            ends += along
        elif len(across) == 2 and along[0] == along[1] and across[0] <= left + 1e-9 and across[1] >= right - 1e-9:
            median = along[0] if low <= along[0] <= high and across[0] >= left - 1e-9 else median
        elif line.get_linestyle() in ("None", "none", "") and across and abs(across[0] - middle) < 1e-9:
            outliers += along
    if median is None or not ends:
        return None
    return {
        "label": labels.get(round(middle, 6), ""),
        "min": min(ends),
        "first_quartile": low,
        "median": median,
        "third_quartile": high,
        "max": max(ends),
        "outliers": outliers,
    }
