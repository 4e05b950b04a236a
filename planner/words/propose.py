"""Asks a language model, or a Python function, for a goal or a plan in the grammar's words."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from planner.words.options import PlannerConfig
from planner.words.within import read_within
from tpsrl.errors import UserError, printable
from ver_trainer.plugins import resolve
from ver_trainer.reading import parse_json

_MOST_BYTES = 1_000_000
_MOST_STEPS, _MOST_LETTERS = 100, 4000
_LOCAL = ("localhost", "127.0.0.1", "::1")
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)

INSTRUCTIONS = """\
You turn a task for a household robot into JSON, and say nothing else:
{"goal": "what shall be true in the end", "plan": ["first step", "second step", ...]}
Give "goal", "plan" or both. Goal and steps are English sentences of these forms only:
  bring THING [from PLACE] to PLACE      several: bring THING and THING to PLACE; all THINGS
  take THING [from PLACE]                it then stays in the robot's one hand
  open PLACE, close PLACE                fridge and drawers; the hand must be empty
  go to PLACE, go to THING
  tidy up                                the task that the apartment was prepared for
Sentences of a goal are joined by "and", or by "then" where the order matters.
Use only the things and places that are named below."""


class UnusableError(UserError):
    """An answer that cannot be used; asking again may help."""


class NoAnswerError(UserError):
    """No answer came, whatever was asked.

    Attributes:
        again: asking again may help.
    """

    def __init__(self, text: str, again: bool = True) -> None:
        super().__init__(text)
        self.again = again


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        words: the task as the user put it.
        scene: what there is: a line for each place with the things that lie there.
        tries: earlier answers and what was wrong with each.
    """

    words: str
    scene: str
    tries: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Proposal:
    """What was answered, in the grammar's words.

    Attributes:
        goal: what shall hold in the end, ``""`` if nothing was said of it.
        plan: steps, possibly none.
        text: the answer as it came.
    """

    goal: str = ""
    plan: tuple[str, ...] = ()
    text: str = ""


Proposer = Callable[[Question], Any]
"""Answers with a goal (text), a plan (a list of texts), or a mapping with both."""


def make_proposer(config: PlannerConfig) -> Proposer:
    """Return who is asked.

    Raises:
        UserError: ``planner.llm`` is neither a URL nor an importable function.
    """
    name = config.llm or ""
    if "://" in name:
        return Endpoint(config)
    if ":" not in name:
        raise UserError(
            f"planner.llm={name} is neither a URL (http://...) nor package.module:function"
        )
    return resolve(name, "planner.llm", ("__call__",))


def propose(
    proposer: Proposer, question: Question, config: PlannerConfig, use: Callable[[Proposal], Any]
) -> Any:
    """Return what ``use`` makes of the first proposal that it accepts.

    Args:
        proposer: who is asked.
        question: what.
        config: how often.
        use: raises :class:`UserError` for a proposal that it cannot use; the next question says so.

    Raises:
        NoAnswerError: none came.
        UserError: none was usable; the sentence says what was wrong with the last one.
    """
    error: UserError | None = None
    for _ in range(1 + config.retries):
        answer = ""
        try:
            proposal = read_proposal(_ask(proposer, question))
            answer = proposal.text
            return use(proposal)
        except UserError as fault:
            if isinstance(fault, NoAnswerError) and not fault.again:
                raise
            error = fault
        if answer:
            question = replace(question, tries=(*question.tries, (answer, str(error))))
    assert error is not None
    raise error


def read_proposal(answer: Any) -> Proposal:
    """Return a proposal from what came back.

    Raises:
        UnusableError: it is no goal and no plan.
    """
    shown = answer if isinstance(answer, str) else repr(answer)
    if isinstance(answer, str):
        answer = _json_within(answer) if "{" in answer else {"goal": answer}
    elif isinstance(answer, list | tuple):
        answer = {"plan": answer}
    if not isinstance(answer, Mapping):
        raise UnusableError(f"the answer is a {type(answer).__name__}, not a goal or a plan")
    goal, plan = answer.get("goal") or "", answer.get("plan") or []
    if isinstance(goal, list | tuple) and all(isinstance(part, str) for part in goal):
        goal = " and ".join(goal)
    steps = plan.splitlines() if isinstance(plan, str) else plan
    listed = isinstance(steps, list | tuple) and all(isinstance(step, str) for step in steps)
    if not isinstance(goal, str) or not listed or not (goal.strip() or steps):
        raise UnusableError(f"the answer '{_short(shown)}' holds no 'goal' and no 'plan' in words")
    if len(steps) > _MOST_STEPS or len(goal) + sum(map(len, steps)) > _MOST_LETTERS:
        raise UnusableError(f"the answer is longer than {_MOST_STEPS} steps; fewer will do")
    plan = tuple(step.strip() for step in steps if step.strip())
    return Proposal(goal.strip(), plan, shown[:_MOST_LETTERS])


def _ask(proposer: Proposer, question: Question) -> Any:
    if isinstance(proposer, Endpoint):
        return proposer(question)
    try:
        return proposer(question)
    except Exception as error:  # the user's own code may fail in any way
        raise UnusableError(f"the function failed: {type(error).__name__}: {error}") from error


def _json_within(text: str) -> dict[str, Any]:
    """Return the JSON object in a text that may have words or a fence around it."""
    inner = text[text.index("{") : text.rfind("}") + 1]
    try:
        return parse_json(inner.encode(errors="replace"), "the answer", "answer with JSON alone")
    except UserError:
        raise UnusableError(f"the answer '{_short(text)}' is no JSON") from None


def _short(text: str) -> str:
    return printable(text if len(text) <= 80 else f"{text[:77]}...")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key is for the endpoint that was named, and for no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass
class Endpoint:
    """A server of chat completions (``POST .../chat/completions``).

    Args:
        config: where it is, with which model, and for how long to wait.

    Raises:
        UserError: the URL is none of HTTP.
    """

    config: PlannerConfig
    url: str = field(init=False)

    def __post_init__(self) -> None:
        base = (self.config.llm or "").rstrip("/")
        try:
            parts = urlsplit(base)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise UserError(f"planner.llm={base} must begin with http:// or https:// and a host")
        self.url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
        proxies = [urllib.request.ProxyHandler({})] if parts.hostname in _LOCAL else []
        self._handlers = [_NoRedirect(), *proxies]

    def __call__(self, question: Question) -> str:
        """Return the model's answer.

        Raises:
            UnusableError: the answer is none of this protocol.
            NoAnswerError: none came in time, or the endpoint refuses.
        """
        body = {"model": self.config.model, "temperature": 0, "messages": messages(question)}
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self.config.key, "").strip():
            if not (key.isascii() and key.isprintable()):
                fault = f"the key in {self.config.key} has letters that no key can have"
                raise NoAnswerError(fault, again=False)
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            return self._content(self._received(request))
        except UserError:
            raise
        except urllib.error.HTTPError as error:
            fault = f"{self.url} answered {error.code} {_short(str(error.reason))}"
            raise NoAnswerError(fault, again=error.code in _TRANSIENT) from None
        except TimeoutError:
            raise NoAnswerError(
                f"{self.url} gave no answer within {self.config.timeout:g} s"
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                reason = f"no answer within {self.config.timeout:g} s"
            raise NoAnswerError(f"{self.url} cannot be asked ({_short(str(reason))})") from None

    def _received(self, request: urllib.request.Request) -> bytes:
        """Return the body, all of it within the time for an answer."""
        data = read_within(request, self.config.timeout, _MOST_BYTES, self._handlers)
        if len(data) > _MOST_BYTES:
            raise UnusableError(f"{self.url} answered with more than {_MOST_BYTES} bytes")
        return data

    def _content(self, data: bytes) -> str:
        try:
            answer = parse_json(data, "the answer", "give another endpoint")
            text = answer["choices"][0]["message"]["content"]
        except (UserError, LookupError, TypeError):
            start = _short(data[:200].decode(errors="replace"))
            raise UnusableError(f"{self.url} answered '{start}', no chat completion") from None
        if not isinstance(text, str) or not text.strip():
            raise UnusableError(f"{self.url} answered nothing")
        return text


def messages(question: Question) -> list[dict[str, str]]:
    """Return the chat in which a question is put, with what was wrong with earlier answers."""
    found = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": f"{question.scene}\n\nTask: {question.words}"},
    ]
    for answer, fault in question.tries:
        found.append({"role": "assistant", "content": answer})
        found.append({"role": "user", "content": f"That cannot be used: {fault}. Answer again."})
    return found
