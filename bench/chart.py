# SPDX-License-Identifier: MIT
"""chart - lines over time as one SVG file, without any library."""

from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 900, 360, 70, 40, 200, 50
COLOURS = ['#1b6ca8', '#d1495b', '#3a7d44', '#edae49', '#6d4c9f', '#5d5d5d', '#00a6a6', '#a0522d']


def step_of(most):
    """A round distance of the marks on an axis: some five of them up to `most`."""
    step = 1.0
    while step * 6 < most:
        step *= 2 if str(step)[0] in '15' else 2.5
    while step * 3 > most:
        step /= 2
    return step


def text(x, y, words, anchor='start', more=''):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>' % (x, y, anchor, more, escape(words))


def panel(top, title, x_label, y_label, series):
    """series: [(name, [(x, y)])]"""
    w, h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    points = [p for _, line in series for p in line]
    x_most = max([x for x, _ in points] + [0.001])
    y_most = max([y for _, y in points] + [0.001]) * 1.05
    y0 = top + TOP + h

    def at(x, y):
        return LEFT + w * x / x_most, y0 - h * y / y_most

    out = [text(LEFT, top + TOP - 14, title, more='font-weight="bold"')]
    for most, vertical in ((x_most, True), (y_most, False)):
        step, i = step_of(most), 0
        while i * step <= most:
            x, y = at(i * step, 0) if vertical else at(0, i * step)
            x2, y2 = (x, top + TOP) if vertical else (LEFT + w, y)
            out.append('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#dddddd"/>' % (x, y, x2, y2))
            mark = '%g' % (i * step)
            out.append(text(x, y + 18, mark, 'middle') if vertical else text(x - 8, y + 4, mark, 'end'))
            i += 1
    out.append('<polyline points="%d,%d %d,%d %d,%d" fill="none" stroke="black"/>'
               % (LEFT, top + TOP, LEFT, y0, LEFT + w, y0))
    out.append(text(LEFT + w / 2, y0 + 38, x_label, 'middle'))
    out.append(text(0, 0, y_label, 'middle', 'transform="translate(20 %.1f) rotate(-90)"' % (y0 - h / 2)))
    for i, (name, line) in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="6 3"' if i >= len(COLOURS) else ''
        path = ' '.join('%.1f,%.1f' % at(x, y) for x, y in line)
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>' % (path, colour, dash))
        y = top + TOP + 12 + 20 * i
        out.append('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="3"%s/>'
                   % (LEFT + w + 14, y - 4, LEFT + w + 38, y - 4, colour, dash))
        out.append(text(LEFT + w + 44, y, name))
    return out


def write_chart(path, panels):
    """panels: [(title, x label, y label, series)], one below the other."""
    height = HEIGHT * len(panels)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
           'font-family="sans-serif" font-size="13">' % (WIDTH, height, WIDTH, height),
           '<rect width="100%" height="100%" fill="white"/>']
    for i, one in enumerate(panels):
        out += panel(i * HEIGHT, *one)
    with open(path, 'w', encoding='utf-8') as f:
        f.write('\n'.join(out) + '\n</svg>\n')
