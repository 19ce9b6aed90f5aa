"""The settings among which a fit can choose: priors, which factors stay, and how labels are taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.coded import CodedView
from ..core.spec import ModelSpec, Priors, ViewSpec
from ..core.streamed import AnyView

FEWEST, ALL = "fewest", "all"
KEEP = {FEWEST: "as few factors as will do", ALL: "all factors that explain anything"}
ALL_PRIORS = Priors(alpha=(1.0, 0.1), noise_floor=1e-4)  # under which idle factors shrink, but need not go
MOST_TOGETHER = 32  # yes/no columns whose cells are inferred together: the cube of it for each row


@dataclass(frozen=True)
class Candidate:
    """Settings that a search can choose.

    Parameters
    ----------
    priors : Priors
    keep : "fewest" or "all"
        Which factors stay: as few as the evidence asks for, or all that explain anything.
    label_weight : float
        Weight of the views of labels (not real, ordinal or counts) whose weight is 1. With many factors the
        posterior can be too sure of what labels say; a weight below 1 tempers it.
    labels_together : bool
        Infer the cells of a row of yes/no columns together: they are told better from each other. Where they are 2 to
        32 with a probit, and no other view has labels, levels, counts or limits; else it changes nothing.
    """

    priors: Priors = field(default_factory=Priors)
    keep: str = FEWEST
    label_weight: float = 1.0
    labels_together: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.priors, Priors):
            raise TypeError(f"priors must be a Priors(...), not {self.priors!r}.")
        if self.keep not in KEEP:
            raise ValueError(f"keep must be one of {tuple(KEEP)}, not {self.keep!r}.")
        if not 0 < self.label_weight <= 1:
            raise ValueError(f"label_weight must be in (0, 1], not {self.label_weight!r}.")
        object.__setattr__(self, "label_weight", float(self.label_weight))

    def spec(self, make_spec: Callable[[Priors], ModelSpec]) -> ModelSpec:
        """The model with these settings; `make_spec` is that of the data, given priors."""
        spec = make_spec(self.priors)
        latent = [view for view in spec.views if view.likelihood.latent]
        together = self.labels_together and len(latent) == 1 and not spec.mean_field

        def own(view: ViewSpec) -> ViewSpec:
            if view.likelihood.labels and view.weight == 1:
                view = replace(view, weight=self.label_weight)
            joint = view.likelihood.together() if 2 <= view.n_features <= MOST_TOGETHER else None
            return replace(view, likelihood=joint) if together and joint is not None else view

        return replace(spec, views=tuple(map(own, spec.views)))

    def in_words(self) -> str:
        words = KEEP[self.keep]
        if self.priors not in (Priors(), ALL_PRIORS):
            words += ", alpha ~ Gamma({:g}, {:g}), noise floor {:g}".format(*self.priors.alpha, self.priors.noise_floor)
        words += "" if self.label_weight == 1 else f", labels with weight {self.label_weight:g}"
        return words + (", labels of a row together" if self.labels_together else "")


HELD = Candidate(Priors(alpha=(100.0, 100.0), noise_floor=1e-4), ALL)  # weights are held at some 1: all factors stay


def candidates_for(
    search: Any, priors: Priors | None, keep: str | None, kernels: bool = False
) -> tuple[Candidate, ...]:
    """Those that a search is to compare, given what the user has decided; the first is what is taken without one.

    With kernels all factors stay unless the user says otherwise: few of them cannot tell what hundreds of features do.
    """
    keep = ALL if kernels and keep is None else keep
    if search is not None and not isinstance(search, str):
        return tuple(search)
    few, many = Candidate(priors or Priors(), FEWEST), Candidate(priors or ALL_PRIORS, ALL)
    tempered, held = replace(many, label_weight=0.5), () if priors else (HELD,)
    every = (few, many, tempered, *held, *(replace(one, labels_together=True) for one in (few, many)))
    auto = [candidate for candidate in every if keep in (None, candidate.keep)]
    return tuple(auto) if search == "auto" else (auto[0],)


def without_doubles(candidates: Sequence[Candidate], make_spec: Callable[[Priors], ModelSpec]) -> tuple[Candidate, ...]:
    """Those that make different models of these data, and fit them: without labels their weight changes nothing, and
    weights are held only where the bound would keep too few factors.
    """
    kept: dict[Any, Candidate] = {}
    hold = any(view.likelihood.keeps_few for view in make_spec(Priors()).views)
    for candidate in candidates:
        if candidate is HELD and not hold:
            continue
        own = tuple((view.weight, view.likelihood.joint) for view in candidate.spec(make_spec).views)
        kept.setdefault((candidate.keep, candidate.priors, own), candidate)
    return tuple(kept.values())


def worth_a_try(candidates: Sequence[Candidate], data: Sequence[AnyView], spec: ModelSpec) -> tuple[Candidate, ...]:
    """Without those that tell labels from each other, where the data do not ask for it: no row lacks some of them."""
    labels = [view for view, own in zip(data, spec.views) if own.likelihood.labels]
    some_missing = any(isinstance(view, CodedView) and misses_cells(view) for view in labels)
    return tuple(candidate for candidate in candidates if some_missing or not candidate.labels_together)


def without_search(candidates: Sequence[Candidate], data: Sequence[AnyView], spec: ModelSpec) -> Candidate:
    """What is taken of them where they are not compared: the first, or its like with labels together, if that is among
    them and worth a try.
    """
    together = replace(candidates[0], labels_together=True)
    return together if together in worth_a_try(candidates, data, spec) else candidates[0]


def misses_cells(view: CodedView) -> bool:
    """Does any row have some cells of this view, and lack others?"""
    if view.observed is None or view.observed.shape[1] == 1:
        return False
    return bool((view.observed.any(axis=1) & ~view.observed.all(axis=1)).any())
