"""Training of several skills, one after the other: ``tpsrl train skills=all``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skills import training
from skills.book import chained, row_of
from tpsrl.errors import UserError, nearest
from tpsrl.files import write_json
from ver_trainer.reading import MIB, read_json
from ver_trainer.runner import TrainResult

WORD = "skills="
TEACHERS = "teachers="
MOST = 16
"""Teachers of a skill."""


def wanted(words: Sequence[str]) -> tuple[str, ...]:
    """Return the skills that ``skills=`` names, in the order in which plans know them.

    Raises:
        UserError: one is unknown, or ``skill=`` is there too.
    """
    named = [word.removeprefix(WORD) for word in words if word.startswith(WORD)]
    if not named:
        return ()
    if any(word.startswith("skill=") for word in words):
        raise UserError("skill= trains one skill and skills= several; give one of the two.")
    if named[-1] == "all":
        return chained()
    chosen = [name.strip() for name in named[-1].strip("[]").split(",")]
    for name in chosen:
        if name not in chained():
            raise UserError(f"skills= has no '{name}'{nearest(name, ['all', *chained()])}")
    return tuple(name for name in chained() if name in chosen)


_Job = tuple[Path, list[str]]
"""The run's folder and its words."""


def run(skills: Sequence[str], words: Sequence[str]) -> TrainResult | None:
    """Train skills one after the other; the same words again go on where a run was broken off.

    With ``config=`` into ``OUT/SKILL``. Without, every skill's teacher into ``OUT/teachers/SKILL``
    first (unless ``teacher=`` names others'), and then the student that learns from it. A skill of
    several teachers (``teachers=``, or as its row says) has them in ``OUT/teachers/SKILL_1`` and so
    on, of one seed after the other, and there the one that learns from them.

    Args:
        skills: which.
        words: of the command line; ``out=`` is the folder of all runs.

    Returns:
        The last result: of the last run, or of the one that a signal stopped.

    Raises:
        UserError: bad input, or the trainer cannot go on.
    """
    jobs = _jobs(skills, words)
    for _, said in jobs:  # a mistake is said before hours have passed
        keys, _ = training.parse(said, ahead={folder for folder, _ in jobs})
        if keys.launch.engine != "local":
            raise UserError(
                f"skills= trains one skill after the other here; launch={keys.launch.engine} takes"
                " one with skill=, or several as jobs with 'tpsrl sweep'."
            )
    if keys.launch.dry_run:  # all are told the same
        for folder, _ in jobs:
            print(f"'tpsrl train' would run in this process, in '{folder}'")
        return None
    result: TrainResult | None = None
    for number, (folder, said) in enumerate(jobs, 1):
        note = folder / "done.json"
        name = f"{folder} ({number} of {len(jobs)})"
        if note.exists():
            steps = read_json(note, MIB, "delete it to go on")["steps"]
            print(f"{name}: done before, {steps:,} steps")
            continue
        print(f"{name}: begins")
        result = training.run(said)
        if not result.finished:
            return result
        write_json(note, {"steps": result.steps})
    return result


def _jobs(skills: Sequence[str], words: Sequence[str]) -> list[_Job]:
    outs = [word.removeprefix("out=") for word in words if word.startswith("out=")]
    folder = Path(outs[-1] if outs else "runs/skills")
    rest = [word for word in words if not word.startswith(("out=", WORD, TEACHERS))]
    count = _count(words)

    def job(skill: str, place: Path, *own: str) -> _Job:
        return place, [f"skill={skill}", *own, *rest, f"out={place}"]

    if any(word.startswith("config=") for word in words):
        return [job(skill, folder / skill) for skill in skills]
    if any(word.startswith("teacher=") for word in words):
        return [job(skill, folder / skill, "config=student") for skill in skills]
    jobs: list[_Job] = []
    for skill in skills:
        teacher = folder / "teachers" / skill
        of_each = count or row_of(skill).teachers
        if of_each == 1:
            jobs.append(job(skill, teacher, "config=teacher"))
            continue
        # Their own seeds come last: seed= of the command line is that of all the other runs.
        members = [teacher.with_name(f"{skill}_{k}") for k in range(1, of_each + 1)]
        for k, member in enumerate(members, 1):
            place, said = job(skill, member, "config=teacher")
            jobs.append((place, [*said, f"seed={_seed(words) + k - 1}"]))
        listed = f"distill.others=[{','.join(map(str, members[1:]))}]"
        jobs.append(job(skill, teacher, "config=merged", f"teacher={members[0]}", listed))
    students = (
        job(s, folder / s, "config=student", f"teacher={folder / 'teachers' / s}") for s in skills
    )
    return [*jobs, *students]


def _count(words: Sequence[str]) -> int | None:
    """Return what ``teachers=`` says.

    Raises:
        UserError: it is no number, or there are words beside it by which no teacher is made.
    """
    said = [word.removeprefix(TEACHERS) for word in words if word.startswith(TEACHERS)]
    if not said:
        return None
    if any(word.startswith(("config=", "teacher=")) for word in words):
        raise UserError("teachers= is of teachers made on the way; leave config= and teacher= out.")
    if not said[-1].isdecimal() or not 1 <= int(said[-1]) <= MOST:
        raise UserError(f"teachers={said[-1]}: give how many each skill has, 1 to {MOST}.")
    return int(said[-1])


def _seed(words: Sequence[str]) -> int:
    """Return ``seed=`` of the command line, as far as it is a number: the trainer reads it, too."""
    said = [word.removeprefix("seed=") for word in words if word.startswith("seed=")]
    return int(said[-1]) if said and said[-1].isdecimal() else 1
