"""What a setup costs an hour, from hand-made price lists."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from recommender.catalog.catalog import Catalog
from recommender.catalog.offers import Offer
from recommender.errors import InputError
from recommender.speed.price import Hosts, cheapest_price, named_price

TODAY = date(2026, 10, 10)


def offer(instance_type: str, gpus: int, usd: float, **changed: object) -> Offer:
    sound = Offer(
        provider="p",
        segment="neocloud",
        instance_type=instance_type,
        region="r",
        gpu="H100-SXM",
        gpus=gpus,
        listed=True,
        prices={"on_demand": round(usd * 1e6)},
        ram_bytes=None,
        vcpus=None,
        minimum_instances=1,
        as_of=TODAY,
        stale=False,
        source="s",
        notes="",
    )
    return replace(sound, **changed)  # type: ignore[arg-type]


@pytest.fixture
def market(catalog: Catalog) -> Catalog:
    """Ten dollars for four and two for one; what a scenario does not search is cheaper and must not be taken."""
    offers = (
        offer("four", 4, 10.0),
        offer("one", 1, 2.0),
        offer("one", 1, 2.5, region="elsewhere"),
        offer("indicative", 4, 1.0, listed=False),
        offer("outdated", 4, 1.0, stale=True),
        offer("peer", 4, 1.0, segment="marketplace"),
        offer("spot", 4, 1.0, prices={"spot": 1_000_000}),
        offer("other", 4, 1.0, gpu="L4"),
    )
    return replace(catalog, offers=offers)


def test_the_cheapest_that_hosts_each_replica_whole(market: Catalog) -> None:
    """Four replicas of one GPU fit four small instances ($8); one of four needs the large one ($10)."""
    spread = cheapest_price(Hosts("H100-SXM", 1, 4), market)
    whole = cheapest_price(Hosts("H100-SXM", 4, 1), market)
    assert spread is not None
    assert whole is not None
    assert spread.offer is not None
    assert (spread.micro_usd_per_hour, spread.instances, spread.offer.instance_type) == (8_000_000, 4, "one")
    assert (whole.micro_usd_per_hour, whole.instances, whole.idle_gpus) == (10_000_000, 1, 0)


def test_idle_gpus_are_paid_for(market: Catalog) -> None:
    found = cheapest_price(Hosts("H100-SXM", 3, 2), market)
    assert found is not None
    assert (found.micro_usd_per_hour, found.instances, found.idle_gpus) == (20_000_000, 2, 2)


def test_no_offer_is_an_unknown_price(market: Catalog) -> None:
    assert cheapest_price(Hosts("H100-SXM", 8, 1), market) is None
    assert cheapest_price(Hosts("V100-32GB", 1, 1), market) is None


def test_a_smallest_order_counts(market: Catalog) -> None:
    least = replace(market, offers=(offer("pair", 4, 10.0, minimum_instances=2),))
    found = cheapest_price(Hosts("H100-SXM", 4, 1), least)
    assert found is not None
    assert (found.micro_usd_per_hour, found.idle_gpus) == (20_000_000, 4)


def test_a_named_offer_in_its_cheapest_region(market: Catalog) -> None:
    found = named_price(Hosts("H100-SXM", 1, 1), market, "P/One")
    assert found.offer is not None
    assert (found.micro_usd_per_hour, found.offer.region) == (2_000_000, "r")
    assert named_price(Hosts("H100-SXM", 4, 1), market, "p/indicative").micro_usd_per_hour == 1_000_000


def test_doubts_of_a_price(market: Catalog) -> None:
    """Four others ask $4 for a GPU-hour: $1 is 0.2 of their median with it; 100 days are more than 90."""
    others = [offer(f"o{n}", 1, 4.0) for n in range(4)]
    cheap = offer("cheap", 1, 1.0, as_of=date(2026, 7, 2))
    found = cheapest_price(Hosts("H100-SXM", 1, 1), replace(market, offers=(*others, cheap)))
    assert found is not None
    assert found.doubts == ("100 days old", "0.2 x the median price")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("p/on", "unknown offer 'p/on'.*did you mean p/one"),
        ("one", "unknown offer 'one'"),
        ("", "unknown offer ''"),
        ("p/other", "p/other has L4.*expected an offer of H100-SXM"),
        ("p/spot", "no known on-demand price"),
        ("p/one", "p/one has 1 GPU: no replica of 4 fits inside one"),
    ],
)
def test_named_offers_that_cannot_be(market: Catalog, name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        named_price(Hosts("H100-SXM", 4, 1), market, name)
