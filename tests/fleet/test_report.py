"""What is made of a run's records: a table, a page, predictions. Everything that tasks said is text, and stays text."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from fleet_made_up import make_run, record, usual_records
from spindle.errors import UsageError
from spindle.fleet.folder import RunFolder
from spindle.fleet.report.predictions import swebench_lines
from spindle.fleet.report.rows import chosen_statuses, csv_text, json_lines, table_lines
from spindle.fleet.report.writing import write_report

NOW = 1_794_884_400.0
HOSTILE = "\u202e<script>alert(1)</script>\x1b[2J =cmd|' /C calc'!A0 gnp.exe \"onload=x"


def made(number: int, **fields: Any) -> dict[str, Any]:
    return record(number, random.Random(number), **fields)


def report(folder: Path, output: Path | None = None) -> str:
    return Path(write_report(RunFolder(str(folder)), str(output) if output else None, NOW)).read_text()


def table(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(csv_text(RunFolder(str(folder))))), strict=True))


class Page(HTMLParser):
    """The elements of a page, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


# ---- results -------------------------------------------------------------------------------------------


def test_a_table_has_a_column_a_field_and_a_row_a_task_in_the_order_of_the_list(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [made(2, status="ok"), made(1, status="timeout", patch=None, verify=None)])
    rows = table(run)
    assert [row["id"] for row in rows] == ["astropy__astropy-10002", "sympy__sympy-10001"]
    assert {"usage.input_tokens", "patch.sha256", "verify.exit_code", "error.message", "meta"} <= set(rows[0])
    assert int(rows[0]["usage.input_tokens"]) == made(2)["usage"]["input_tokens"]
    assert (rows[1]["patch.path"], rows[1]["verify.exit_code"]) == ("", "")


def test_text_that_a_spreadsheet_would_run_gets_a_quote_and_numbers_stay_numbers(tmp_path: Path) -> None:
    starts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1", "\x1b[31m=1", "plain", 'a,b\n"c"']
    records = [made(number, final_message=text, meta={"=": text}) for number, text in enumerate(starts)]
    records[0]["verify"] = {"exit_code": -9, "duration_s": 1.0}
    rows = table(make_run(tmp_path / "run", records))
    assert len(rows) == len(starts)
    cells = [row["final_message"] for row in rows]
    assert cells[:4] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)"] and cells[7:9] == ["'=1", "plain"]
    assert not any(cell.startswith(("=", "+", "@", "\t", "\r", "＝")) for row in rows for cell in row.values())
    assert rows[0]["verify.exit_code"] == "-9" and not any("\x1b" in cell for row in rows for cell in row.values())


def test_results_are_chosen_by_status_and_a_status_that_there_is_not_is_refused(tmp_path: Path) -> None:
    run = RunFolder(str(make_run(tmp_path / "run", usual_records(50))))
    chosen = chosen_statuses("timeout, setup_failed")
    found = [json.loads(line) for line in json_lines(run, chosen)]
    assert found and {made["status"] for made in found} <= {"timeout", "setup_failed"}
    assert len(list(json_lines(run))) == 50
    for wrong in ("okay", ""):
        with pytest.raises(UsageError, match="there are ok, verify_failed"):
            chosen_statuses(wrong)


def test_the_last_line_of_a_task_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [made(1, status="timeout"), made(2)])
    with (run / "results.jsonl").open("a") as file:
        file.write(json.dumps(made(1, status="ok", error=None, supersedes=True)) + "\n")
        file.write(json.dumps(made(2, status="cancelled"))[:50])
    assert next((row["id"], row["status"]) for row in table(run)) == ("sympy__sympy-10001", "ok")
    assert len(table(run)) == 2


def test_the_table_for_people_is_safe_on_a_terminal_and_as_wide_as_it_may_be(tmp_path: Path) -> None:
    records = [made(1, status="ok", error=None, final_message=HOSTILE * 9), made(2, id="x" * 120)]
    lines = list(table_lines(RunFolder(str(make_run(tmp_path / "run", records))), width=100))
    assert len(lines) == 3 and all(len(line) <= 100 for line in lines)
    assert "\x1b" not in "".join(lines) and "\u202e" not in "".join(lines)


# ---- report --------------------------------------------------------------------------------------------


def test_the_page_needs_nothing_from_elsewhere_and_has_a_plot_of_each_kind(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", usual_records(300), pending=20)
    text = report(run)
    page = Page(text)
    assert page.names.count("svg") == 5 and "script" not in page.names and "@import" not in text and "url(" not in text
    assert 'content="default-src ' in text and not any(link.startswith(("http", "//", "data:")) for link in page.links)
    for said in ("300 of 320", "Duration", "Cost", "Tokens", "Done over time", "pending", "repository not found"):
        assert said in text
    assert (run / "results.csv").read_text().count("\n") >= 301


def test_text_of_others_is_no_markup_and_no_link_leads_out_of_the_run(tmp_path: Path) -> None:
    error = {"kind": HOSTILE, "message": HOSTILE}
    records = [
        made(1, status="ok", error=None, final_message=HOSTILE, model=HOSTILE),
        made(2, status="agent_failed", error=error, meta={"x": HOSTILE}, rollout="javascript:alert(1)"),
    ]
    records[0]["patch"] = {**(made(5)["patch"] or {}), "path": "../../../etc/passwd"} if made(5)["patch"] else None
    run = make_run(tmp_path / "run <b>", records)
    text = report(run)
    page = Page(text)
    assert not {"script", "b>"} & set(page.names) and not any(name.startswith("on") for name in page.attributes)
    assert "\x1b" not in text and "\u202e" not in text
    for link in page.links:
        assert re.fullmatch(r"tasks/[A-Za-z0-9._-]+/([a-z]+\.[a-z]+)?", link)
        assert (run / unquote(link)).exists()


def test_links_lead_into_the_run_from_wherever_the_page_is_put(tmp_path: Path) -> None:
    run = make_run(tmp_path / "my run #1?", usual_records(3))
    (tmp_path / "pages").mkdir()
    page = Page(report(run, tmp_path / "pages" / "page.html"))
    assert page.links and (run / "results.csv").exists() and not (run / "report.html").exists()
    for link in page.links:
        assert os.path.exists(tmp_path / "pages" / unquote(link)) and not set("#? ") & set(link), link


def test_ten_thousand_tasks_make_a_page_that_a_browser_can_show(tmp_path: Path) -> None:
    text = report(make_run(tmp_path / "run", usual_records(10_000), has_files=False))
    assert len(text) < 2_000_000 and text.count("<tr>") == 2001
    assert "8,000 more are in results.csv" in text
    assert (tmp_path / "run" / "results.csv").read_text().count("\n") >= 10_001


def test_a_run_without_prices_or_records_has_a_page_too(tmp_path: Path) -> None:
    unpriced = [made(number, cost_usd=None) for number in range(3)]
    assert "No price is known" in report(make_run(tmp_path / "unpriced", unpriced))
    empty = report(make_run(tmp_path / "empty", [], pending=4))
    assert "0 of 4" in empty and "Nothing is recorded yet." in empty
    assert "$0.00" in report(make_run(tmp_path / "free", [made(1, cost_usd=0.0, duration_s=0.0)]))


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", usual_records(2))
    before = report(run)
    with pytest.raises(UsageError, match=r"nowhere/page\.html cannot be written: No such file"):
        write_report(RunFolder(str(run)), str(tmp_path / "nowhere" / "page.html"), NOW)
    assert (run / "report.html").read_text() == before
    assert sorted(path.name for path in run.iterdir() if path.suffix == ".new") == []


# ---- export --------------------------------------------------------------------------------------------


def predictions(run: Path, name: str | None = None) -> list[dict[str, str]]:
    return [json.loads(line) for line in swebench_lines(RunFolder(str(run)), name)]


def test_every_recorded_task_is_predicted_once_in_the_order_of_the_list(tmp_path: Path) -> None:
    done = [
        made(3, status="ok", error=None),
        made(1, status="setup_failed", patch=None),
        made(2, status="ok", error=None),
    ]
    done[0]["patch"] = made(3)["patch"] or {**usual_records(1)[0]["patch"]}
    done[2]["patch"] = None
    run = make_run(tmp_path / "run", done, pending=2)
    found = predictions(run, "m/1")
    assert [given["instance_id"] for given in found] == [given["id"] for given in done]
    assert all(set(given) == {"instance_id", "model_name_or_path", "model_patch"} for given in found)
    assert found[0]["model_patch"] == (run / "tasks" / done[0]["id"] / "patch.diff").read_text()
    assert [given["model_patch"] for given in found[1:]] == ["", ""]
    assert {given["model_name_or_path"] for given in found} == {"m/1"}
    assert {given["model_name_or_path"] for given in predictions(run)} == {"gpt-5.2-codex"}


def test_a_patch_with_bytes_that_are_no_text_survives_and_one_that_is_gone_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [made(3, status="ok", error=None, patch=usual_records(1)[0]["patch"])])
    path = run / "tasks" / made(3)["id"] / "patch.diff"
    path.write_bytes(b"-caf\xe9\r\n+caf\xc3\xa9\n")
    (found,) = predictions(run)
    assert found["model_patch"].encode("utf-8", "surrogateescape") == path.read_bytes()
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="the patch of this task cannot be read"):
        predictions(run)
