"""Tables as people keep them: R's, European, with currencies, packed; read for what they mean, written as they came."""

import gzip
import json
import re
import zipfile
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from sshiba import SSHIBA, load
from sshiba.cli.arguments import as_options
from sshiba.cli.looking import app
from sshiba.cli.steps import learned_reading
from sshiba.cli.terminal import OPTIONS
from sshiba.data.advice import Remedy
from sshiba.files.export import model_tables
from sshiba.files.formats import FileError
from sshiba.files.growing import ParquetRows, growing
from sshiba.files.long_tables import LongTable
from sshiba.files.number_marks import NumberColumn, NumberFormat
from sshiba.files.reading_options import LearnedReading, Reading
from sshiba.files.tables import read, read_together
from sshiba.files.view_files import read_views, write_views
from sshiba.files.writing import write

MIXED = "mix_stderr" in signature(CliRunner).parameters  # in older versions: two streams, or both in one


def sshiba(*arguments: object, stdin: bytes | None = None) -> Any:
    runner = CliRunner(**({"mix_stderr": False} if MIXED else {}))
    found = runner.invoke(app, [str(argument) for argument in arguments], input=stdin)
    if not MIXED:
        return found
    both = {name: getattr(found, name) for name in ("exit_code", "exception", "stdout", "stdout_bytes", "stderr")}
    return SimpleNamespace(**both, output=found.stderr + found.stdout)


def done(*arguments: object, stdin: bytes | None = None) -> Any:
    result = sshiba(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def write_text(path: Path, *lines: str, encoding: str = "utf-8", end: str = "\n") -> str:
    path.write_bytes("".join(line + end for line in lines).encode(encoding))
    return str(path)


def values(path: str, **options: Any) -> pd.DataFrame:
    return read(path, Reading(**options)).values


def numbers(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 1))
    return pd.DataFrame(np.round(5 + z + 0.1 * rng.standard_normal((n, 3)), 3), columns=list("abc"))


# ------------------------------------------------------------------------------------------------ R, and separators


@pytest.mark.parametrize("separator", [" ", "\t", ","])
def test_a_header_one_name_shorter_names_the_rows_by_the_first_column(tmp_path: Path, separator: str) -> None:
    """As R's write.table writes it; what comes back is written alike."""
    rows = [['"a"', '"b"'], ['"s 1"', "1.5", "2"], ['"s 2"', "2.5", "NA"], ['"s 3"', "3.5", "4"]]
    path = write_text(tmp_path / "r.txt", *(separator.join(row) for row in rows))
    table = read(path, Reading())
    assert list(table.values.index) == ["s 1", "s 2", "s 3"]
    assert table.values["a"].tolist() == [1.5, 2.5, 3.5]
    assert table.values["b"].isna().tolist() == [False, True, False]
    filled, _ = table.filled(table.values.fillna(3.0))
    write(filled, str(tmp_path / "out.txt"), table.dialect)
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines == [separator.join(row).replace("NA", "3") for row in rows]
    again = read(str(tmp_path / "out.txt"), Reading()).values
    assert again["b"].tolist() == [2, 3, 4]
    assert list(again.index) == ["s 1", "s 2", "s 3"]


def test_a_separator_at_the_end_of_lines_is_no_column(tmp_path: Path) -> None:
    path = write_text(tmp_path / "t.csv", "a,b", "1,2,", "3,4,")
    assert values(path).to_dict("list") == {"a": [1, 3], "b": [2, 4]}
    path = write_text(tmp_path / "t.csv", "a,b,", "1,2,", "3,4,")
    assert values(path).to_dict("list") == {"a": [1, 3], "b": [2, 4]}


def test_one_cell_more_in_some_lines_is_refused(tmp_path: Path) -> None:
    path = write_text(tmp_path / "t.csv", "a,b", "1,2", "3,4,5")
    with pytest.raises(FileError, match="lines of different lengths"):
        read(path, Reading())


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " "])
def test_separators_are_found(tmp_path: Path, separator: str) -> None:
    path = write_text(tmp_path / "t.txt", f"a{separator}b", f"1{separator}2", f"3{separator}4")
    assert values(path)["b"].tolist() == [2, 4]
    path = write_text(tmp_path / "t.txt", '"body height, cm"', "180", "170")
    assert values(path)["body height, cm"].tolist() == [180, 170]


@pytest.mark.parametrize("separator", [",", ";"])
def test_lines_longer_than_what_usually_tells_how_a_file_is_written(tmp_path: Path, separator: str) -> None:
    names = [f"{'long ' * 100}{i}" for i in range(300)]  # together longer than csv takes a cell to be
    rows = [separator.join(str(i + row) for i in range(300)) for row in range(4)]
    path = write_text(tmp_path / "t.csv", separator.join(names), *rows)
    found = values(path)
    assert list(found) == names
    assert found.iloc[2].tolist() == [i + 2 for i in range(300)]


# -------------------------------------------------------------------------------------------- written as it came

EUROPEAN = ["größe;gewicht;ort", *("1,8;70,5;Köln", "1,7;;Bonn", ";65,25;Köln", "1,9;80;") * 10]


@pytest.mark.parametrize(
    ("encoding", "end"), [("latin-1", "\r\n"), ("utf-8", "\n"), ("utf-8-sig", "\r\n"), ("utf-16", "\n")]
)
def test_what_comes_back_is_written_as_it_came(tmp_path: Path, encoding: str, end: str) -> None:
    path = write_text(tmp_path / "in.csv", *EUROPEAN, encoding=encoding, end=end)
    out, std = str(tmp_path / "out.csv"), str(tmp_path / "std.csv")
    done("impute", path, "-o", out, "--std", std, "--components", 2)
    text = Path(out).read_bytes().decode(encoding)
    lines = text.split(end)
    assert lines[0] == EUROPEAN[0]
    assert lines[1] == EUROPEAN[1]
    assert "." not in text
    assert all(line.count(";") == 2 for line in lines[:-1])
    assert Path(std).read_bytes().decode(encoding).startswith(EUROPEAN[0])
    again = read(out, Reading())  # with no option
    assert not again.values.isna().any().any()
    assert again.values["gewicht"].iloc[0] == 70.5
    assert set(again.values["ort"]) == {"Köln", "Bonn"}
    assert read(std, Reading()).values["gewicht"].between(0, 50).all()


@pytest.mark.parametrize(("name", "out", "separator"), [("t.csv", "o.csv", "\t"), ("t.tsv", "o.csv", ",")])
def test_separators_stay_unless_the_ending_asks_for_another(
    tmp_path: Path, name: str, out: str, separator: str
) -> None:
    frame = numbers()
    frame.loc[3, "b"] = np.nan
    frame.to_csv(tmp_path / name, sep="\t", index=False, encoding="utf-16" if name == "t.csv" else "utf-8")
    done("impute", tmp_path / name, "--components", 2, "-o", tmp_path / out)
    encoding = "utf-16" if name == "t.csv" else "utf-8"
    assert (tmp_path / out).read_text(encoding=encoding).startswith(f"a{separator}b")
    if encoding == "utf-8":
        assert done("impute", tmp_path / name, "--components", 2, "-o", "-").stdout.startswith("a\tb")


def test_columns_keep_their_order_and_rows_their_names(tmp_path: Path) -> None:
    frame = numbers()
    frame.insert(2, "id", [f"p{i}" for i in range(40)])
    frame.loc[3, "a"] = np.nan
    frame.to_csv(tmp_path / "in.csv", index=False)
    done("impute", tmp_path / "in.csv", "--index", "id", "-o", tmp_path / "out.csv", "--components", 2)
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("in.csv", "out.csv"))
    assert [a == b for a, b in zip(before, after)].count(False) == 1


def quoted_table(*, numbers_too: bool, header: str = '"who"', missing: str = "NA") -> list[str]:
    """A table with texts, or all of it, in quotes."""
    lines = [",".join(part for part in (header, '"a"', '"b, c"', '"note"') if part)]
    for i, row in enumerate(numbers().itertuples(index=False)):
        cells = [f'"{cell}"' if numbers_too else str(cell) for cell in (row.a, row.b)]
        note = f'"{"high" if row.c > 5 else "low"}"'
        if i in (3, 4):
            cells[0], note = (missing, note) if i == 3 else (cells[0], missing)
        lines.append(",".join([f'"{i}"', *cells, note]))
    return lines


@pytest.mark.parametrize(
    ("numbers_too", "header", "missing"),
    [(True, '"who"', '""'), (True, '"who"', ""), (False, "", "NA"), (False, '""', "NA"), (False, '"who"', '""')],
)
def test_quotes_come_back_as_they_came(tmp_path: Path, numbers_too: bool, header: str, missing: str) -> None:
    """All cells in quotes; or texts alone, as R writes them, with a header one name shorter or with an empty name."""
    lines = quoted_table(numbers_too=numbers_too, header=header, missing=missing)
    path, out, std = write_text(tmp_path / "in.csv", *lines), tmp_path / "out.csv", tmp_path / "std.csv"
    index = ("--index", "who") if "who" in header else ()
    done("impute", path, *index, "-o", out, "--std", std, "--components", 2)
    found = out.read_text().splitlines()
    assert found[:4] + found[6:] == lines[:4] + lines[6:]
    number = r'"\d\.\d+"' if numbers_too else r"\d\.\d+"
    assert re.fullmatch(rf'"3",{number},{number},"(high|low)"', found[4])
    assert found[5].rsplit(",", 1)[0] == lines[5].rsplit(",", 1)[0]
    assert re.fullmatch('"(high|low)"', found[5].rsplit(",", 1)[1])
    first = std.read_text().splitlines()[1]
    assert first.endswith('"0.0"' if numbers_too else ",0.0")


def test_what_stays_missing_has_the_quotes_that_it_had(tmp_path: Path) -> None:
    lines = quoted_table(numbers_too=False, header="")
    path, out = write_text(tmp_path / "in.csv", *lines), tmp_path / "out.csv"
    done("impute", path, "--drop", "note", "-o", out, "--components", 2)
    found = out.read_text().splitlines()
    assert found[:4] + found[5:] == lines[:4] + lines[5:]


def test_quotes_that_some_cells_need_are_no_style(tmp_path: Path) -> None:
    lines = ['town,"a, b"', *('"Rome, Italy",1', "Paris,2", '"the ""big"" one",3') * 9, "Paris,"]
    table = read(write_text(tmp_path / "in.csv", *lines), Reading())
    filled, _ = table.filled(table.values.fillna(2))
    write(filled, str(tmp_path / "out.csv"), table.dialect)
    assert (tmp_path / "out.csv").read_text().splitlines() == [*lines[:-1], "Paris,2"]


def test_quotes_of_several_files_are_those_of_each(tmp_path: Path) -> None:
    one = write_text(tmp_path / "one.csv", '"a","t"', *('"1.5","x"', '"2.5","y"') * 9, '"","x"')
    two = write_text(tmp_path / "two.csv", "b,u", *("1,v", "2,w") * 9, "3,v")
    done("impute", one, two, "-o", tmp_path / "out.csv", "--components", 2)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[1:3] == ['"1.5","x",1,v', '"2.5","y",2,w']


def test_answers_have_the_quotes_of_the_new_rows(tmp_path: Path) -> None:
    path = write_text(tmp_path / "r.csv", *quoted_table(numbers_too=False, header=""))
    done("fit", path, "-o", tmp_path / "m.sshiba", "--components", 2)
    assert "quotes" not in load(tmp_path / "m.sshiba").fitted_.reading["dialect"]
    header, first = done("predict", tmp_path / "m.sshiba", path, "--target", "note").stdout.splitlines()[:2]
    assert header == '"note"'
    assert re.fullmatch('"0","(high|low)"', first)
    header, first = done("predict", tmp_path / "m.sshiba", path, "--target", "a", "--std").stdout.splitlines()[:2]
    assert header == '"a","a std"'
    assert re.fullmatch(r'"0",[\d.]+,[\d.]+', first)


def test_names_of_rows_that_are_not_used_are_no_column(tmp_path: Path) -> None:
    """R's own names of rows beside those of --index."""
    rows = [f'"{i}","p{i}",{a},{b}' for i, (a, b, _) in enumerate(numbers().to_numpy())]
    path, model = write_text(tmp_path / "r.csv", '"patient","a","b"', *rows), tmp_path / "m.sshiba"
    done("fit", path, "--index", "patient", "-o", model, "--components", 2)
    result = done("predict", model, path, "--target", "a")
    assert "does not know" not in result.stderr
    assert result.stdout.splitlines()[0] == '"patient","a"'
    assert result.stdout.splitlines()[1].startswith('"p0",')
    done("impute", path, "--index", "patient", "-o", tmp_path / "out.csv", "--components", 2)
    assert (tmp_path / "out.csv").read_text() == Path(path).read_text()


def test_encoding_of_standard_input(tmp_path: Path) -> None:
    text = "\n".join(EUROPEAN) + "\n"
    for options in (["--encoding", "latin-1"], []):
        result = done("impute", "-", "-o", "-", "--components", 2, *options, stdin=text.encode("latin-1"))
        assert "größe;gewicht;ort".encode("latin-1") in result.stdout_bytes
    refused = sshiba("impute", "-", "-o", "-", "--encoding", "utf-8", stdin=text.encode("latin-1"))
    assert "not written in utf-8" in refused.output


# ------------------------------------------------------------------------------------------------------- missing


def test_markers_of_files_are_those_of_frames(tmp_path: Path) -> None:
    path = write_text(tmp_path / "t.csv", "a,b", "1,n/a", "None,x", " ,y", "2,?")
    found = values(path)
    assert found["a"].isna().tolist() == [False, True, True, False]
    assert found["b"].isna().tolist() == [True, False, False, False]
    assert values(path, missing=("?",))["b"].isna().tolist() == [True, False, False, True]
    kept = values(path, not_missing=("n/a",))["b"]
    assert kept.tolist() == ["n/a", "x", "y", "?"]
    assert isinstance(kept.dtype, pd.CategoricalDtype)  # which says that n/a is a label


def test_names_of_columns_are_the_same_however_their_characters_are_coded(tmp_path: Path) -> None:
    """ü in one character or two, the micro sign and Greek mu; what is written has the names of its own file."""
    frame = numbers().rename(columns={"a": "Größe (µm)"}).assign(Ärztin=["001", "002"] * 20)
    coded = frame.set_axis([normalize("NFD", name).replace("µ", "μ") for name in frame], axis=1)
    frame.to_csv(tmp_path / "t.csv", index=False)
    coded.mask(np.arange(40)[:, None] == np.arange(coded.shape[1])).to_csv(tmp_path / "n.csv", index=False)
    done("fit", tmp_path / "t.csv", "-o", tmp_path / "m.sshiba", "--components", 2)
    filled = done("impute", tmp_path / "n.csv", "--model", tmp_path / "m.sshiba", "-o", tmp_path / "o.csv")
    assert "Not in the data" not in filled.output
    assert "does not know" not in filled.output
    found = pd.read_csv(tmp_path / "o.csv", dtype=str)
    assert list(found) == list(coded)
    assert found.notna().all(axis=None)
    assert set(found.iloc[:, -1]) == {"001", "002"}
    again = done("predict", tmp_path / "m.sshiba", tmp_path / "n.csv", "--target", "Ärztin", "-o", tmp_path / "p.csv")
    assert "Did you mean" not in again.output
    new = coded.drop(columns=coded.columns[1])
    assert list(load(tmp_path / "m.sshiba").predict(new)) == ["b"]


def test_suspicious_labels_name_their_options(tmp_path: Path) -> None:
    frame = numbers().assign(ward=["north", "?", "South", "south"] * 10)
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = done("fit", tmp_path / "t.csv", "-o", tmp_path / "m.sshiba", "--components", 2)
    assert (
        "10 labels that look like missing ('ward': '?'): name what means missing with --missing 'ward=?'"
        in result.output
    )
    assert "make them one with --normalise-labels" in result.output
    options = ("--missing", "?", "--normalise-labels", "--force", "--components", 2)
    result = done("fit", tmp_path / "t.csv", "-o", tmp_path / "m.sshiba", *options)
    assert "missing with" not in result.output
    assert set(load(tmp_path / "m.sshiba").classes_["ward"]) == {"north", "South"}


def test_every_remedy_has_an_option() -> None:
    assert set(OPTIONS) == set(Remedy)
    assert not [words for words in OPTIONS.values() if "pd." in words or "(" in words or "sshiba." in words]


def test_yes_and_no_in_files_come_back_as_they_were_written(tmp_path: Path) -> None:
    frame = numbers().assign(smokes=np.where(numbers()["a"] > 5, "Ja", "Nein"))
    frame.loc[frame["a"].idxmax(), "smokes"] = "n/a"
    frame.to_csv(tmp_path / "t.csv", index=False)
    done("fit", tmp_path / "t.csv", "-o", tmp_path / "m.sshiba", "--components", 2)
    assert load(tmp_path / "m.sshiba").feature_names_in_["binary"] == ["smokes"]
    done("impute", tmp_path / "t.csv", "--model", tmp_path / "m.sshiba", "-o", tmp_path / "out.csv")
    filled = pd.read_csv(tmp_path / "out.csv")["smokes"]
    assert filled[frame["a"].idxmax()] == "Ja"
    assert set(filled) == {"Ja", "Nein"}


# ------------------------------------------------------------------------------------------------------- numbers

NUMBERS = {
    "plain": (["1.5", "2", "-3e2"], [1.5, 2, -300]),
    "thousands": (["1,234.5", "12", "3,333"], [1234.5, 12, 3333]),
    "millions": (["1,234,567", "3,333"], [1234567, 3333]),
    "european": (["1.234,5", "12", "3,3"], [1234.5, 12, 3.3]),
    "decimal commas": (["3,25", "3,333"], [3.25, 3.333]),
    "blanks": (["1 234,5", "12\u00a0345,0"], [1234.5, 12345]),
    "swiss": (["1'234.5", "2’000’000"], [1234.5, 2000000]),
    "dollars": (["$1,234.50", "-$3.00"], [1234.5, -3]),
    "euros": (["1.234,50 €", "3,00 €"], [1234.5, 3]),
    "percent": (["12.5%", "3%"], [12.5, 3]),
    "codes": (["EUR 3.5", "EUR 4.5"], [3.5, 4.5]),
    "centimetres": (["180 cm", "172cm"], [180, 172]),
    "micrograms": (["1.234,50 µg/l", "3,00 µg/l"], [1234.5, 3]),
    "degrees": (["37.5 °C", "-3 °C"], [37.5, -3]),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_read_and_written_as_people_write_them(tmp_path: Path, case: str) -> None:
    texts, expected = NUMBERS[case]
    path = write_text(tmp_path / "t.tsv", "x", *texts)
    table = read(path, Reading())
    assert table.values["x"].tolist() == expected
    again = [table.formats["x"].write(value) for value in expected]
    assert values(write_text(tmp_path / "u.tsv", "x", *again))["x"].tolist() == expected
    if case in ("dollars", "euros", "percent", "codes", "european", "centimetres", "micrograms", "degrees"):
        assert again[0] == texts[0]


def test_a_filled_cell_has_the_form_of_its_column() -> None:
    known = pd.Series(["$1,234.50", "$3.00"])
    _, form = NumberColumn.of(known).read(".")  # type: ignore[union-attr]
    assert form.write(-1234567.891) == "-$1,234,567.89"
    assert NumberFormat(decimal=",").write(1.5) == "1,5"
    assert NumberFormat(whole=True).write(-0.2) == "0"


@pytest.mark.parametrize("text", ["3,333", "12,345", "-1,000"])
def test_what_could_be_thousands_or_decimals_is_asked(tmp_path: Path, text: str) -> None:
    path = write_text(tmp_path / "t.tsv", "x\ty", f"{text}\t1", f"{text}\t2")
    with pytest.raises(FileError, match=r"column 'x': .*--thousands ',' or --decimal ','"):
        read(path, Reading())
    assert values(path, thousands=",")["x"][0] == float(text.replace(",", ""))
    assert values(path, decimal=",")["x"][0] == float(text.replace(",", "."))
    path = write_text(tmp_path / "t.csv", "x;y", f"{text};1,5", f"{text};2,5")
    assert values(path)["x"][0] == float(text.replace(",", "."))  # y tells
    path = write_text(tmp_path / "t.tsv", "x\ty", f"{text}\t1.5", f"{text}\t2.5")
    assert values(path)["x"][0] == float(text.replace(",", ""))


def test_units_are_read_and_written_and_other_words_are_told(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    frame = numbers().assign(
        tall=[f"{160 + i % 20} cm" for i in range(40)], troponin=["<0.5 ng/l", "1.5 ng/l", "2.5 ng/l", "1.7 ng/l"] * 10
    )
    frame.loc[3, "tall"] = frame.loc[5, "troponin"] = None
    for ending in (".csv", ".xlsx"):
        write(frame, str(tmp_path / f"t{ending}"))
        out, limits = tmp_path / f"o{ending}", ("--limits", "troponin=0.5,", "--components", 2)
        done("impute", tmp_path / f"t{ending}", "-o", out, *limits)
        if ending == ".csv":
            found = pd.read_csv(out)
            assert re.fullmatch(r"1\d\d cm", found["tall"][3])
            assert re.fullmatch(r"-?\d\.\d ng/l", found["troponin"][5])
            assert found["tall"].drop(index=3).equals(frame["tall"].drop(index=3))
    frame.loc[:2, "tall"] = ["unknown", "-", "unknown"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    said = sshiba("fit", tmp_path / "t.csv", *limits, "-o", tmp_path / "m.sshiba").stderr
    assert "'tall' mixes numbers and text: 'unknown' in 2 and '-' in 1 of 39 cells are not numbers" in said
    done("fit", tmp_path / "t.csv", *limits, "--missing=-", "--missing", "unknown", "-o", tmp_path / "m.sshiba")
    mixed = pd.DataFrame({"share": [f"{20 + i} %" for i in range(39)] + [0.31], "x": numbers()["a"]})
    mixed.to_excel(tmp_path / "t.xlsx", index=False)
    said = sshiba("fit", tmp_path / "t.xlsx", "-o", tmp_path / "m.sshiba", "--force").stderr
    assert (
        "'share' holds numbers in several units: '%' in 39, none in 1 of 40 cells: write all of them in one, or" in said
    )


def test_points_between_semicolons(tmp_path: Path) -> None:
    path = write_text(tmp_path / "t.csv", "x;y", "1.234;0.5", "2.345;0.25")
    assert values(path)["x"][0] == 1.234
    path = write_text(tmp_path / "t.csv", "x;y", "1.234;0,5", "2.345;0,25")
    assert values(path)["x"][0] == 1234
    with pytest.raises(FileError, match=r"--thousands '\.'"):
        read(write_text(tmp_path / "t.csv", "x;y", "1.234;a", "2.345;b"), Reading())


@pytest.mark.parametrize(
    "texts",
    [
        ["$3", "€4"],
        ["3%", "0.5"],
        ["007", "008"],
        ["1,23,456", "2"],
        ["1.2.3", "4"],
        ["180 cm", "1.8 m"],
        ["180 cm", "175"],
        ["1a", "2b"],
        ["12:30 h", "9:15 h"],
    ],
)
def test_what_is_no_number_stays_text(tmp_path: Path, texts: list[str]) -> None:
    path = write_text(tmp_path / "t.tsv", "x", *texts)
    assert values(path)["x"].tolist() == texts


# ------------------------------------------------------------------------------------- advice that can be followed


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three numbers, counts and wards; its data are t.csv."""
    folder = tmp_path_factory.mktemp("ward")
    frame = numbers(60)
    frame["n"] = (frame["a"] > 5).astype(int) * 9
    frame.loc[::7, "n"] = 1
    frame["ward"] = np.where(frame["a"] > 5, "north", "south")
    frame.to_csv(folder / "t.csv", index=False)
    done("fit", folder / "t.csv", "--components", 3, "-o", folder / "m.sshiba")
    return folder


def test_columns_that_new_files_lack_are_named(ward: Path) -> None:
    new = write_text(ward / "new.csv", "a,b ,Ward", "5.1,5.2,north", "4.9,4.8,south")
    said = done("predict", ward / "m.sshiba", new, "--target", "c").stderr
    assert "Not in the data: 'b', 'n', 'ward'; predictions do without. " in said
    assert "Did you mean 'b ' for 'b', 'Ward' for 'ward'?" in said
    said = done("predict", ward / "m.sshiba", ward / "t.csv", "--target", "c").stderr
    assert "Not in the data" not in said


def test_what_the_target_holds_is_not_looked_at(ward: Path) -> None:
    frame = pd.read_csv(ward / "t.csv").assign(c="soon", ward="east")
    frame.to_csv(ward / "odd.csv", index=False)
    assert done("predict", ward / "m.sshiba", ward / "odd.csv", "--target", "c", "--drop", "ward").exit_code == 0
    said = done("predict", ward / "m.sshiba", ward / "odd.csv", "--target", "ward", "--drop", "c").stderr
    assert "unseen" not in said
    said = sshiba("predict", ward / "m.sshiba", ward / "odd.csv", "--target", "a").stderr
    assert "column 'c' holds text ('soon')" in said
    assert "--missing" in said
    assert "--view" not in said  # which predict does not have


def test_only_the_target_is_warned_about(ward: Path) -> None:
    frame = pd.read_csv(ward / "t.csv")
    frame.assign(a=frame["a"] - 3, b=frame["b"] - 3, n=np.nan).to_csv(ward / "low.csv", index=False)
    assert "'n': predicted below 0" not in done("predict", ward / "m.sshiba", ward / "low.csv", "--target", "c").stderr
    assert "'n': predicted below 0" in done("predict", ward / "m.sshiba", ward / "low.csv", "--target", "n").stderr


def test_new_rows_may_lie_in_several_files(ward: Path) -> None:
    frame = pd.read_csv(ward / "t.csv").rename_axis(index="id")
    frame[["a", "b"]].to_csv(ward / "one.csv")
    frame[["c", "ward"]].iloc[::-1].to_csv(ward / "two.csv")
    files = (ward / "one.csv", ward / "two.csv", "--index", "id")
    assert len(done("transform", ward / "m.sshiba", *files).stdout.splitlines()) == 61
    assert len(done("predict", ward / "m.sshiba", *files, "--target", "n").stdout.splitlines()) == 61


def test_other_options_beside_resume_are_refused(ward: Path) -> None:
    said = sshiba("fit", ward / "t.csv", "--resume", ward / "m.sshiba", "--levels", "ward=a,b", "--seed", 3)
    assert said.exit_code == 2
    assert "leave out --levels, --seed." in said.stderr


def test_a_limit_of_time_is_no_failure(tmp_path: Path, ward: Path) -> None:
    said = done("fit", ward / "t.csv", "--max-time", 0, "-o", tmp_path / "m.sshiba")
    assert "Not finished. To go on: " in said.stderr
    assert "max_time" not in sshiba("fit", ward / "t.csv", "--max-time", -1, "-o", tmp_path / "m.sshiba").stderr


@pytest.mark.parametrize("marker", ["-", "?", "not seen"])
def test_a_marker_among_numbers_with_marks_is_named(tmp_path: Path, marker: str) -> None:
    lines = [f'"{marker if i % 8 == 0 else f"{1000 + 7.3 * i:,.1f}"}",{i % 5}.5' for i in range(80)]
    path = write_text(tmp_path / "t.csv", "chol,b", *lines)
    said = sshiba("fit", path, "-o", tmp_path / "m.sshiba").stderr
    assert f"{marker!r} in 10 of 80 cells is not a number: name what means missing with --missing " in said
    assert values(path, missing=[marker])["chol"].notna().sum() == 70


def test_no_advice_is_given_twice(tmp_path: Path) -> None:
    lines = [f"{i}.5,{i % 7},{i}.25" if i % 2 else f"{i},5;{i % 7};{i}.25" for i in range(80)]
    mixed = [f'"{i},{i}5" ,2' if i % 2 else f"{i}.5,1" for i in range(80)]
    for rows in (lines, mixed):
        said = sshiba("fit", write_text(tmp_path / "t.csv", "a,b", *rows), "-o", tmp_path / "m.sshiba").stderr
        assert said.count("leave it out") <= said.count("column '")


def test_unseen_labels_and_numbers_too_large_name_what_helps(ward: Path, tmp_path: Path) -> None:
    new = write_text(tmp_path / "new.csv", "a,ward", "5.1,east")
    said = sshiba("predict", ward / "m.sshiba", new, "--target", "b", "--unseen", "error").stderr
    assert "count them as missing with --unseen missing" in said
    huge = write_text(tmp_path / "huge.csv", "a,b", *(f"{i}e304,{i}" for i in range(1, 9)))
    assert "check the units" in sshiba("fit", huge, "-o", tmp_path / "m.sshiba").stderr


@pytest.mark.parametrize("ending", [".npz", ".xlsx", ".parquet", ".csv.gz"])
def test_files_of_another_kind_are_refused_in_plain_words(tmp_path: Path, ending: str) -> None:
    path = write_text(tmp_path / f"t{ending}", "a,b", "1,2")
    with pytest.raises(FileError, match=f"t{ending}' cannot be read: it is no {ending} file, or is damaged"):
        read(path, Reading())


def test_rows_of_a_file_of_views_are_told_of_without_python(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", a=np.ones((5, 2)), b=np.ones((4, 2)))
    said = sshiba("fit", tmp_path / "t.npz", "-o", tmp_path / "m.sshiba").stderr
    assert "'a' has 5, 'b' has 4" in said
    assert "DataFrame" not in said


def test_far_off_numbers_that_repeat_are_pointed_out(tmp_path: Path) -> None:
    frame = numbers(60)
    frame.loc[::9, "a"], frame.loc[1::9, "b"] = -999, 0
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ("fit", tmp_path / "t.csv", "--components", 2, "-o", tmp_path / "m.sshiba", "--force")
    said = done(*options).stderr
    assert "'a': -999 (7 cells) is far from all others" in said
    assert "--missing a=-999, or if its unit is wrong, correct the cell" in said
    assert "-999.0" in (tmp_path / "t.csv").read_text()
    assert "far from" not in done(*options, "--missing", "a=-999").stderr


MISSING_SAID = "missing by --missing: 20 cells of 'place', 2 cells of 'crea'"


def wards() -> pd.DataFrame:
    """Two columns hold 69, and in one of them it means missing; texts with = in them, and such that may be columns."""
    frame = numbers(60).round(2)
    frame["age"] = np.arange(60) % 12 + 60
    frame["place"] = np.array(["x=1", "Rome", "Oslo"])[np.arange(60) % 3]
    frame["crea"] = np.round(1 + 0.1 * frame["a"], 2)
    frame.loc[[7, 8], "crea"] = 69.0
    return frame


@pytest.mark.parametrize("ending", [".csv", ".xlsx", ".parquet", ".feather"])
def test_what_means_missing_in_one_column_is_a_value_in_others(
    ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And how many cells it is, is said; a model reads new files alike."""
    data, model, out = (tmp_path / f"{name}{ending}" for name in ("t", "m", "o"))
    write(wards(), str(data))
    missing = ("--missing", "crea=69", "--missing", "x=1")
    assert "far from" not in done("fit", data, *missing, "--components", 2, "-o", model).stderr
    assert MISSING_SAID in caplog.messages
    for words in ((*missing, "--components", 2), ("--model", model)):
        caplog.clear()
        assert "Filled 22 of " in done("impute", data, *words, "-o", out, "--force").stderr
        assert MISSING_SAID in caplog.messages
        filled = read(str(out), Reading()).values
        assert filled["age"].tolist() == wards()["age"].tolist()
        assert filled["crea"].max() < 2
        assert set(filled["place"]) == {"Rome", "Oslo"}


def test_columns_that_are_nearly_empty_are_named_when_they_are_filled(tmp_path: Path) -> None:
    frame = numbers(60)
    frame.loc[5:, "a"], frame.loc[6:, "b"] = np.nan, np.nan
    frame.loc[3, "c"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    said = done("impute", tmp_path / "t.csv", "--components", 2, "-o", tmp_path / "o.csv").stderr
    assert "\n'a': 5 cells measured, 55 filled. --drop leaves out what so few cells tell.\n" in said
    numbers(60).to_csv(tmp_path / "full.csv", index=False)
    done("fit", tmp_path / "full.csv", "--components", 2, "-o", tmp_path / "m")
    said = done("impute", tmp_path / "t.csv", "--model", tmp_path / "m", "-o", tmp_path / "o.csv", "--force").stderr
    assert "measured" not in said  # its model knows more of them


def test_a_column_with_a_decimal_comma_has_numbers_that_mean_missing(tmp_path: Path) -> None:
    wards().to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False)
    for text in ("crea=69", "crea=69.0", "crea=69,0"):
        found = read(str(tmp_path / "t.csv"), Reading(missing=[text]))
        assert found.values["crea"].isna().sum() == 2
        assert found.values["age"].notna().all()


def test_what_is_said_to_mean_missing_and_is_in_no_cell_is_pointed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of several files it may be in any; what a model remembers need not be there."""
    frame = wards().rename_axis(index="id")
    frame[["a", "b", "crea"]].to_csv(tmp_path / "one.csv")
    frame[["c", "age", "place"]].to_csv(tmp_path / "two.csv")
    files = (tmp_path / "one.csv", tmp_path / "two.csv", "--index", "id")
    missing = [f"--missing={text}" for text in ("crea=69", "crea=70", "place=Rome", "creat=3", "x=1", "?")]
    done("fit", *files, *missing, "--components", 2, "-o", tmp_path / "m")
    assert "missing by --missing: 2 cells of 'crea', 40 cells of 'place'" in caplog.messages
    idle = "--missing: no cell is '?', no cell is 'creat=3', no cell of 'crea' is '70'. Did you mean 'crea'?"
    assert idle in caplog.messages
    caplog.clear()
    done("transform", tmp_path / "m", *files, "-o", tmp_path / "z.csv")
    assert not [message for message in caplog.messages if "no cell" in message]
    np.save(tmp_path / "x.npy", numbers().to_numpy())
    done("fit", tmp_path / "x.npy", "--missing", "9", "--components", 2, "-o", tmp_path / "m", "--force")
    assert "--missing is for tables, and does nothing for arrays: set such cells to NaN." in caplog.messages


def test_the_sheet_of_a_workbook_is_said_chosen_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    frame = numbers()
    frame.loc[3, "a"] = np.nan
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        frame[["b", "c"]].to_excel(book, sheet_name="first", index=False)
        frame.to_excel(book, sheet_name="data", index=False)
    path, model, out = tmp_path / "t.xlsx", tmp_path / "m.sshiba", tmp_path / "out.xlsx"
    options = ("--components", 2, "-o", model)
    done("fit", path, *options)
    assert "the first, 'first', is read; --sheet names another: 'data'" in caplog.text
    assert "it has 'first', 'data'" in sshiba("fit", path, "--sheet", "x", *options, "--force").stderr
    done("fit", path, "--sheet", "data", *options, "--force")
    done("impute", path, "--model", model, "-o", out)
    assert list(pd.read_excel(out, sheet_name="data")) == ["a", "b", "c"]


# ------------------------------------------------------------------------------------------------ first lines


def test_a_first_line_that_is_a_row_is_pointed_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    frame = numbers()
    frame.loc[3, "b"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False, header=False)
    path, model = str(tmp_path / "t.csv"), tmp_path / "m.sshiba"
    assert len(values(path)) == 39
    assert "say --no-header if its first line is a row" in caplog.text
    assert values(path, no_header=True).shape == (40, 3)
    done("fit", path, "--no-header", "--components", 2, "-o", model)
    done("impute", path, "--model", model, "-o", tmp_path / "out.csv")
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("t.csv", "out.csv"))
    assert [a == b for a, b in zip(before, after, strict=True)].count(False) == 1
    found = done("predict", model, path, "--target", "column 2").stdout.splitlines()
    assert found[0] == "column 2"
    assert len(found) == 41
    caplog.clear()
    for names in ("0,1,2", "1990,2000,2010", "a,b,3"):
        values(write_text(tmp_path / "named.csv", names, "1.5,2.5,3.5", "2.5,3.5,4.5"))
    assert not caplog.text
    with pytest.raises(FileError, match=r"several columns of the name '1.5': rename them, or say --no-header"):
        values(write_text(tmp_path / "u.csv", "1.5,1.5,2", "2.5,3.5,4"))


def test_a_line_that_says_the_separator_is_understood_and_kept(tmp_path: Path) -> None:
    path = write_text(tmp_path / "t.csv", "sep=;", "a;b", *(f"{i},5;{i % 7},25" for i in range(30)), ";3,5")
    assert values(path)["a"].tolist()[:2] == [0.5, 1.5]
    done("impute", path, "--components", 1, "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[:3] == ["sep=;", "a;b", "0,5;0,25"]


@pytest.mark.parametrize("title", ["Report of 2020", "# made by me"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_title_is_named(tmp_path: Path, title: str, separator: str) -> None:
    rows = [separator.join(row) for row in ("abcd", "1234", "5678")]
    with pytest.raises(FileError, match=f"its first line, '{title}', has 1 cell.* remove it"):
        values(write_text(tmp_path / "t.csv", title, "", *rows))


def test_a_title_of_a_sheet_is_named(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    path = str(tmp_path / "t.xlsx")
    numbers().rename_axis("id").to_excel(path, startrow=3)
    with pytest.raises(FileError, match="its first line is empty, those below have 4 cells: remove it"):
        values(path, index="id")
    book = openpyxl.load_workbook(path)
    book.active["A1"] = "Export of ward 3"
    book.save(path)
    with pytest.raises(FileError, match="its first line, 'Export of ward 3', has 1 cell, those below have 4: remove"):
        values(path, index="id")


# -------------------------------------------------------------------------------------------------- several files


def ids(*names: str) -> list[str]:
    return [f"{name},{i}.5" for i, name in enumerate(names)]


def test_files_that_share_a_column_are_told_to_match_by_it(tmp_path: Path) -> None:
    first = write_text(tmp_path / "a.csv", "id,x", *ids("p1", "p2", "p3"))
    second = write_text(tmp_path / "b.csv", "id,y", *ids("p3", "p1", "p2"))
    with pytest.raises(FileError, match="'id' is in more than one file: if 'id' names the rows, say --index id; else"):
        read_together([first, second], Reading())
    more = write_text(tmp_path / "c.csv", "id,x", *ids("p4", "p5", "p6"))
    with pytest.raises(FileError, match="parts of one table, join them into one file first"):
        read_together([first, more], Reading(index="id"))


def test_rows_matched_by_place_are_told_of_and_have_no_names_of_one_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = write_text(tmp_path / "a.csv", "id,note,x", "p1,u,1.5", "p2,v,2.5")
    second = write_text(tmp_path / "b.csv", "id,note,y", "p2,u,1.5", "p1,v,2.5")
    table = read_together([first, second], Reading(drop=["id,note"]))
    assert "rows of the files are matched by their place; --index matches them by name" in caplog.text
    assert list(table.filled(table.values)[0]) == ["note", "x", "y"]  # 'id' says different rows


@pytest.mark.parametrize("other", [["001", "002", "3"], ["01", "2", "3"]])
def test_names_of_rows_that_do_not_match_are_told_of(
    tmp_path: Path, other: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    first = write_text(tmp_path / "a.csv", "id,x", *ids("1", "2", "3"))
    second = write_text(tmp_path / "b.csv", "id,y", *ids(*other))
    read_together([first, second], Reading(index="id"))
    assert f"'1' against '{other[0]}'" in caplog.text
    assert "of 3 row names are in both" in caplog.text


@pytest.mark.parametrize("other", [["1.0", "2.0", "3.0"], ["001", "002", "003"], ["x", "y", "z"]])
def test_files_without_a_row_in_common_are_refused(tmp_path: Path, other: list[str]) -> None:
    first = write_text(tmp_path / "a.csv", "id,x", *ids("1", "2", "3"))
    second = write_text(tmp_path / "b.csv", "id,y", *ids(*other))
    words = (
        f"no row name is in both .*a.csv' and .*b.csv': '1' against '{other[0]}'. Write them alike, or name the rows"
    )
    with pytest.raises(FileError, match=words):
        read_together([first, second], Reading(index="id"))
    both = write_text(tmp_path / "c.csv", "id,z", *ids("1", *other))
    assert read_together([first, second, both], Reading(index="id")).values.shape == (6, 3)


def test_blanks_around_names_of_rows_do_not_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = write_text(tmp_path / "a.csv", "id,x", *ids("1", "2", "3"))
    second = write_text(tmp_path / "b.csv", "id,y", *ids("1 ", " 2", "3"))
    assert read_together([first, second], Reading(index="id")).values.shape == (3, 2)
    assert not caplog.text


def test_names_of_rows_may_repeat_in_one_file_only(tmp_path: Path) -> None:
    frame = numbers().assign(id=[f"p{i % 39}" for i in range(40)])
    frame.loc[3, "a"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ("--index", "id", "--components", 2)
    done("impute", tmp_path / "t.csv", *options, "-o", tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == frame["id"].tolist()
    done("evaluate", tmp_path / "t.csv", *options)
    other = write_text(tmp_path / "u.csv", "id,y", "p1,1.5", "p2,2.5")
    refused = sshiba("fit", tmp_path / "t.csv", other, *options, "-o", tmp_path / "m.sshiba")
    assert "t.csv': several rows are named 'p0'" in refused.stderr
    assert "--index" in refused.stderr


def test_an_index_that_the_file_has_may_be_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    frame = numbers().set_axis([f"p{i}" for i in range(40)]).rename_axis(index="id")
    frame.to_parquet(tmp_path / "t.parquet")
    assert values(str(tmp_path / "t.parquet"), index="id").index[3] == "p3"


# --------------------------------------------------------------------------------------------- models and new files


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a European file with codes as labels, row names, markers of its own and a column left out."""
    folder = tmp_path_factory.mktemp("trained")
    z = numbers(60)["a"] - 5
    lines = ["wer;dosis;gruppe;notiz;rang"]
    for i, x in enumerate(z):
        lines.append(
            f"p{i};{f'{1 + x:.3f}'.replace('.', ',')};{'01' if x > 0 else '02'};n{i};{'keine' if i % 9 == 0 else i % 3}"
        )
    path = write_text(folder / "in.csv", *lines, encoding="latin-1")
    options = ("--index", "wer", "--drop", "notiz", "--missing", "keine", "--view", "rang=rang:categorical")
    done("fit", path, *options, "--components", 2, "-o", folder / "m.sshiba")
    return folder


def test_a_model_reads_new_files_as_its_own(trained: Path) -> None:
    new = write_text(trained / "new.csv", "wer;dosis;gruppe;rang;notiz", "q1;1,234;01;1;x", "q2;keine;01;2;y")
    found = done("transform", trained / "m.sshiba", new).stdout
    assert found.splitlines()[0].startswith("wer;factor")
    assert "q1;" in found
    filled = done("impute", new, "--model", trained / "m.sshiba", "-o", "-")
    assert filled.stdout.splitlines()[1] == "q1;1,234;01;1;x"
    assert "Filled 1 of 6 cells" in filled.stderr
    few = write_text(trained / "few.csv", "gruppe", "01", "01")
    assert len(done("transform", trained / "m.sshiba", few).stdout.splitlines()) == 3
    done("report", trained / "m.sshiba", "-o", trained / "r.html", "--data", trained / "in.csv", "--fraction", 0)


def test_new_numbers_are_never_silently_a_thousand_times_too_large(tmp_path: Path) -> None:
    """The file's own evidence tells its marks, then where the model saw such numbers; else it is asked."""
    points = write_text(tmp_path / "points.csv", "a,b,c", "3.234,4.751,5", "3.363,5.082,6")
    commas = write_text(tmp_path / "commas.csv", "a;b;c", "3,234;4,751;5", "3,363;5,082;6")
    for separator, decimal in ((",", "."), (";", ",")):
        train = str(tmp_path / f"train{decimal}csv.csv")
        numbers().assign(a=lambda frame: frame["a"] - 2).to_csv(train, index=False, sep=separator, decimal=decimal)
        done("fit", train, "--components", 2, "-o", tmp_path / "m.sshiba", "--force")
        learned = learned_reading(load(tmp_path / "m.sshiba"))
        for path in (points, commas):
            assert read(path, Reading(), learned).values["a"].tolist() == [3.234, 3.363]
            assert read(path, Reading(thousands="."), learned).values["a"][0] == (3234 if path == points else 3.234)
    far = write_text(tmp_path / "far.csv", "a,b,c", "300.234,400.751,5", "300.363,500.082,6")
    with pytest.raises(FileError, match=r"column 'a': '300.234'.*--thousands '\.' or --decimal '\.'"):
        read(far, Reading(), learned)
    assert read(far, Reading(decimal="."), learned).values["a"][0] == 300.234


def test_levels_decide_what_a_cell_is(tmp_path: Path) -> None:
    learned = LearnedReading(Reading(), None, {"code": ("01", "02"), "rank": (1, 2), "x": None})
    path = write_text(tmp_path / "t.csv", "code,rank,x", "01,1.0,007", "1,z,008")
    found = read(path, Reading(), learned).values
    assert found["code"].tolist() == ["01", "1"]
    assert found["rank"].tolist() == [1, "z"]
    assert found["x"].tolist() == [7, 8]


def test_labels_of_a_workbook_are_those_of_the_model(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    pd.DataFrame({"code": [1, 2, 3], "x": [1.5, 2.5, 3.5]}).to_excel(tmp_path / "t.xlsx", index=False)
    learned = LearnedReading(Reading(), None, {"code": ("1", "2"), "x": None})
    assert read(str(tmp_path / "t.xlsx"), Reading(), learned).values["code"].tolist() == ["1", "2", 3]


def test_none_among_labels_is_pointed_out_once(tmp_path: Path) -> None:
    frame = numbers().assign(symptoms=["None", "mild", "severe", "NA"] * 10)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    for name in ("t.csv", "t.parquet"):
        options = ("-o", tmp_path / "m.sshiba", "--components", 2, "--force")
        words = done("fit", tmp_path / name, *options).output
        assert words.count("'None' is taken for missing in 10 cells of 'symptoms'") == 1
        assert "if one is a label, keep it with --not-missing" in words
        assert "taken for missing" not in done("fit", tmp_path / name, *options, "--not-missing", "None").output
        assert list(load(tmp_path / "m.sshiba").classes_["symptoms"]) == ["None", "mild", "severe"]
        assert "taken for missing" not in done("fit", tmp_path / name, *options, "--missing", "None").output


def test_reading_options_are_plain_json_and_older_files_have_none(trained: Path) -> None:
    path = trained / "m.sshiba"
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("model.json"))
        arrays = archive.read("arrays.safetensors")
    assert header["reading"]["options"]["missing"] == ["keine"]
    assert header["reading"]["dialect"]["decimal"] == ","
    del header["reading"]
    for view in header["views"]:
        del view["words"]
    with zipfile.ZipFile(trained / "old.sshiba", "w") as archive:
        archive.writestr("model.json", json.dumps(header))
        archive.writestr("arrays.safetensors", arrays)
    assert load(trained / "old.sshiba").fitted_.reading is None
    done("transform", trained / "old.sshiba", trained / "in.csv", "--index", "wer", "--missing", "keine")


# ------------------------------------------------------------------------------------------- several files, columns


def test_drop_with_commas_again_and_for_several_files(tmp_path: Path) -> None:
    one = write_text(tmp_path / "one.csv", 'a,b,"c,d"', "1,x,2", "3,y,4")
    two = write_text(tmp_path / "two.csv", "e,f", "5,u", "6,v")
    assert list(read_together([one, two], Reading(drop=("b,f",))).values) == ["a", "c,d", "e"]
    assert list(read_together([one, two], Reading(drop=("b", "f", "c,d"))).values) == ["a", "e"]
    with pytest.raises(FileError, match="--drop: none of the files has a column 'z'"):
        read_together([one, two], Reading(drop=("b,z",)))


def test_whole_numbers_stay_whole(tmp_path: Path) -> None:
    frame = numbers().round(0).astype(int)
    texts = frame.astype(str)
    texts.loc[3, "a"] = ""
    texts[["a"]].to_csv(tmp_path / "one.csv", index=False)
    texts[["b", "c"]].to_csv(tmp_path / "two.csv", index=False)
    files = (tmp_path / "one.csv", tmp_path / "two.csv")
    result = done("impute", *files, "-o", tmp_path / "out.csv", "--components", 2)
    assert "Rounded, since the others are whole numbers: 'a'" in result.stderr
    found = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert found.drop(index=3).equals(texts.drop(index=3))
    assert found.loc[3, "a"].isdigit()


def test_what_is_filled_of_several_files_has_one_decimal_mark(tmp_path: Path) -> None:
    """That of the first file, also in cells that were observed."""
    rows, out = numbers().rename_axis("id"), tmp_path / "out.csv"
    rows.loc[3, "a"] = rows.loc[4, "c"] = np.nan
    price = [f"Fr. {1000 + i:,}.{i:02d}" for i in range(40)]
    comma, point = tmp_path / "comma.csv", tmp_path / "point.csv"
    rows[["a"]].assign(n=range(7, 87, 2)).to_csv(comma, sep=";", decimal=",")
    rows[["b", "c"]].assign(price=price).replace({"price": {"Fr. 1,007.07": ""}}).to_csv(point)
    limits = ("--index", "id", "--components", 2, "-o", out, "--force")
    done("impute", comma, point, *limits)
    found = pd.read_csv(out, sep=";", dtype=str)
    assert not found[["a", "b", "c"]].apply(lambda column: column.str.contains(".", regex=False)).any(axis=None)
    assert found.loc[5, ["b", "price"]].tolist() == [str(rows.loc[5, "b"]).replace(".", ","), "Fr. 1.005,05"]
    assert re.fullmatch(r"Fr\. 1\.\d{3},\d\d", found.loc[7, "price"])
    done("impute", point, comma, *limits)
    found = pd.read_csv(out, dtype={"price": str})
    assert found[["a", "b", "c"]].dtypes.eq(float).all()
    assert found.loc[5, ["a", "price"]].tolist() == [rows.loc[5, "a"], "Fr. 1,005.05"]


def views_of(*words: object, out: Path) -> dict[str, list]:
    done("fit", *words, "--components", 2, "-o", out, "--force")
    return {name: list(columns) for name, columns in load(out).feature_names_in_.items()}


def test_columns_of_several_files_are_views_by_file_and_type(tmp_path: Path) -> None:
    """A view is one table. A model finds its columns in files that are split or joined in another way."""
    rows = numbers().rename_axis("id")
    clinic = rows[["a"]].assign(smoker=["yes", "no"] * 20, stage=["i", "ii", "iii", None] * 10)
    genes = rows[["b", "c"]].rename(columns={"b": "g1", "c": "g2"}).iloc[::-1]
    one, two, out = tmp_path / "clinic.csv", tmp_path / "genes.tsv.gz", tmp_path / "m.sshiba"
    clinic.to_csv(one)
    genes.to_csv(two, sep="\t")
    by_type = {"clinic numeric": ["a"], "clinic binary": ["smoker"], "stage": ["stage"], "genes": ["g1", "g2"]}
    assert views_of(one, two, "--index", "id", out=out) == by_type
    wanted = done("transform", out, one, two).stdout
    joined = tmp_path / "all.csv"
    pd.concat([genes, clinic], axis=1).loc[clinic.index].to_csv(joined)
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    clinic[["stage"]].join(genes[["g2"]]).to_csv(first)
    clinic[["smoker", "a"]].join(genes[["g1"]]).to_csv(second)
    for files in ([joined], [first, second]):
        assert done("transform", out, *files).stdout == wanted
    assert list(views_of(joined, "--index", "id", out=out)) == ["numeric", "binary", "stage"]
    said = done("evaluate", one, two, "--index", "id", "--components", 2).stdout
    assert "clinic numeric" in said
    assert "genes" in said


def test_options_of_columns_hold_in_the_views_of_files(tmp_path: Path) -> None:
    rows = numbers().rename_axis("id")
    one, two, out = tmp_path / "lab" / "x.csv", tmp_path / "home" / "x.csv", tmp_path / "m.sshiba"
    for path in (one, two):
        path.parent.mkdir()
    pain = rows[["c"]].assign(pain=["none", "mild", "bad", "mild"] * 10)
    limits = rows[["a"]].assign(a=rows["a"].clip(lower=4.5), b=rows["b"], age=range(40))
    limits.to_csv(one)
    pain.assign(least=4.5).to_csv(two)
    options = ("--index", "id", "--levels", "pain=none,mild,bad", "--limits", "a=least,", "--view", "old=age")
    found = views_of(one, two, *options, "--kernel", "x=rbf", out=out)
    assert found == {"old": ["age"], "x (2) ordinal": ["pain"], "x": ["a", "b"], "x (2)": ["c"]}
    views = load(out).views_
    assert views["x"].limits == {"a": ("least", None)}
    assert views["x"].kernel == "rbf"
    assert [type(view).__name__ for view in views.values()] == ["Real", "Ordinal", "Real", "Real"]
    views_of(one, two, *options, "--margin", "auto", out=out)
    assert [getattr(view, "margin", None) for view in load(out).views_.values()] == ["auto", None, "auto", "auto"]
    wrong = sshiba("fit", one, two, *options, "--kernel", "numeric=rbf", "-o", out, "--force").stderr
    assert "there is no view 'numeric'; there are old, x (2) ordinal, x, x (2)." in wrong


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".xlsx"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_whole_numbers_stay_whole_where_holes_made_them_floats(tmp_path: Path, ending: str, dtype: str) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    frame = numbers().assign(a=lambda table: table["a"].round()).astype({"a": dtype})
    frame.loc[3, "a"] = np.nan
    write(frame, str(tmp_path / f"in{ending}"))
    result = done("impute", tmp_path / f"in{ending}", "-o", tmp_path / f"out{ending}", "--components", 2)
    assert "Rounded, since the others are whole numbers: 'a'" in result.stderr
    found = read(str(tmp_path / f"out{ending}"), Reading()).values["a"]
    assert found[3] == round(found[3])
    if ending != ".xlsx":
        assert found.dtype == dtype


def test_labels_that_are_whole_numbers_come_back_as_whole_numbers(tmp_path: Path) -> None:
    """Holes, and workbooks, make floats of them."""
    pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    frame = numbers().assign(town=[1.0, 2.0, 3.0, np.nan] * 10, ill=[0.0, 1.0, np.nan, 1.0] * 10)
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    frame.astype({"town": "Int64", "ill": "Int64"}).to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.xlsx", "t.csv"):
        model, new = tmp_path / "m.sshiba", tmp_path / "t.xlsx"
        done("fit", tmp_path / name, "--view", "town=town:categorical", "-o", model, "--components", 2, "--force")
        for target, labels in (("town", {"1", "2", "3"}), ("ill", {"0", "1"})):
            lines = done("predict", model, new, "--target", target).stdout.splitlines()
            assert lines[0] == target
            assert set(lines[1:]) <= labels
        assert done("predict", model, new, "--target", "town", "--proba").stdout.startswith("1,2,3\n")


def test_dates_are_left_aside_or_become_features(tmp_path: Path) -> None:
    frame = numbers().assign(when=[f"2020-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(40)])
    frame.loc[2, "a"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    path = str(tmp_path / "t.csv")
    assert list(values(path, dates="leave-out")) == ["a", "b", "c"]
    assert "when weekday" in values(path, dates="features")
    done("impute", path, "-o", tmp_path / "out.csv", "--dates", "features", "--components", 2)
    filled = pd.read_csv(tmp_path / "out.csv")
    assert list(filled) == ["a", "b", "c", "when"]
    assert filled["when"].tolist() == frame["when"].tolist()
    assert not filled["a"].isna().any()
    std = tmp_path / "std.csv"
    options = ("--dates", "features", "--components", 2, "--force", "--std", std)
    assert "Filled 1 of 120 cells" in done("impute", path, "-o", tmp_path / "out.csv", *options).stderr
    assert list(pd.read_csv(std)) == ["a", "b", "c", "when"]


def test_the_order_of_days_and_months_is_asked_and_remembered(tmp_path: Path) -> None:
    frame = numbers().assign(when=[f"{1 + i % 28:02d}/{1 + i % 12:02d}/2020" for i in range(40)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.assign(when="03/04/2020").to_csv(tmp_path / "new.csv", index=False)
    model, new = tmp_path / "m.sshiba", str(tmp_path / "new.csv")
    assert "--day-first or --month-first" in sshiba("fit", new, "--dates", "features", "-o", model).stderr
    assert values(new, dates="features", day_first=False)["when month"][0] == 3
    done("fit", tmp_path / "t.csv", "--dates", "features", "--components", 2, "-o", model)
    learned = LearnedReading.of(load(model).fitted_.reading, {})
    assert read(new, Reading(), learned).values["when month"][0] == 4
    options = as_options(Reading(day_first=False, normalise_labels=True, separator=";"))
    assert options == ["--normalise-labels", "--month-first", "--sep", "';'"]


def test_cells_that_stay_empty_have_no_deviation_and_are_counted(tmp_path: Path) -> None:
    frame = numbers().assign(place="here", when="2020-01-02")
    frame.loc[3, ["a", "place", "when"]] = None
    frame.loc[4, "place"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ("--drop", "when", "--components", 2, "--std", tmp_path / "std.csv", "-o", tmp_path / "out.csv")
    said = done("impute", tmp_path / "t.csv", *options).stderr
    assert "Filled 1 of 160 cells. 3 gaps stay, in 'place', 'when'." in said
    std = pd.read_csv(tmp_path / "std.csv")
    assert list(std) == list(frame)
    assert std[["place", "when"]].isna().all(axis=None)
    assert ((std[["a", "b", "c"]] > 0) == frame[["a", "b", "c"]].isna()).all(axis=None)


@pytest.mark.parametrize("long", [False, True])
def test_names_that_several_rows_have_are_told_of(tmp_path: Path, long: bool, caplog) -> None:
    frame = numbers().assign(who=[f"p{i % 35}" for i in range(40)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    path, how = str(tmp_path / "t.csv"), Reading(index="who")
    _ = LongTable(path, how).survey if long else read(path, how)
    words = "'who' repeats: 'p0' and 4 more stand for several rows; each row counts as a sample of its own."
    assert caplog.messages == [words]
    read(path, Reading())
    assert caplog.messages == [words]


def test_columns_to_drop_may_have_blanks_around_their_commas(tmp_path: Path) -> None:
    path = write_text(tmp_path / "t.csv", "a,b, c", *["1,2,3"] * 3)
    assert list(values(path, drop=("a, b",))) == [" c"]
    assert list(values(path, drop=("a, c",))) == ["b"]


# ------------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv.gz", ".xlsx", ".feather", ".parquet"])
def test_formats_are_read_and_written(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    frame = numbers().assign(ward=["north", "south"] * 20, id=[f"p{i}" for i in range(40)])
    frame.loc[3, "a"], frame.loc[4, "ward"] = np.nan, None
    write(frame, str(tmp_path / f"in{ending}"))
    out = tmp_path / f"out{ending}"
    done("impute", tmp_path / f"in{ending}", "--index", "id", "-o", out, "--components", 2)
    found = read(str(out), Reading(index="id")).values
    assert list(found) == ["a", "b", "c", "ward"]
    assert found.index[3] == "p3"
    assert not found.isna().any().any()
    np.testing.assert_allclose(found["b"].astype(float), frame["b"])
    if ending.endswith(".gz"):
        assert gzip.decompress(out.read_bytes()).startswith(b"a")


def test_npz_and_annotated_files_are_filled_in_their_own_form(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata", reason="needs the extra 'mudata'")
    mudata = pytest.importorskip("mudata", reason="needs the extra 'mudata'")
    x = numbers().to_numpy(copy=True)
    x[3, 1] = np.nan
    np.savez(tmp_path / "in.npz", x=x, y=x[:, :2] * 2)
    done("impute", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--std", tmp_path / "std.npz", "--components", 2)
    with np.load(tmp_path / "out.npz") as out, np.load(tmp_path / "std.npz") as std:
        assert not np.isnan(out["x"]).any()
        np.testing.assert_array_equal(out["x"][~np.isnan(x)], x[~np.isnan(x)])
        assert (std["x"] > 0).sum() == 1
    refused = sshiba("impute", tmp_path / "in.npz", "-o", tmp_path / "out.csv")
    assert "one of .npz" in refused.output
    cells = anndata.AnnData(x, obs=pd.DataFrame(index=[f"c{i}" for i in range(40)]))
    cells.write(tmp_path / "in.h5ad")
    done("fit", tmp_path / "in.h5ad", "-o", tmp_path / "m.sshiba", "--components", 2)
    done("impute", tmp_path / "in.h5ad", "-o", tmp_path / "out.h5ad", "--model", tmp_path / "m.sshiba")
    assert not np.isnan(anndata.read_h5ad(tmp_path / "out.h5ad").X).any()
    few = cells[:30].copy()
    few.var_names = ["p", "q", "r"]
    mudata.MuData({"rna": cells, "protein": few}).write(tmp_path / "in.h5mu")
    done("impute", tmp_path / "in.h5mu", "-o", tmp_path / "out.h5mu", "--components", 2)
    out = mudata.read_h5mu(tmp_path / "out.h5mu")
    assert out["protein"].shape == (30, 3)
    assert not np.isnan(out["rna"].X).any()


def test_views_are_written_under_any_name(tmp_path: Path) -> None:
    """Also under those that the arguments of NumPy's functions have."""
    views = {name: numbers().to_numpy() + place for place, name in enumerate(("file", "allow_pickle", "arr_0", "x"))}
    write_views(views, views, str(tmp_path / "views.npz"))
    found = read_views(str(tmp_path / "views.npz"), ".npz")
    assert list(found) == list(views)
    for name, values in views.items():
        np.testing.assert_array_equal(found[name], values)


def test_export_writes_tables(tmp_path: Path, trained: Path) -> None:
    done("export", trained / "m.sshiba", "-o", tmp_path / "tables")
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {"factors.csv", "factors_std.csv", "r2.csv", "noise.csv", "weights_numeric.csv"} <= names
    model = load(trained / "m.sshiba")
    factors = pd.read_csv(tmp_path / "tables" / "factors.csv", index_col=0)
    assert list(factors.columns) == [f"factor {k + 1}" for k in range(model.n_components_)]
    np.testing.assert_allclose(factors.to_numpy(), model.fitted_.factors)
    assert factors.index[0] == "p0"
    noise = pd.read_csv(tmp_path / "tables" / "noise.csv")
    assert list(noise.columns) == ["view", "feature", "bias", "noise std"]
    assert "exists" in sshiba("export", trained / "m.sshiba", "-o", tmp_path / "tables").output
    done("export", trained / "m.sshiba", "-o", tmp_path / "tables", "--force")


def test_names_that_are_numbers_or_have_levels_are_exported() -> None:
    rows = pd.MultiIndex.from_product([["north", "south"], range(20)])
    frame = numbers().set_axis(range(3), axis=1).set_axis(rows)
    tables = model_tables(SSHIBA(2, random_state=0, max_iter=5, tol=1.0).fit(frame).fitted_)
    assert list(tables["weights_numeric"].index) == ["0", "1", "2"]
    assert tables["weights_numeric"].notna().all(axis=None)
    assert tables["noise"].notna().all(axis=None)
    assert tables["factors"].index.equals(rows)


# ------------------------------------------------------------------------------------------------------ said well


def test_the_hint_for_resuming_can_be_used_as_it_is(tmp_path: Path) -> None:
    frame = numbers().assign(**{"my id": [f"p{i}" for i in range(40)], "x y": ["?", *"ab"] * 13 + ["a"]})
    frame.to_csv(tmp_path / "my data.csv", index=False)
    options = ("--index", "my id", "--missing", "?", "--max-time", 1e-6, "--components", 3)
    result = sshiba("fit", tmp_path / "my data.csv", *options, "-o", tmp_path / "m.sshiba")
    assert result.exit_code == 0
    assert (
        f"'{tmp_path / 'my data.csv'}' --index 'my id' --missing '?' --resume {tmp_path / 'm.sshiba'}" in result.output
    )
    assert "max_iter" not in result.output
    done("fit", tmp_path / "my data.csv", "--index", "my id", "--missing", "?", "--resume", tmp_path / "m.sshiba")
    assert load(tmp_path / "m.sshiba").fitted_.reading["options"]["index"] == "my id"


def test_all_bad_columns_at_once_with_their_options(tmp_path: Path) -> None:
    frame = numbers().assign(who=[f"p{i}x" for i in range(40)], when=pd.date_range("2020", periods=40).astype(str))
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = sshiba("fit", tmp_path / "t.csv", "-o", tmp_path / "m.sshiba")
    assert (
        "column 'who' has a different text in every row, as identifiers do: leave it out with --drop" in result.output
    )
    assert "column 'when' holds dates such as '2020-01-01'" in result.output
    assert "--dates features" in result.output
    done("fit", tmp_path / "t.csv", "-o", tmp_path / "m.sshiba", "--components", 2, "--drop", "who,when")
    frame.assign(a="many", b="few").to_csv(tmp_path / "new.csv", index=False)
    result = sshiba("transform", tmp_path / "m.sshiba", tmp_path / "new.csv")
    assert "column 'a' holds text ('many')" in result.output
    assert "column 'b' holds text ('few')" in result.output
    assert "--missing" in result.output


def test_help_speaks_no_python() -> None:
    for command in ("fit", "impute", "predict", "transform", "evaluate", "report", "export", "info"):
        shown = done(command, "--help").output
        assert "bool" not in shown.lower()
        assert not re.search("<[a-z]", shown)
    assert "bool" not in done("--help").output.lower()


def test_scores_of_columns_fit_into_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    frame = numbers(80).rename(columns={"a": "a long name of a column of measurements"})
    frame = frame.assign(ward=["north", "south", "west", "east"] * 20, smokes=["yes", "no"] * 40)
    frame.to_csv(tmp_path / "t.csv", index=False)
    shown = done("evaluate", tmp_path / "t.csv", "--columns", "--components", 2).stdout
    assert max(map(len, shown.splitlines()[1:])) <= 80
    rows = [line for line in shown.splitlines() if line.startswith(("numeric", " numeric"))]
    assert len(rows) == 3
    assert "…" in rows[0]
    assert all(line.count(".") == 4 for line in rows)  # rmse, r2, coverage, log-likelihood, none of them cut


def test_everything_wrong_with_the_columns_is_said_at_once_a_line_each(tmp_path: Path) -> None:
    """All texts that are no numbers are named in the advice, as a shell takes them."""
    numbers = np.arange(30.0).astype(str)
    weight, crp = numbers.copy(), numbers.copy()
    weight[:3], crp[5] = ["<5", "n. d.", "<5"], "high"
    pd.DataFrame({"weight": weight, "crp": crp, "age": numbers}).to_csv(tmp_path / "t.csv", index=False)
    found = sshiba("fit", tmp_path / "t.csv", "-o", tmp_path / "m.sshiba")
    assert found.exit_code == 2
    first, second = filter(str.strip, found.stderr.split("\n"))
    assert first.startswith("Error: column 'weight'")
    assert "--limits 'weight=5,', or name what means missing with --missing 'n. d.'," in first
    assert second.strip().startswith("column 'crp'")
    assert "--missing high," in second
    advised = ["--missing", "<5", "--missing", "n. d.", "--missing", "high"]
    assert sshiba("fit", tmp_path / "t.csv", *advised, "-o", tmp_path / "m.sshiba").exit_code == 0


def test_small_parts_of_a_parquet_file_become_few_row_groups(tmp_path: Path) -> None:
    """Of each column of each group the writer keeps a kilobyte, and labels of parts may differ."""
    parquet = pytest.importorskip("pyarrow.parquet")
    parts = [
        pd.DataFrame({"x": np.arange(1000.0) + k, "kind": pd.Categorical([f"level {k % 7}"] * 1000)}) for k in range(40)
    ]
    path = tmp_path / "t.parquet"
    with growing(str(path)) as add:
        for part in parts:
            add(part)
    assert parquet.ParquetFile(path).num_row_groups == 1
    whole = pd.read_parquet(path)
    np.testing.assert_array_equal(whole["x"], np.concatenate([part["x"] for part in parts]))
    assert whole["kind"].astype(str).tolist() == [label for part in parts for label in part["kind"]]
    with ParquetRows(str(path), group_bytes=20_000) as rows:  # three parts are as much
        for part in parts:
            rows.add(part[["x"]])
    groups = parquet.ParquetFile(path).metadata
    assert [groups.row_group(k).num_rows for k in range(groups.num_row_groups)] == [3000] * 13 + [1000]


def test_numbers_that_a_workbook_has_as_text_are_numbers(tmp_path: Path) -> None:
    """As in text files; cells that were seen stay text."""
    pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    frame = numbers().round(1).astype(object)
    frame["b"] = [str(cell).replace(".", ",") for cell in frame["b"]]
    frame["c"] = [str(cell) if place % 3 else cell for place, cell in enumerate(frame["c"])]
    frame["code"] = ["007", "010", "099", "123"] * 10
    frame.loc[[3, 5], ["b", "c"]] = None
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    found = read(str(tmp_path / "t.xlsx"), Reading()).values
    assert found.dtypes[["b", "c"]].tolist() == [float, float]
    np.testing.assert_array_equal(found[["b", "c"]].drop([3, 5]), numbers().round(1)[["b", "c"]].drop([3, 5]))
    assert found["code"][0] == "007"
    options = ("impute", tmp_path / "t.xlsx", "-o", tmp_path / "o.xlsx", "--components", 2)
    assert "holds codes such as '007': make it labels with --view" in sshiba(*options).stderr
    done(*options, "--view", "code=code:categorical")
    after = pd.read_excel(tmp_path / "o.xlsx", dtype=object)
    assert after.drop([3, 5]).equals(pd.read_excel(tmp_path / "t.xlsx", dtype=object).drop([3, 5]))
    assert all(isinstance(cell, float) for cell in after.loc[[3, 5], "b"])


def test_marks_of_numbers_in_a_workbook_can_be_named(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    pd.DataFrame({"a": [1.5, 2.5, 3.5] * 8, "b": ["3,333", "4,555", "1,777"] * 8}).to_excel(
        tmp_path / "t.xlsx", index=False
    )
    said = sshiba("fit", tmp_path / "t.xlsx", "-o", tmp_path / "m.sshiba").stderr
    assert "Say --thousands ',' or --decimal ','" in said
    assert values(str(tmp_path / "t.xlsx"), decimal=",")["b"][0] == 3.333
    assert values(str(tmp_path / "t.xlsx"), thousands=",")["b"][0] == 3333
    learned = LearnedReading(Reading(decimal=","), None, {})
    assert read(str(tmp_path / "t.xlsx"), Reading(), learned).values["b"][0] == 3.333
