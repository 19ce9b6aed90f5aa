"""The real command in a process of its own: files in, files out, one sentence for each thing that is wrong."""

import io
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import reports
from commands import ENVIRONMENT, command, sshiba

from sshiba import SSHIBA, load
from sshiba.cli import demo, run
from sshiba.data.advice import DataWarning


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """blood.csv with holes, in it labels; new.csv without the diagnosis; a fitted model."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    z = rng.standard_normal((90, 2))
    frame = pd.DataFrame(z @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((90, 5)), columns=list("abcde"))
    frame.insert(0, "patient", [f"p{i}" for i in range(90)])
    frame["sex"] = np.where(z[:, 0] > 0, "f", "m")
    frame["ill"] = (z[:, 1] > 0).astype(int)
    frame.drop(columns=["ill", "c"]).head(8).to_csv(folder / "new.csv", index=False)
    frame.loc[3, "a"], frame.loc[4, "sex"], frame.loc[5, ["b", "c"]] = np.nan, None, np.nan
    frame.to_csv(folder / "blood.csv", index=False)
    frame.to_csv(folder / "blood.tsv", index=False, sep="\t")
    frame[["patient", "a", "b"]].to_csv(folder / "one.csv", index=False)
    frame[["patient", "c", "sex"]].iloc[::-1].to_csv(folder / "two.csv", index=False)
    done = sshiba("fit", "blood.csv", "--index", "patient", "--components", 5, "-o", "model.sshiba", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_fit_says_what_it_did(folder: Path) -> None:
    model = load(folder / "model.sshiba")
    assert list(model.views_) == ["numeric", "sex", "binary"]
    shown = sshiba("info", "model.sshiba", cwd=folder)
    assert shown.returncode == 0
    assert "90 rows" in shown.stdout
    assert "5 features" in shown.stdout


def test_impute_fills_holes_and_nothing_else(folder: Path) -> None:
    done = sshiba(
        "impute",
        "blood.csv",
        "--index",
        "patient",
        "-o",
        "filled.csv",
        "--std",
        "std.csv",
        "--components",
        5,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    before, after = (pd.read_csv(folder / name, index_col="patient") for name in ("blood.csv", "filled.csv"))
    assert list(before.columns) == list(after.columns)
    assert not after.isna().any().any()
    for column in before:
        seen = before[column].notna()
        assert (before[column][seen] == after[column][seen]).all()
    std = pd.read_csv(folder / "std.csv", index_col="patient")
    assert ((std > 0) == before.isna()).all().all()
    texts = [(folder / name).read_text().splitlines() for name in ("blood.csv", "filled.csv")]
    assert [a == b for a, b in zip(*texts)].count(False) == 3  # the rows with holes; all others to the last character
    again = sshiba("impute", "blood.tsv", "--index", "patient", "--model", "model.sshiba", "-o", "-", cwd=folder)
    assert again.stdout.startswith("patient\ta\tb")  # as the file has it
    assert len(again.stdout.splitlines()) == 91


def test_predict_and_transform(folder: Path) -> None:
    done = sshiba(
        "predict",
        "model.sshiba",
        "new.csv",
        "--index",
        "patient",
        "--target",
        "ill",
        "--proba",
        "-o",
        "p.csv",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    proba = pd.read_csv(folder / "p.csv", index_col="patient")["ill 1"]
    assert proba.between(0, 1).all()
    ill = pd.read_csv(folder / "blood.csv", index_col="patient").loc[proba.index, "ill"]
    assert ((proba > 0.5) == ill).sum() >= 7
    values = sshiba("predict", "model.sshiba", "new.csv", "--index", "patient", "--target", "c", "--std", cwd=folder)
    assert values.stdout.splitlines()[0] == "patient,c,c std"
    text = (folder / "new.csv").read_text()
    factors = sshiba("transform", "model.sshiba", "-", "--index", "patient", stdin=text, cwd=folder)
    assert factors.stdout.splitlines()[0].startswith("patient,factor 1")
    assert len(factors.stdout.splitlines()) == 9


def test_a_target_is_used_only_on_request_and_unseen_labels_are_missing(folder: Path) -> None:
    plain, used = (
        sshiba("predict", "model.sshiba", "blood.csv", "--index", "patient", "--target", "a", *more, cwd=folder).stdout
        for more in ((), ("--use-target",))
    )
    found = [pd.read_csv(io.StringIO(text), index_col="patient")["a"] for text in (plain, used)]
    truth = pd.read_csv(folder / "blood.csv", index_col="patient")["a"]
    errors = [(part - truth).abs().mean() for part in found]
    assert errors[1] < 0.9 * errors[0]
    new = "patient,sex\nq1,x\nq2,f\n"
    done = sshiba("transform", "model.sshiba", "-", "--index", "patient", stdin=new, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "'x' unseen in training" in done.stderr
    refused = sshiba("transform", "model.sshiba", "-", "--index", "patient", "--unseen", "error", stdin=new, cwd=folder)
    assert refused.returncode == 2


def test_own_views_and_several_files(folder: Path) -> None:
    options = ("--index", "patient", "--view", "body=a,b:real", "--view", "sex=sex:categorical", "--components", 3)
    done = sshiba("fit", "one.csv", "two.csv", *options, "-o", "two.sshiba", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert list(load(folder / "two.sshiba").views_) == ["body", "sex", "two"]


def test_evaluate_prints_a_table(folder: Path) -> None:
    done = sshiba("evaluate", "blood.csv", "--index", "patient", "--components", 5, "-o", "scores.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "coverage" in done.stdout
    assert pd.read_csv(folder / "scores.csv")["hidden"].sum() > 20


def test_h5mu(tmp_path: Path) -> None:
    mudata = pytest.importorskip("mudata", reason="needs the extra 'mudata'")
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    z, rows = rng.standard_normal((90, 2)), pd.Index([f"cell {i}" for i in range(90)])
    parts = {}
    for name, n in (("rna", 90), ("protein", 70)):
        x = z @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((90, 6))
        names = pd.DataFrame(index=[f"{name} {d}" for d in range(6)])
        parts[name] = anndata.AnnData(x[:n], obs=pd.DataFrame(index=rows[:n]), var=names)
    mudata.MuData(parts).write(tmp_path / "cells.h5mu")
    done = sshiba("fit", "cells.h5mu", "-o", "m.sshiba", "--components", 4, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    model = load(tmp_path / "m.sshiba")
    assert model.feature_names_in_["protein"][0] == "protein 0"
    assert list(model.index_) == list(rows)
    done = sshiba("transform", "m.sshiba", "cells.h5mu", "-o", "z.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "z.csv", index_col=0)) == 90


def test_stability(folder: Path) -> None:
    words = ("-n", 2, "--kind", "bootstrap", "-o", "stable.csv")
    done = sshiba("stability", "model.sshiba", "blood.csv", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "factors of 2 bootstraps" in done.stdout
    table = pd.read_csv(folder / "stable.csv")
    assert list(table.columns) == ["factor", "mean", "low", "high", "stable"]
    assert len(table) == load(folder / "model.sshiba").n_components_
    done = sshiba("stability", "model.sshiba", "new.csv", "-n", 2, cwd=folder)
    assert done.returncode == 2
    assert "not the data of the fit" in done.stderr


def test_report(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="needs the extra 'report'")
    data = str(folder / "blood.csv")
    done = sshiba("fit", data, "--index", "patient", "--components", 3, "-o", "m.sshiba", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = sshiba("report", "m.sshiba", "-o", "r.html", "--data", data, "--index", "patient", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<title>m</title>" in page
    assert "of the observed cells were hidden" in page
    done = sshiba("report", "m.sshiba", "-o", "r.html", cwd=tmp_path)
    assert done.returncode == 2
    assert "exists" in done.stderr
    done = sshiba("report", "m.sshiba", "-o", "r.pdf", cwd=tmp_path)
    assert "ending" in done.stderr
    patients = pd.read_csv(data)["patient"]
    more = pd.DataFrame({"patient": patients, "ward": ["east", "west"] * (len(patients) // 2)}).iloc[::-1]
    more.to_csv(tmp_path / "more.csv", index=False)
    given = ("--metadata", "more.csv", "--index", "patient", "--force")
    done = sshiba("report", "m.sshiba", "-o", "r.html", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    colours = reports.content(tmp_path / "r.html")["factors"]["colours"]
    assert [colour["name"] for colour in colours] == ["ward"]
    assert colours[0]["labels"][:2] == ["east", "west"]


def test_a_report_takes_several_files_behind_one_option(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="needs the extra 'report'")
    whole = pd.read_csv(folder / "blood.csv", index_col="patient")
    whole.iloc[:, :2].to_csv(tmp_path / "one.csv")
    whole.iloc[:, 2:].to_parquet(tmp_path / "two.parquet")
    both = ("one.csv", "two.parquet", "--index", "patient")
    assert sshiba("fit", *both, "--components", 2, "-o", "m.sshiba", cwd=tmp_path).returncode == 0
    done = sshiba("report", "m.sshiba", "-o", "r.html", "--fraction", 0, "--data", *both, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.html").exists()


def test_parquet_and_npz(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    frame = pd.read_csv(folder / "blood.csv", index_col="patient")
    frame.to_parquet(tmp_path / "blood.parquet")
    done = sshiba("impute", "blood.parquet", "-o", "filled.parquet", "--components", 4, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    filled = pd.read_parquet(tmp_path / "filled.parquet")
    assert filled.index.equals(frame.index)
    assert filled.dtypes.equals(pd.read_parquet(tmp_path / "blood.parquet").dtypes)
    np.savez(tmp_path / "views.npz", x=frame[list("abcde")].to_numpy(), ill=frame[["ill"]].to_numpy())
    done = sshiba("fit", "views.npz", "-o", "n.sshiba", "--components", 4, "--view", "ill=:binary", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(load(tmp_path / "n.sshiba").views_) == ["x", "ill"]


UGLY = """\ufeffid;kreatinin;ward;flag;symptoms;seen on;note
007;1,5;001;TRUE;None;1.2.2020;a
008;?;010;FALSE;Mild;2.2.2020;b
009;2,25;010;;Severe;3.2.2020;c
"""


def test_what_was_seen_comes_back_to_the_last_character(tmp_path: Path) -> None:
    """Semicolons, a byte-order mark, decimal commas, leading zeros, TRUE, None as a word, dates that are left out."""
    lines = UGLY.splitlines()
    rows = [line.replace("00", f"{i}00", 1) for i in range(10) for line in lines[1:]]
    (tmp_path / "ugly.csv").write_text("\n".join([lines[0], *rows]) + "\n", encoding="utf-8")
    options = ("--index", "id", "--missing", "?", "--drop", "seen on", "--drop", "note", "--components", 2)
    options = (*options, "--not-missing", "None")
    done = sshiba("impute", "ugly.csv", "-o", "filled.csv", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    raw = {"dtype": str, "keep_default_na": False}
    before = pd.read_csv(tmp_path / "ugly.csv", sep=";", encoding="utf-8-sig", **raw)
    after = pd.read_csv(tmp_path / "filled.csv", sep=";", encoding="utf-8-sig", **raw)
    assert list(before.columns) == list(after.columns)
    for column in before:
        holes = before[column].isin(["", "?"])
        assert (before[column][~holes] == after[column][~holes]).all()
        assert not after[column].isin(["", "?"]).any()
    assert set(after["flag"]) == {"TRUE", "FALSE"}
    assert "Filled 20 of" in done.stderr


# ------------------------------------------------------------------------------------------------- what is wrong

FILES = {
    "empty.csv": b"",
    "header.csv": b"a,b\n",
    "ragged.csv": b"a,b\n1,2\n3,4,5,6\n7,8\n",
    "latin.csv": "name,größe\nJürgen,1.8\nZoë,1.7\n".encode("latin-1"),
    "twice.csv": b"a,a\n1,2\n3,4\n",
    "mixed.csv": b"a,b\n" + b"1,2\n<5,3\n2.5,4\n" * 5,
    "dates.csv": b"a,when\n" + b"".join(b"%d,2020-01-%02d\n" % (i % 4, i % 28 + 1) for i in range(40)),
    "names.csv": b"id,a\n" + b"".join(b"x%d,%d\n" % (i, i % 7) for i in range(30)),
    "commas.csv": b"a,b\n" + b'"3,333",1\n"4,555",2\n"1,777",3\n' * 8,
    "nameless.csv": b"patient,a\np1,1\n,2\np3,3\n",
    "nobodies.csv": b"patient,a\np1,1\n,2\n,3\n,4\n,5\n",
    "strange.csv": b"height\n1.8\n1.7\n",
    "limit.csv": b"patient,a,b\nq1,<0.5,1\nq2,1.2,2\n",
    "level.csv": b"patient,sex\nq1,x\nq2,f\n",
    "text.csv": b"patient,a\nq1,many\nq2,few\n",
    "same.csv": b"patient,a\nq1,1\nq1,2\n",
    "void.csv": b"a,b\n" + b",\n" * 5,
    "book.csv": b"PK\x03\x04" + bytes(range(256)),
    "picture.csv": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "old.xls": b"old",
    "notes.doc": b"hello",
    "broken.npz": b"PK but not really",
    "broken.sshiba": b"not a model",
    "short.csv": b"z\n1\n2\n",
}
FIT = ("fit", "-o", "no.sshiba", "--components", 3)
GOOD = ("blood.csv", "--index", "patient", "--components", 3)  # with which nothing is wrong
CASES = {
    "no such file": ((*FIT, "nothing.csv"), "there is no file 'nothing.csv'"),
    "a folder": ((*FIT, "folder.csv"), "is a folder"),
    "here": ((*FIT, "."), "'.' is a folder; give a file"),
    "a model as data": ((*FIT, "model.sshiba"), "'model.sshiba' is named as a model, and not as a table"),
    "a name for a table": (
        (*FIT, "clinic=blood.csv"),
        "there is no file 'clinic=blood.csv'; NAME=FILE is for arrays (.npy, .h5, .hdf5, .zarr), views of tables are",
    ),
    "empty": ((*FIT, "empty.csv"), "'empty.csv' is empty"),
    "no rows": ((*FIT, "header.csv"), "has no rows"),
    "ragged": ((*FIT, "ragged.csv"), "lines of different lengths"),
    "encoding": ((*FIT, "latin.csv", "--encoding", "utf-8"), "--encoding latin-1"),
    "unknown encoding": ((*FIT, "latin.csv", "--encoding", "klingon"), "klingon"),
    "two columns of one name": ((*FIT, "twice.csv"), "several columns of the name 'a'"),
    "numbers and text": (
        (*FIT, "mixed.csv"),
        "cells is not a number: name the limit with --limits 'a=5,', or leave it out",
    ),
    "dates": ((*FIT, "dates.csv"), "holds dates such as '2020-01-01': leave it out with --drop, or make"),
    "identifiers": (
        (*FIT, "names.csv"),
        "as identifiers do: leave it out with --drop, or name the rows by it with --i",
    ),
    "thousands or decimals": ((*FIT, "commas.csv"), "Say --thousands ',' or --decimal ','"),
    "marks": ((*FIT, "commas.csv", "--decimal", "x"), "--decimal is a point or a comma"),
    "dates how": ((*FIT, "dates.csv", "--dates", "never"), "--dates is one of"),
    "a row without a name": (
        (*FIT, "nameless.csv", "--index", "patient"),
        "1 row has no name in 'patient': row 2 below the header. Name or remove it.",
    ),
    "rows without names": (
        (*FIT, "nobodies.csv", "--index", "patient"),
        "4 rows have no name in 'patient': rows 2, 3, 4 and 1 more below the header. Name or remove them.",
    ),
    "the same file twice": (("impute", "blood.csv", "-o", "x.csv", "--std", "x.csv"), "are the same file"),
    "no table": (("impute", "blood.csv", "-o", "x.doc"), "the ending says the format"),
    "unknown ending": ((*FIT, "notes.doc"), "the ending says the format"),
    "damaged npz": ((*FIT, "broken.npz"), "cannot be read"),
    "no such column": ((*FIT, "blood.csv", "--index", "nobody"), "has no column 'nobody'"),
    "drop unknown": ((*FIT, "blood.csv", "--drop", "nobody"), "has no column 'nobody'"),
    "row names twice": ((*FIT, "same.csv", "two.csv", "--index", "patient"), "several rows are named 'q1'"),
    "view without columns": ((*FIT, "blood.csv", "--view", "body="), "write NAME=columns:type"),
    "view of no column": ((*FIT, "blood.csv", "--view", "body=nobody"), "there is no column 'nobody'"),
    "view of no type": ((*FIT, "blood.csv", "--index", "patient", "--view", "body=a:complex"), "is no view type"),
    "label as number": ((*FIT, "blood.csv", "--index", "patient", "--view", "s=sex:real"), "view 's'"),
    "number in two views": ((*FIT, "blood.csv", "--view", "u=a,b", "--view", "v=b,c"), "more than one view"),
    "same columns in two files": ((*FIT, "blood.csv", "one.csv"), "are in more than one file"),
    "files of other lengths": ((*FIT, "one.csv", "short.csv"), "different numbers of rows"),
    "no place for the model": (("fit", "blood.csv"), "say where the model goes"),
    "model exists": (("fit", *GOOD, "-o", "model.sshiba"), "exists: choose another name, or --force"),
    "no such folder": (("fit", "blood.csv", "-o", "nowhere/model.sshiba"), "there is no folder"),
    "table exists": (("impute", *GOOD, "-o", "new.csv"), "exists"),
    "no such model": (("info", "nothing.sshiba"), "there is no file"),
    "damaged model": (("info", "broken.sshiba"), "is not a SSHIBA model, or is cut off.\n"),
    "a table as a model": (("info", "blood.csv"), "is not a SSHIBA model"),
    "target unknown": (("predict", "model.sshiba", "new.csv", "--target", "height"), "unknown target 'height'"),
    "no probabilities": (("predict", "model.sshiba", "new.csv", "--target", "c", "--proba"), "use --std for its dev"),
    "both": (("predict", "model.sshiba", "new.csv", "--target", "c", "--proba", "--std"), "choose one"),
    "none of the columns": (("transform", "model.sshiba", "strange.csv"), "none of the model's columns"),
    "a new level": (("transform", "model.sshiba", "level.csv", "--unseen", "error"), "'x'"),
    "text for a number": (
        ("transform", "model.sshiba", "text.csv"),
        "('many', 'few'): name what means missing with --",
    ),
    "numbers and text in new rows": (
        ("predict", "model.sshiba", "limit.csv", "--index", "patient", "--target", "c"),
        "column 'a' mixes numbers and text: '<0.5' in 1 of 2 cells is not a number: write the limit itself there, or",
    ),
    "no values": ((*FIT, "void.csv"), "no cell has a value: name the separator with --sep, or what"),
    "a workbook as text": ((*FIT, "book.csv"), "'book.csv' is no text but a zip archive, as workbooks are: if it is"),
    "a picture as text": ((*FIT, "picture.csv"), "'picture.csv' is no text but a picture (PNG)."),
    "an old workbook": ((*FIT, "old.xls"), "save it as .xlsx"),
    "target misspelt": (("predict", "model.sshiba", "new.csv", "--target", "Sx"), "Did you mean 'sex'?"),
    "index misspelt": ((*FIT, "blood.csv", "--index", "Patients"), "Did you mean 'patient'?"),
    "drop misspelt": ((*FIT, "blood.csv", "--drop", "SEX"), "Did you mean 'sex'?"),
    "view misspelt": ((*FIT, "blood.csv", "--view", "v=a,Sex"), "no column 'Sex'. Did you mean 'sex'?"),
    "limits misspelt": ((*FIT, "blood.csv", "--limits", "Il=1,"), "no column 'Il'. Did you mean 'ill'?"),
    "margin misspelt": ((*FIT, "blood.csv", "--margin", "ILL=log"), "no column 'ILL'. Did you mean 'ill'?"),
    "levels misspelt": ((*FIT, "blood.csv", "--levels", "Sex=f,m"), "no column 'Sex'. Did you mean 'sex'?"),
    "covariate misspelt": ((*FIT, *GOOD[:3], "--covariate", "Sex"), "Did you mean 'sex'?"),
    "groups misspelt": ((*FIT, *GOOD[:3], "--groups", "sx"), "Did you mean 'sex'?"),
    "resume other data": (("fit", "one.csv", "--index", "patient", "--resume", "model.sshiba"), "not the data of the"),
}


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def before(folder: Path) -> dict[str, bytes]:
    """All files before the wrong calls, those that make some of them wrong included."""
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    return files_in(folder)


@pytest.fixture(scope="module")
def answers(folder: Path, before: dict[str, bytes]) -> dict[str, subprocess.CompletedProcess]:
    """All wrong calls."""
    return {case: sshiba(*words, cwd=folder) for case, (words, _) in CASES.items()}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_said_in_one_sentence(answers: dict, case: str, folder: Path) -> None:
    done = answers[case]
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert CASES[case][1] in done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, done.stderr


def test_nothing_was_written_or_overwritten(answers: dict, before: dict[str, bytes], folder: Path) -> None:
    assert files_in(folder) == before


def test_usage_errors_and_debug(folder: Path) -> None:
    assert sshiba("fit", cwd=folder).returncode == 2
    assert sshiba("fly").returncode == 2
    assert sshiba("evaluate", "blood.csv", "--fraction", 2, cwd=folder).returncode == 2
    debug = sshiba("--debug", "info", "nothing.sshiba", cwd=folder)
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr
    for name in ("fit", "impute", "predict", "transform", "evaluate", "info", "reproduce"):
        shown = sshiba(name, "--help")
        assert shown.returncode == 0
        assert "Example: sshiba" in shown.stdout


def test_an_interrupt_that_no_command_catches_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sshiba.cli.looking.app", interrupted)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 1


def test_an_interrupt_while_the_command_is_imported_ends_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt")
    paths = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    done = subprocess.run(command("info", "m"), env={**ENVIRONMENT, "PYTHONPATH": paths}, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr.split()) == (1, b"", [b"Stopped."])


def test_an_interrupt_within_an_exec_ends_with_the_exit_code_of_the_command(tmp_path: Path) -> None:
    """Python itself would end `python -m` by the signal, though the interrupt was caught."""
    (tmp_path / "interrupted.py").write_text(
        "import signal\n"
        "from sshiba.cli import looking, run\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # else ignored where this runs in the background
        "looking.app = lambda: exec('signal.raise_signal(signal.SIGINT)')\n"
        "run()\n"
    )
    assert subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, env=ENVIRONMENT).returncode == 1


def test_the_demo_is_not_told_of_its_own_data(monkeypatch, recwarn) -> None:
    monkeypatch.setattr(demo, "SSHIBA", partial(SSHIBA, max_iter=1, search=None))
    demo.fit_digits(demo.digits_with_holes(), verbose=0)
    assert not [one for one in recwarn if issubclass(one.category, DataWarning)]
