"""Requests served in batches: every token once and in order, decoding one by one, bounded steps and memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nvfp4_moe.verification import counter, traces_requests
from nvfp4_moe.verification.traces_requests import Request, schedule


def request(number: int, prompt: int, generated: int, layers: tuple[int, ...] = (3, 7)) -> Request:
    """Ids that name the request and the token: (request, token) in two slots, the same in every layer."""
    tokens = prompt + generated
    ids = np.stack([np.full(tokens, number), np.arange(tokens)], axis=1)
    return Request(ids=np.repeat(ids[:, None], len(layers), axis=1), prompt_tokens=prompt, layers=layers)


def served(requests: list[Request], budget: int) -> list[list[list[int]]]:
    """Return the ids of layer 3, step by step, after checking that layer 7 has the same."""
    steps: dict[int, list[list[list[int]]]] = {3: [], 7: []}
    for step in schedule(requests, max_num_batched_tokens=budget):
        assert step.index == len(steps[step.layer])
        assert step.first_token == sum(map(len, steps[step.layer]))
        assert step.topk_ids.dtype == np.int32
        steps[step.layer].append(step.topk_ids.tolist())
    assert steps[3] == steps[7]
    return steps[3]


def test_prompts_together_then_one_token_of_each() -> None:
    assert served([request(0, 3, 2), request(1, 2, 1)], 100) == [
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]],
        [[0, 3], [1, 2]],
        [[0, 4]],
    ]


def test_long_prompts_are_cut_and_running_requests_go_first() -> None:
    assert served([request(0, 2, 2), request(1, 5, 0)], 3) == [
        [[0, 0], [0, 1], [1, 0]],
        [[0, 2], [1, 1], [1, 2]],
        [[0, 3], [1, 3], [1, 4]],
    ]


def test_at_most_so_many_requests_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_requests, "MOST_RUNNING", 1)
    assert [len(step) for step in served([request(0, 1, 1), request(1, 1, 1)], 100)] == [1, 1, 1, 1]


def test_requests_are_admitted_only_while_ids_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_requests, "MAX_OPEN_IDS", 1)
    taken: list[int] = []

    def arriving() -> Iterator[Request]:
        for number in range(3):
            taken.append(number)
            yield request(number, 1, 1)

    steps = schedule(arriving(), max_num_batched_tokens=100)
    next(steps)
    assert taken == [0]
    assert sum(1 for _ in steps) == 2 * 2 * 3 - 1
    assert taken == [0, 1, 2]


@pytest.mark.parametrize("budget", [1, 2, 7, 64, 10**18])
def test_every_token_is_served_once_in_order(budget: int) -> None:
    numbers = [counter.word(11, "requests", index) % 9 for index in range(60)]
    sizes = list(zip(numbers[::2], numbers[1::2], strict=True))
    requests = [request(number, prompt, generated) for number, (prompt, generated) in enumerate(sizes)]
    steps = served(requests, budget)
    assert all(0 < len(step) <= budget for step in steps)
    for number, (prompt, generated) in enumerate(sizes):
        mine = [[token for who, token in step if who == number] for step in steps]
        assert [token for part in mine for token in part] == list(range(prompt + generated))
        for part in mine:
            assert len([token for token in part if token >= prompt]) <= 1


def test_a_layer_that_some_requests_lack() -> None:
    steps = list(schedule([request(0, 1, 0, (3,)), request(1, 1, 0, (3, 7))], max_num_batched_tokens=9))
    assert [(step.layer, step.topk_ids.tolist()) for step in steps] == [(3, [[0, 0], [1, 0]]), (7, [[1, 0]])]


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_sizes_that_are_not_legal(size: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_num_batched_tokens must be"):
        list(schedule([], max_num_batched_tokens=size))
