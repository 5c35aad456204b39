import pytest

from recommender.workload.lengths import Cell, Lengths, asking, max_model_len_for, served_share, total_quantile

EXACT = Lengths((Cell(1, 100, 20), Cell(2, 50, 10), Cell(1, 400, 100)), maximum_tokens=500)
STATED = Lengths(
    (Cell(90, 700, 100), Cell(9, 2000, 300), Cell(1, 9000, 500)),
    maximum_tokens=14089,
    totals=((1412, 0.5), (4259, 0.99), (6345, 0.999)),
    spread=True,
)


@pytest.mark.parametrize(("share", "tokens"), [(0.1, 60), (0.5, 60), (0.51, 120), (0.75, 120), (0.76, 500), (1, 500)])
def test_the_quantile_of_exact_requests_is_the_smallest_length_that_reaches_the_share(share, tokens):
    assert total_quantile(EXACT, share) == tokens


@pytest.mark.parametrize(("share", "tokens"), [(0.5, 1412), (0.99, 4259), (0.999, 6345), (1, 14089)])
def test_stated_points_are_exact_and_the_maximum_is_not_the_largest_cell(share, tokens):
    assert total_quantile(STATED, share) == tokens
    assert served_share(STATED, tokens) >= share
    assert served_share(STATED, tokens - 1) < share


def test_between_stated_points_the_share_rises_and_stays_within_them():
    shares = [served_share(STATED, tokens) for tokens in range(0, 15000, 50)]
    assert shares == sorted(shares)
    assert 0.5 < served_share(STATED, 2500) < 0.99
    assert 4259 < total_quantile(STATED, 0.995) <= 6345


def test_max_model_len_is_the_quantile_rounded_up_to_the_block():
    assert max_model_len_for(STATED, 1, 16) == 14096
    assert max_model_len_for(STATED, 0.99, 16) == 4272
    assert max_model_len_for(EXACT, 1, 16) == 512
    assert max_model_len_for(EXACT, 1, 1) == 500


@pytest.mark.parametrize("share", [0, -0.1, 1.01])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(ValueError, match="share"):
        total_quantile(EXACT, share)


def test_what_clients_ask_for_must_fit_not_what_they_get():
    asked = asking(EXACT, 50)
    assert asked.maximum_tokens == 450
    assert [total_quantile(asked, share) for share in (0.5, 0.75, 1)] == [100, 150, 450]
    assert max(cell.output_tokens for cell in asked.cells) == 50
    assert served_share(asked, 149) == 0.5


def test_the_longest_prompt_is_the_stated_one_else_the_end_of_its_bucket():
    spread = Lengths((Cell(9, 700, 100), Cell(1, 9000, 500)), 14089, spread=True)
    assert asking(spread, 1000).maximum_tokens == 11_585 + 1000
    assert asking(Lengths(spread.cells, 14089, spread=True, longest_prompt=10_000), 1000).maximum_tokens == 11_000
    assert 0.9 < served_share(asking(spread, 1000), 10_000) < 1
