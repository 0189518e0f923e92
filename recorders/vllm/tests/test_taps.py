"""A tap is never felt."""

import pytest

from stepscope_vllm.settings import SettingError, Settings
from stepscope_vllm.taps import Failures, Taps


class Engine:
    def work(self, x):
        if x < 0:
            raise ValueError("negative")
        return x + 1


def _fails(*_, **__):
    raise RuntimeError("broken")


def test_a_tap_that_fails_is_reported_and_changes_nothing():
    lost = []
    taps = Taps(Failures(lost.append).report)
    engine = Engine()
    assert taps.around(engine, "work", before=_fails, after=_fails)
    assert engine.work(1) == 2
    assert len(lost) == 2 and "Engine.work" in lost[0] and "broken" in lost[0]
    with pytest.raises(ValueError):
        engine.work(-1)


def test_taps_see_arguments_and_results_once():
    seen = []
    taps = Taps(_fails)
    engine = Engine()
    for _ in range(2):
        taps.around(engine, "work", before=lambda x: x * 10, after=lambda found, result, x: seen.append((found, result, x)))
    engine.work(3)
    assert seen == [(30, 4, 3)]


def test_what_is_not_there_is_told():
    taps = Taps(_fails)
    assert not taps.around(Engine(), "sleep")
    assert taps.missing == ["Engine.sleep"]


def test_settings_are_silent_by_default_and_strict_otherwise(tmp_path):
    assert Settings.read({}) is None
    assert Settings.read({"STEPSCOPE_CAPTURE": str(tmp_path)}).tier == "topk"
    with pytest.raises(SettingError, match="STEPSCOPE_LOGITS: expected one of"):
        Settings.read({"STEPSCOPE_CAPTURE": "x", "STEPSCOPE_LOGITS": "some"})
    with pytest.raises(SettingError, match="STEPSCOPE_TOPK"):
        Settings.read({"STEPSCOPE_CAPTURE": "x", "STEPSCOPE_TOPK": "0"})
    assert Settings.read({"STEPSCOPE_CAPTURE": "x", "STEPSCOPE_END_SECONDS": "90"}).end_seconds == 90
    with pytest.raises(SettingError, match="STEPSCOPE_END_SECONDS"):
        Settings.read({"STEPSCOPE_CAPTURE": "x", "STEPSCOPE_END_SECONDS": "soon"})
    with pytest.raises(SettingError, match="STEPSCOPE_NAME"):
        Settings.read({"STEPSCOPE_CAPTURE": "x", "STEPSCOPE_NAME": "../up"})
