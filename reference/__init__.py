"""Golden model of NVFP4 expert quantization: formats, recipes, scale layouts, routing and padding. Needs torch alone.

Everything listed here is public; each module's docstring is the contract of what it defines.
"""

from nvfp4_moe.reference.arithmetic import Arithmetic as Arithmetic
from nvfp4_moe.reference.casts import decode_e2m1 as decode_e2m1
from nvfp4_moe.reference.casts import decode_ue4m3 as decode_ue4m3
from nvfp4_moe.reference.casts import encode_e2m1 as encode_e2m1
from nvfp4_moe.reference.casts import encode_ue4m3 as encode_ue4m3
from nvfp4_moe.reference.casts import pack as pack
from nvfp4_moe.reference.casts import unpack as unpack
from nvfp4_moe.reference.dequantize import dequantize as dequantize
from nvfp4_moe.reference.expert_layouts import experts_from_layout as experts_from_layout
from nvfp4_moe.reference.expert_layouts import experts_to_layout as experts_to_layout
from nvfp4_moe.reference.expert_layouts import masked_from_layout as masked_from_layout
from nvfp4_moe.reference.expert_layouts import masked_to_layout as masked_to_layout
from nvfp4_moe.reference.expert_layouts import packed_blockscale_offsets as packed_blockscale_offsets
from nvfp4_moe.reference.experts import quantize_experts as quantize_experts
from nvfp4_moe.reference.experts import quantize_masked as quantize_masked
from nvfp4_moe.reference.experts import silu_and_mul_quantize_experts as silu_and_mul_quantize_experts
from nvfp4_moe.reference.formats import E2M1 as E2M1
from nvfp4_moe.reference.formats import E4M3 as E4M3
from nvfp4_moe.reference.formats import NVFP4 as NVFP4
from nvfp4_moe.reference.formats import UE4M3 as UE4M3
from nvfp4_moe.reference.formats import BlockFormat as BlockFormat
from nvfp4_moe.reference.formats import ElementFormat as ElementFormat
from nvfp4_moe.reference.layouts import LAYOUTS as LAYOUTS
from nvfp4_moe.reference.layouts import Layout as Layout
from nvfp4_moe.reference.layouts import from_layout as from_layout
from nvfp4_moe.reference.layouts import scale_byte_index as scale_byte_index
from nvfp4_moe.reference.layouts import scale_shape as scale_shape
from nvfp4_moe.reference.layouts import to_layout as to_layout
from nvfp4_moe.reference.padding import FORMULAS as FORMULAS
from nvfp4_moe.reference.padding import PLACEMENTS as PLACEMENTS
from nvfp4_moe.reference.padding import TILE as TILE
from nvfp4_moe.reference.padding import Formula as Formula
from nvfp4_moe.reference.padding import Sizing as Sizing
from nvfp4_moe.reference.padding import exact_any_rows as exact_any_rows
from nvfp4_moe.reference.padding import exact_distinct_rows as exact_distinct_rows
from nvfp4_moe.reference.padding import expert_starts as expert_starts
from nvfp4_moe.reference.padding import local_experts as local_experts
from nvfp4_moe.reference.padding import padded_rows as padded_rows
from nvfp4_moe.reference.padding import worst_tokens_per_expert_any as worst_tokens_per_expert_any
from nvfp4_moe.reference.padding import worst_tokens_per_expert_distinct as worst_tokens_per_expert_distinct
from nvfp4_moe.reference.permute import shuffle_rows as shuffle_rows
from nvfp4_moe.reference.permute import unpermute_rows as unpermute_rows
from nvfp4_moe.reference.quantize import Quantized as Quantized
from nvfp4_moe.reference.quantize import quantize as quantize
from nvfp4_moe.reference.recipes import RECIPES as RECIPES
from nvfp4_moe.reference.recipes import Recipe as Recipe
from nvfp4_moe.reference.routing import Routing as Routing
from nvfp4_moe.reference.routing import route as route
from nvfp4_moe.reference.silu import silu_and_mul as silu_and_mul
from nvfp4_moe.reference.topk_ids import expert_map as expert_map
from nvfp4_moe.reference.topk_ids import local_topk_ids as local_topk_ids
from nvfp4_moe.reference.topk_ids import topk_ids_from_counts as topk_ids_from_counts
from nvfp4_moe.reference.worst_routings import worst_tokens_per_expert as worst_tokens_per_expert
