"""Words that have an order, such as mild, moderate and severe."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .spellings import folded

LEAST = 3  # labels: the order of two says nothing
ORDERS = tuple(
    tuple(words.split(", "))
    for words in (
        "none, minimal, mild, moderate, severe, very severe",
        "absent, trace, mild, moderate, severe",
        "none, low, medium, high, very high",
        "none, very low, low, moderate, high, very high",
        "low, intermediate, high",
        "low, normal, high",
        "small, medium, large",
        "never, rarely, sometimes, often, usually, always",
        "never, seldom, sometimes, often, very often, always",
        "poor, fair, good, very good, excellent",
        "bad, medium, good",
        "strongly disagree, disagree, neutral, agree, strongly agree",
        "strongly disagree, disagree, neither agree nor disagree, agree, strongly agree",
        "i, ii, iii, iv, v, vi",
        "keine, minimal, leicht, mittel, schwer, sehr schwer",
        "kein, leicht, mäßig, mittel, schwer",
        "keine, leicht, mittelschwer, schwer",
        "keine, leicht, moderat, schwer",
        "leichtgradig, mittelgradig, hochgradig",
        "keine, sehr gering, gering, mittel, hoch, sehr hoch",
        "niedrig, mittel, hoch",
        "niedrig, normal, hoch",
        "klein, mittel, groß",
        "nie, selten, manchmal, oft, immer",
        "nie, selten, gelegentlich, häufig, meistens, immer",
        "schlecht, mittel, gut, sehr gut",
    )
)


def in_order(labels: Collection[Any]) -> list[str] | None:
    """The labels from the lowest to the highest, where all of them are words of one order."""
    spelled = {folded(label): label for label in labels if isinstance(label, str)}
    if len(spelled) < LEAST or len(spelled) < len(labels):
        return None
    order = next((words for words in ORDERS if set(spelled) <= set(words)), None)
    return None if order is None else [spelled[word] for word in order if word in spelled]
