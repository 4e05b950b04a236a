"""How Habitat numbers the links of a URDF."""

from __future__ import annotations

from collections.abc import Iterable


def link_order(joints: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return link names in the order of Habitat's link ids, the root (-1) left out.

    Depth first; siblings in the order of their joints' names.

    Args:
        joints: (joint name, parent link, child link) of each joint.

    Raises:
        ValueError: there is not exactly one root, or a link has two parents.
    """
    children: dict[str, list[tuple[str, str]]] = {}
    parents, below = set(), set()
    for name, parent, child in joints:
        if child in below:
            raise ValueError(f"the link '{child}' hangs on two joints")
        children.setdefault(parent, []).append((name, child))
        parents.add(parent)
        below.add(child)
    roots = parents - below
    if len(roots) != 1:
        raise ValueError(f"the joints have {len(roots)} root links instead of one")
    out: list[str] = []
    stack = [roots.pop()]
    while stack:
        link = stack.pop()
        out.append(link)
        stack += [child for _, child in sorted(children.get(link, ()), reverse=True)]
    return out[1:]
