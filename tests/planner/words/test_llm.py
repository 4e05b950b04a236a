"""``planner.llm``: a real server that answers rightly, wrongly, slowly, or not at all."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

from planner.words import errand_for
from planner.words.options import PlannerConfig
from planner.words.order import plan_on
from tests.planner.words.server import WORDS, Server
from tpsrl.cli import main
from tpsrl.episodes.shipped import load_shipped
from tpsrl.errors import UserError

STRANGE = "I fancy something sweet at dinner"


@pytest.fixture(scope="module")
def episode():
    return load_shipped("set_table").episodes[0]


def ask(episode, words, answers, **options):
    with Server(*answers) as server:
        config = PlannerConfig(llm=server.url, **{"timeout": 2.0, "retries": 0, **options})
        return errand_for(episode, words, config), server


def texts(errand):
    return [plan.text() for plan in plan_on(errand.problem(), errand.goals)]


def flat(errand):
    return [text for plan in texts(errand) for text in plan]


def kinds(errand):
    return [text.partition("(")[0].removesuffix("_by_name") for text in flat(errand)]


def test_a_right_plan_is_followed(episode):
    plan = ["open the fridge", "take the apple", "put the apple on the table"]
    errand, server = ask(episode, WORDS, [json.dumps({"plan": plan})])
    assert kinds(errand) == kinds(errand_for(episode, WORDS))
    assert errand.goals[-1] == errand_for(episode, WORDS).goals[-1] and len(errand.goals) == 3
    assert errand.notes[-1] == "planner.llm proposed a plan of 3 steps"
    (request,) = server.asked
    assert server.paths == "/v1/chat/completions" and request["model"] == "default"
    scene = request["messages"][1]["content"]
    assert f"Task: {WORDS}" in scene and "fridge (closed): 1 apple" in scene


def test_a_plan_chooses_the_order(episode):
    plan = ["bring the apple to the table", "bring the bowl in the drawer to the table"]
    errand, _ = ask(episode, None, [json.dumps({"plan": plan})])
    own = flat(errand_for(episode, "tidy up"))
    assert len(flat(errand)) == len(own) == 11 and flat(errand) != own
    assert "apple" in flat(errand)[0] and "bowl" in own[0]


def test_words_that_only_a_model_understands(episode):
    errand, _ = ask(
        episode, STRANGE, ['Sure!\n```json\n{"goal": "bring the apple to the table"}\n```']
    )
    assert errand.words == STRANGE and flat(errand)[-1] == "place(apple|0, TARGET_apple|0)"
    steps = ["take(apple)", "2. place(apple|0, sofa)"]
    errand, _ = ask(episode, STRANGE, [json.dumps({"plan": steps})])
    assert flat(errand)[-1] == "place(apple|0, TARGET_apple|0)"
    assert errand.targets[0].goal_receptacle == "sofa"


@pytest.mark.parametrize(
    ("plan", "faults"),
    [
        (["fly to the moon", "take the apple"], ["'fly to the moon' is no step"]),
        (
            ["bring the bowl to the sofa"],
            ["'bring the bowl to the sofa' does not lead to the goal"],
        ),
        (["put the apple on the table", "close the fridge"], ["'close the fridge' does not lead"]),
        (["take the banana", "open the sofa"], ["has no 'the banana'", "'the sofa' has no handle"]),
        (
            ["put the apple on the sofa"],
            ["is no step ('put the apple on the sofa': 'apple' is to go"],
        ),
        (["go to the sink", "take the apple"], ["'go to the sink' does not lead to the goal"]),
    ],
)
def test_wrong_steps_are_dropped_and_missing_ones_put_in(episode, plan, faults):
    errand, _ = ask(episode, WORDS, [json.dumps({"plan": plan})])
    assert flat(errand) == flat(errand_for(episode, WORDS))
    for fault in faults:
        assert fault in errand.notes[-1]


def test_the_users_own_goal_counts(episode):
    errand, _ = ask(episode, WORDS, ['{"goal": "bring the bowl to the sofa"}'])
    assert errand.goals == errand_for(episode, WORDS).goals
    assert "its goal 'bring the bowl to the sofa' is another" in errand.notes[-1]


NONSENSE = [
    "",
    "lorem ipsum",
    "{not json}",
    '{"answer": 42}',
    '{"plan": [1, 2, 3]}',
    '{"goal": {"deep": {}}}',
    '{"goal": "' + "open the fridge and " * 500 + '"}',
    b"<html>no endpoint</html>",
    b'{"choices": []}',
    b"\xff\xfe\x00" * 100,
    b"[" * 100_000,
    b"",
]


@pytest.mark.parametrize("answer", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_leaves_the_goal_as_the_grammar_reads_it(episode, answer):
    errand, _ = ask(episode, WORDS, [answer])
    assert flat(errand) == flat(errand_for(episode, WORDS))
    (note,) = errand.notes
    assert note.startswith("planner.llm gave nothing usable (") and "\n" not in note
    assert note.endswith("so the goal as the grammar reads it is planned for")


def test_nonsense_without_a_goal_leaves_the_scenarios_own(episode):
    errand, _ = ask(episode, None, ["nonsense"])
    assert len(flat(errand)) == 11 and "the scenario's own task is planned for" in errand.notes[0]


def test_neither_the_grammar_nor_the_model_understands(episode):
    with pytest.raises(UserError, match=r"unknown words .* and planner.llm helped not: ") as caught:
        ask(episode, STRANGE, ["lorem ipsum"])
    assert "\n" not in str(caught.value)


def test_it_is_told_what_was_wrong_and_asked_again(episode):
    answers = ["lorem ipsum", '{"goal": "bring the apple to the table"}']
    errand, server = ask(episode, STRANGE, answers, retries=1)
    assert flat(errand)[-1] == "place(apple|0, TARGET_apple|0)" and len(server.asked) == 2
    told = server.asked[1]["messages"]
    assert told[2] == {"role": "assistant", "content": "lorem ipsum"}
    assert "That cannot be used: " in told[3]["content"]


def test_a_slow_server_is_not_waited_for(episode):
    began = time.monotonic()
    errand, _ = ask(episode, WORDS, [5.0], timeout=0.3)
    assert time.monotonic() - began < 4.0
    assert "gave no answer within 0.3 s" in errand.notes[0]


BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "drop"),
    [(BODY, b" "), (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), (b"HTTP/1.1 200 O", b"K")],
    ids=["body", "headers", "status"],
)
def test_a_server_that_dribbles_is_not_waited_for_either(episode, start, drop):
    hung_up = threading.Event()

    def dribble(connection):
        connection.recv(65536)
        connection.sendall(start)
        try:
            for _ in range(90):
                connection.sendall(drop)
                time.sleep(0.1)
        except OSError:
            hung_up.set()

    began = time.monotonic()
    errand = _with_socket(episode, dribble, timeout=0.4)
    assert time.monotonic() - began < 4.0
    assert "gave no answer within 0.4 s" in errand.notes[0]
    assert hung_up.wait(4.0), "nobody goes on listening"


def test_a_server_that_hangs_up(episode):
    errand = _with_socket(episode, lambda connection: connection.recv(10), timeout=2.0)
    assert "cannot be asked" in errand.notes[0]


def test_no_server_at_all(episode):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = PlannerConfig(llm=f"http://127.0.0.1:{port}/v1", retries=1)
    errand = errand_for(episode, WORDS, config)
    assert "cannot be asked" in errand.notes[0] and "refused" in errand.notes[0]


@pytest.mark.parametrize(("status", "times"), [(401, 1), (404, 1), (302, 1), (503, 3), (429, 3)])
def test_a_server_that_refuses(episode, status, times):
    errand, server = ask(episode, WORDS, [status], retries=2)
    assert f"answered {status}" in errand.notes[0] and len(server.asked) == times


def test_the_key_comes_from_the_environment(episode, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    errand, server = ask(episode, WORDS, ['{"goal": "tidy up"}'], key="MY_KEY")
    assert server.keys == ["Bearer secret"] and "secret" not in str(errand.notes)
    monkeypatch.setenv("MY_KEY", "sec\nret")
    odd, _ = ask(episode, WORDS, ["x"], key="MY_KEY")
    assert "has letters that no key can have" in odd.notes[0]
    monkeypatch.delenv("MY_KEY")
    assert ask(episode, WORDS, ["x"], key="MY_KEY")[1].keys == [None]


def test_a_function_of_ones_own(episode, tmp_path, monkeypatch):
    (tmp_path / "my_planner.py").write_text(
        "def right(question):\n"
        "    assert 'apple' in question.scene\n"
        "    return ['take the apple', 'put it on the table']\n"
        "def wrong(question):\n    raise KeyError('oh')\n"
        "def nothing(question):\n    return None\n"
        "name = 'no function'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def by(name):
        return errand_for(episode, WORDS, PlannerConfig(llm=f"my_planner:{name}", retries=0))

    assert flat(by("right")) == flat(errand_for(episode, WORDS)) == flat(by("wrong"))
    assert by("right").notes == ("planner.llm proposed a plan of 2 steps",)
    assert "the function failed: KeyError: 'oh'" in by("wrong").notes[0]
    assert "the answer is a NoneType" in by("nothing").notes[0]
    for name, message in [
        ("rigth", "there is no 'rigth'; did you mean 'right'"),
        ("name", "no '__c"),
    ]:
        with pytest.raises(UserError, match=message):
            by(name)


def test_a_function_is_given_from_python(episode):
    asked, plan = [], ["bring the apple to the table", "bring the bowl in the drawer to the table"]

    def alternates(question):
        asked.append(question)
        return {"plan": plan} if len(asked) > 1 else None

    errand = errand_for(episode, None, PlannerConfig(retries=1), proposer=alternates)
    assert len(flat(errand)) == 11 and "apple" in flat(errand)[0]
    assert errand.notes == ("the proposer proposed a plan of 2 steps",)
    assert len(asked) == 2 and "apple" in asked[0].scene
    silent = errand_for(episode, WORDS, proposer=lambda question: None)
    assert flat(silent) == flat(errand_for(episode, WORDS))
    assert silent.notes[0].startswith("the proposer gave nothing usable (the answer is a NoneType")
    with pytest.raises(UserError, match="and the proposer helped not: the function failed: KeyE"):
        errand_for(episode, STRANGE, proposer=lambda question: {}[question.words])
    with pytest.raises(UserError, match="both propose; give one of them"):
        errand_for(episode, WORDS, PlannerConfig(llm="http://x"), proposer=alternates)
    with pytest.raises(UserError, match=r"not a function; give a function as errand_for\("):
        PlannerConfig(llm=alternates)


def test_plan_shows_what_was_proposed(tmp_path, capsys):
    with Server(json.dumps({"plan": ["open the fridge", "take the apple"]})) as server:
        words = ["scenario=set_table", f"goal={WORDS}", f"planner.llm={server.url}"]
        assert main(["plan", *words, "planner.model=small", f"out={tmp_path / 'plan.png'}"]) == 0
    text = capsys.readouterr().out
    assert "planner.llm proposed a plan of 2 steps" in text and "place(apple|0" in text
    assert [request["model"] for request in server.asked] == ["small"]
    assert len(list(tmp_path.glob("plan_*.png"))) == 3, "two steps and then the rest"


def test_eval_counts_an_unusable_answer_and_stops_where_none_comes(tmp_path, capsys):
    words = ["eval", "scenario=rearrange_easy", f"goal={STRANGE}", "executor=replan"]
    words += ["workers=1", "planner.retries=0", f"out={tmp_path}"]
    with Server('{"goal": "open the fridge"}', "lorem ipsum") as server:
        words.append(f"planner.llm={server.url}")
        assert main([*words, "episodes=2"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 episodes cannot have this goal and count as failures (1): " in text
    assert "planner.llm was of use in 1 of 2 episodes" in text and len(server.asked) == 2
    lines = (tmp_path / "episodes.jsonl").read_text()
    first, second = map(json.loads, lines.splitlines())
    assert first["success"] and first["stages"]["open the fridge"] > 0
    assert first["extra"]["notes"] == ["planner.llm proposed 'open the fridge'"]
    assert not second["success"] and (second["end"], second["steps"]) == ("goal_refused", 0)
    assert second["failure"] == {"skill": "(none)", "cause": "goal_refused"}
    assert "planner.llm helped not" in second["extra"]["refused"]
    assert main([*words, "episodes=3"]) == 2, "the server is gone"
    error = capsys.readouterr().err.splitlines()[-1]
    assert "episode 2" in error and "cannot be asked" in error
    assert (tmp_path / "episodes.jsonl").read_text() == lines


@pytest.mark.parametrize(
    ("llm", "message"),
    [
        ("nothing", "is neither a URL"),
        ("ftp://x/y", "must begin with http"),
        ("http://", "must begin with http"),
        ("http://[", "must begin with http"),
        ("http://host:port", "must begin with http"),
        ("no_such_module:f", "cannot be imported"),
    ],
)
def test_an_address_that_is_none_is_refused(episode, llm, message):
    with pytest.raises(UserError, match=message):
        errand_for(episode, WORDS, PlannerConfig(llm=llm))


def _with_socket(episode, talk, timeout):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                talk(connection)

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        return errand_for(episode, WORDS, PlannerConfig(llm=url, timeout=timeout, retries=0))
