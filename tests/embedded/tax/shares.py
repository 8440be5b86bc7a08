"""First in, first out and wash sales share by share, in exact fractions: an oracle apart from the book of lots.

Every share is an object of its own. A loss on one share is disallowed by one share that was bought within 30 days and
has replaced none yet, the earliest purchase first (Reg. §1.1091-1); the amount is added to that share's cost
(§1091(d)), or lost if an IRA holds it (Rev. Rul. 2008-5). Long positions of one symbol only: no splits, no options.

The law does not say which shares of one purchase replace a loss, so a sale out of a purchase whose shares differ has no
one answer; `is_clear` tells such sales, and the journals that are compared have none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction

from zorivest_rpc.embedded.tax.model import TaxFill
from zorivest_rpc.embedded.values.kinds import Side

WINDOW = 30


@dataclass
class Share:
    account: str
    bought: date
    place: int
    purchase: str
    cost: Fraction
    adjustment: Fraction = Fraction(0)
    replaced_as: int = 0
    sold: date | None = None
    sale: str = ""
    received: Fraction = Fraction(0)
    disallowed: Fraction = Fraction(0)
    is_replaced: bool = False
    rank: int = 0

    @property
    def order(self) -> tuple[date, str, int, int]:
        return (self.bought, self.purchase, self.replaced_as, self.place)

    @property
    def gain(self) -> Fraction:
        return self.received - self.cost - self.adjustment

    @property
    def recognized(self) -> Fraction:
        return self.gain + self.disallowed


@dataclass
class Ledger:
    """`sheltered` accounts are IRAs; `spouses` maps an account to its owner, where husband and wife are kept apart."""

    sheltered: frozenset[str] = frozenset()
    spouses: dict[str, str] = field(default_factory=dict)
    shares: list[Share] = field(default_factory=list)
    matches: int = 0

    def buy(self, name: str, account: str, day: date, count: int, total: Fraction) -> None:
        new = [Share(account, day, len(self.shares) + n, name, total / count) for n in range(count)]
        self.shares += new
        waiting = [share for share in self.shares if self._is_loss(share) and not share.is_replaced]
        waiting.sort(key=lambda share: (share.sale, share.rank))
        for share in new:
            for loss in waiting:
                if not loss.is_replaced and self._fits(loss, share):
                    self._move(loss, share)
                    break

    def sell(self, name: str, account: str, day: date, count: int, total: Fraction) -> None:
        held = [share for share in self.shares if share.account == account and share.sold is None]
        gone = sorted(held, key=lambda share: share.order)[:count]
        assert len(gone) == count
        for rank, share in enumerate(gone):
            share.sold, share.sale, share.received, share.rank = day, name, total / count, rank
        for loss in gone:
            for share in sorted(self.shares, key=lambda share: share.order):
                if self._is_loss(loss) and not loss.is_replaced and share.sold is None and self._fits(loss, share):
                    self._move(loss, share)

    def is_clear(self, account: str, count: int) -> bool:
        """Whether all shares of each purchase that a sale would touch are alike."""
        held = [share for share in self.shares if share.account == account and share.sold is None]
        touched = {share.purchase for share in sorted(held, key=lambda share: share.order)[:count]}
        kinds = {(share.purchase, share.adjustment, share.replaced_as > 0) for share in held}
        return len([kind for kind in kinds if kind[0] in touched]) == len(touched)

    def take(self, row: TaxFill) -> None:
        """One fill of the journal."""
        gross, fee = Fraction(row.price) * Fraction(row.quantity), Fraction(row.commission)
        day, count = row.time.date(), int(row.quantity)
        if row.side is Side.BOT:
            self.buy(row.exec_id, row.account_id, day, count, gross + fee)
        else:
            self.sell(row.exec_id, row.account_id, day, count, gross - fee)

    def _is_loss(self, share: Share) -> bool:
        return share.sold is not None and share.account not in self.sheltered and share.gain < 0

    def _fits(self, loss: Share, other: Share) -> bool:
        assert loss.sold is not None
        return (
            not other.replaced_as
            and other.purchase != loss.purchase
            and abs((other.bought - loss.sold).days) <= WINDOW
            and self.spouses.get(other.account) == self.spouses.get(loss.account)
        )

    def _move(self, loss: Share, other: Share) -> None:
        loss.disallowed, loss.is_replaced = -loss.gain, True
        self.matches += 1
        other.replaced_as = self.matches
        if other.account not in self.sheltered:
            other.adjustment += loss.disallowed

    def recognized(self, sales: Iterable[str]) -> dict[str, Fraction]:
        return {
            name: sum((share.recognized for share in self.shares if share.sale == name), Fraction(0)) for name in sales
        }

    def basis(self, account: str) -> Fraction:
        open_shares = (share for share in self.shares if share.account == account and share.sold is None)
        return sum((share.cost + share.adjustment for share in open_shares), Fraction(0))
