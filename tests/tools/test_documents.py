"""read_document: small real files of every kind, made by the libraries that offices use, read behind the real fence."""

from __future__ import annotations

import asyncio
import zipfile
from pathlib import Path
from typing import Any

import docx
import openpyxl  # type: ignore[import-untyped]
import pptx
import pytest
from PIL import Image

from agent.errors import ToolError
from agent.tool import ToolResult
from tests.tools.calling import acall
from tools.documents import Reader, read_document_tool
from tools.sandbox import probe

HELLO = b"""%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[PAGES]/Count COUNT>> endobj
3 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> endobj
"""


def pdf(path: Path, texts: list[str]) -> None:
    """A PDF with one line on each page."""
    kids = b" ".join(b"%d 0 R" % (10 + 2 * n) for n in range(len(texts)))
    out = bytearray(HELLO.replace(b"PAGES", kids).replace(b"COUNT", b"%d" % len(texts)))
    for n, text in enumerate(texts):
        stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
        out += b"%d 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R" % (10 + 2 * n, 11 + 2 * n)
        out += b"/Resources<</Font<</F1 3 0 R>>>>>> endobj\n"
        out += b"%d 0 obj <</Length %d>> stream\n%s\nendstream endobj\n" % (11 + 2 * n, len(stream), stream)
    path.write_bytes(bytes(out) + b"trailer <</Root 1 0 R>>\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def read(root: Path, path: str, pages: str = "") -> ToolResult:
    async def once() -> ToolResult:
        return await acall(read_document_tool(Reader(probe())), root, path=path, pages=pages)

    return asyncio.run(once())


def test_a_pdf_is_read_page_by_page(root: Path) -> None:
    pdf(root / "a.pdf", [f"This is page {n}" for n in range(1, 8)])
    part = read(root, "a.pdf", "2-3")
    assert part.text.splitlines() == [
        "[a.pdf: PDF, 7 pages]",
        "--- page 2 ---",
        "This is page 2",
        "--- page 3 ---",
        "This is page 3",
        '[next: pages="4-", up to 7]',
    ]
    assert part.details == {"path": "a.pdf", "pages": "2-3/7"}
    assert read(root, "a.pdf", "6-").text.endswith("This is page 7\n[this is the end]")
    with pytest.raises(ToolError, match="no page 9"):
        read(root, "a.pdf", "9")
    assert [p.name for p in root.rglob("*") if p.is_file()] == ["a.pdf"]  # the reader leaves nothing


def test_a_stray_cell_at_the_bottom_of_a_sheet_is_reached(root: Path) -> None:
    book = openpyxl.Workbook()
    book.active["A1"], book.active["A3"], book.active["A1048000"] = "top", "middle", "stray"
    book.save(root / "a.xlsx")
    text = read(root, "a.xlsx").text
    assert text.index("| top |") < text.index("| middle |") < text.index("| stray |") and "1 part" in text


def test_office_files_are_read(root: Path) -> None:
    document = docx.Document()
    document.add_heading("Minutes", 1)
    document.add_paragraph("We met. 我们见面了。")
    document.add_table(1, 2).cell(0, 1).text = "in a table"
    document.save(str(root / "a.docx"))
    assert "# Minutes" in (text := read(root, "a.docx").text) and "我们见面了" in text and "in a table" in text

    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.title = "Sales"
    for number in range(400):
        sheet.append([number, f"customer {number}", number * 1.5])
    book.create_sheet("Costs").append(["rent", 700])
    book.save(root / "a.xlsx")
    first = read(root, "a.xlsx", "1")
    assert "(sheet 'Sales', rows 1-" in first.text and "| 3 | customer 3 | 4.5 |" in first.text
    total = int(str(first.details["pages"]).split("/")[1])
    assert "(sheet 'Costs', rows 1-1)" in (last := read(root, "a.xlsx", str(total)).text) and "| rent | 700 |" in last

    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Plan", "First this"
    slide.notes_slide.notes_text_frame.text = "say it slowly"
    slides.slides.add_slide(slides.slide_layouts[6])
    slides.save(str(root / "a.pptx"))
    told = read(root, "a.pptx").text
    assert "2 slides" in told and "--- slide 1 (Plan) ---" in told and "First this" in told
    assert "Notes: say it slowly" in told


def test_html_and_epub_are_text_without_what_nobody_sees(root: Path) -> None:
    (root / "a.html").write_text("<title>t</title><script>secret()</script><h2>Head</h2><p>one <b>two</b></p>")
    text = read(root, "a.html").text
    assert "## Head" in text and "one **two**" in text and "secret" not in text
    with zipfile.ZipFile(root / "a.epub", "w") as book:
        book.writestr("META-INF/container.xml", '<container><rootfile full-path="O/b.opf"/></container>')
        items = '<item id="a" href="1.xhtml"/><item id="b" href="2.xhtml"/><item id="x" href="../../etc/passwd"/>'
        spine = '<itemref idref="b"/><itemref idref="a"/><itemref idref="x"/>'
        book.writestr("O/b.opf", f"<package>{items}<spine>{spine}</spine></package>")
        book.writestr("O/1.xhtml", "<p>second</p>")
        book.writestr("O/2.xhtml", "<p>first</p>")
    assert read(root, "a.epub").text.splitlines()[1:-1] == ["--- page 1 ---", "first", "--- page 2 ---", "second"]


def test_text_csv_and_json_need_no_reader(root: Path) -> None:
    (root / "a.csv").write_text("name,age\n" + "".join(f"person {n},{n}\n" for n in range(1000)))
    second = read(root, "a.csv", "2").text
    assert "(columns: name,age)" in second and "[next: pages=" in second
    whole = "".join(read(root, "a.csv", str(n)).text for n in range(1, 6))
    assert all(f"person {n}," in whole for n in range(1000))  # nothing is lost between pages
    (root / "a.json").write_text('{"a": [1, 2], "b": {"c": "你"}}')
    assert '"c": "你"' in read(root, "a.json").text and len(read(root, "a.json").text.splitlines()) > 5
    (root / "a.md").write_text("")
    assert "nothing in it" in read(root, "a.md").text


def test_what_cannot_be_read_says_what_to_do(root: Path) -> None:
    drawn = root / "scan.pdf"
    Image.new("RGB", (300, 400), "white").save(drawn, "PDF")
    (root / "locked.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    (root / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing more")
    (root / "broken.docx").write_bytes(b"PK\x03\x04 no")
    (root / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0")
    for path, words in (
        ("scan.pdf", "scanned.*ask the user"),
        ("locked.xlsx", "protected by a password"),
        ("broken.pdf", "broken"),
        ("broken.docx", "broken"),
        ("old.doc", "save it as"),
        ("../outside.pdf", r"'\.\.' is not allowed"),
        ("missing.pdf", "does not exist"),
    ):
        with pytest.raises(ToolError, match=words):
            read(root, path)
    with pytest.raises(ToolError, match="no range of pages"):
        read(root, "scan.pdf", "all")


def test_bombs_are_not_unpacked(root: Path) -> None:
    with zipfile.ZipFile(root / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("word/document.xml", b" " * 40_000_000)
    with pytest.raises(ToolError, match="far larger than it looks"):
        read(root, "bomb.docx")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    document = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY l0 "ha">{laughs}]><d>&l11;</d>'
    with zipfile.ZipFile(root / "laughs.docx", "w") as package:
        package.writestr("[Content_Types].xml", document)
        package.writestr("word/document.xml", document)
        package.writestr("_rels/.rels", document)
    with pytest.raises(ToolError):
        read(root, "laughs.docx")
    (root / "sparse.pdf").touch()
    with (root / "sparse.pdf").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(ToolError, match="can be read at most"):
        read(root, "sparse.pdf")


def test_no_link_leads_the_reader_out(root: Path, tmp_path: Path) -> None:
    pdf(tmp_path / "secret.pdf", ["secret"])
    (root / "a.pdf").symlink_to(tmp_path / "secret.pdf")
    with pytest.raises(ToolError, match="symbolic link"):
        read(root, "a.pdf")
