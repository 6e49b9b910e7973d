"""What `openworld fit` says about the model and the data at the end: in words, as JSON, as a page."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from openworld.cli.console import Progress, messages, plural

if TYPE_CHECKING:
    from openworld.data.stream import Batch, Stream
    from openworld.distributed import Learned
    from openworld.evaluation.data_check import DataCheck
    from openworld.evaluation.self_check import SelfCheck

_SHOWN = 5
_MANY_COPIES = 0.2  # share of the samples
_MANY_MISSED = 0.3  # share of the held-out samples called unknown, ...
_MANY_RIGHT = 0.2  # ... and of those among them whose nearest class is right, that deserve advice


class FitReport:
    """The self-check of a recognizer and the check of its data.

    Parameters
    ----------
    recognizer : recognizer
        Unfitted: copies of it are fitted.
    stream : Stream
    learned : Learned
    """

    def __init__(self, recognizer: Any, stream: Stream, learned: Learned) -> None:
        from openworld.distributed import sample_of
        from openworld.evaluation.data_check import check_data
        from openworld.evaluation.self_check import MOST_SAMPLES, self_check
        from openworld.recognition import KnownRecall, is_adjustable

        self.can_accept_more = is_adjustable(recognizer) and not isinstance(recognizer.objective, KnownRecall)
        self.stream = stream
        self.batch: Batch = learned.whole or sample_of(stream, MOST_SAMPLES)
        assert self.batch.y is not None
        groups = self.batch.groups
        self.data: DataCheck = check_data(self.batch.X, self.batch.y, groups=groups)
        with Progress("Checking on held-out samples") as progress:
            self.check: SelfCheck | None = self_check(
                recognizer, self.batch.X, self.batch.y, groups=groups, progress=progress.update
            )

    def print(self) -> None:
        """Print the figures, the findings and the warnings."""
        for line in (*self.figures(), *self.advice()):
            messages.print(escape(line), soft_wrap=True)
        for line in self.findings():
            messages.print(f"  {escape(line)}", soft_wrap=True)
        for line in self.warnings():
            messages.print(f"[yellow]Warning:[/] {escape(line)}", soft_wrap=True)

    def figures(self) -> list[str]:
        """Say what to expect of the model."""
        check = self.check
        if check is None:
            what = "samples" if self.batch.groups is None else "groups"
            return [f"Self-check: not possible, as fewer than two classes have two {what}."]
        known = (
            f"Self-check on {plural(check.n_samples, 'held-out sample')} of "
            f"{plural(check.n_classes, 'class', 'classes')}: {check.right:.0%} named right, "
            f"{check.missed:.0%} called unknown, {check.misnamed:.0%} misnamed."
        )
        if check.rejected is None or check.oscr is None or check.oscr_interval is None:
            return [known]
        low, high = check.oscr_interval
        return [
            known,
            f"Of classes held out, {check.rejected:.0%} of the samples are called unknown. "
            f"OSCR {check.oscr:.2f} (95 % interval {low:.2f} to {high:.2f}).",
        ]

    def advice(self) -> list[str]:
        """Say how to accept more, where the threshold rejects many samples that would be named right."""
        check = self.check
        if check is None or not self.can_accept_more or check.missed <= _MANY_MISSED:
            return []
        rejected = check.nearest_right - check.right
        if rejected <= _MANY_RIGHT:
            return []
        return [
            f"{plural(round(rejected * check.n_samples), 'held-out sample')} called unknown have the right "
            "nearest class: --objective recall=0.9 (in fit, learn and recognize) accepts more of them, at "
            "the price of more wrong accepts."
        ]

    def findings(self) -> list[str]:
        """Say which classes, samples and features deserve a look."""
        found: list[str] = []
        if self.check is not None:
            worst = [f"{label} ({share:.0%} of {n})" for label, share, n in self.check.worst_classes[:_SHOWN]]
            confused = [f"{a} taken for {b} ({n})" for a, b, n in self.check.confused[:_SHOWN]]
            suspects = [
                f"{self.name(i)} is labeled {label}, looks like {other}"
                for i, label, other, _ in self.check.suspects[:_SHOWN]
            ]
            found += _listed("Least often right", worst, len(self.check.worst_classes))
            found += _listed("Most often confused", confused, len(self.check.confused))
            found += _listed("Labels that may be wrong", suspects, len(self.check.suspects))
        near = [f"{self.name(a)} and {self.name(b)}" for a, b in self.data.near_copies[:_SHOWN]]
        found += _listed("Nearly the same sample in two classes", near, len(self.data.near_copies))
        few = [f"{label} ({n})" for label, n in self.data.few[:_SHOWN]]
        found += _listed("Classes with fewer than 5 samples", few, len(self.data.few))
        if self.stream.extractor is None:
            constant = [self.feature(i) for i in self.data.constant[:_SHOWN]]
            found += _listed("Features with one value throughout", constant, len(self.data.constant))
        return found

    def warnings(self) -> list[str]:
        """Say what is likely a mistake."""
        found = []
        alone = sum(n == 1 for _, n in self.data.few)
        if self.data.parts:
            found.append(
                f"the classes are named like parts of a data set ({', '.join(self.data.parts)}). Give the "
                "folder with one sub-folder per class, such as "
                f"{self.stream.name.rstrip('/')}/{self.data.parts[0]}."
            )
        if self.check is not None and self.check.n_classes == 2:
            found.append("there are two classes only, so what is unknown is hard to tell; add more classes.")
        if alone:
            found.append(f"{plural(alone, 'class has', 'classes have')} a single sample: give at least 5.")
        for a, b in self.data.copies[:_SHOWN]:
            found.append(f"the same {self.stream.noun} is in two classes: {self.name(a)} and {self.name(b)}.")
        if self.data.copies_within > _MANY_COPIES:
            found.append(
                f"{self.data.copies_within:.0%} of the samples have an exact copy in their own class. Copies "
                "make the threshold too strict: remove them, or with the recognizer openworld name groups of "
                "copies with --group-column."
            )
        if self.stream.extractor is None:
            found += [
                f"{self.feature(i)} has nearly all of the variance. Is it an id, a date or in another unit?"
                for i in self.data.dominating
            ]
            found += [
                f"{self.feature(i)} only grows or only falls from sample to sample, like a time or an id: "
                "it says nothing about new samples. Leave it out with --feature-columns or name "
                "it in --id-column."
                for i in self.data.counting
            ]
        if self.check is not None and self.check.is_near_chance:
            found.append(
                f"held-out samples are named no better than by chance ({self.check.nearest_right:.0%} of the "
                f"nearest classes are right, chance is {1 / self.check.n_classes:.0%}). Do labels and "
                "features belong together?"
            )
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        from dataclasses import asdict

        data = asdict(self.data)
        for kind in ("copies", "near_copies"):
            data[kind] = [[self.name(a), self.name(b)] for a, b in data[kind]]
        for kind in ("constant", "dominating", "counting"):
            data[kind] = [self.feature(i) for i in data[kind]]
        check = None if self.check is None else asdict(self.check)
        if check is not None:
            check["suspects"] = [
                {"sample": self.name(i), "label": label, "looks_like": other, "membership": membership}
                for i, label, other, membership in check["suspects"]
            ]
        return {"check": check, "data": data, "advice": self.advice(), "warnings": self.warnings()}

    def write(self, path: Path, title: str) -> None:
        """Write a self-contained page."""
        from jinja2 import Environment

        template = files("openworld.cli").joinpath("templates/fit_report.html.jinja").read_text("utf-8")
        page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(template)
        path.write_text(
            page.render(
                title=title,
                figures=[*self.figures(), *self.advice()],
                warnings=self.warnings(),
                check=self.check,
                data=self.data,
                **self._tables(),
            ),
            encoding="utf-8",
        )

    def _tables(self) -> dict[str, list[Any]]:
        check, data = self.check, self.data
        return {
            "worst": [] if check is None else [(c, f"{share:.0%}", n) for c, share, n in check.worst_classes],
            "suspects": []
            if check is None
            else [(self.name(i), a, b, f"{membership:.2f}") for i, a, b, membership in check.suspects],
            "copies": [(self.name(a), self.name(b)) for a, b in data.copies],
            "near_copies": [(self.name(a), self.name(b)) for a, b in data.near_copies],
            "constant": [(self.feature(i),) for i in data.constant] if self.stream.extractor is None else [],
        }

    def name(self, position: int) -> str:
        """Say which sample it is."""
        if self.batch.ids is not None:
            return str(self.batch.ids[position])
        if self.batch.names is not None:
            return self.batch.names[position]
        return f"sample {self.batch.rows[position] + 1}"

    def feature(self, i: int) -> str:
        """Say which feature it is."""
        return f'column "{self.stream.feature_names[i]}"' if self.stream.feature_names else f"feature {i + 1}"


def _listed(title: str, shown: list[str], total: int) -> list[str]:
    if not shown:
        return []
    more = f", and {total - len(shown):,} more" if total > len(shown) else ""
    return [f"{title}: {'; '.join(shown)}{more}."]
