import pytest
from shipped_traces import trace

from recommender.errors import InputError
from recommender.workload.inflight import block_law, inflight_of
from recommender.workload.lengths import Cell, Lengths
from recommender.workload.prefix import SharedPrefix, law_beside_prefix

CONVERSATION = trace("mooncake_conversation")  # every prompt is longer than 512 tokens


def need(concurrency, prefix=None, lengths=CONVERSATION):
    return inflight_of(lengths, concurrency, shared_prefix=prefix).statistical_tokens


def test_a_prefix_of_all_requests_is_held_once():
    assert need(50) - need(50, SharedPrefix(512)) == pytest.approx(49 * 512, rel=0.03)
    assert need(200) - need(200, SharedPrefix(512)) == pytest.approx(199 * 512, rel=0.02)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_the_mean_saving_is_that_of_the_sharers_but_one(share):
    prefix = SharedPrefix(512, share)
    alone = block_law(CONVERSATION, CONVERSATION.maximum_tokens, 16).mean
    beside = law_beside_prefix(CONVERSATION, None, 16, prefix).mean
    saving = 50 * alone - (prefix.blocks(16) + 50 * beside)
    assert saving == pytest.approx((share * 50 - 1) * 32)


def test_only_full_blocks_are_shared():
    assert SharedPrefix(527).blocks(16) == 32
    assert need(50, SharedPrefix(527)) == need(50, SharedPrefix(512))
    assert need(50, SharedPrefix(15)) == need(50)


def test_sharing_never_costs():
    assert need(1, SharedPrefix(512, 0.1)) <= need(1)


def test_prompts_that_are_shorter_carry_no_prefix():
    lengths = Lengths((Cell(1, 2000, 100), Cell(1, 100, 100)), 2100)
    law = law_beside_prefix(lengths, None, 16, SharedPrefix(1600, 0.5))
    held = {blocks for blocks, share in enumerate(law.pmf) if share > 1e-12}
    assert held == set(range(7, 14)) | set(range(125 - 100, 133 - 100))
    with pytest.raises(InputError, match=r"60\.0% of the requests cannot share 1,600 tokens: 50\.0% are longer"):
        law_beside_prefix(lengths, None, 16, SharedPrefix(1600, 0.6))
