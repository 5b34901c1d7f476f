"""A tokenizer's folder is whole and runs no code, or a sentence says what it lacks."""

import json

import pytest

from rollwright.rendering import RenderingError, load_renderer
from rollwright.rendering.tokenizer_files import copy_tokenizer, read_vocabulary
from tests.rendering.tokenizers_for_tests import small_folder


@pytest.mark.parametrize("text", ["{}", "[]", "", "{", '{"model": {}}', '{"version": 1e400}'], ids=repr)
def test_a_malformed_tokenizer_is_a_sentence(tmp_path, text):
    folder = small_folder(tmp_path / "whole")
    (folder / "tokenizer.json").write_text(text)
    for read in (load_renderer, read_vocabulary, lambda origin: copy_tokenizer(origin, tmp_path / "copy")):
        with pytest.raises(RenderingError, match="whole tokenizer.json"):
            read(folder)


def test_a_folder_without_tokenizer_json_gives_no_empty_tokenizer(tmp_path):
    folder = small_folder(tmp_path / "whole")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(RenderingError, match=r"has no tokenizer\.json"):
        copy_tokenizer(folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_code_of_a_tokenizer_folder_is_never_run_and_never_asked_about(tmp_path, capfd):
    folder = small_folder(tmp_path / "whole")
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    path = folder / "tokenizer_config.json"
    own = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    with pytest.raises(RenderingError, match="Python code of its own, which is never run"):
        load_renderer(folder)
    assert not (tmp_path / "ran").exists()
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_malformed_generation_config_is_a_sentence(tmp_path, text):
    folder = small_folder(tmp_path / "whole")
    (folder / "generation_config.json").write_text(text)
    with pytest.raises(RenderingError, match=r"generation_config\.json"):
        load_renderer(folder)
