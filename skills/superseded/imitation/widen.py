"""A trained policy that is given further senses: it acts as before until it has learned more."""

from __future__ import annotations

from typing import Any

import torch

from tpsrl.errors import UserError
from ver_trainer.nets.policy import Policy


def widened(old: Policy, new: Policy) -> Policy:
    """Return ``new`` with the weights of ``old``, its further vector observations unused at first.

    Their columns of the first layer are zero. Observation statistics are those of ``old``, and
    0 and 1 for what it did not see.

    Args:
        old: trained.
        new: the same network but for more vector observations; it is changed.

    Raises:
        UserError: the networks differ in more than that.
    """
    mine: dict[str, Any] = {
        name: encoder for name, encoder in new.named_modules() if hasattr(encoder, "vectors")
    }
    states, theirs = new.state_dict(), old.state_dict()
    for name, encoder in mine.items():
        before: Any = old.get_submodule(name)
        columns = _columns(encoder.vectors, encoder.shapes, before.vectors, before.shapes)
        for key in ("norm.mean", "norm.var"):
            if f"{name}.{key}" in theirs and f"{name}.{key}" in states:
                wide = states[f"{name}.{key}"].clone()
                wide[columns] = theirs[f"{name}.{key}"]
                theirs[f"{name}.{key}"] = wide
        first = f"{name}.{'fusion' if encoder.groups else 'mlp'}.0.weight"
        if first in theirs and len(theirs[first]) == len(states[first]):
            narrow, wide = theirs[first], torch.zeros_like(states[first])
            pictures = narrow.shape[1] - len(columns)
            wide[:, :pictures] = narrow[:, :pictures]
            wide[:, pictures + columns] = narrow[:, pictures:]
            theirs[first] = wide
    wrong = sorted(
        key
        for key in states.keys() | theirs.keys()
        if key not in states or key not in theirs or states[key].shape != theirs[key].shape
    )
    if wrong:
        raise UserError(
            f"imitate.start: its network differs from net.* at '{wrong[0]}'; give the same net.*"
            " and at least its sensors."
        )
    new.load_state_dict(theirs)
    return new


def _columns(
    names: list[str],
    shapes: dict[str, tuple[int, ...]],
    before: list[str],
    sizes: dict[str, tuple[int, ...]],
) -> torch.Tensor:
    """Return where each entry of the old vector stands in the new one."""
    starts, total = dict[str, int](), 0
    for name in names:
        starts[name] = total
        total += int(torch.tensor(shapes[name]).prod())
    found: list[int] = []
    for name in before:
        if name not in starts or shapes[name] != sizes[name]:
            raise UserError(f"imitate.start: its policy sees '{name}', which env_args leave out.")
        found += range(starts[name], starts[name] + int(torch.tensor(sizes[name]).prod()))
    return torch.tensor(found, dtype=torch.long)
