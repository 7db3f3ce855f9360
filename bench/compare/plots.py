"""Pictures of the figures, as SVG and PNG, made by gnuplot."""

import shutil
import subprocess

from cases import COLLECTIVES

TERMINALS = {"svg": "svg size {0},{1} background 'white'", "png": "pngcairo size {0},{1}"}
SIZES_AXIS = """
set logscale x 2
set xlabel 'bytes'
set xtics ('4' 4, '64' 64, '1K' 1024, '16K' 16384, '256K' 262144, '4M' 4194304, '64M' 67108864)
set grid
"""


def block(name, points):
    """A gnuplot data block of (x, y) pairs."""
    lines = "".join(f"{x} {y:.6g}\n" for x, y in sorted(points))
    return f"${name} << EOD\n{lines}EOD\n"


def curves(series):
    """Data blocks and the plot command for {title: points}."""
    blocks, words = [], []
    sizes = [size for points in series.values() for size, _ in points]
    for number, (title, points) in enumerate(series.items()):
        blocks.append(block(f"data{number}", points))
        words.append(f"$data{number} using 1:2 with linespoints title '{title}' noenhanced")
    axis = f"set xrange [{min(sizes) / 2}:{max(sizes) * 2}]\n"
    return "".join(blocks) + axis, "plot " + ", ".join(words) + "\n"


def times_script(rows):
    """A field for each collective, with a curve for each peer."""
    collectives = [c for c in COLLECTIVES if any(row["collective"] == c for row in rows)]
    columns = min(3, len(collectives))
    lines = -(-len(collectives) // columns)
    script = [SIZES_AXIS, "set logscale y\nset ylabel 'us'\nset key left top\n"]
    script.append(f"set multiplot layout {lines},{columns}\n")
    for collective in collectives:
        series = {}
        for row in rows:
            if row["collective"] == collective:
                series.setdefault(row["peer"], []).append((row["bytes"], row["median_us"]))
        blocks, plot = curves(series)
        script += [blocks, f"set title '{collective}' noenhanced\n", plot]
    script.append("unset multiplot\n")
    return "".join(script), (440 * columns, 330 * lines)


def ratios_script(rows):
    """hymn's time / the best peer's, with a curve for each collective."""
    series = {}
    for row in rows:
        if row["peer"] == "hymn" and row.get("ratio_by_rounds"):
            series.setdefault(row["collective"], []).append((row["bytes"], row["ratio_by_rounds"]))
    if not series:
        return "", (0, 0)
    blocks, plot = curves(series)
    settings = "set logscale y 2\nset ylabel 'hymn / best peer'\nset key outside\n"
    even = "set arrow from graph 0, first 1 to graph 1, first 1 nohead dashtype 2\n"
    return SIZES_AXIS + settings + even + blocks + plot, (900, 500)


def render(path, script, size):
    """Has gnuplot draw the script into a .svg or .png of that size; tells whether it could."""
    terminal = TERMINALS[path.suffix[1:]].format(*size)
    head = f"set terminal {terminal}\nset output '{path}'\n"
    done = subprocess.run(
        ["gnuplot"], input=head + script, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(f"gnuplot could not draw {path.name}: {done.stderr.strip()}")
    return done.returncode == 0


def draw(rows, folder):
    """Writes compare-times-… and compare-ratios-… for each layout; returns what was written."""
    if not shutil.which("gnuplot"):
        print("no gnuplot on this machine, so no pictures (Debian: gnuplot-nox)")
        return []
    written = []
    # In place or cold, there are few figures; those have their tables. A barrier has no size.
    plain = [r for r in rows if r["place"] == "out" and r["temperature"] == "warm" and r["bytes"]]
    for ranks in dict.fromkeys(row["ranks"] for row in plain):
        here = [row for row in plain if row["ranks"] == ranks]
        for kind, (script, size) in (
            ("times", times_script(here)),
            ("ratios", ratios_script(here)),
        ):
            for ending in TERMINALS if script else ():
                path = folder / f"compare-{kind}-{ranks}-ranks.{ending}"
                if render(path, script, size):
                    written.append(path)
    return written
