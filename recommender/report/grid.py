"""Rows of text in aligned columns, and paragraphs that fit the page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 100


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], left: frozenset[int] = frozenset({0})) -> list[str]:
    """Lines of a table: the head, a rule, and a line a row; columns in `left` are set left, figures right."""
    table = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = ["  ".join(_set(cell, widths[n], n in left) for n, cell in enumerate(row)).rstrip() for row in table]
    return [lines[0], "-" * min(WIDTH, max(map(len, lines))), *lines[1:]]


def _set(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)


def paragraph(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """The text in lines that fit the page, the first behind `first`, the others behind `rest` (or as many spaces)."""
    indent = " " * len(first) if rest is None else rest
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def page(blocks: Iterable[Sequence[str]]) -> str:
    """Blocks of lines as one text, an empty line between them."""
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
