"""Reads one document, as a program of its own behind the fence: what is parsed here is somebody's file.

    python -I -c <this file> '{"file": ..., "out": ..., "kind": "pdf", "first": 1, "last": 3, "chars": 9000}'

The answer is JSON in the file `out`: `{"total": 12, "unit": "page", "pages": [[1, "", "text"], ...]}`, or
`{"error": code}`. With `"picture": 640` it is the first page of a PDF, so wide at most, as WebP in base64.

Knows the formats and the libraries that read them, each imported only for its own. Refuses to know the app: nothing of
it can be read from here. `tools/documents.py` starts it, limits it and tells the model what came of it.
"""

from __future__ import annotations

import base64
import io
import json
import posixpath
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

PAGE_CHARS = 3_000
"""A page of what has none: about 600 words."""
MAX_UNPACKED = 400_000_000
MAX_RATIO = 150
"""Of a package: what it unpacks to, and how many times its own size that is."""
MAX_PARTS = 20_000
MAX_CELLS_OF_ROW = 200


class Unreadable(Exception):
    """`args[0]` is the code: encrypted, broken, bomb, old, missing."""


def main(request: dict[str, Any]) -> None:
    """Answer one request."""
    try:
        answer = picture(request) if "picture" in request else read(request)
    except Unreadable as reason:
        answer = {"error": reason.args[0]}
    except ImportError as error:
        answer = {"error": "missing", "about": error.name or ""}
    except MemoryError:
        answer = {"error": "bomb"}
    except Exception as error:  # noqa: BLE001 (a parser's own errors are as many as broken files)
        answer = {"error": "broken", "about": f"{type(error).__name__}: {error}"[:200]}
    with open(request["out"], "w", encoding="utf-8") as out:
        json.dump(answer, out)


def read(request: dict[str, Any]) -> dict[str, Any]:
    """The pages from `first` to `last` (None: as many as fit into `chars`), and how many there are."""
    kind = request["kind"]
    if kind != "pdf" and kind != "html":
        check_package(request["file"])
    if kind == "pdf":
        total, one = open_pdf(request["file"])
    else:
        pages = list(READERS[kind](request["file"]))
        total, one = len(pages), pages.__getitem__
    first, last, room = request["first"], request["last"], request["chars"]
    found: list[Any] = []
    for number in range(first, min(last or total, total) + 1):
        heading, text = one(number - 1)
        text = re.sub(r"\n{3,}", "\n\n", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
        if found and len(text) > room:
            break
        found.append([number, heading, text[: max(room, 0) + 1]])
        room -= len(text)
    unit = {"pdf": "page", "xlsx": "part", "pptx": "slide"}.get(kind, "page")
    return {"total": total, "unit": unit, "pages": found}


def check_package(path: str) -> None:
    """A package is looked at before it is unpacked. Raises Unreadable."""
    with open(path, "rb") as file:
        start = file.read(8)
    if start == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        raise Unreadable("old")  # .doc, .xls, .ppt, or a new one under a password: the same container
    try:
        with zipfile.ZipFile(path) as package:
            parts = package.infolist()
            unpacked, packed = sum(part.file_size for part in parts), sum(part.compress_size for part in parts)
    except zipfile.BadZipFile:
        raise Unreadable("broken") from None
    bloated = unpacked > 10_000_000 and unpacked > MAX_RATIO * max(packed, 1)
    if len(parts) > MAX_PARTS or unpacked > MAX_UNPACKED or bloated:
        raise Unreadable("bomb")
    if any(part.flag_bits & 1 for part in parts):
        raise Unreadable("encrypted")


# ---------------------------------------------------------------------- PDF


def _pdf(path: str) -> Any:
    import pypdfium2  # type: ignore[import-untyped]  # noqa: PLC0415 (only for PDF)

    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        raise Unreadable("encrypted" if "assword" in str(error) else "broken") from None


def open_pdf(path: str) -> Any:
    """How many pages, and a function that reads one."""
    pdf = _pdf(path)

    def one(index: int) -> tuple[str, str]:
        page = pdf[index]
        text = page.get_textpage().get_text_bounded()
        page.close()
        return "", text

    return len(pdf), one


def picture(request: dict[str, Any]) -> dict[str, Any]:
    """The first page of a PDF."""
    pdf = _pdf(request["file"])
    page = pdf[0]
    width, height = page.get_size()
    scale = min(request["picture"] / max(width, 1), 1.4 * request["picture"] / max(height, 1), 4)
    drawn = io.BytesIO()
    page.render(scale=scale).to_pil().convert("RGB").save(drawn, "WEBP", quality=75)
    return {"total": len(pdf), "picture": base64.b64encode(drawn.getvalue()).decode()}


# ---------------------------------------------------------------------- Office


def docx(path: str) -> Iterator[tuple[str, str]]:
    import mammoth  # type: ignore[import-untyped]  # noqa: PLC0415 (only for Word)

    with open(path, "rb") as file:
        converted = mammoth.convert_to_html(file, convert_image=mammoth.images.img_element(lambda image: {"src": ""}))
    return _by_size("", _markdown(converted.value))


def xlsx(path: str) -> Iterator[tuple[str, str]]:
    import openpyxl  # type: ignore[import-untyped]  # noqa: PLC0415 (only for Excel)

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    for sheet in book.worksheets:
        lines: list[str] = []
        start, length = 1, 0
        row_number = empty = 0
        for row_number, row in enumerate(sheet.iter_rows(values_only=True, max_col=MAX_CELLS_OF_ROW), 1):
            empty = empty + 1 if row.count(None) == len(row) else 0
            if empty > 1:
                continue  # one cell at the very bottom of a sheet makes a million of them
            cells = ["" if value is None else " ".join(str(value).split()) for value in row]
            line = "| " + " | ".join(cells).rstrip(" |") + " |"
            if lines and length + len(line) > PAGE_CHARS:
                yield f"sheet {sheet.title!r}, rows {start}-{row_number - 1}", "\n".join(lines)
                lines, start, length = [], row_number, 0
            lines.append(line)
            length += len(line) + 1
        yield f"sheet {sheet.title!r}, rows {start}-{row_number}", "\n".join(lines).strip(" |\n") and "\n".join(lines)
    book.close()


def pptx(path: str) -> Iterator[tuple[str, str]]:
    import pptx as powerpoint  # noqa: PLC0415 (only for PowerPoint)

    for slide in powerpoint.Presentation(path).slides:
        texts = [text for shape in slide.shapes for text in _of_shape(shape)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text.strip()
            texts += [f"Notes: {notes}"] if notes else []
        title = slide.shapes.title.text_frame.text.strip() if slide.shapes.title is not None else ""
        yield " ".join(title.split())[:80], "\n\n".join(text for text in texts if text.strip())


def _of_shape(shape: Any) -> Iterator[str]:
    if hasattr(shape, "shapes"):
        for inner in shape.shapes:
            yield from _of_shape(inner)
    elif getattr(shape, "has_table", False):
        yield "\n".join(
            "| " + " | ".join(c.text.replace("\n", " ") for c in row.cells) + " |" for row in shape.table.rows
        )
    elif shape.has_text_frame:
        yield shape.text_frame.text


# ---------------------------------------------------------------------- HTML


def html(path: str) -> Iterator[tuple[str, str]]:
    with open(path, "rb") as file:
        return _by_size("", _markdown(file.read()))


def epub(path: str) -> Iterator[tuple[str, str]]:
    """A page begins at each chapter."""
    with zipfile.ZipFile(path) as book:
        root = _soup(book.read("META-INF/container.xml")).find("rootfile")
        if root is None:
            raise Unreadable("broken")
        package = str(root["full-path"])
        opf = _soup(book.read(package))
        parts = {str(item["id"]): str(item["href"]) for item in opf.find_all("item")}
        for chapter in opf.find_all("itemref"):
            href = unquote(parts.get(str(chapter.get("idref")), ""))
            name = posixpath.normpath(posixpath.join(posixpath.dirname(package), href))
            if href and name in book.NameToInfo:
                yield from _by_size("", _markdown(book.read(name)))


def _soup(data: bytes | str) -> Any:
    import bs4  # noqa: PLC0415 (only for what is made of HTML)

    return bs4.BeautifulSoup(data, "html.parser")


def _markdown(data: bytes | str) -> str:
    import markdownify  # noqa: PLC0415 (only for what is made of HTML)

    soup = _soup(data)
    for unseen in soup(["script", "style", "template", "noscript", "svg", "img", "head"]):
        unseen.decompose()
    return str(markdownify.MarkdownConverter(heading_style="ATX").convert_soup(soup))


def _by_size(heading: str, text: str) -> Iterator[tuple[str, str]]:
    return ((heading, page) for page in split(text.strip()))


def split(text: str) -> Iterable[str]:
    """Pages of about PAGE_CHARS, cut between paragraphs or lines where that is possible."""
    while len(text) > PAGE_CHARS:
        window = text[:PAGE_CHARS]
        at = max(window.rfind("\n\n"), window.rfind("\n") if "\n\n" not in window[PAGE_CHARS // 2 :] else -1)
        at = at if at > PAGE_CHARS // 3 else PAGE_CHARS
        yield text[:at]
        text = text[at:].lstrip("\n")
    if text:
        yield text


READERS = {"docx": docx, "xlsx": xlsx, "pptx": pptx, "html": html, "epub": epub}

if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
