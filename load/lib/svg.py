"""Plots as SVG, by hand: bars with their spread, and latency by percentile."""

import html
import math

COLOURS = ("#8a8f98", "#3b78c2", "#d1662b", "#4b9b5f", "#8c5fb5", "#b59b3b", "#c2417a", "#2b9aa8")
FONT = 'font-family="system-ui, sans-serif" font-size="12" fill="#333"'


def text(x, y, value, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {FONT} {more}>{html.escape(str(value))}</text>'


def page(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
            f'<rect width="{width}" height="{height}" fill="#fff"/>' + "".join(parts) + "</svg>\n")


def short(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bars(title, unit, rows):
    """rows: (label, median, low, high)."""
    width, left, step = 720, 220, 26
    most = max((row[3] for row in rows), default=1) or 1
    scale = (width - left - 110) / most
    parts = [text(12, 22, f"{title} ({unit})", more='font-weight="bold"')]
    for n, (label, median, low, high) in enumerate(rows):
        y = 36 + n * step
        parts.append(text(left - 8, y + 14, label, "end"))
        parts.append(f'<rect x="{left}" y="{y}" width="{max(median * scale, 1):.1f}" height="18" fill="{COLOURS[n % len(COLOURS)]}"/>')
        parts.append(f'<path d="M{left + low * scale:.1f} {y + 9}H{left + high * scale:.1f}" stroke="#111" stroke-width="1.5"/>')
        parts.append(text(left + high * scale + 8, y + 14, short(median)))
    return page(width, 48 + len(rows) * step, parts)


def curves(title, lines):
    """lines: (label, [(share, microseconds)]); shares run to ever more nines."""
    width, height, left, bottom, top = 720, 340, 60, 40, 40
    nines = 4
    points = [us for _, curve in lines for share, us in curve if share < 1]
    low, high = math.log10(max(min(points, default=1), 1)), math.log10(max(max(points, default=10), 10))
    high = max(high, low + 0.5)

    def x(share):
        return left + min(-math.log10(max(1 - share, 1e-9)), nines) / nines * (width - left - 150)

    def y(us):
        return height - bottom - (math.log10(max(us, 1)) - low) / (high - low) * (height - bottom - top)

    parts = [text(12, 22, f"{title}: latency (ms) by percentile", more='font-weight="bold"')]
    for share, label in ((0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")):
        parts.append(f'<path d="M{x(share):.1f} {top}V{height - bottom}" stroke="#ddd"/>')
        parts.append(text(x(share), height - bottom + 18, label, "middle"))
    for power in range(math.floor(low), math.ceil(high) + 1):
        for times in (1, 2, 5):
            us = times * 10 ** power
            if low <= math.log10(us) <= high:
                parts.append(f'<path d="M{left} {y(us):.1f}H{width - 150}" stroke="#ddd"/>')
                parts.append(text(left - 6, y(us) + 4, f"{us / 1000:g}", "end"))
    for n, (label, curve) in enumerate(lines):
        colour = COLOURS[(n + 1) % len(COLOURS)]
        path = " ".join(f"{x(share):.1f},{y(us):.1f}" for share, us in curve if share < 1)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<rect x="{width - 140}" y="{top + n * 20}" width="12" height="12" fill="{colour}"/>')
        parts.append(text(width - 122, top + n * 20 + 11, label))
    return page(width, height, parts)
