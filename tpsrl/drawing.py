"""Figures as files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from tpsrl.errors import UserError
from tpsrl.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: Figure, out: Path, dpi: int = 120) -> None:
    """Write a figure; the file is either old or new.

    Args:
        figure: of matplotlib.
        out: its ending says the format, e.g. PNG, PDF or SVG.
        dpi: pixels an inch.

    Raises:
        UserError: unknown format, or the file cannot be written.
    """
    picture = io.BytesIO()
    try:
        figure.savefig(picture, format=out.suffix[1:], dpi=dpi)
    except ValueError as error:
        raise UserError(f"cannot write the figure {out}: {error}; use a name in .png") from error
    write_atomically(out, picture.getvalue())
