"""Sizing policies: how many rows the block-scale buffer of one expert quantization has, and which calls are refused.

| policy | rows | refused |
|---|---|---|
| `proposed` | max_num_batched_tokens * topk + 127 * E | calls of more than max_num_batched_tokens * topk rows |
| `exact_any` | the exact worst case of the call's own rows | none |
| `vllm_env` | 163,840 * topk, vLLM's former environment variable; has no room for padding near its limit | calls of more rows than that |

Names and formulas are those of `reference.padding.FORMULAS`; guard and allocation come from the same formula. `exact_any`
needs no scheduler setting and depends on shapes alone, so a captured CUDA graph is right for every routing of its batch.
"""

from __future__ import annotations

from nvfp4_moe.reference.padding import FORMULAS, Sizing, exact_any_rows

POLICIES = ("proposed", "exact_any", "vllm_env")
DEFAULT_POLICY = "exact_any"
SEED_POLICY = "proposed"
"""What the functions with the seed's signatures use."""


def check_policy(policy: str) -> None:
    """Refuse an unknown policy.

    Raises:
        ValueError: it is none of `POLICIES`.
    """
    if policy not in POLICIES:
        raise ValueError(f"sizing must be one of {', '.join(POLICIES)}, got {policy!r}")


def scale_rows(policy: str, *, rows: int, topk: int, num_experts: int, max_num_batched_tokens: int) -> int:
    """Return the rows of the buffer. Plain arithmetic, so that symbolic sizes pass through.

    Args:
        policy: one of `POLICIES`.
        rows: m * topk, rows of the tensor that is quantized.
        topk: slots of a token.
        num_experts: experts on this rank.
        max_num_batched_tokens: the scheduler's setting; not read by `exact_any`.
    """
    if policy == "exact_any":
        return exact_any_rows(rows, num_experts)
    return FORMULAS[policy].rows(_sizing(topk, num_experts, max_num_batched_tokens))


def check_call(policy: str, *, rows: int, topk: int, num_experts: int, max_num_batched_tokens: int) -> None:
    """Refuse a call that the policy's buffer is not for.

    Raises:
        TypeError, ValueError: unknown policy, a size that is no positive integer, or more rows than the guard of the
            formula lets through; the text names the numbers and the setting to raise.
    """
    check_policy(policy)
    sizing = _sizing(topk, num_experts, max_num_batched_tokens)
    if policy == "exact_any":
        return
    most = FORMULAS[policy].guard_routed_rows(sizing)
    if rows <= most:
        return
    tokens = -(-rows // topk)
    if policy == "vllm_env":
        raise ValueError(f"m * topk = {rows} rows exceed 163840 * topk = {most} of sizing 'vllm_env'")
    raise ValueError(
        f"m * topk = {rows} rows exceed max_num_batched_tokens * topk = {max_num_batched_tokens} * {topk} = {most}: "
        f"raise --max-num-batched-tokens (FusedMoEConfig.max_num_batched_tokens) to at least {tokens}, or size by the "
        "call with sizing='exact_any'. With data parallelism and no expert parallelism the tokens of all ranks arrive "
        "here, so that the setting must count them all"
    )


def _sizing(topk: int, num_experts: int, max_num_batched_tokens: int) -> Sizing:
    return Sizing(
        tokens=max_num_batched_tokens, topk=topk, num_experts=num_experts, num_global_experts=num_experts
    )
