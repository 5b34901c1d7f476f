# The names of transformers that this project uses, each from the module that makes it, with its types there.
# The package's own list stars hundreds of modules, and pyright would read all of them. A name that is missing here is
# "an unknown import symbol": add it.

from transformers.cache_utils import Cache as Cache
from transformers.cache_utils import DynamicCache as DynamicCache
from transformers.configuration_utils import PreTrainedConfig as PreTrainedConfig
from transformers.generation.configuration_utils import GenerationConfig as GenerationConfig
from transformers.generation.utils import GenerationMixin as GenerationMixin
from transformers.masking_utils import AttentionMaskInterface as AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface as AttentionInterface
from transformers.modeling_utils import PreTrainedModel as PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig as AutoConfig
from transformers.models.auto.modeling_auto import (
    AutoModel as AutoModel,
)
from transformers.models.auto.modeling_auto import (
    AutoModelForCausalLM as AutoModelForCausalLM,
)
from transformers.models.auto.modeling_auto import (
    AutoModelForSequenceClassification as AutoModelForSequenceClassification,
)
from transformers.models.auto.tokenization_auto import AutoTokenizer as AutoTokenizer
from transformers.models.bert.configuration_bert import BertConfig as BertConfig
from transformers.models.bert.modeling_bert import BertModel as BertModel
from transformers.models.gemma2.configuration_gemma2 import Gemma2Config as Gemma2Config
from transformers.models.gpt2.configuration_gpt2 import GPT2Config as GPT2Config
from transformers.models.llama.configuration_llama import LlamaConfig as LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaForCausalLM as LlamaForCausalLM,
)
from transformers.models.llama.modeling_llama import (
    LlamaForSequenceClassification as LlamaForSequenceClassification,
)
from transformers.models.mistral.configuration_mistral import MistralConfig as MistralConfig
from transformers.models.mistral.modeling_mistral import MistralForCausalLM as MistralForCausalLM
from transformers.models.qwen2.configuration_qwen2 import Qwen2Config as Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM as Qwen2ForCausalLM
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config as Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM as Qwen3ForCausalLM
from transformers.models.smollm3.configuration_smollm3 import SmolLM3Config as SmolLM3Config
from transformers.tokenization_utils_base import PreTrainedTokenizerBase as PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend as TokenizersBackend
from transformers.trainer_callback import TrainerCallback as TrainerCallback
from transformers.utils.quantization_config import GgufConfig as GgufConfig

PreTrainedTokenizerFast = TokenizersBackend
__version__: str
