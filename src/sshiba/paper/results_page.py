"""index.html, every table and picture of a run beside what the paper reports; results.md, the same as Markdown."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from .experiment_cells import write_whole
from .result_tables import Table, markdown
from .sections import Section

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: .85rem; margin: 1rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tbody tr:hover { background: var(--soft); }
.wide { overflow-x: auto; }
figure { display: inline-block; vertical-align: top; margin: 1rem 1rem 1rem 0; max-width: 100%; }
figure img { max-width: 100%; background: white; }
figcaption { font-size: .85rem; max-width: 34rem; }
.paper { opacity: .75; }
nav a { margin-right: 1rem; }
"""


def write_page(folder: Path, sections: Sequence[Section], goals: Table, about: str) -> Path:
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>The paper, reproduced</title><style>{STYLE}</style></head><body>",
        "<h1>The paper, reproduced</h1>",
        f"<p>{html.escape(about)}</p>",
        "<nav>" + "".join(f"<a href='#{_anchor(s)}'>{html.escape(s.title)}</a>" for s in sections) + "</nav>",
        _table(goals) if len(goals.frame) else "",
    ]
    for section in sections:
        parts.append(f"<h2 id='{_anchor(section)}'>{html.escape(section.title)}</h2><p>{html.escape(section.text)}</p>")
        parts += [_table(table) for table in section.tables]
        for picture in section.pictures:
            source = picture.path.relative_to(folder).as_posix()
            caption = html.escape(picture.caption)
            said = f"<br><span class='paper'>{html.escape(picture.paper)}</span>" if picture.paper else ""
            parts.append(
                f"<figure><a href='{source}.svg'><img src='{source}.png' alt='{caption}' loading='lazy'></a>"
                f"<figcaption>{caption}{said}</figcaption></figure>"
            )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write_whole(path, ("\n".join(parts) + "</body></html>\n").encode())
    return path


def write_markdown(folder: Path, sections: Sequence[Section], goals: Table, about: str) -> None:
    parts = [about, f"### {goals.title}", markdown(goals.frame)] if len(goals.frame) else [about]
    for section in sections:
        parts += [f"## {section.title}", section.text]
        for table in section.tables:
            parts += [f"### {table.title}", markdown(table.frame)]
        for picture in section.pictures:
            source = picture.path.relative_to(folder).as_posix()
            parts.append(f"![{picture.path.name.replace('-', ' ')}]({source}.png)\n\n{picture.caption}")
    write_whole(folder / "results.md", ("\n\n".join(parts) + "\n").encode())


def _anchor(section: Section) -> str:
    return "".join(c if c.isalnum() else "-" for c in section.title.lower())


def _table(table: Table) -> str:
    body = table.frame.to_html(index=False, border=0, escape=True)
    return f"<h3>{html.escape(table.title)}</h3><div class='wide'>{body}</div>"
