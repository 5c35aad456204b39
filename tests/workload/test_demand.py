from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pytest
from shipped_traces import trace

from recommender.workload.demand import Statistical
from recommender.workload.inflight import inflight_of
from recommender.workload.prefix import SharedPrefix


@dataclass(frozen=True)
class Pool:
    """One group of full attention and, where there is a window, `sliding` groups that keep no more than it."""

    window: int = 0
    sliding: int = 0
    block_size: int = 16

    def request_blocks(self, tokens, in_flight_tokens):
        full = -(-tokens // 16)
        if not self.sliding:
            return full
        kept = np.minimum(self.window - 1 + in_flight_tokens, tokens)
        return full + self.sliding * (-(-kept // 16) + 1)


def needed(lengths, pool, sequences, limit, in_flight=8192, epsilon="0.01"):
    sequences = np.asarray(sequences)
    columns = np.full(sequences.shape, limit), np.full(sequences.shape, in_flight)
    return Statistical(lengths, Decimal(epsilon)).blocks_needed(pool, sequences, *columns)


def test_full_attention_needs_what_is_in_flight():
    lengths = trace("azure_conv_2023")
    found = needed(lengths, Pool(), [50, 200], 8192)
    expected = [inflight_of(lengths, n, max_model_len=8192).statistical_tokens // 16 for n in (50, 200)]
    assert found[0] == expected[0]
    assert expected[1] <= found[1] <= expected[1] + 2


def test_one_request_of_max_model_len_must_fit():
    assert list(needed(trace("azure_conv_2023"), Pool(), [0, 1, 2], 131_072)) == [0, 8192, 8192]


def test_it_rises_with_sequences_and_stays_below_the_worst_case():
    for pool in (Pool(), Pool(1024, 5)):
        found = needed(trace("mooncake_conversation"), pool, np.arange(1, 300), 65_536)
        assert (np.diff(found) >= 0).all()
        assert (found <= np.arange(1, 300) * pool.request_blocks(65_536, 8192)).all()


def test_windows_cap_what_long_requests_hold():
    lengths = trace("mooncake_conversation")
    full = needed(lengths, Pool(), [50], 131_072)[0]
    hybrid = needed(lengths, Pool(1024, 5), [50], 131_072)[0]
    held = 50 * 5 * (1024 // 16 + 1)
    in_flight = 5 * 8192 // 16
    assert full + 0.8 * held < hybrid < full + held + in_flight + 10


def test_each_row_has_its_own_max_model_len():
    lengths, pool = trace("azure_conv_2023"), Pool()
    found = Statistical(lengths).blocks_needed(
        pool, np.array([50, 50, 10]), np.array([8192, 2048, 8192]), np.array([1, 1, 1])
    )
    assert [found[0], found[1], found[2]] == [
        needed(lengths, pool, [50], 8192)[0],
        needed(lengths, pool, [50], 2048)[0],
        needed(lengths, pool, [10], 8192)[0],
    ]


def test_a_fixed_length_request_holds_its_whole_length_only_at_the_end():
    lengths = replace(trace("azure_conv_2023"), cells=trace("azure_conv_2023").cells[:1])
    assert needed(lengths, Pool(), [50], 8192)[0] < 50 * 512
    assert needed(lengths, Pool(), [50], 8192, epsilon="0.001")[0] == pytest.approx(
        needed(lengths, Pool(), [50], 8192)[0], rel=0.2
    )


def test_a_shared_prefix_counts_where_all_layers_keep_the_whole_cache():
    lengths = trace("mooncake_conversation")
    prefix = SharedPrefix(512)
    columns = np.array([200]), np.array([131_072]), np.array([8192])
    alone, shared = Statistical(lengths), Statistical(lengths, shared_prefix=prefix)
    saved = alone.blocks_needed(Pool(), *columns) - shared.blocks_needed(Pool(), *columns)
    assert saved == pytest.approx(199 * 32, rel=0.01)
    hybrid = Pool(1024, 5)
    assert alone.blocks_needed(hybrid, *columns) == shared.blocks_needed(hybrid, *columns)
