"""Where the recurrent layers of hybrid models read their state, from the metadata that they are given."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from stepscope_vllm.rows import StepCopies, summarize  # noqa: E402
from stepscope_vllm.worker import _state_parts  # noqa: E402


def states(metadata, count):
    copies = StepCopies(0, [str(i) for i in range(count)], [1] * count)
    copies.state = _state_parts(metadata)
    return [request["state"] for request in summarize(copies, "off", 1, False)["requests"]]


def test_without_recurrent_layers_there_is_no_state():
    assert states(None, 2) == [None, None]


def test_short_convolutions_read_at_what_the_step_before_accepted_and_prompts_at_the_beginning():
    metadata = SimpleNamespace(
        state_indices_tensor_d=torch.tensor([[7, 8, 9], [4, 5, 6]]),
        state_indices_tensor_p=torch.tensor([3]),
        num_accepted_tokens=torch.tensor([3, 1, 0], dtype=torch.int32),
    )
    assert states(metadata, 3) == [[7, 2], [4, 0], [3, 0]]


def test_plain_decoding_reads_the_first_column():
    metadata = SimpleNamespace(
        state_indices_tensor_d=torch.tensor([7, 4]), state_indices_tensor_p=None, num_accepted_tokens=None
    )
    assert states(metadata, 2) == [[7, 0], [4, 0]]


def test_gated_delta_rows_with_and_without_drafts_keep_the_batchs_order():
    metadata = SimpleNamespace(
        spec_sequence_masks=torch.tensor([True, False, True]),
        spec_state_indices_tensor=torch.tensor([[7, 8], [4, 5]]),
        non_spec_state_indices_tensor=torch.tensor([3]),
        num_accepted_tokens=torch.tensor([2, 1], dtype=torch.int32),
    )
    assert states(metadata, 3) == [[7, 1], [3, 0], [4, 0]]


def test_a_gated_delta_batch_without_drafts_is_told_nothing_of_what_was_accepted():
    metadata = SimpleNamespace(
        spec_sequence_masks=None,
        spec_state_indices_tensor=None,
        non_spec_state_indices_tensor=torch.tensor([3, 9]),
        num_accepted_tokens=None,
    )
    assert states(metadata, 2) == [[3, 0], [9, 0]]
