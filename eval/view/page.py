"""The page: panels and buttons around the 3D scene. Its texts are in :mod:`eval.view.words`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from eval.view.player import DEPTH, Player
from eval.view.scene import CAMERAS, WALLS
from eval.view.sources import Entry
from eval.view.words import note_html, plan_html, skill_html, status_html
from eval.words import plain_name
from tpsrl.robot.fetch import CONTROL_HZ

if TYPE_CHECKING:
    from viser import ViserServer

SPEEDS = {"1/4": 0.25, "1/2": 0.5, "1x": 1.0, "2x": 2.0, "4x": 4.0, "as fast as can be": 1e6}
_SHADES = ("#2b8a3e", "#1971c2", "#c92a2a", "#e8590c", "#6741d9", "#0c8599", "#868e96")
_SPAN = 300
"""Steps that plots show."""
_WORDS, _PLOTS = 0.2, 0.5
"""Seconds between two changes of words, and of plots and the depth picture."""


class Acts(Protocol):
    """What the buttons ask for and the lists offer; see :class:`eval.view.desk.Desk`."""

    player: Player
    listed: list[Entry]
    whats: tuple[str, ...]
    agents: tuple[str, ...]
    what: str
    agent: str

    @property
    def things(self) -> list[str]: ...  # noqa: D102
    @property
    def places(self) -> list[str]: ...  # noqa: D102
    def next(self) -> None: ...  # noqa: D102
    def start(self, what: str, agent: str) -> None: ...  # noqa: D102
    def replay(self, index: int) -> None: ...  # noqa: D102
    def drag(self, index: int, position: np.ndarray) -> None: ...  # noqa: D102
    def add(self, thing: str, place: str) -> None: ...  # noqa: D102
    def send(self) -> None: ...  # noqa: D102
    def clear(self) -> None: ...  # noqa: D102


class Page:
    """Everything that a person reads and presses.

    Args:
        server: of the page.
        desk: does what the buttons ask for.
        camera: one of ``CAMERAS``, looked through first.
    """

    def __init__(self, server: ViserServer, desk: Acts, camera: str) -> None:
        self._server, self._gui, self._desk = server, server.gui, desk
        self.camera, self.walls = camera, WALLS[0]
        self._last_words = self._last_plots = 0.0
        self._seen: Any = None
        self._gui.configure_theme(show_share_button=False, show_logo=False, control_width="large")
        self._gui.set_panel_label("tpsrl view")
        tabs = self._gui.add_tab_group()
        with tabs.add_tab("Watch"):
            self._watch()
        with tabs.add_tab("Change"):
            self._change()
        if desk.listed:
            with tabs.add_tab("Recorded" if desk.listed[0].success else "Failed"):
                self._recorded()

    def _on(self, handle: Any, what: Callable[[Any], Any]) -> None:
        """Let a person's change of ``handle`` ask the player for ``what`` with its new value."""

        def changed(event: Any) -> None:
            if event.client is not None:  # the player's own changes ask for nothing
                value = getattr(handle, "value", None)
                self._desk.player.ask(lambda: what(value))

        register = handle.on_click if hasattr(handle, "on_click") else handle.on_update
        register(changed)

    def _button(self, label: str, what: Callable[[], Any], **options: Any) -> Any:
        button = self._gui.add_button(label, **options)
        self._on(button, lambda value: what())
        return button

    def _watch(self) -> None:
        gui = self._gui
        self._status = gui.add_html("")
        self._play = self._button("Pause", self._toggle)
        self._button("Step", self._step)
        self._seek: Any = gui.add_slider("Seek", min=0, max=1, step=1, initial_value=0)
        self._on(self._seek, self._sought)
        speed = gui.add_dropdown("Speed", tuple(SPEEDS), initial_value="1x")
        self._on(speed, lambda value: setattr(self._desk.player, "speed", SPEEDS[value]))
        camera = gui.add_dropdown("Camera", CAMERAS, initial_value=self.camera)
        self._on(camera, lambda value: setattr(self, "camera", value))
        walls = gui.add_dropdown("Walls", WALLS, initial_value=self.walls)
        self._on(walls, self._walled)
        with gui.add_folder("Plan"):
            self._plan = gui.add_html("")
        self._folder = gui.add_folder("Skill")
        with self._folder:
            self._skill = gui.add_html("")
            self._plots = {
                "reward": self._plot("reward a step", "#1971c2"),
                "force": self._plot("contact force, N", "#c92a2a"),
            }
            self._sense: Any = gui.add_dropdown("Sense", ("-",), initial_value="-")
            self._on(self._sense, lambda value: setattr(self, "_seen", None))
            self._remark = gui.add_html("")
        self._senses: Any = None
        self._sensed = ("", 0)
        with gui.add_folder("Head depth, 0 to 5 m"):
            self._depth = gui.add_image(np.zeros((DEPTH, DEPTH, 3), np.uint8), format="jpeg")

    def _plot(self, title: str, *colours: str) -> Any:
        """Add a plot with a line of each colour."""
        from viser import uplot

        nothing = np.zeros(1)
        lines = (uplot.Series(label=title, stroke=colour, width=1.5) for colour in colours)
        return self._gui.add_uplot(
            (nothing,) * (len(colours) + 1), (uplot.Series(label="s"), *lines), title=title,
            height=110, legend={"show": False}, scales={"x": uplot.Scale(time=False)},
        )  # fmt: skip

    def _change(self) -> None:
        gui, desk = self._gui, self._desk
        self._button("Next episode", desk.next)
        number = gui.add_number("Episode", 0, min=0, step=1)
        self._button("Open this episode", lambda: desk.player.open(int(number.value)))
        self._what = gui.add_dropdown("What", desk.whats, initial_value=desk.what)
        self._agent = gui.add_dropdown("Agent", desk.agents, initial_value=desk.agent)
        self._button("Start", lambda: desk.start(self._what.value, self._agent.value))
        with gui.add_folder("Drag an object"):
            self._object = gui.add_dropdown("Object", ("-",), initial_value="-")
            self._grabbed: Any = gui.add_checkbox("Grab it", False)
            self._on(self._grabbed, self._grab)
            self._on(self._object, lambda value: self._grab(self._grabbed.value))
        with gui.add_folder("Send a goal"):
            self._thing = gui.add_dropdown("Bring", ("-",), initial_value="-")
            self._place = gui.add_dropdown("to", ("-",), initial_value="-")
            self._button("Add", lambda: desk.add(self._thing.value, self._place.value))
            self._goal = gui.add_markdown("")
            self._button("Send", desk.send)
            self._button("Clear", desk.clear)
        self._handle: Any = None
        self._dragged = False

    def _recorded(self) -> None:
        for entry in self._desk.listed:
            label = f"{entry.index}: {entry.text}"
            self._button(label, lambda entry=entry: self._desk.replay(entry.index))  # type: ignore[misc]

    def say(self, text: str) -> None:
        """Tell the person something that went wrong."""
        for client in self._server.get_clients().values():
            client.add_notification("tpsrl view", text, color="red", auto_close_seconds=15.0)
        print(f"tpsrl view: {text}", flush=True)

    def goal(self, lines: list[str]) -> None:
        """Show the goal that is being made."""
        self._goal.content = "\n".join(f"- {line}" for line in lines)

    def opened(self, player: Player) -> None:
        """Show what another episode brings."""
        self._grabbed.value = False
        self._grab(False)
        self._seen = None
        names = tuple(self._desk.things) or ("-",)
        for handle in (self._object, self._thing):
            handle.options = names
        self._place.options = tuple(map(plain_name, self._desk.places)) or ("-",)
        self._desk.clear()  # it was about other objects
        self._seek.value = 0

    def refresh(self, player: Player) -> None:
        """Show words and plots of the present, if it is time."""
        now, recording = time.monotonic(), player.source.recording
        self._follow(player)
        seen = (id(recording), player.cursor, player.steps, player.source.ending, player.playing)
        if seen == self._seen or now < self._last_words + _WORDS:
            return
        self._last_words = now
        self._words(player)
        if now > self._last_plots + _PLOTS or not player.playing:
            self._last_plots, self._seen = now, seen
            self._draw(player)

    def _words(self, player: Player) -> None:
        source, step, last = player.source, player.cursor, player.steps
        ending = source.ending if step == last or not source.live else ""
        self._status.content = status_html(source.title, step, last, CONTROL_HZ, ending)
        self._play.label = "Pause" if player.playing else "Play"
        self._seek.max = max(last, 1)
        self._seek.value = step
        report, marks = player.report(), source.recording.marks(step)
        episode = source.recording.episode
        self._plan.content = plan_html(report, episode)
        held = self._desk.things[marks.held] if marks.held >= 0 else ""
        held = held or ("a handle" if marks.handle >= 0 else "")
        force = float(source.recording.signals(step, step + 1)[0, 0])
        self._skill.content = skill_html(report, episode, step - player.run_start(), held, force)
        self._remark.content = note_html(source.remark)

    def _draw(self, player: Player) -> None:
        source, end = player.source, player.cursor + 1
        first = max(0, end - _SPAN)
        seconds = np.arange(first, end) / CONTROL_HZ
        recorded = source.recording.signals(first, end)
        signals = np.nan_to_num(recorded)
        self._plots["force"].data = (seconds, signals[:, 0].astype(np.float64))
        self._plots["reward"].visible = bool(np.isfinite(recorded[:, 2]).any())
        self._plots["reward"].data = (seconds, signals[:, 2].astype(np.float64))
        looks = source.looks[first:end]
        self._see(seconds[: len(looks)], looks)
        depth = np.clip(player.stage.depth()[0, ..., 0] / 0.5, 0.0, 1.0)
        grey = (255 * (1.0 - depth)).astype(np.uint8)
        self._depth.image = np.repeat(grey[..., None], 3, axis=2)

    def _see(self, seconds: np.ndarray, looks: list[dict[str, np.ndarray]]) -> None:
        """Plot the chosen sense of the running skill, all its numbers in one plot."""
        names = tuple(looks[-1]) if looks else ()
        if names and self._sense.options != names:
            self._sense.options = names
        chosen = self._sense.value
        self._sense.visible = bool(names)
        if chosen not in names:
            return
        size = len(looks[-1][chosen])
        if self._sensed != (chosen, size):
            self._show_sense(chosen, size)
        first = len(looks) - 1
        while first > 0 and len(looks[first - 1].get(chosen, ())) == size:
            first -= 1  # what skills before it sensed does not belong to this line
        table = np.array([look[chosen] for look in looks[first:]], dtype=np.float64)
        columns = tuple(np.ascontiguousarray(column) for column in table.T)
        self._senses.data = (seconds[first:], *columns)

    def _show_sense(self, name: str, size: int) -> None:
        """Replace the plot by one with as many lines as the sense has numbers."""
        if self._senses is not None:
            self._senses.remove()
        self._sensed = (name, size)
        with self._folder:
            self._senses = self._plot(name, *(_SHADES[k % len(_SHADES)] for k in range(size)))

    def _toggle(self) -> None:
        self._desk.player.playing = not self._desk.player.playing
        self._seen = None

    def _step(self) -> None:
        self._desk.player.playing = False
        self._desk.player.advance()

    def _sought(self, value: float) -> None:
        player = self._desk.player
        if player.playing:  # the slider may have gone on since; what it has already is not sent
            self._seek.value = 0 if value else self._seek.max
            self._seek.value = int(value)
        player.playing = False
        player.seek(int(value))

    def _walled(self, value: str) -> None:
        self.walls = value
        self._desk.player.scene.wall(value)

    def _grab(self, grabbed: bool) -> None:
        """Put a handle with arrows at the chosen object; the object follows it."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        things = self._desk.things
        if not grabbed or self._object.value not in things:
            return
        index, player = things.index(self._object.value), self._desk.player
        self._grabbed_index, self._dragged = index, False
        self._handle = self._server.scene.add_transform_controls(
            "/grab", scale=0.35, disable_rotations=True, depth_test=False,
            position=player.source.recording.poses(player.cursor).objects[index, :3],
        )  # fmt: skip

        @self._handle.on_update
        async def moved(event: Any) -> None:  # what is no coroutine gets them in any order
            self._dragged = self._dragged or event.phase == "update"
            if event.phase == "end" and self._dragged:
                position = np.array(event.target.position)
                player.ask(lambda: self._let_go(index, position))

    def _let_go(self, index: int, position: np.ndarray) -> None:
        self._dragged = False
        self._desk.drag(index, position)

    def _follow(self, player: Player) -> None:
        """Keep the arrows at their object while nobody pulls at them."""
        if self._handle is None or self._dragged:
            return
        position = player.source.recording.poses(player.cursor).objects[self._grabbed_index, :3]
        if not np.allclose(self._handle.position, position, atol=1e-3):
            self._handle.position = position
