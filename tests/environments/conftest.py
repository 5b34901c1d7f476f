"""One small renderer for the episodes of these tests."""

import pytest

from tests.rendering.tokenizers_for_tests import small_renderer


@pytest.fixture(scope="session")
def renderer(tmp_path_factory):
    return small_renderer(tmp_path_factory.mktemp("tokenizer"))
