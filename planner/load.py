"""Read domains and problems from YAML files or mappings (see ``configs/domain.yaml``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from yaml import YAMLError

from planner.model import (
    ROOT_TYPE,
    ActionSchema,
    Atom,
    Domain,
    PlannerError,
    Problem,
    check_atom,
    make_problem,
    suggest,
)

Source = str | PathLike[str] | Mapping[str, Any]

_DOMAIN_KEYS = {"name", "types", "constants", "predicates", "complements", "actions"}
_ACTION_KEYS = {"label", "show", "params", "pre", "add", "del"}
_PROBLEM_KEYS = {"name", "objects", "init", "goal", "stages"}


def load_domain(source: Source) -> Domain:
    """Read a domain.

    Args:
        source: path of a YAML file, or the mapping that it would hold.

    Raises:
        PlannerError: the file cannot be read, or a key, type, predicate or parameter is unknown.
    """
    data, where = _mapping(source)
    _check_keys(data, _DOMAIN_KEYS, {"name", "types", "predicates", "actions"}, where)
    types = dict(data["types"])
    for kind, parent in types.items():
        if parent != ROOT_TYPE and parent not in types:
            raise PlannerError(
                f"Type '{kind}' in {where} has the unknown parent '{parent}'; "
                f"{suggest(parent, [*types, ROOT_TYPE])}"
            )
    domain = Domain(
        name=data["name"],
        types=types,
        constants=dict(data.get("constants") or {}),
        predicates={k: tuple(v) for k, v in data["predicates"].items()},
        complements=dict(data.get("complements") or {}),
        actions={k: _schema(k, v, where) for k, v in data["actions"].items()},
    )
    for schema in domain.actions.values():
        _check_schema(domain, schema, where)
    return domain


def load_problem(source: Source, domain: Domain) -> Problem:
    """Read a problem of ``domain``.

    Args:
        source: path of a YAML file, or the mapping that it would hold.
        domain: the domain it is expressed in.

    Raises:
        PlannerError: the file cannot be read, or it names something that the domain lacks.
    """
    data, where = _mapping(source)
    _check_keys(data, _PROBLEM_KEYS, {"name", "objects", "init", "goal"}, where)
    stages = {k: _atoms(v) for k, v in (data.get("stages") or {}).items()}
    return make_problem(
        data["name"],
        domain,
        dict(data["objects"]),
        _atoms(data["init"]),
        _atoms(data["goal"]),
        stages,
    )


def _mapping(source: Source) -> tuple[dict[str, Any], str]:
    if isinstance(source, Mapping):
        return dict(source), f"the mapping '{source.get('name', '?')}'"
    path = Path(source)
    try:
        data = OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise PlannerError(f"Cannot read {path}: {reason}; give a planner YAML file.") from error
    if not isinstance(data, dict):
        raise PlannerError(f"{path} does not hold a mapping; see configs/domain.yaml for the form.")
    return {str(k): v for k, v in data.items()}, str(path)


def _check_keys(data: Mapping[str, Any], valid: set[str], required: set[str], where: str) -> None:
    for key in data:
        if key not in valid:
            raise PlannerError(f"Unknown key '{key}' in {where}; {suggest(key, valid)}")
    for key in sorted(required - set(data)):
        raise PlannerError(f"{where} lacks the key '{key}'.")


def _atoms(texts: Iterable[str]) -> tuple[Atom, ...]:
    return tuple(Atom.parse(text) for text in texts)


def _schema(name: str, data: Mapping[str, Any], where: str) -> ActionSchema:
    _check_keys(data, _ACTION_KEYS, {"params", "pre", "add"}, f"action '{name}' of {where}")
    params = dict(data["params"])
    return ActionSchema(
        name=name,
        label=data.get("label", name),
        params=params,
        show=tuple(data.get("show", params)),
        pre=_atoms(data["pre"]),
        add=_atoms(data["add"]),
        delete=_atoms(data.get("del") or ()),
    )


def _check_schema(domain: Domain, schema: ActionSchema, where: str) -> None:
    where = f"action '{schema.name}' of {where}"
    for kind in schema.params.values():
        if kind not in domain.types:
            raise PlannerError(f"Unknown type '{kind}' in {where}; {suggest(kind, domain.types)}")
    for name in schema.show:
        if name not in schema.params:
            raise PlannerError(
                f"Unknown parameter '{name}' in 'show' of {where}; {suggest(name, schema.params)}"
            )
    names = {**domain.constants, **schema.params}
    for atom in (*schema.pre, *schema.add, *schema.delete):
        check_atom(atom, domain, names, where)
