"""What the GPUs of a setup cost an hour: as stated, as a named offer asks, or as the cheapest listed one does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recommender.catalog.catalog import Catalog
from recommender.catalog.offers import SEGMENTS, Offer
from recommender.catalog.validate import usual_prices
from recommender.errors import Fault, InputError, nearest
from recommender.scenario import Search
from recommender.search.columns import admit, newest_price
from recommender.search.warnings import price_doubts
from recommender.units import ceil_div, plural

STATED, NAMED, CHEAPEST = "stated", "named", "cheapest listed"


@dataclass(frozen=True, slots=True)
class Hosts:
    """What has to be hosted: replicas of so many GPUs each, none of them over two instances."""

    gpu: str
    gpus_per_replica: int
    replicas: int

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.gpus_per_replica * self.replicas

    def instances(self, offer: Offer) -> int:
        """Instances of an offer that host them; 0 where one does not hold a replica."""
        hosted = offer.gpus // self.gpus_per_replica
        return max(ceil_div(self.replicas, hosted), offer.minimum_instances) if hosted else 0


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-dollars an hour of all instances that host a setup; `how` is `stated`, `named` or `cheapest listed`.

    `offer` is None where the price was stated. `idle_gpus` are paid for and not used. `doubts` speak against the price.
    """

    micro_usd_per_hour: int
    how: str
    instances: int = 0
    offer: Offer | None = None
    idle_gpus: int = 0
    doubts: tuple[str, ...] = ()


def cheapest_price(hosts: Hosts, catalog: Catalog) -> Price | None:
    """The least that listed on-demand offers of the GPU ask to host them; None where none of them does.

    Offers are those that a scenario searches by default: no marketplaces, no prices their source calls outdated.
    """
    found = _priced(hosts, catalog, catalog.offers, Search(gpus=(hosts.gpu,)), CHEAPEST)
    return min(found, key=_order, default=None)


def named_price(hosts: Hosts, catalog: Catalog, name: str) -> Price:
    """What the offer `provider/instance type` asks on demand, in its cheapest region. Raises InputError."""
    provider, _, instance_type = name.partition("/")
    mine = [
        offer
        for offer in catalog.offers
        if (offer.provider.casefold(), offer.instance_type.casefold())
        == (provider.casefold(), instance_type.casefold())
    ]
    if not mine:
        known = sorted({f"{offer.provider}/{offer.instance_type}" for offer in catalog.offers})
        of_gpu = sorted(
            {f"{offer.provider}/{offer.instance_type}" for offer in catalog.offers if offer.gpu == hosts.gpu}
        )
        near = nearest(name, of_gpu) or nearest(name, known)
        expected = "PROVIDER/INSTANCE_TYPE, as in `recommender offers`"
        raise InputError(Fault(f"unknown offer {name!r}", key="offer", expected=expected, suggestion=_first(near)))
    if mine[0].gpu != hosts.gpu:
        raise InputError(Fault(f"{name} has {mine[0].gpu}", key="offer", expected=f"an offer of {hosts.gpu}"))
    search = Search(segments=SEGMENTS, offers="all", stale=True)
    found = _priced(hosts, catalog, mine, search, NAMED)
    cheapest = min(found, key=_order, default=None)
    if cheapest is not None:
        return cheapest
    if not any("on_demand" in offer.prices for offer in mine):
        raise InputError(Fault(f"{name} has no known on-demand price", key="offer", expected="--usd-per-hour instead"))
    what = f"{name} has {plural(mine[0].gpus, 'GPU')}: no replica of {hosts.gpus_per_replica} fits inside one"
    raise InputError(Fault(what, key="offer", expected=f"an instance of {hosts.gpus_per_replica} GPUs or more"))


def _priced(hosts: Hosts, catalog: Catalog, offers: Iterable[Offer], search: Search, how: str) -> Iterator[Price]:
    """The price by each of the offers that hosts them."""
    as_of, gpus = newest_price(catalog.offers), {gpu.name: gpu for gpu in catalog.gpus}
    usual = usual_prices(offer for offer in catalog.offers if offer.listed).get(hosts.gpu)
    for offer, market in admit(offers, search, gpus, as_of):
        instances = hosts.instances(offer)
        if instances:
            price, age_days = offer.prices[market], (as_of - offer.as_of).days
            yield Price(
                micro_usd_per_hour=instances * price,
                how=how,
                instances=instances,
                offer=offer,
                idle_gpus=instances * offer.gpus - hosts.gpus,
                doubts=price_doubts(price / offer.gpus, usual, age_days, search.max_price_age_days),
            )


def _order(price: Price) -> tuple[int, int, tuple[str, str, str]]:
    """Cheapest first, then fewest idle GPUs, then by name."""
    return price.micro_usd_per_hour, price.idle_gpus, price.offer.key if price.offer else ("", "", "")


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)
