"""`recommender.speed` is both the answer and the room, whichever is imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

CALL = "speed('Qwen/Qwen3-8B', 'H100-SXM', 512, 128, 4)"
ORDERS = (
    f"from recommender import speed; print({CALL}.tpot_ms)",
    f"import recommender.speed.slo; from recommender import speed; print({CALL}.tpot_ms)",
    f"from recommender import speed; import recommender.speed.slo; print({CALL}.tpot_ms)",
    f"import recommender; import recommender.speed.answer; print(recommender.{CALL}.tpot_ms)",
)


@pytest.mark.parametrize("order", ORDERS)
def test_one_name_for_both(order: str) -> None:
    done = subprocess.run([sys.executable, "-c", order], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 0


def test_importing_the_room_loads_no_numpy() -> None:
    code = "import sys; import recommender.speed; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
