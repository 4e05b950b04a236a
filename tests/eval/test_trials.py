"""``eval.trials``: what a study of one skill sums up."""

from __future__ import annotations

from eval.episode import plain
from eval.trials import SkillStudy


def test_a_return_that_is_no_number_spoils_no_summary():
    own = {"index": 0, "success": True, "cause": "", "steps": 4, "force_max": 1.0}
    records = [plain(own | {"return": value}) for value in (1.0, float("-inf"), 3.0)]
    found = SkillStudy({}, "flee", {}, "random").summarize(records)
    assert found["mean_return"] == 2.0 and found["episodes"] == 3
    assert SkillStudy({}, "flee", {}, "random").summarize([])["mean_return"] == 0.0
