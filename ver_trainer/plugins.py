"""Parts of somebody else's: ``package.module:Class`` in a configuration."""

from __future__ import annotations

import importlib
from typing import Any

from ver_trainer.errors import ConfigError, nearest


def is_foreign(value: str) -> bool:
    """Whether a value names a part that is not ours."""
    return ":" in value


def resolve(reference: str, key: str, needs: tuple[str, ...] = ()) -> Any:
    """Imports what ``package.module:Name`` names.

    Args:
        reference: the value of an option.
        key: the option, for messages.
        needs: attributes that it must have, those of the protocol.

    Raises:
        ConfigError: there is no such module or name, or it is no such part.
    """
    module_name, _, name = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"{key}={reference}: '{module_name}' cannot be imported ({error}): install it, or "
            "correct the name"
        ) from error
    found = getattr(module, name, None)
    if found is None:
        known = [n for n in vars(module) if not n.startswith("_")]
        raise ConfigError(f"{key}={reference}: there is no '{name}'{nearest(name, known)}")
    missing = [attribute for attribute in needs if not hasattr(found, attribute)]
    if missing:
        raise ConfigError(
            f"{key}={reference} has no '{missing[0]}': see 'Parts of your own' in docs/trainer.md "
            "for what it needs"
        )
    return found
