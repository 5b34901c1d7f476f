"""Messages to tokens and back; the only place that tokenises. It knows no environment, no engine and no episode."""

from rollwright.rendering.codec import Codec, codec_of
from rollwright.rendering.conversation import Conversation, Piece, Rendered, Said
from rollwright.rendering.errors import RenderingError
from rollwright.rendering.grammar import (
    CallGrammar,
    CallSite,
    HermesGrammar,
    LlamaGrammar,
    MalformedCall,
    MistralGrammar,
    ParsedCall,
)
from rollwright.rendering.loading import load_renderer, renderer_of
from rollwright.rendering.parsing import ParsedTurn, ReasoningTags, TurnParser
from rollwright.rendering.probe import TemplateReport
from rollwright.rendering.renderer import Renderer
from rollwright.rendering.schemas import tool_definitions
from rollwright.rendering.tokenizer_files import Vocabulary, copy_tokenizer, read_vocabulary
from rollwright.rendering.tokenizer_training import TokenizerSpec, train_tokenizer

__all__ = [
    "CallGrammar",
    "CallSite",
    "Codec",
    "Conversation",
    "HermesGrammar",
    "LlamaGrammar",
    "MalformedCall",
    "MistralGrammar",
    "ParsedCall",
    "ParsedTurn",
    "Piece",
    "ReasoningTags",
    "Rendered",
    "Renderer",
    "RenderingError",
    "Said",
    "TemplateReport",
    "TokenizerSpec",
    "TurnParser",
    "Vocabulary",
    "codec_of",
    "copy_tokenizer",
    "load_renderer",
    "read_vocabulary",
    "renderer_of",
    "tool_definitions",
    "train_tokenizer",
]
