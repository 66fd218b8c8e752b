#!/usr/bin/env python3
"""Draws what real_eeg.py measured of the seizures of people: no EEG, a dot for the mean probability of each draw before and in each seizure.

    tests/bench/real_eeg_picture.py RESULTS.json ARM OUT.svg
"""
import json
import sys

HEIGHT, TOP, LEFT, WIDTH, GAP = 34, 92, 230, 620, 7
STYLE = ("text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif;font-size:12px;fill:#1f2937}.title{font-size:18px;font-weight:600}"
         ".muted{fill:#6b7280}.grid{stroke:#e5e7eb}.before{fill:#fff;stroke:#1d4ed8;stroke-width:1.6}.seizure{fill:#ea580c}.link{stroke:#9ca3af}")


def title_of(clip):
    child, _, rest = clip.partition("_")
    number = rest.split("_")[0].replace("plus", "+")
    return f"{child}, recording {number}" + (" (ten seconds left out)" if "gap" in clip else "")


def draws_of(path, arm):
    with open(path, encoding="utf-8") as f:
        rows = [r for r in map(json.loads, f) if r["arm"] == arm]
    return [{k: v for h in r["halves"].values() for k, v in h["clips"].items()} for r in sorted(rows, key=lambda r: r["seed"])]


def draw(draws, arm):
    clips = sorted(draws[0])
    bottom = TOP + HEIGHT * len(clips)

    def x(p):
        return LEFT + 60 + WIDTH * p
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 90} {bottom + 46}" width="{LEFT + WIDTH + 90}" height="{bottom + 46}" role="img" '
           f'aria-label="Mean probability before and in eight seizures of two children">', f"<style>{STYLE}</style>", '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text class="title" x="20" y="32">Eight seizures of two children, each by networks that have not seen the child</text>',
           f'<text class="muted" x="20" y="54">{arm}: mean probability of {len(draws)} trainings, in the ten seconds before the onset and in the seizure</text>',
           f'<circle class="before" cx="26" cy="73" r="4.5"/><text x="36" y="77">before</text><circle class="seizure" cx="96" cy="73" r="5"/><text x="106" y="77">seizure</text>']
    for tick in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{bottom}"/><text class="muted" text-anchor="middle" x="{x(tick):.1f}" y="{bottom + 20}">{tick:g}</text>')
    for i, clip in enumerate(clips):
        y = TOP + HEIGHT * (i + 0.5)
        out.append(f'<text x="20" y="{y + 4:.1f}">{title_of(clip)}</text>')
        for k, d in enumerate(draws):
            at = y + GAP * (k - (len(draws) - 1) / 2)
            before, inside = x(d[clip]["before"]), x(d[clip]["seizure"])
            out.append(f'<line class="link" x1="{before:.1f}" x2="{inside:.1f}" y1="{at:.1f}" y2="{at:.1f}"/><circle class="before" cx="{before:.1f}" cy="{at:.1f}" r="3"/>'
                       f'<circle class="seizure" cx="{inside:.1f}" cy="{at:.1f}" r="3.4"/>')
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    with open(sys.argv[3], "w", encoding="utf-8") as picture:
        picture.write(draw(draws_of(*sys.argv[1:3]), sys.argv[2]))
