"""An LSTM layer over packed sequences on CPUs, with its gradient written out.

torch's own, which is cuDNN's on a GPU, has no fused form for packed sequences on a CPU: its
gradient adds up a whole matrix of weights for each step. Here they are one product at the end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class PackedLSTM(torch.autograd.Function):
    """One layer: rows in packed order, as :class:`ver_trainer.nets.core.Packing` has them.

    ``PackedLSTM.apply(inputs, weight, hidden, cell, sizes, earlier)`` returns hidden and cell of
    all rows ``[n, size]``. Its arguments:

    - inputs: what the input contributes to the gates, biases included ``[n, 4 * size]``, in torch's
      order: input, forget, cell, output;
    - weight: recurrent weights ``[4 * size, size]``;
    - hidden, cell: before the first step of each sequence ``[sequences, size]``;
    - sizes: how many sequences have a step ``t``;
    - earlier: ``Packing.earlier()``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        hidden: Tensor,
        cell: Tensor,
        sizes: list[int],
        earlier: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Gates, cells and outputs, step by step."""
        size = weight.shape[1]
        middle = slice(2 * size, 3 * size)
        # A copy also where the transposed weights are contiguous: of size 1.
        gates, weights = inputs.clone(), weight.t().clone(memory_format=torch.contiguous_format)
        gates[:, middle] *= 2  # tanh(x) = 2 sigmoid(2 x) - 1: all gates of a step by one function
        weights[:, middle] *= 2
        cells, squashed = (inputs.new_empty(len(inputs), size) for _ in range(2))
        outputs = torch.empty_like(cells)
        h, c, begin = hidden, cell, 0
        for count in sizes:
            rows = slice(begin, begin + count)
            i, f, g, o = gates[rows].addmm_(h[:count], weights).sigmoid_().chunk(4, dim=-1)
            c = torch.addcmul(f * c[:count] - i, i, g, value=2, out=cells[rows])
            h = torch.mul(o, torch.tanh(c, out=squashed[rows]), out=outputs[rows])
            begin += count
        gates[:, middle].mul_(2).sub_(1)
        ctx.save_for_backward(weight, hidden, cell, gates, cells, squashed, outputs, earlier)
        ctx.sizes = sizes
        ctx.set_materialize_grads(False)
        return outputs, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Through time; what does not depend on later steps is computed for all rows at once."""
        weight, hidden, cell, gates, cells, squashed, outputs, earlier = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, dim=-1)
        before = torch.cat((cell, cells[earlier]))
        through = o * (1 - squashed * squashed)  # of the cell, through the output
        slopes = torch.stack(
            (g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)), dim=1
        )
        zeros = torch.zeros_like(outputs)
        to_output, to_cell = (zeros if grad is None else grad for grad in grads)
        dgates = torch.empty_like(slopes)
        dh = dc = outputs.new_zeros(0, weight.shape[1])
        end = len(outputs)
        for count in reversed(ctx.sizes):
            rows, later = slice(end - count, end), len(dh)
            own = to_output[rows].clone()
            own[:later] += dh
            dcell = torch.addcmul(to_cell[rows], own, through[rows])
            dcell[:later] += dc
            torch.mul(slopes[rows, :3], dcell[:, None], out=dgates[rows, :3])
            torch.mul(slopes[rows, 3], own, out=dgates[rows, 3])
            dh, dc = dgates[rows].flatten(1) @ weight, dcell * f[rows]
            end -= count
        flat = dgates.flatten(1)
        return flat, flat.t() @ torch.cat((hidden, outputs[earlier])), dh, dc, None, None
