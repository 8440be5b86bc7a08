"""The page of figures: each benchmark writes what stands between its own two markers, and nothing else of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["CORE", "GATEWAY", "IMPORTS", "PRODUCT", "SCALE", "Section"]


class Section(NamedTuple):
    """`title` is the heading that the section gets where the page has no markers yet."""

    begin: str
    end: str
    title: str = ""

    def insert(self, page: str, block: str) -> str:
        """The page with the block between the markers; text outside stays, and missing markers are appended."""
        if self.begin not in page or self.end not in page:
            heading = f"{self.title}\n\n" if self.title else ""
            page = f"{page.rstrip() or '# Benchmarks'}\n\n{heading}{self.begin}\n{self.end}\n"
        before, _, rest = page.partition(self.begin)
        _, _, after = rest.partition(self.end)
        return f"{before}{self.begin}\n\n{block}\n{self.end}{after}"

    def write(self, path: Path, block: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.insert(path.read_text() if path.exists() else "", block))


def _section(name: str, title: str = "", by: str = "") -> Section:
    note = f" (written by python -m {by}; do not edit)" if by else ""
    return Section(f"<!-- {name}:begin{note} -->", f"<!-- {name}:end -->", title)


CORE: Final = _section("bench", by="tests.bench")
PRODUCT: Final = _section("product", "## The product", by="tests.bench.product")
GATEWAY: Final = _section("gateway", "## The gateway", by="tests.bench.gateway")
SCALE: Final = _section("scale", "## Scale of the embedded backend")
IMPORTS: Final = _section("scale-imports", "## Scale of imports")
