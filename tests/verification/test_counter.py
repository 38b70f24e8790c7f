"""The generator against an independent Python-int SplitMix64, published outputs and pinned words."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.verification import counter

# First outputs of Vigna's splitmix64.c for x = 1234567 (the test vectors that other implementations quote).
SPLITMIX64_1234567 = (
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
)

# Worked out apart from the module, in Python ints.
PINNED_KEY = 0xA9942C15F117FAB9
PINNED_WORDS = (0xFB68F40B436BB23C, 0xED9D7FD7108ABE42, 0xB641680AD11CE8B9)


def splitmix64(state: int, count: int) -> list[int]:
    """The published loop, written out again."""
    outputs = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        outputs.append(z ^ (z >> 31))
    return outputs


def unsigned(raw: torch.Tensor) -> list[int]:
    return [value % 2**64 for value in raw.tolist()]


def test_mix_gives_the_published_splitmix64_outputs() -> None:
    assert tuple(splitmix64(1234567, 5)) == SPLITMIX64_1234567
    states = [1234567 + (i + 1) * counter.GAMMA for i in range(5)]
    assert tuple(counter.mix(state) for state in states) == SPLITMIX64_1234567


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("family", ["uniform", "zipf", 7])
def test_words_are_splitmix64_from_the_key(seed: int, family: str | int) -> None:
    raw = counter.words(seed, family, 0, 40)
    assert raw.dtype == torch.int64
    assert unsigned(raw) == splitmix64(counter.key(seed, family), 40)
    assert unsigned(raw) == [counter.word(seed, family, i) for i in range(40)]


def test_pinned_words() -> None:
    """A change here changes every case of every recorded campaign."""
    assert counter.key(0, "uniform") == PINNED_KEY
    assert tuple(unsigned(counter.words(0, "uniform", 0, 3))) == PINNED_WORDS


@pytest.mark.parametrize("start", [0, 1, 5, 1000, 2**40, 2**63 - 64])
def test_word_depends_on_its_index_alone(start: int) -> None:
    whole = counter.words(3, "f", start, 64)
    for count in (1, 7, 64):
        parts = [counter.words(3, "f", start + at, min(count, 64 - at)) for at in range(0, 64, count)]
        assert torch.equal(torch.cat(parts), whole)
    assert unsigned(whole[-1:]) == [counter.word(3, "f", start + 63)]


def test_buffers_are_used_and_do_not_leak_into_the_words() -> None:
    out, scratch = torch.full((1000,), -1), torch.full((1000,), 99)
    fresh = counter.words(5, "f", 10, 1000)
    returned = counter.words(5, "f", 10, 1000, out=out, scratch=scratch)
    assert returned.data_ptr() == out.data_ptr()
    assert torch.equal(fresh, out)
    assert torch.equal(fresh, counter.words(5, "f", 10, 1000))


def test_same_words_for_any_thread_count() -> None:
    threads = torch.get_num_threads()
    try:
        drawn = []
        for count in (1, 2):
            torch.set_num_threads(count)
            drawn.append(counter.words(1, "f", 0, 200_000))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*drawn)


@pytest.mark.gpu
def test_same_words_on_the_device() -> None:
    assert torch.equal(
        counter.words(1, "f", 5, 100_000, device="cuda").cpu(), counter.words(1, "f", 5, 100_000)
    )


def test_streams_differ() -> None:
    keys = {counter.key(seed, family) for seed in range(200) for family in ("a", "b", "ab", 0, 1)}
    assert len(keys) == 1000


@pytest.mark.parametrize("bit", range(64))
def test_every_bit_is_balanced(bit: int) -> None:
    """2^16 words: a fair bit strays from half by more than 6 standard deviations (768) with odds of 2e-9."""
    ones = int(counter.bits(counter.words(0, "balance", 0, 1 << 16), 1, at=bit).sum())
    assert abs(ones - (1 << 15)) < 768


def test_bits_takes_the_field() -> None:
    raw = torch.tensor([counter.signed(0xFEDCBA9876543210), -1])
    assert counter.bits(raw, 4, at=60).tolist() == [0xF, 0xF]
    assert counter.bits(raw, 16, at=8).tolist() == [0x5432, 0xFFFF]
    assert counter.bits(raw, 63, at=1).tolist() == [0xFEDCBA9876543210 >> 1, 2**63 - 1]


@pytest.mark.parametrize("field", [(0, 0), (64, 0), (1, 64), (33, 32), (1, -1)])
def test_bits_refuses_fields_outside_a_word(field: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="inside a word"):
        counter.bits(torch.zeros(1, dtype=torch.int64), field[0], at=field[1])


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 257, 2**31])
@pytest.mark.parametrize("half", [0, 1])
def test_below_is_multiply_high(bound: int, half: int) -> None:
    raw = counter.words(0, "below", 0, 2000)
    drawn = counter.below(raw, bound, half=half).tolist()
    assert drawn == [(value >> (32 * half)) % 2**32 * bound // 2**32 for value in unsigned(raw)]
    assert max(drawn) < bound


def test_below_takes_a_bound_for_each_word() -> None:
    bounds = torch.arange(1, 1001)
    drawn = counter.below(counter.words(0, "below", 0, 1000), bounds)
    assert bool((drawn < bounds).all())
    assert bool((drawn >= 0).all())


def test_below_reaches_every_value_about_equally() -> None:
    counts = torch.bincount(counter.below(counter.words(0, "b", 0, 70_000), 7), minlength=7)
    assert counts.min() > 9_400
    assert counts.max() < 10_600


def test_order_is_a_permutation_of_each_row() -> None:
    rows = counter.order(counter.words(0, "o", 0, 300).view(3, 100))
    assert all(sorted(row) == list(range(100)) for row in rows.tolist())
    assert not torch.equal(rows[0], rows[1])


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (2**64, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_bad_seeds_are_refused(seed: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="seed must be"):
        counter.key(seed, "f")  # type: ignore[arg-type]


@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, -1), (2**63, 1)])
def test_words_outside_the_counter_are_refused(start: int, count: int) -> None:
    with pytest.raises(ValueError, match="words must lie"):
        counter.words(0, "f", start, count)
