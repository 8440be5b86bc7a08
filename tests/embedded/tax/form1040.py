"""A return by hand: the lines of the forms, in whole numbers and fractions, apart from the engine they judge.

Sources: Schedule D (Form 1040) 2024, its Capital Loss Carryover Worksheet, the Qualified Dividends and Capital Gain Tax
Worksheet of the Form 1040 instructions, Form 2210 Part III and its Schedule AI. Tax is computed as the Tax Computation
Worksheet does, rate times income less a subtraction amount, where the engine adds up brackets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

# Rev. Proc. 2023-34 (2024) and Rev. Proc. 2025-32 (2026): where each rate begins; standard deduction; 15 % and 20 %.
_RATES = (10, 12, 22, 24, 32, 35, 37)
_STARTS = {
    (2024, "SINGLE"): (0, 11_600, 47_150, 100_525, 191_950, 243_725, 609_350),
    (2024, "MARRIED_JOINT"): (0, 23_200, 94_300, 201_050, 383_900, 487_450, 731_200),
    (2024, "MARRIED_SEPARATE"): (0, 11_600, 47_150, 100_525, 191_950, 243_725, 365_600),
    (2026, "SINGLE"): (0, 12_400, 50_400, 105_700, 201_775, 256_225, 640_600),
    (2026, "MARRIED_JOINT"): (0, 24_800, 100_800, 211_400, 403_550, 512_450, 768_700),
    (2026, "HEAD_OF_HOUSEHOLD"): (0, 17_700, 67_450, 105_700, 201_750, 256_200, 640_600),
}
DEDUCTION = {
    (2024, "SINGLE"): 14_600, (2024, "MARRIED_JOINT"): 29_200, (2024, "MARRIED_SEPARATE"): 14_600,
    (2026, "SINGLE"): 16_100, (2026, "MARRIED_JOINT"): 32_200, (2026, "HEAD_OF_HOUSEHOLD"): 24_150,
}  # fmt: skip
_BANDS = {
    (2024, "SINGLE"): (47_025, 518_900), (2024, "MARRIED_JOINT"): (94_050, 583_750),
    (2024, "MARRIED_SEPARATE"): (47_025, 291_850), (2026, "SINGLE"): (49_450, 545_500),
    (2026, "MARRIED_JOINT"): (98_900, 613_700), (2026, "HEAD_OF_HOUSEHOLD"): (66_200, 579_600),
}  # fmt: skip
_NIIT_FROM = {
    "SINGLE": 200_000, "HEAD_OF_HOUSEHOLD": 200_000, "MARRIED_JOINT": 250_000, "MARRIED_SEPARATE": 125_000,
}  # fmt: skip
FILERS = tuple(_STARTS)
Filer = tuple[int, str]


def subtraction_amounts(starts: Sequence[int]) -> list[Fraction]:
    """Column (d) of the Tax Computation Worksheet: what makes `rate × income − amount` continuous."""
    amounts = [Fraction(0)]
    for before, rate, start in zip(_RATES, _RATES[1:], starts[1:], strict=False):
        amounts.append(amounts[-1] + Fraction(rate - before, 100) * start)
    return amounts


def schedule_tax(filer: Filer, taxable: Fraction) -> Fraction:
    """Tax on ordinary taxable income; on a schedule of rising rates the largest line is the one that applies."""
    lines = (
        Fraction(rate, 100) * taxable - less
        for rate, less in zip(_RATES, subtraction_amounts(_STARTS[filer]), strict=True)
    )
    return max(Fraction(0), *lines)


class ScheduleD(NamedTuple):
    """Lines of Schedule D: 7 and 15 with their carryovers, 16, and 21 as the loss that may be deducted."""

    line_7: Fraction
    line_15: Fraction
    line_16: Fraction
    line_21: Fraction


def schedule_d(filer: Filer, short: int, long: int, carried: tuple[int, int] = (0, 0)) -> ScheduleD:
    line_7, line_15 = Fraction(short - carried[0]), Fraction(long - carried[1])
    line_16 = line_7 + line_15
    limit = 1500 if filer[1] == "MARRIED_SEPARATE" else 3000
    return ScheduleD(line_7, line_15, line_16, min(-line_16, Fraction(limit)) if line_16 < 0 else Fraction(0))


def carryover_worksheet(schedule: ScheduleD, line_1: Fraction) -> tuple[Fraction, Fraction]:
    """Capital Loss Carryover Worksheet: short-term (line 8) and long-term (line 13); line 1 may be negative."""
    nil = Fraction(0)
    line_2 = schedule.line_21
    line_3 = max(nil, line_1 + line_2)
    line_4 = min(line_2, line_3)
    line_5, line_8 = nil, nil
    if schedule.line_7 < 0:
        line_5 = -schedule.line_7
        line_6 = max(nil, schedule.line_15)
        line_7 = line_4 + line_6
        line_8 = max(nil, line_5 - line_7)
    line_13 = nil
    if schedule.line_15 < 0:
        line_9 = -schedule.line_15
        line_10 = max(nil, schedule.line_7)
        line_11 = max(nil, line_4 - line_5)
        line_12 = line_10 + line_11
        line_13 = max(nil, line_9 - line_12)
    return line_8, line_13


class Return(NamedTuple):
    tax: Fraction
    carryover: tuple[Fraction, Fraction]


def form_1040(filer: Filer, wages: int, short: int, long: int, carried: tuple[int, int] = (0, 0)) -> Return:
    """The whole tax of a year with wages and capital gains, NIIT included, and what carries over."""
    nil = Fraction(0)
    schedule = schedule_d(filer, short, long, carried)
    agi = wages + (schedule.line_16 if schedule.line_16 > 0 else -schedule.line_21)
    unrounded = agi - DEDUCTION[filer]  # line 15 as the worksheet wants it, below zero if it would be
    taxable = max(nil, unrounded)
    # Qualified Dividends and Capital Gain Tax Worksheet; line 3 is the smaller of Schedule D lines 15 and 16
    line_4 = max(nil, min(schedule.line_15, schedule.line_16))
    line_5 = max(nil, taxable - line_4)
    zero_to, fifteen_to = _BANDS[filer]
    line_7 = min(taxable, Fraction(zero_to))
    line_8 = min(line_5, line_7)
    line_9 = line_7 - line_8
    line_10, line_11 = min(taxable, line_4), line_9
    line_12 = line_10 - line_11
    line_14 = min(taxable, Fraction(fifteen_to))
    line_15 = line_5 + line_9
    line_16 = max(nil, line_14 - line_15)
    line_17 = min(line_12, line_16)
    line_18 = Fraction(15, 100) * line_17
    line_19 = line_9 + line_17
    line_20 = line_10 - line_19
    line_21 = Fraction(20, 100) * line_20
    line_23 = line_18 + line_21 + schedule_tax(filer, line_5)
    income_tax = min(line_23, schedule_tax(filer, taxable))
    surtax = Fraction(38, 1000) * min(max(nil, schedule.line_16), max(nil, agi - _NIIT_FROM[filer[1]]))
    return Return(income_tax + surtax, carryover_worksheet(schedule, unrounded))


def form_2210(
    year_tax: Fraction, annualized: Sequence[Fraction], prior: Fraction | None = None
) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Required installments by Schedule AI, lines 19 to 27, from line 18's tax on annualized income of each column."""
    required_annual = Fraction(90, 100) * year_tax if prior is None else min(Fraction(90, 100) * year_tax, prior)
    shares = (Fraction(225, 1000), Fraction(45, 100), Fraction(675, 1000), Fraction(90, 100))
    line_27: list[Fraction] = []
    line_26 = Fraction(0)
    for share, tax in zip(shares, annualized, strict=True):
        line_20 = share * tax
        line_21 = sum(line_27, Fraction(0))
        line_22 = max(Fraction(0), line_20 - line_21)
        line_23 = required_annual / 4
        line_25 = line_23 + line_26
        line_27.append(min(line_22, line_25))
        line_26 = line_25 - line_27[-1]
    first, second, third, fourth = line_27
    return first, second, third, fourth
