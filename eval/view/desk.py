"""What the buttons of the page do: sources opened, objects moved, goals sent."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eval.again import Single, proposer_of, read_evaluation, skill_keys
from eval.recording import FOLDER, states_file
from eval.skills import SkillEvalConfig, study_of
from eval.spec import evaluation_spec
from eval.view.goals import Places
from eval.view.page import Page
from eval.view.player import Player
from eval.view.scene import CAMERAS, Scene
from eval.view.sources import ChainSource, Entry, ReplaySource, SkillSource, Source
from eval.words import plain_name
from planner.chain import options as agent_options
from planner.chain.catalog import AGENTS
from planner.words.options import GOAL, PlannerConfig
from skills.book import BOOK
from tpsrl import options
from tpsrl.errors import UserError
from tpsrl.habitat.scenes import Scenes, choose_scenes
from tpsrl.jobs.folder import read_folder
from tpsrl.provide import load_scenario_episodes, pick_episode
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types
from ver_trainer.options import option

WHOLE = "whole task"
_MOST = 60
"""Most episodes in the list of a folder; the others are opened by their index."""
_NEAR = 5
"""How many other episodes a message names."""


@dataclass
class ViewConfig:
    """Keys of ``tpsrl view``."""

    results: Path | None = option(None, "result folder of 'tpsrl eval': show what it recorded")
    scenario: str = field(default="tidy_house", metadata=options.SCENARIO)
    goal: str | None = field(default=None, metadata=GOAL)
    skill: str | None = option(None, "watch one skill alone", choices=list(BOOK))
    split: str = field(default="val", metadata=options.SPLIT)
    data: Path | None = field(default=None, metadata=options.DATA)
    path: Path | None = field(default=None, metadata=options.PATH)
    episode: int | None = option(None, "index of the episode to begin with; null: the first", min=0)
    agent: str = option("tpsrl", "who acts; random: skill= only", choices=[*AGENTS, "random"])
    weights: Path | None = option(None, "weights of agent or skill; null for those shipped")
    executor: str = field(default="replan", metadata=agent_options.EXECUTOR)
    seed: int = option(0, "as in tpsrl eval", min=0)
    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0 lets other machines in")
    port: int = option(
        8080, "port to listen on; the next free one if it is taken", min=0, max=65535
    )
    camera: str = option("third_person", "what the page looks through first", choices=CAMERAS)
    paused: bool = option(False, "begin with time standing still")
    planner: PlannerConfig = field(default_factory=PlannerConfig)


class Desk:
    """One server with its page, and what it shows.

    Args:
        config: of the command.

    Attributes:
        entries: recorded episodes.
        listed: those of them that a click shows: the failed ones, or all if none failed.
        whats: what can be watched.
        agents: who can act.
        what, agent: what the page begins with.

    Raises:
        UserError: nothing can be shown, or the package viser is missing.
    """

    def __init__(self, config: ViewConfig) -> None:
        try:
            import viser
        except ImportError:
            raise UserError(
                "'tpsrl view' needs the package viser; install it with: pip install 'tpsrl[view]'"
            ) from None
        self.entries = [] if config.results is None else entries_of(config.results)
        failed = [entry for entry in self.entries if not entry.success]
        self.listed = (failed or self.entries)[:_MOST]
        self._ran = {} if config.results is None else read_folder(config.results)[0]
        if config.results is not None:
            config = _as_in(config, self._ran)
        self.config = config
        self.whats, self.agents = (WHOLE, *BOOK), (*AGENTS, "random")
        self.what, self.agent = config.skill or WHOLE, config.agent
        self._wanted: list[tuple[int, str]] = []
        self._index = self._begin_with()
        source = self._first()
        with contextlib.redirect_stdout(io.StringIO()):  # its own banner
            self._server = viser.ViserServer(host=config.host, port=config.port, verbose=False)
        self.page = Page(self._server, self, config.camera)
        self.player = Player(source, Scene(self._server), self.page)
        self.player.playing = not config.paused

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self.config.host}:{self._server.get_port()}"

    @property
    def clients(self) -> dict[int, Any]:
        """The browsers that show it."""
        return dict(self._server.get_clients())

    def start_showing(self) -> None:
        """Begin; returns at once."""
        self.player.start(self._index)

    def close(self) -> None:
        """End everything."""
        self.player.close()
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()

    @property
    def things(self) -> list[str]:
        """Names of the objects of the episode that is shown, in its order."""
        objects = self.player.source.recording.episode.objects
        return [f"{plain_name(item.type)} ({k})" for k, item in enumerate(objects)]

    @property
    def places(self) -> list[str]:
        """Receptacles that stand still."""
        receptacles = self.player.stage.scene(0).receptacles
        return sorted(name for name, place in receptacles.items() if place.joint < 0)

    def next(self) -> None:
        """Open the next episode."""
        source = self.player.source
        self.player.open((source.index + 1) % (source.count or source.index + 2))
        self.player.playing = True

    def start(self, what: str, agent: str) -> None:
        """Let another agent act, in a whole task or one skill."""
        self.player.change(self._live(what, agent), self.player.source.index)
        self.player.playing = True

    def replay(self, index: int) -> None:
        """Show a recorded episode from its beginning."""
        if self._replaying:
            self.player.open(index)
        else:
            self.player.change(ReplaySource(self.entries), index)
        self.player.playing = True

    def drag(self, index: int, position: np.ndarray) -> None:
        """Put an object elsewhere in the live world, and go on by a step to show it."""
        quat = self.player.source.recording.poses(self.player.steps).objects[index, 3:]
        self.player.source.drag(index, position, quat)
        self.player.seek(self.player.steps)
        self.player.advance()

    def add(self, thing: str, place: str) -> None:
        """Add an object and where it should go to the goal that is being made."""
        names = {plain_name(name): name for name in self.places}
        self._wanted.append((self.things.index(thing), names[place]))
        self._show_goal()

    def clear(self) -> None:
        """Forget the goal that is being made."""
        self._wanted = []
        self._show_goal()

    def send(self) -> None:
        """Send the goal to the agent: it plans from the present on.

        Raises:
            UserError: it is empty or impossible, or nobody plans.
        """
        if not self._wanted:
            raise UserError("the goal is empty; add an object and a place first")
        sim, scenes = self.player.source.sim, self._scenes()
        dataset = None if scenes is None else scenes.read()[0]
        apartment = load_apartment() if dataset is None else dataset.apartment
        types = object_types() if dataset is None else dict(dataset.types)
        self.player.source.send(Places(sim, apartment, dict(types)).targets(self._wanted))
        self.player.seek(self.player.steps)
        self.player.redraw()
        self.player.playing = True

    def _show_goal(self) -> None:
        things = self.things
        self.page.goal([f"{things[k]} to {plain_name(place)}" for k, place in self._wanted])

    @property
    def _replaying(self) -> bool:
        return isinstance(self.player.source, ReplaySource)

    def _begin_with(self) -> int:
        """Return the index of the first episode to show.

        Raises:
            UserError: a result folder has no states of the one that was asked for.
        """
        wanted, kept = self.config.episode, [entry.index for entry in self.entries]
        if wanted is not None and kept and wanted not in kept:
            near = sorted(sorted(kept, key=lambda index: abs(index - wanted))[:_NEAR])
            raise UserError(
                f"episode={wanted}: {self.config.results} has states of {len(kept)} episodes and"
                f" none of this one; give another, such as {', '.join(map(str, near))}"
            )
        return wanted if wanted is not None else self.listed[0].index if kept else 0

    def _first(self) -> Source:
        return ReplaySource(self.entries) if self.entries else self._live(self.what, self.agent)

    def _live(self, what: str, agent: str) -> Source:
        if self.config.results is not None and (what, agent) == (self.what, self.agent):
            return self._as_measured(self.config.results)
        if what != WHOLE:
            return self._skill(what, agent)
        if agent == "random":
            raise UserError("agent=random acts in a skill alone; choose another agent")
        config, scenes = self.config, self._scenes()
        own = agent == config.agent and config.skill is None
        spec = evaluation_spec(
            scenario=config.scenario,
            agent=agent,
            executor=config.executor,
            engine=self._ran.get("engine", "mujoco"),
            max_steps=self._ran.get("max_steps"),
            seed=config.seed,
            weights=config.weights if own else None,
            scenes=scenes,
            goal=config.goal,
            planner=config.planner,
        )
        episodes = load_scenario_episodes(
            config.scenario, config.split, config.data, scenes=scenes, least=self._index + 10
        )
        pick_episode(episodes, self._index)  # refused here, and not in the page
        return ChainSource(spec, episodes)

    def _as_measured(self, folder: Path) -> Source:
        ran = read_evaluation(folder, self.config.planner)
        if isinstance(ran, Single):
            return SkillSource(ran.study, self.config.seed)
        return ChainSource(ran.spec, ran.episodes)

    def _skill(self, skill: str, agent: str) -> Source:
        config = self.config
        alone = ("tpsrl", "teacher", "scripted", "random")
        if agent not in alone:
            raise UserError(f"agent={agent} plays no skill alone; use one of {', '.join(alone)}")
        if skill == self._ran.get("skill"):  # every other key decides the episode, too
            asked = dataclasses.replace(skill_keys(self._ran), agent=agent, weights=None)
        else:
            asked = SkillEvalConfig(
                skill=skill,
                agent=agent,
                seed=config.seed,
                split=config.split,
                weights=config.weights if (skill, agent) == (config.skill, config.agent) else None,
                data=config.data,
                path=config.path,
            )
        return SkillSource(study_of(asked), asked.seed)

    def _scenes(self) -> Scenes | None:
        config = self.config
        return choose_scenes(config.path, config.data, config.scenario, config.split, None)


def _as_in(config: ViewConfig, ran: Mapping[str, Any]) -> ViewConfig:
    """Return the keys with which what a result folder has is run again."""
    ran = {**ran, "scenario": ran.get("scenario_file") or ran.get("scenario")}
    ran["path"] = ran.get("scenes") or ran.get("path")
    names = ["scenario", "goal", "skill", "split", "data", "path", "weights", "executor", "seed"]
    if ran.get("agent") in (*AGENTS, "random"):  # people's own agents are not known here
        names.append("agent")
    own: dict[str, Any] = {name: ran[name] for name in names if ran.get(name) is not None}
    own |= {name: Path(own[name]) for name in ("data", "path", "weights") if name in own}
    if (proposer := proposer_of(ran)) is not None:
        # Key and patience are no part of results: those of this command count.
        own["planner"] = dataclasses.replace(config.planner, llm=proposer.llm, model=proposer.model)
    return dataclasses.replace(config, **own)


def entries_of(folder: Path) -> list[Entry]:
    """Return the episodes whose states a result folder has.

    Raises:
        UserError: it holds no evaluation, or no states.
    """
    records = read_folder(folder)[1]
    kept = [_entry(folder, record) for _, record in sorted(records.items())]
    kept = [entry for entry in kept if entry.path.exists()]
    if not kept:
        failed = sum(not record["success"] for record in records.values())
        hint = "run 'tpsrl eval ... record=failures' with another out=, which keeps them"
        raise UserError(
            f"{folder} has no states of episodes in {FOLDER}/, {failed} of its {len(records)}"
            f" episodes failed; {hint if failed else 'record=all keeps those that succeed, too'}."
        )
    return kept


def _entry(folder: Path, record: dict[str, Any]) -> Entry:
    failure = record.get("failure") or {"skill": "", "cause": record.get("cause", "")}
    text = ", ".join(part for part in (failure["skill"], failure["cause"]) if part)
    success = bool(record["success"])
    index = int(record["index"])
    text = "success" if success else f"failed: {text}"
    return Entry(index, text, success, states_file(folder, index))
