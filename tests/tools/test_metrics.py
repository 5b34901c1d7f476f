"""The page of metrics is the table of metrics."""

from rollwright.record.metrics import METRICS
from tools.metrics import DOCUMENT, ROOT, render_document


def test_the_page_is_current():
    """After a change of the table: `make docs`."""
    assert (ROOT / DOCUMENT).read_text(encoding="utf-8") == render_document()


def test_every_metric_stands_on_the_page_once():
    page = render_document()
    assert [one.name for one in METRICS if page.count(f"\n| `{one.name}`") != 1] == []
